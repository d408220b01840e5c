// Statements: what is between {% and %}.
#include "jinja/functions.h"
#include "jinja/parser.h"

namespace windlass::jinja {

bool Parser::take_mark(std::string_view text) {
    if (!is_mark(text)) return false;
    ++at_;
    return true;
}

bool Parser::take_word(std::string_view text) {
    if (!is_word(text)) return false;
    ++at_;
    return true;
}

Token Parser::take() {
    const Token token = now();
    if (token.kind != TokenKind::end) ++at_;
    return token;
}

void Parser::expect_mark(std::string_view text) {
    if (!take_mark(text)) fail(fmt::format("\"{}\" is missing before {}", text, shown()));
}

std::string_view Parser::expect_name(std::string_view what) {
    if (now().kind != TokenKind::name) fail(fmt::format("{} is missing before {}", what, shown()));
    return take().text;
}

std::string Parser::shown() const {
    switch (now().kind) {
        case TokenKind::data:
            return "text";
        case TokenKind::block_begin:
            return "{%";
        case TokenKind::block_end:
            return "%}";
        case TokenKind::variable_begin:
            return "{{";
        case TokenKind::variable_end:
            return "}}";
        case TokenKind::string:
            return "a string";
        case TokenKind::integer:
        case TokenKind::real:
            return "a number";
        case TokenKind::end:
            return "the end of the template";
        default:
            return fmt::format("\"{}\"", now().text);
    }
}

int Parser::name_id(std::string_view name) {
    const auto [found, is_new] = ids_.try_emplace(std::string(name), static_cast<int>(program_.names.size()));
    if (is_new) program_.names.emplace_back(name);
    if (program_.names.size() > kNamesMax + 1)  // and `loop`
        fail(fmt::format("it has more than {} names of variables", kNamesMax));
    return found->second;
}

Body Parser::run() {
    program_.loop_name = name_id("loop");
    Body body = parse_body({}, {});
    if (now().kind == TokenKind::block_begin) {
        take();
        fail(fmt::format("the tag {} closes nothing here", shown()));
    }
    return body;
}

// The name of the tag that is here, where it is one that closes or divides a block.
std::string_view Parser::closing_tag() {
    if (now().kind != TokenKind::block_begin || ahead().kind != TokenKind::name) return {};
    const std::string_view name = ahead().text;
    return name.starts_with("end") || name == "else" || name == "elif" ? name : std::string_view();
}

// Parses up to one of these tags, whose name is then the next token; without tags, to the end of the template.
Body Parser::parse_body(std::initializer_list<std::string_view> ends, Place place) {
    const Deeper deeper(*this, stmt_depth_, kStmtDepthMax);
    const int line = now().line;
    Body body;
    for (;;) {
        if (const std::string_view tag = closing_tag(); !tag.empty()) {
            if (ends.size() == 0) return body;
            take();
            if (std::find(ends.begin(), ends.end(), tag) == ends.end())
                fail(fmt::format("found the tag \"{}\", expected \"{}\"", tag, *ends.begin()));
            return body;
        }
        if (now().kind == TokenKind::end) {
            if (ends.size() > 0) fail(fmt::format("\"{}\" is missing for the block of line {}", *ends.begin(), line));
            return body;
        }
        body.push_back(parse_statement(place));
    }
}

void Parser::expect_block_end() {
    if (now().kind != TokenKind::block_end) fail(fmt::format("\"%}}\" is missing before {}", shown()));
    take();
}

std::unique_ptr<Stmt> Parser::parse_statement(Place place) {
    auto stmt = std::make_unique<Stmt>();
    stmt->line = now().line;
    const Token token = take();
    if (token.kind == TokenKind::data) {
        stmt->text = token.text;
        return stmt;
    }
    if (token.kind == TokenKind::variable_begin) {
        stmt->kind = StmtKind::print;
        stmt->value = parse_tuple(true);
        if (now().kind != TokenKind::variable_end) fail(fmt::format("\"}}}}\" is missing before {}", shown()));
        take();
        return stmt;
    }
    if (now().kind != TokenKind::name) fail(fmt::format("the name of a tag is missing before {}", shown()));
    const std::string_view tag = now().text;
    if (tag == "set")
        parse_set(*stmt, place);
    else if (tag == "for")
        parse_for(*stmt, place);
    else if (tag == "if")
        parse_if(*stmt, place);
    else if (tag == "macro")
        parse_macro(*stmt, place);
    else if (tag == "generation")
        parse_generation(*stmt, place);
    else if (tag == "break" || tag == "continue") {
        if (!place.in_loop) fail(fmt::format("\"{}\" is in no loop of its own block", tag));
        stmt->kind = tag == "break" ? StmtKind::break_ : StmtKind::continue_;
        take();
        expect_block_end();
    } else {
        fail(fmt::format("the tag \"{}\" is not supported", tag));
    }
    return stmt;
}

void Parser::parse_set(Stmt& stmt, Place place) {
    take();
    stmt.kind = StmtKind::set;
    stmt.target = parse_target(true);
    if (take_mark("=")) {
        stmt.value = parse_tuple(true);
        return expect_block_end();
    }
    if (is_mark("|")) fail("filters of a block that is set are not supported");
    stmt.kind = StmtKind::set_block;
    expect_block_end();
    place = {.in_loop = false, .is_top = false, .is_output = false};
    stmt.body = parse_body({"endset"}, place);
    take();
    expect_block_end();
}

void Parser::parse_for(Stmt& stmt, Place place) {
    take();
    stmt.kind = StmtKind::for_;
    stmt.target = parse_target(false);
    if (!take_word("in")) fail(fmt::format("\"in\" is missing before {}", shown()));
    stmt.value = parse_tuple(false);
    if (take_word("if")) stmt.filter = parse_expression();
    if (is_word("recursive")) fail("recursive loops are not supported");
    take_mark(":");
    expect_block_end();
    Place within = place;
    within.in_loop = true;
    within.is_top = false;
    stmt.body = parse_body({"endfor", "else"}, within);
    if (take().text == "else") {
        take_mark(":");
        expect_block_end();
        within.in_loop = place.in_loop;
        stmt.otherwise = parse_body({"endfor"}, within);
        take();
    }
    expect_block_end();
}

void Parser::parse_if(Stmt& stmt, Place place) {
    stmt.kind = StmtKind::if_;
    std::string_view tag = take().text;
    while (tag != "endif") {
        if (tag != "else") stmt.tests.push_back(parse_tuple(false));
        take_mark(":");
        expect_block_end();
        stmt.bodies.push_back(tag == "else" ? parse_body({"endif"}, place)
                                            : parse_body({"endif", "elif", "else"}, place));
        tag = take().text;
    }
    expect_block_end();
}

void Parser::parse_macro(Stmt& stmt, Place place) {
    if (!place.is_top)
        fail("a macro within a loop, a macro or another block with variables of its own is not supported");
    take();
    stmt.kind = StmtKind::macro;
    stmt.text = expect_name("the name of a macro");
    stmt.target.name = name_id(stmt.text);
    expect_mark("(");
    while (!is_mark(")")) {
        const std::string_view name = expect_name("the name of a parameter");
        stmt.parameters.push_back(name_id(name));
        stmt.parameter_names.push_back(name);
        if (std::count(stmt.parameters.begin(), stmt.parameters.end(), stmt.parameters.back()) > 1)
            fail(fmt::format("the macro has the parameter \"{}\" twice", name));
        in_macro_ = true;
        if (take_mark("="))
            stmt.defaults.push_back(parse_expression());
        else if (!stmt.defaults.empty())
            fail("a parameter without a default follows one with a default");
        in_macro_ = false;
        if (!take_mark(",")) break;
    }
    expect_mark(")");
    take_mark(":");
    expect_block_end();
    in_macro_ = true;
    stmt.body = parse_body({"endmacro"}, {.in_loop = false, .is_top = false, .is_output = false});
    in_macro_ = false;
    take();
    expect_block_end();
}

void Parser::parse_generation(Stmt& stmt, Place place) {
    if (!place.is_output)
        fail(
            "a generation block within a macro, another one or a block that is set is not supported: where its text "
            "ends up is not known");
    take();
    stmt.kind = StmtKind::generation;
    program_.marks_generation = true;
    take_mark(":");
    expect_block_end();
    stmt.body = parse_body({"endgeneration"}, {.in_loop = false, .is_top = false, .is_output = false});
    take();
    expect_block_end();
}

Target Parser::parse_target(bool with_member) {
    const bool in_brackets = take_mark("(");
    Target first = parse_one_target(with_member);
    if (!is_mark(",")) {
        if (in_brackets) expect_mark(")");
        return first;
    }
    Target tuple;
    tuple.line = first.line;
    tuple.is_tuple = true;
    tuple.parts.push_back(std::move(first));
    while (take_mark(",") && now().kind == TokenKind::name && !is_word("in"))
        tuple.parts.push_back(parse_one_target(with_member));
    if (in_brackets) expect_mark(")");
    return tuple;
}

Target Parser::parse_one_target(bool with_member) {
    Target target;
    target.line = now().line;
    const Token token = now();
    const std::string_view name = expect_name("the name of a variable");
    for (const std::string_view constant : {"true", "false", "none", "True", "False", "None", "loop"})
        if (name == constant) fail_parse(program_.where, token.line, fmt::format("\"{}\" cannot be assigned to", name));
    target.name = name_id(name);
    if (with_member && take_mark(".")) target.member = expect_name("the name of a member");
    return target;
}

void parse_program(Program& program) {
    std::vector<Token> tokens = tokenize(program);
    for (const Token& token : tokens)
        if (token.kind == TokenKind::name || token.kind == TokenKind::string) program.words.insert(token.text);
    Parser parser(program, std::move(tokens));
    program.body = parser.run();
    find_hidden_names(program);
}

}  // namespace windlass::jinja
