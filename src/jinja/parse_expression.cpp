// Expressions, from what binds least to what binds most.
#include "jinja/functions.h"
#include "jinja/parser.h"

namespace windlass::jinja {

Parser::Deeper::Deeper(const Parser& parser, int& depth, int most) : depth_(depth) {
    if (++depth_ > most) parser.fail(fmt::format("it is nested deeper than {} levels", most));
}

ExprPtr Parser::make(ExprKind kind, int line) const {
    auto expr = std::make_unique<Expr>();
    expr->kind = kind;
    expr->line = line;
    return expr;
}

void Parser::add(Expr& expr, ExprPtr part) const {
    if (part != nullptr) expr.depth = std::max(expr.depth, part->depth + 1);
    if (expr.depth > kExprDepthMax) fail(fmt::format("an expression is nested deeper than {} levels", kExprDepthMax));
    expr.parts.push_back(std::move(part));
}

ExprPtr Parser::binary(Op op, int line, ExprPtr left, ExprPtr right) const {
    ExprPtr expr = make(ExprKind::binary, line);
    expr->ops = {op};
    add(*expr, std::move(left));
    add(*expr, std::move(right));
    return expr;
}

ExprPtr Parser::parse_expression(bool with_condition) {
    const Deeper deeper(*this, parse_depth_, kParseDepthMax);
    ExprPtr expr = parse_or();
    while (with_condition && is_word("if")) {
        ExprPtr condition = make(ExprKind::condition, take().line);
        add(*condition, std::move(expr));
        add(*condition, parse_or());
        add(*condition, take_word("else") ? parse_expression() : nullptr);
        expr = std::move(condition);
    }
    return expr;
}

bool Parser::at_tuple_end() const {
    const TokenKind kind = now().kind;
    return kind == TokenKind::variable_end || kind == TokenKind::block_end || is_mark(")");
}

ExprPtr Parser::parse_tuple(bool with_condition, bool in_brackets) {
    ExprPtr tuple = make(ExprKind::tuple, now().line);
    bool has_comma = false;
    while (!at_tuple_end()) {
        add(*tuple, parse_expression(with_condition));
        if (!take_mark(",")) break;
        has_comma = true;
    }
    if (has_comma) return tuple;
    if (tuple->parts.size() == 1) return std::move(tuple->parts[0]);
    if (!in_brackets) fail(fmt::format("an expression is missing before {}", shown()));
    return tuple;
}

ExprPtr Parser::parse_joined(std::string_view word, ExprKind kind, ExprPtr (Parser::*parse_part)()) {
    ExprPtr left = (this->*parse_part)();
    while (is_word(word)) {
        ExprPtr expr = make(kind, take().line);
        add(*expr, std::move(left));
        add(*expr, (this->*parse_part)());
        left = std::move(expr);
    }
    return left;
}

ExprPtr Parser::parse_or() {
    return parse_joined("or", ExprKind::or_, &Parser::parse_and);
}

ExprPtr Parser::parse_and() {
    return parse_joined("and", ExprKind::and_, &Parser::parse_not);
}

ExprPtr Parser::parse_not() {
    if (!is_word("not")) return parse_compare();
    const Deeper deeper(*this, parse_depth_, kParseDepthMax);
    ExprPtr expr = make(ExprKind::not_, take().line);
    add(*expr, parse_not());
    return expr;
}

ExprPtr Parser::parse_compare() {
    static constexpr std::pair<std::string_view, Op> kOps[] = {{"==", Op::eq}, {"!=", Op::ne}, {"<", Op::lt},
                                                               {"<=", Op::le}, {">", Op::gt},  {">=", Op::ge}};
    ExprPtr left = parse_sum();
    ExprPtr expr = make(ExprKind::compare, now().line);
    for (;;) {
        std::optional<Op> op;
        for (const auto& [text, one] : kOps)
            if (!op && is_mark(text)) op = one;
        if (is_word("in")) op = Op::in;
        if (is_word("not") && ahead().kind == TokenKind::name && ahead().text == "in") {
            take();
            op = Op::not_in;
        }
        if (!op) break;
        take();
        if (left != nullptr) add(*expr, std::move(left));
        expr->ops.push_back(*op);
        add(*expr, parse_sum());
    }
    return left != nullptr ? std::move(left) : std::move(expr);
}

ExprPtr Parser::parse_sum() {
    ExprPtr left = parse_concat();
    while (is_mark("+") || is_mark("-")) {
        const Op op = is_mark("+") ? Op::add : Op::sub;
        const int line = take().line;
        left = binary(op, line, std::move(left), parse_concat());
    }
    return left;
}

ExprPtr Parser::parse_concat() {
    ExprPtr left = parse_product();
    if (!is_mark("~")) return left;
    ExprPtr expr = make(ExprKind::concat, now().line);
    add(*expr, std::move(left));
    while (take_mark("~")) add(*expr, parse_product());
    return expr;
}

ExprPtr Parser::parse_product() {
    ExprPtr left = parse_power();
    for (;;) {
        const Op op = is_mark("*") ? Op::mul : is_mark("/") ? Op::div : is_mark("//") ? Op::floor_div : Op::mod;
        if (op == Op::mod && !is_mark("%")) return left;
        const int line = take().line;
        left = binary(op, line, std::move(left), parse_power());
    }
}

ExprPtr Parser::parse_power() {
    ExprPtr left = parse_unary(true);
    while (is_mark("**")) {
        const int line = take().line;
        left = binary(Op::pow, line, std::move(left), parse_unary(true));
    }
    return left;
}

ExprPtr Parser::parse_unary(bool with_filter) {
    ExprPtr expr;
    if (is_mark("-") || is_mark("+")) {
        const Deeper deeper(*this, parse_depth_, kParseDepthMax);
        const ExprKind kind = is_mark("-") ? ExprKind::negate : ExprKind::plus;
        expr = make(kind, take().line);
        add(*expr, parse_unary(false));
    } else {
        expr = parse_primary();
    }
    expr = parse_postfix(std::move(expr));
    return with_filter ? parse_filters(std::move(expr)) : std::move(expr);
}

ExprPtr Parser::parse_primary() {
    if (now().kind == TokenKind::name) return parse_name();
    if (is_mark("[")) return parse_list();
    if (is_mark("{")) return parse_dict();
    if (!is_mark("(")) return parse_literal();
    take();
    ExprPtr expr = parse_tuple(true, true);
    expect_mark(")");
    return expr;
}

ExprPtr Parser::parse_literal() {
    ExprPtr expr = make(ExprKind::constant, now().line);
    const TokenKind kind = now().kind;
    if (kind == TokenKind::integer) {
        expr->constant = Value::integer(take().whole);
    } else if (kind == TokenKind::real) {
        expr->constant = Value::floating(take().real);
    } else if (kind == TokenKind::string) {
        expr->constant = Value::string(take().text);
        if (now().kind == TokenKind::string) {  // strings side by side are one
            std::string text(expr->constant.text);
            while (now().kind == TokenKind::string) text += take().text;
            program_.texts.push_back(std::move(text));
            expr->constant = Value::string(program_.texts.back());
        }
    } else {
        fail(fmt::format("an expression is missing before {}", shown()));
    }
    return expr;
}

ExprPtr Parser::parse_name() {
    const Token token = take();
    ExprPtr expr = make(ExprKind::constant, token.line);
    const std::string_view text = token.text;
    if (text == "true" || text == "True") {
        expr->constant = Value::boolean(true);
    } else if (text == "false" || text == "False") {
        expr->constant = Value::boolean(false);
    } else if (text == "none" || text == "None") {
        expr->constant = Value::none();
    } else {
        check_variable(program_, token, in_macro_);
        expr->kind = ExprKind::name;
        expr->text = text;
        expr->name = name_id(text);
    }
    return expr;
}

ExprPtr Parser::parse_list() {
    ExprPtr expr = make(ExprKind::list, take().line);
    while (!is_mark("]")) {
        add(*expr, parse_expression());
        if (!take_mark(",")) break;
    }
    expect_mark("]");
    return expr;
}

ExprPtr Parser::parse_dict() {
    ExprPtr expr = make(ExprKind::dict, take().line);
    while (!is_mark("}")) {
        add(*expr, parse_expression());
        expect_mark(":");
        add(*expr, parse_expression());
        if (!take_mark(",")) break;
    }
    expect_mark("}");
    return expr;
}

ExprPtr Parser::parse_postfix(ExprPtr expr) {
    for (;;) {
        if (is_mark(".") || is_mark("[")) {
            expr = parse_subscript(std::move(expr));
        } else if (is_mark("(")) {
            ExprPtr call = make(ExprKind::call, now().line);
            add(*call, std::move(expr));
            parse_arguments(*call);
            expr = std::move(call);
        } else {
            return expr;
        }
    }
}

ExprPtr Parser::parse_filters(ExprPtr expr) {
    for (;;) {
        if (is_mark("|")) {
            expr = parse_filter(std::move(expr));
        } else if (is_word("is")) {
            expr = parse_test(std::move(expr));
        } else if (is_mark("(")) {
            ExprPtr call = make(ExprKind::call, now().line);
            add(*call, std::move(expr));
            parse_arguments(*call);
            expr = std::move(call);
        } else {
            return expr;
        }
    }
}

ExprPtr Parser::parse_subscript(ExprPtr object) {
    const int line = now().line;
    if (take().text == "[") return parse_bracket(std::move(object), line);
    if (now().kind == TokenKind::integer) {
        ExprPtr expr = make(ExprKind::item, line);
        add(*expr, std::move(object));
        add(*expr, parse_literal());
        return expr;
    }
    ExprPtr expr = make(ExprKind::attribute, line);
    expr->text = expect_name("the name of an attribute");
    add(*expr, std::move(object));
    return expr;
}

ExprPtr Parser::parse_bracket(ExprPtr object, int line) {
    ExprPtr expr = make(ExprKind::item, line);
    add(*expr, std::move(object));
    add(*expr, is_mark(":") ? nullptr : parse_expression());
    if (is_mark(":")) {
        expr->kind = ExprKind::slice;
        take();
        add(*expr, is_mark(":") || is_mark("]") ? nullptr : parse_expression());
        add(*expr, !take_mark(":") || is_mark("]") ? nullptr : parse_expression());
    }
    if (is_mark(",")) fail("several indices in one pair of brackets are not supported");
    expect_mark("]");
    return expr;
}

ExprPtr Parser::parse_filter(ExprPtr input) {
    take();
    ExprPtr expr = make(ExprKind::filter, now().line);
    const Token token = now();
    expr->text = expect_name("the name of a filter");
    expr->index = is_mark(".") ? -1 : find_filter(expr->text);  // jinja2 takes a.b for a filter's name
    if (expr->index < 0)
        fail_parse(program_.where, token.line, fmt::format("the filter \"{}\" is not supported", expr->text));
    add(*expr, std::move(input));
    if (is_mark("(")) parse_arguments(*expr);
    return expr;
}

ExprPtr Parser::parse_test(ExprPtr input) {
    take();
    const bool is_negated = take_word("not");
    ExprPtr expr = make(ExprKind::test, now().line);
    const Token token = now();
    expr->text = expect_name("the name of a test");
    expr->index = find_test(expr->text);
    if (expr->index < 0)
        fail_parse(program_.where, token.line, fmt::format("the test \"is {}\" is not supported", expr->text));
    add(*expr, std::move(input));
    const TokenKind kind = now().kind;
    const bool is_value = kind == TokenKind::string || kind == TokenKind::integer || kind == TokenKind::real ||
                          kind == TokenKind::name || is_mark("[") || is_mark("{");
    if (is_mark("(")) {
        parse_arguments(*expr);
    } else if (is_value && !is_word("else") && !is_word("or") && !is_word("and")) {
        if (is_word("is")) fail("tests with \"is\" cannot be chained");
        add(*expr, parse_postfix(parse_primary()));
    }
    if (!is_negated) return expr;
    ExprPtr negated = make(ExprKind::not_, expr->line);
    add(*negated, std::move(expr));
    return negated;
}

void Parser::parse_arguments(Expr& call) {
    expect_mark("(");
    while (!is_mark(")")) {
        if (is_mark("*") || is_mark("**")) fail("arguments with * are not supported");
        const bool is_named = now().kind == TokenKind::name && ahead().kind == TokenKind::mark && ahead().text == "=";
        if (is_named) {
            call.keywords.push_back(take().text);
            take();
        } else if (!call.keywords.empty()) {
            fail("an argument without a name follows one with a name");
        }
        add(call, parse_expression());
        if (!take_mark(",")) break;
    }
    expect_mark(")");
}

}  // namespace windlass::jinja
