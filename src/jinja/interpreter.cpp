// Statements, and where names are looked up.
#include "jinja/interpreter.h"

#include <algorithm>

#include "jinja/operators.h"

namespace windlass::jinja {

// A scope of its own, and perhaps a text of its own, for as long as it lives.
class Interpreter::Within {
  public:
    Within(Interpreter& interpreter, Scope* parent, const HiddenNames* hidden, TextBuilder* target = nullptr)
        : interpreter_(interpreter), before_(interpreter.scope_), target_before_(interpreter.target_) {
        scope_.parent = parent;
        scope_.hidden = hidden;
        enter();
        if (target != nullptr) interpreter.target_ = target;
    }
    ~Within() {
        interpreter_.scope_ = before_;
        interpreter_.target_ = target_before_;
    }
    Within(const Within&) = delete;
    void clear() { scope_.names.clear(); }

  private:
    // GCC 14 does not see that the destructor takes the address back.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdangling-pointer"
#endif
    void enter() {
        interpreter_.scope_ = &scope_;
    }
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif

    Interpreter& interpreter_;
    Scope* const before_;
    TextBuilder* const target_before_;
    Scope scope_;
};

void Interpreter::define(std::string_view name, const Value& value) {
    arena_.work(program_.names.size());
    const auto found = std::find(program_.names.begin(), program_.names.end(), name);
    if (found == program_.names.end()) return;  // the template does not ask for it
    const int id = static_cast<int>(found - program_.names.begin());
    for (auto& [present, old] : variables_.names)
        if (present == id) {
            old = value;
            return;
        }
    variables_.names.emplace_back(id, value);
}

RenderedChat Interpreter::run() {
    root_.parent = &variables_;
    root_.hidden = &program_.hidden;
    run_body(program_.body);
    return {.text = out_.take(), .generated = std::move(generated_)};
}

Interpreter::Flow Interpreter::run_body(const Body& body) {
    const Deeper deeper(*this);
    for (const auto& stmt : body)
        if (const Flow flow = run_stmt(*stmt); flow != Flow::normal) return flow;
    return Flow::normal;
}

Interpreter::Flow Interpreter::run_stmt(const Stmt& stmt) {
    line_ = stmt.line;
    arena_.work(1);
    switch (stmt.kind) {
        case StmtKind::data:
            target_->add(stmt.text);
            break;
        case StmtKind::print: {
            const Value value = evaluate(*stmt.value);
            write_text(*target_, value);
            break;
        }
        case StmtKind::set:
            assign(stmt.target, evaluate(*stmt.value));
            break;
        case StmtKind::set_block:
            run_set_block(stmt);
            break;
        case StmtKind::if_:
            return run_if(stmt);
        case StmtKind::for_:
            return run_for(stmt);
        case StmtKind::macro:
            run_macro(stmt);
            break;
        case StmtKind::generation:
            return run_generation(stmt);
        case StmtKind::break_:
            return Flow::break_;
        case StmtKind::continue_:
            return Flow::continue_;
    }
    if (out_.size() > static_cast<size_t>(arena_.limits().output_bytes))
        throw Fault{.message = fmt::format("it writes more than {} bytes", arena_.limits().output_bytes),
                    .is_bound = true};
    return Flow::normal;
}

Interpreter::Flow Interpreter::run_if(const Stmt& stmt) {
    for (size_t i = 0; i < stmt.bodies.size(); ++i)
        if (i >= stmt.tests.size() || is_true(evaluate(*stmt.tests[i]))) return run_body(stmt.bodies[i]);
    return Flow::normal;
}

// The items for which the loop's own condition holds.
std::span<const Value> Interpreter::filtered(const Stmt& loop, std::span<const Value> items) {
    ListBuilder kept(arena_);
    for (const Value& item : items) {
        arena_.work(kNodeWork);
        const Within within(*this, scope_, nullptr);
        assign(loop.target, item);
        if (is_true(evaluate(*loop.filter))) kept.push(item);
    }
    Value* const copies = arena_.make<Value>(kept.size());
    std::copy(kept.items().begin(), kept.items().end(), copies);
    return {copies, kept.size()};
}

Interpreter::Flow Interpreter::run_for(const Stmt& stmt) {
    std::span<const Value> items = iterate(arena_, evaluate(*stmt.value));
    if (stmt.filter != nullptr) items = filtered(stmt, items);
    Value loop;
    loop.kind = Kind::loop;
    loop.loop = arena_.make<LoopState>();
    *loop.loop = {.items = items.data(), .size = items.size()};
    // As in jinja2, an iteration that breaks or continues does not count for `else`.
    bool is_whole = false;
    {
        Within within(*this, scope_, &stmt.hidden);
        for (size_t i = 0; i < items.size(); ++i) {
            arena_.work(kNodeWork);
            within.clear();
            loop.loop->index = i;
            set(program_.loop_name, loop);
            line_ = stmt.line;
            assign(stmt.target, items[i]);
            const Flow flow = run_body(stmt.body);
            if (flow == Flow::break_) break;
            is_whole |= flow == Flow::normal;
        }
    }
    if (is_whole || stmt.otherwise.empty()) return Flow::normal;
    const Within within(*this, scope_, &stmt.hidden_otherwise);
    return run_body(stmt.otherwise);
}

Interpreter::Flow Interpreter::run_generation(const Stmt& stmt) {
    const size_t begin = out_.size();
    const Within within(*this, scope_, &stmt.hidden);
    run_body(stmt.body);
    generated_.emplace_back(begin, out_.size());
    return Flow::normal;
}

void Interpreter::run_set_block(const Stmt& stmt) {
    TextBuilder text(arena_);
    {
        const Within within(*this, scope_, &stmt.hidden, &text);
        run_body(stmt.body);
    }
    assign(stmt.target, text.value());
}

void Interpreter::run_macro(const Stmt& stmt) {
    Value macro;
    macro.kind = Kind::macro;
    macro.macro = &stmt;
    set(stmt.target.name, macro);
}

Value Interpreter::call_macro(const Stmt& macro, const Arguments& arguments) {
    const size_t count = macro.parameters.size();
    if (arguments.unnamed() > count)
        throw Fault{fmt::format("the macro \"{}\" got {} arguments, takes {}", macro.text, arguments.unnamed(), count)};
    for (const std::string_view keyword : arguments.keywords) {
        const auto found = std::find(macro.parameter_names.begin(), macro.parameter_names.end(), keyword);
        if (found == macro.parameter_names.end() ||
            found - macro.parameter_names.begin() < static_cast<ptrdiff_t>(arguments.unnamed()))
            throw Fault{fmt::format("the macro \"{}\" cannot take the argument \"{}\"", macro.text, keyword)};
        if (std::count(arguments.keywords.begin(), arguments.keywords.end(), keyword) > 1)
            throw Fault{fmt::format("the macro \"{}\" got the argument \"{}\" twice", macro.text, keyword)};
    }
    TextBuilder text(arena_);
    const int line = line_;
    {
        const Within within(*this, &root_, &macro.hidden, &text);
        for (size_t i = 0; i < count; ++i) {
            const Value* const given =
                i < arguments.unnamed() ? &arguments.values[i] : arguments.named(macro.parameter_names[i]);
            const size_t required = count - macro.defaults.size();
            if (given != nullptr)
                set(macro.parameters[i], *given);
            else if (i >= required)
                set(macro.parameters[i], evaluate(*macro.defaults[i - required]));
            else
                set(macro.parameters[i], Value::undefined(macro.parameter_names[i]));
        }
        run_body(macro.body);
    }
    line_ = line;
    return text.value();
}

void Interpreter::assign(const Target& target, const Value& value) {
    if (target.is_tuple) {
        const std::span<const Value> items = iterate(arena_, value);
        if (items.size() != target.parts.size())
            throw Fault{fmt::format("{} values are assigned to {} names", items.size(), target.parts.size())};
        for (size_t i = 0; i < items.size(); ++i) assign(target.parts[i], items[i]);
    } else if (target.member.empty()) {
        set(target.name, value);
    } else {
        const Value space = find(target.name);
        if (space.kind != Kind::space) refuse_operand("a member is set", space);
        set_member(arena_, *space.space, target.member, value);
    }
}

void Interpreter::set(int name, const Value& value) {
    arena_.work(scope_->names.size());
    for (auto& [present, old] : scope_->names)
        if (present == name) {
            old = value;
            return;
        }
    scope_->names.emplace_back(name, value);
}

Value Interpreter::find(int name) const {
    for (const Scope* scope = scope_; scope != nullptr; scope = scope->parent) {
        arena_.work(scope->names.size());
        for (const auto& [present, value] : scope->names)
            if (present == name) return value;
        if (scope->hidden != nullptr && std::binary_search(scope->hidden->begin(), scope->hidden->end(), name))
            return Value::undefined(program_.names[static_cast<size_t>(name)]);
    }
    const std::string_view text = program_.names[static_cast<size_t>(name)];
    Value value = Value::undefined(text);
    if (const int function = find_function(text); function >= 0) {
        value.kind = Kind::function;
        value.function = function;
    }
    return value;
}

}  // namespace windlass::jinja
