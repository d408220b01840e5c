// syntax.h: a parsed template: expressions and statements, and the errors of parsing.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "jinja/value.h"

namespace windlass::jinja {

enum class TokenKind : uint8_t {
    data,
    block_begin,
    block_end,
    variable_begin,
    variable_end,
    name,
    string,
    integer,
    real,
    mark,  // an operator or a bracket
    end,
};

struct Token {
    TokenKind kind = TokenKind::end;
    int line = 0;
    std::string_view text;  // of data, names, strings and marks
    int64_t whole = 0;
    double real = 0;
};

enum class Op : uint8_t { add, sub, mul, div, floor_div, mod, pow, eq, ne, lt, le, gt, ge, in, not_in };

enum class ExprKind : uint8_t {
    constant,
    name,
    list,  // parts are the items
    tuple,
    dict,       // parts are key, value, key, value, ...
    attribute,  // parts[0].text
    item,       // parts[0][parts[1]]
    slice,      // parts[0][parts[1]:parts[2]:parts[3]], null where left out
    call,       // parts[0](parts[1], ..., keywords)
    filter,     // parts[0] | text(parts[1], ..., keywords)
    test,       // parts[0] is text(parts[1], ..., keywords)
    negate,
    plus,
    not_,
    and_,
    or_,
    binary,     // ops[0]
    compare,    // parts[0] ops[0] parts[1] ops[1] parts[2] ...
    concat,     // parts[0] ~ parts[1] ~ ...
    condition,  // parts[0] if parts[1] else parts[2], null where left out
};

struct Expr;
using ExprPtr = std::unique_ptr<Expr>;

struct Expr {
    ExprKind kind = ExprKind::constant;
    int line = 0;
    int depth = 1;
    int name = -1;   // of a variable
    int index = -1;  // of a filter or a test: its place in the table
    Value constant;
    std::string_view text;
    std::vector<ExprPtr> parts;
    std::vector<std::string_view> keywords;  // the names of the last parts of a call, filter or test
    std::vector<Op> ops;
};

// What is assigned to: a name, a member of a namespace (name.member), or several of them.
struct Target {
    int name = -1;
    int line = 0;
    std::string_view member;
    bool is_tuple = false;
    std::vector<Target> parts;
};

struct Stmt;
using Body = std::vector<std::unique_ptr<Stmt>>;

enum class StmtKind : uint8_t { data, print, set, set_block, if_, for_, macro, generation, break_, continue_ };

// A scope's names that do not reach through to the variables of the chat: see scope_names.cpp.
using HiddenNames = std::vector<int>;

struct Stmt {
    StmtKind kind = StmtKind::data;
    int line = 0;
    std::string_view text;        // data; the name of a macro
    Target target;                // set, set_block, for
    ExprPtr value;                // print, set, the sequence of for
    ExprPtr filter;               // for ... if filter
    std::vector<ExprPtr> tests;   // if, elif, ...
    std::vector<Body> bodies;     // of if: one for each test, and one more for else
    Body body;                    // set_block, for, macro, generation
    Body otherwise;               // for
    std::vector<int> parameters;  // macro
    std::vector<std::string_view> parameter_names;
    std::vector<ExprPtr> defaults;  // of the last parameters
    HiddenNames hidden, hidden_otherwise;
};

struct Program {
    std::string where;
    std::string source;                // with newlines as \n; tokens point into it
    std::deque<std::string> texts;     // string literals, whose escapes are read
    std::deque<std::string> names;     // of variables, by their number
    std::set<std::string_view> words;  // every name and string literal
    Body body;
    HiddenNames hidden;
    int loop_name = -1;  // the variable "loop"
    bool marks_generation = false;
};

// A template that cannot be parsed.
[[noreturn]] void fail_parse(std::string_view where, int line, const std::string& message);

std::vector<Token> tokenize(Program& program);
void parse_program(Program& program);
void find_hidden_names(Program& program);

}  // namespace windlass::jinja
