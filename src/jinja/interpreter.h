// interpreter.h: walks a parsed template and writes the chat.
#pragma once

#include <utility>
#include <vector>

#include "jinja/functions.h"
#include "jinja/syntax.h"

namespace windlass::jinja {

// The cost of a node of a template or of an iteration of a loop, in bytes read.
inline constexpr size_t kNodeWork = 16;

class Interpreter {
  public:
    Interpreter(const Program& program, Arena& arena, int64_t now_seconds)
        : program_(program), arena_(arena), now_seconds_(now_seconds), out_(arena) {}

    // What the chat gives the template, before it runs.
    void define(std::string_view name, const Value& value);
    // Throws Fault and Raised; line() is where.
    RenderedChat run();
    int line() const { return line_; }

  private:
    struct Scope {
        Scope* parent = nullptr;
        const HiddenNames* hidden = nullptr;
        std::vector<std::pair<int, Value>> names;
    };
    enum class Flow { normal, break_, continue_ };
    class Deeper;
    class Within;

    // interpreter.cpp
    Flow run_body(const Body& body);
    Flow run_stmt(const Stmt& stmt);
    Flow run_if(const Stmt& stmt);
    Flow run_for(const Stmt& stmt);
    Flow run_generation(const Stmt& stmt);
    void run_set_block(const Stmt& stmt);
    void run_macro(const Stmt& stmt);
    std::span<const Value> filtered(const Stmt& loop, std::span<const Value> items);
    void assign(const Target& target, const Value& value);
    void set(int name, const Value& value);
    Value find(int name) const;
    Value call_macro(const Stmt& macro, const Arguments& arguments);

    // evaluate.cpp
    Value evaluate(const Expr& expr);
    Value evaluate_tuple(const Expr& expr);
    Value evaluate_dict(const Expr& expr);
    Value evaluate_call(const Expr& expr);
    Value evaluate_filter(const Expr& expr);
    Value evaluate_test(const Expr& expr);
    Value evaluate_compare(const Expr& expr);
    Value evaluate_concat(const Expr& expr);
    Value evaluate_slice(const Expr& expr);
    Value evaluate_condition(const Expr& expr);
    Value evaluate_nested(const Expr& expr);
    std::vector<Value> evaluate_arguments(const Expr& expr);

    const Program& program_;
    Arena& arena_;
    int64_t now_seconds_;
    TextBuilder out_;
    TextBuilder* target_ = &out_;  // where what is written goes: the chat, or a text that is made
    Scope variables_, root_;
    Scope* scope_ = &root_;
    int line_ = 1, depth_ = 0;
    std::vector<std::pair<size_t, size_t>> generated_;
};

// Counts how deep evaluation is, for as long as it lives.
class Interpreter::Deeper {
  public:
    explicit Deeper(Interpreter& interpreter);
    ~Deeper() { --depth_; }
    Deeper(const Deeper&) = delete;

  private:
    int& depth_;
};

}  // namespace windlass::jinja
