// Expressions.
#include "jinja/interpreter.h"
#include "jinja/operators.h"

namespace windlass::jinja {
namespace {

// Recursion of macros and nesting of their bodies, together: Python stops at as many frames.
constexpr int kEvaluationDepthMax = 1000;

}  // namespace

Interpreter::Deeper::Deeper(Interpreter& interpreter) : depth_(interpreter.depth_) {
    // The count must stay right where this throws, as nothing is destroyed then.
    if (depth_ >= kEvaluationDepthMax)
        throw Fault{fmt::format("macros and expressions are nested deeper than {} levels", kEvaluationDepthMax)};
    ++depth_;
}

Value Interpreter::evaluate(const Expr& expr) {
    arena_.work(kNodeWork);
    line_ = expr.line;
    if (expr.kind == ExprKind::constant) return expr.constant;
    if (expr.kind == ExprKind::name) return find(expr.name);
    const Deeper deeper(*this);
    Value value = evaluate_nested(expr);
    return value;
}

Value Interpreter::evaluate_nested(const Expr& expr) {
    switch (expr.kind) {
        case ExprKind::list:
        case ExprKind::tuple:
            return evaluate_tuple(expr);
        case ExprKind::dict:
            return evaluate_dict(expr);
        case ExprKind::attribute: {
            const Value object = evaluate(*expr.parts[0]);
            line_ = expr.line;
            return attribute(arena_, object, expr.text);
        }
        case ExprKind::item: {
            const Value object = evaluate(*expr.parts[0]);
            return item(arena_, object, evaluate(*expr.parts[1]));
        }
        case ExprKind::slice:
            return evaluate_slice(expr);
        case ExprKind::call:
            return evaluate_call(expr);
        case ExprKind::filter:
            return evaluate_filter(expr);
        case ExprKind::test:
            return evaluate_test(expr);
        case ExprKind::negate:
            return negate(evaluate(*expr.parts[0]));
        case ExprKind::plus:
            return plus(evaluate(*expr.parts[0]));
        case ExprKind::not_:
            return Value::boolean(!is_true(evaluate(*expr.parts[0])));
        case ExprKind::and_: {
            const Value left = evaluate(*expr.parts[0]);
            return is_true(left) ? evaluate(*expr.parts[1]) : left;
        }
        case ExprKind::or_: {
            const Value left = evaluate(*expr.parts[0]);
            return is_true(left) ? left : evaluate(*expr.parts[1]);
        }
        case ExprKind::binary: {
            const Value left = evaluate(*expr.parts[0]), right = evaluate(*expr.parts[1]);
            line_ = expr.line;
            return calculate(arena_, expr.ops[0], left, right);
        }
        case ExprKind::compare:
            return evaluate_compare(expr);
        case ExprKind::concat:
            return evaluate_concat(expr);
        default:
            return evaluate_condition(expr);
    }
}

Value Interpreter::evaluate_tuple(const Expr& expr) {
    ListBuilder items(arena_);
    for (const ExprPtr& part : expr.parts) items.push(evaluate(*part));
    return expr.kind == ExprKind::list ? arena_.list(items.items()) : arena_.tuple(items.items());
}

Value Interpreter::evaluate_dict(const Expr& expr) {
    std::vector<Member> members;
    for (size_t i = 0; i + 1 < expr.parts.size(); i += 2) {
        const Value key = evaluate(*expr.parts[i]);
        put(arena_, members, key, evaluate(*expr.parts[i + 1]));
    }
    return arena_.dict(members);
}

std::vector<Value> Interpreter::evaluate_arguments(const Expr& expr) {
    std::vector<Value> values;
    values.reserve(expr.parts.size() - 1);
    for (size_t i = 1; i < expr.parts.size(); ++i) values.push_back(evaluate(*expr.parts[i]));
    line_ = expr.line;
    return values;
}

Value Interpreter::evaluate_call(const Expr& expr) {
    const Value called = evaluate(*expr.parts[0]);
    const std::vector<Value> values = evaluate_arguments(expr);
    const Arguments arguments{.values = values, .keywords = expr.keywords};
    switch (called.kind) {
        case Kind::method:
            return call_method(arena_, *called.method, arguments);
        case Kind::function:
            return call_function(arena_, called.function, arguments, {.now_seconds = now_seconds_, .line = line_});
        case Kind::macro:
            return call_macro(*called.macro, arguments);
        default:
            refuse_operand("a call", called);
    }
}

Value Interpreter::evaluate_filter(const Expr& expr) {
    const Value input = evaluate(*expr.parts[0]);
    const std::vector<Value> values = evaluate_arguments(expr);
    return call_filter(arena_, expr.index, input, {.values = values, .keywords = expr.keywords});
}

Value Interpreter::evaluate_test(const Expr& expr) {
    const Value input = evaluate(*expr.parts[0]);
    const std::vector<Value> values = evaluate_arguments(expr);
    return Value::boolean(call_test(arena_, expr.index, input, {.values = values, .keywords = expr.keywords}));
}

// a < b < c is a < b and b < c, with b evaluated once.
Value Interpreter::evaluate_compare(const Expr& expr) {
    Value left = evaluate(*expr.parts[0]);
    for (size_t i = 0; i < expr.ops.size(); ++i) {
        const Value right = evaluate(*expr.parts[i + 1]);
        line_ = expr.line;
        if (!compare(arena_, expr.ops[i], left, right)) return Value::boolean(false);
        left = right;
    }
    return Value::boolean(true);
}

Value Interpreter::evaluate_concat(const Expr& expr) {
    TextBuilder out(arena_);
    for (const ExprPtr& part : expr.parts) {
        const Value value = evaluate(*part);
        write_text(out, value);
    }
    return out.value();
}

Value Interpreter::evaluate_slice(const Expr& expr) {
    const Value object = evaluate(*expr.parts[0]);
    std::array<Value, 3> bounds;
    std::array<const Value*, 3> given{};
    for (size_t i = 0; i < 3; ++i) {
        if (expr.parts[i + 1] == nullptr) continue;
        bounds[i] = evaluate(*expr.parts[i + 1]);
        given[i] = &bounds[i];
    }
    line_ = expr.line;
    return slice(arena_, object, given[0], given[1], given[2]);
}

Value Interpreter::evaluate_condition(const Expr& expr) {
    if (is_true(evaluate(*expr.parts[1]))) return evaluate(*expr.parts[0]);
    return expr.parts[2] != nullptr ? evaluate(*expr.parts[2]) : Value::undefined({});
}

}  // namespace windlass::jinja
