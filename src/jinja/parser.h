// parser.h: tokens to expressions and statements, by jinja2's grammar.
#pragma once

#include "jinja/syntax.h"

namespace windlass::jinja {

// Beyond these Python refuses what jinja2 compiles a template to, or the parser would overflow its stack.
inline constexpr int kExprDepthMax = 200;   // of the tree of an expression
inline constexpr int kParseDepthMax = 100;  // brackets, `not`, signs and conditions within each other
inline constexpr int kStmtDepthMax = 50;    // blocks within each other

// Of variables. Templates in use have sixty at most; finding out where a name belongs takes time with all of them.
inline constexpr size_t kNamesMax = 250;

class Parser {
  public:
    Parser(Program& program, std::vector<Token> tokens) : program_(program), tokens_(std::move(tokens)) {}
    Body run();

  private:
    // Where tags are: what is allowed there.
    struct Place {
        bool in_loop = false;   // break and continue
        bool is_top = true;     // not within a loop or another body with variables of its own: macros
        bool is_output = true;  // what is written is written to the chat at once: generation
    };

    // parse_statement.cpp
    Body parse_body(std::initializer_list<std::string_view> ends, Place place);
    std::unique_ptr<Stmt> parse_statement(Place place);
    void parse_set(Stmt& stmt, Place place);
    void parse_for(Stmt& stmt, Place place);
    void parse_if(Stmt& stmt, Place place);
    void parse_macro(Stmt& stmt, Place place);
    void parse_generation(Stmt& stmt, Place place);
    Target parse_target(bool with_member);
    Target parse_one_target(bool with_member);
    void expect_block_end();
    std::string_view closing_tag();

    // parse_expression.cpp
    ExprPtr parse_expression(bool with_condition = true);
    ExprPtr parse_tuple(bool with_condition, bool in_brackets = false);
    // Parts with this word between them, from the left.
    ExprPtr parse_joined(std::string_view word, ExprKind kind, ExprPtr (Parser::*parse_part)());
    ExprPtr parse_or();
    ExprPtr parse_and();
    ExprPtr parse_not();
    ExprPtr parse_compare();
    ExprPtr parse_sum();
    ExprPtr parse_concat();
    ExprPtr parse_product();
    ExprPtr parse_power();
    ExprPtr parse_unary(bool with_filter);
    ExprPtr parse_primary();
    ExprPtr parse_literal();
    ExprPtr parse_name();
    ExprPtr parse_list();
    ExprPtr parse_dict();
    ExprPtr parse_postfix(ExprPtr expr);
    ExprPtr parse_filters(ExprPtr expr);
    ExprPtr parse_subscript(ExprPtr expr);
    ExprPtr parse_bracket(ExprPtr expr, int line);
    ExprPtr parse_filter(ExprPtr expr);
    ExprPtr parse_test(ExprPtr expr);
    void parse_arguments(Expr& call);
    bool at_tuple_end() const;

    ExprPtr make(ExprKind kind, int line) const;
    void add(Expr& expr, ExprPtr part) const;  // counts the depth
    ExprPtr binary(Op op, int line, ExprPtr left, ExprPtr right) const;

    const Token& now() const { return tokens_[at_]; }
    const Token& ahead() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
    bool is_mark(std::string_view text) const { return now().kind == TokenKind::mark && now().text == text; }
    bool is_word(std::string_view text) const { return now().kind == TokenKind::name && now().text == text; }
    bool take_mark(std::string_view text);
    bool take_word(std::string_view text);
    void expect_mark(std::string_view text);
    std::string_view expect_name(std::string_view what);
    Token take();
    int name_id(std::string_view name);
    [[noreturn]] void fail(const std::string& message) const { fail_parse(program_.where, now().line, message); }
    std::string shown() const;  // the present token, for messages

    // Counts how deep the parser is, for as long as it lives.
    class Deeper {
      public:
        Deeper(const Parser& parser, int& depth, int most);
        ~Deeper() { --depth_; }
        Deeper(const Deeper&) = delete;

      private:
        int& depth_;
    };

    Program& program_;
    std::vector<Token> tokens_;
    size_t at_ = 0;
    int parse_depth_ = 0, stmt_depth_ = 0;
    std::map<std::string, int, std::less<>> ids_;
    bool in_macro_ = false;
};

}  // namespace windlass::jinja
