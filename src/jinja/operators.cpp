#include "jinja/operators.h"

#include <cmath>

#include "base/utf8.h"
#include "jinja/python_text.h"

namespace windlass::jinja {
namespace {

// long double holds every int64_t and every double, so numbers of both kinds compare exactly.
static_assert(std::numeric_limits<long double>::digits >= 64);
long double exact(const Value& value) {
    return value.kind == Kind::real ? static_cast<long double>(value.real) : static_cast<long double>(value.as_whole());
}

int64_t fits(__int128 whole) {
    if (whole < INT64_MIN || whole > INT64_MAX) throw Fault{"a whole number does not fit into 64 bits"};
    return static_cast<int64_t>(whole);
}

bool equal_items(Arena& arena, std::span<const Value> left, std::span<const Value> right) {
    if (left.size() != right.size()) return false;
    for (size_t i = 0; i < left.size(); ++i)
        if (!equals(arena, left[i], right[i])) return false;
    return true;
}

bool equal_dicts(Arena& arena, const Mapping& left, const Mapping& right) {
    if (left.size != right.size) return false;
    for (const Member& member : left.all()) {
        const Value* const other = find_member(arena, right, member.key);
        if (other == nullptr || !equals(arena, member.value, *other)) return false;
    }
    return true;
}

double real_power(double base, double exponent) {
    if (base == 0 && exponent < 0) throw Fault{"0 cannot be raised to a negative power"};
    if (base < 0 && exponent != std::floor(exponent)) throw Fault{"complex numbers are not supported"};
    const double power = std::pow(base, exponent);
    if (std::isinf(power) && !std::isinf(base) && !std::isinf(exponent)) throw Fault{"the power is too large"};
    return power;
}

Value power(const Value& left, const Value& right) {
    if (!left.is_whole() || !right.is_whole() || right.as_whole() < 0)
        return Value::floating(real_power(left.as_real(), right.as_real()));
    int64_t result = 1;
    const int64_t base = left.as_whole(), exponent = right.as_whole();
    if (base == 1 || base == 0 || base == -1)
        return Value::integer(exponent == 0 || base == 1 || (base == -1 && exponent % 2 == 0) ? 1 : base);
    for (int64_t i = 0; i < exponent; ++i) result = fits(static_cast<__int128>(result) * base);
    return Value::integer(result);
}

Value whole_division(Op op, int64_t left, int64_t right) {
    if (right == 0) throw Fault{"division by zero"};
    if (op == Op::div) {
        constexpr int64_t kExact = int64_t{1} << 53;  // up to here a double holds every whole number
        if (left > kExact || left < -kExact || right > kExact || right < -kExact)
            throw Fault{"dividing whole numbers beyond 2^53 is not supported"};
        return Value::floating(static_cast<double>(left) / static_cast<double>(right));
    }
    const __int128 wide = left;
    const bool rounds_down = wide % right != 0 && (left < 0) != (right < 0);
    if (op == Op::floor_div) return Value::integer(fits(wide / right - rounds_down));
    return Value::integer(fits(wide % right + (rounds_down ? right : 0)));
}

Value real_division(Op op, double left, double right) {
    if (right == 0) throw Fault{"division by zero"};
    if (op == Op::div) return Value::floating(left / right);
    // As CPython: the remainder has the sign of the divisor, and the quotient follows from it.
    double rest = std::fmod(left, right);
    double quotient = (left - rest) / right;
    if (rest != 0 && (right < 0) != (rest < 0)) {
        rest += right;
        quotient -= 1;
    }
    if (rest == 0) rest = std::copysign(0.0, right);
    if (op == Op::mod) return Value::floating(rest);
    if (quotient == 0) return Value::floating(std::copysign(0.0, left / right));
    const double floor = std::floor(quotient);
    return Value::floating(quotient - floor > 0.5 ? floor + 1 : floor);
}

Value arithmetic(Op op, const Value& left, const Value& right) {
    if (op == Op::pow) return power(left, right);
    const bool is_whole = left.is_whole() && right.is_whole();
    if (op == Op::div || op == Op::floor_div || op == Op::mod)
        return is_whole ? whole_division(op, left.as_whole(), right.as_whole())
                        : real_division(op, left.as_real(), right.as_real());
    if (is_whole) {
        const __int128 a = left.as_whole(), b = right.as_whole();
        return Value::integer(fits(op == Op::add ? a + b : op == Op::sub ? a - b : a * b));
    }
    const double a = left.as_real(), b = right.as_real();
    return Value::floating(op == Op::add ? a + b : op == Op::sub ? a - b : a * b);
}

// The items, `count` times. All of them are counted before any is copied.
template <typename T, typename Copies = std::conditional_t<std::is_same_v<T, char>, std::string_view, std::span<T>>>
Copies repeated_items(Arena& arena, std::span<const T> items, int64_t count) {
    if (count <= 0 || items.empty()) return {};
    const auto times = static_cast<size_t>(count);
    const size_t total = times > SIZE_MAX / items.size() ? SIZE_MAX : times * items.size();
    T* const made = arena.make<T>(total);
    arena.work(total);
    for (size_t i = 0; i < times; ++i) std::copy(items.begin(), items.end(), made + i * items.size());
    return {made, total};
}

Value repeated(Arena& arena, const Value& value, int64_t count) {
    if (value.kind == Kind::string) {
        Value result = Value::string(repeated_items(arena, std::span<const char>(value.text), count));
        result.is_safe = value.is_safe;
        return result;
    }
    return arena.sequence(value.kind, repeated_items(arena, value.sequence->all(), count));
}

bool repeats(const Value& value) {
    return value.kind == Kind::string || value.kind == Kind::list || value.kind == Kind::tuple;
}

Value joined(Arena& arena, const Value& left, const Value& right) {
    if (left.kind == Kind::string) {
        if (left.is_safe || right.is_safe)
            throw Fault{"adding to what the filter \"safe\" made is not supported: it escapes HTML"};
        arena.work(left.text.size() + right.text.size());
        char* const text = arena.make<char>(left.text.size() + right.text.size());
        std::copy(left.text.begin(), left.text.end(), text);
        std::copy(right.text.begin(), right.text.end(), text + left.text.size());
        return Value::string({text, left.text.size() + right.text.size()});
    }
    ListBuilder items(arena);
    for (const Value& item : left.sequence->all()) items.push(item);
    for (const Value& item : right.sequence->all()) items.push(item);
    return arena.sequence(left.kind, items.items());
}

std::string_view op_text(Op op) {
    static constexpr std::string_view kTexts[] = {
        "+", "-", "*", "/", "//", "%", "**", "==", "!=", "<", "<=", ">", ">=", "in", "not in"};
    return kTexts[static_cast<size_t>(op)];
}

}  // namespace

void refuse_operand(std::string_view what, const Value& value) {
    if (value.kind == Kind::undefined) {
        if (value.text.empty()) throw Fault{fmt::format("{}: the value is undefined", what)};
        throw Fault{fmt::format("{}: \"{}\" is undefined", what, value.text)};
    }
    throw Fault{fmt::format("{}: a value of type {} does not go with that", what, kind_name(value.kind))};
}

bool is_true(const Value& value) {
    switch (value.kind) {
        case Kind::undefined:
        case Kind::none:
            return false;
        case Kind::boolean:
            return value.truth;
        case Kind::integer:
            return value.whole != 0;
        case Kind::real:
            return value.real != 0;
        case Kind::string:
            return !value.text.empty();
        case Kind::list:
        case Kind::tuple:
        case Kind::range:
        case Kind::view:
            return value.sequence->size > 0;
        case Kind::dict:
            return value.mapping->size > 0;
        case Kind::loop:
            return value.loop->size > 0;
        default:
            return true;
    }
}

bool equals(Arena& arena, const Value& left, const Value& right) {
    arena.work(1);
    if (left.is_number() && right.is_number()) return exact(left) == exact(right);
    if (left.kind != right.kind) return false;
    switch (left.kind) {
        case Kind::undefined:
        case Kind::none:
            return true;
        case Kind::digits:
        case Kind::string:
            arena.work(std::min(left.text.size(), right.text.size()));
            return left.text == right.text;
        case Kind::list:
        case Kind::tuple:
        case Kind::range:
            return equal_items(arena, left.sequence->all(), right.sequence->all());
        case Kind::dict:
            return equal_dicts(arena, *left.mapping, *right.mapping);
        case Kind::view:
            throw Fault{"comparing views of a dict is not supported"};
        case Kind::function:
            return left.function == right.function;
        default:
            return left.cursor == right.cursor;  // the same object
    }
}

int order(Arena& arena, const Value& left, const Value& right) {
    arena.work(1);
    if (left.is_number() && right.is_number()) return exact(left) < exact(right) ? -1 : exact(left) > exact(right);
    if (left.kind == Kind::string && right.kind == Kind::string) {
        arena.work(std::min(left.text.size(), right.text.size()));
        return left.text.compare(right.text);  // bytes of UTF-8 are in the order of code points
    }
    if (left.kind != right.kind || (left.kind != Kind::list && left.kind != Kind::tuple))
        refuse_operand("comparison", left.kind == Kind::undefined || left.kind == Kind::none ? left : right);
    const std::span<const Value> a = left.sequence->all(), b = right.sequence->all();
    for (size_t i = 0; i < std::min(a.size(), b.size()); ++i)
        if (!equals(arena, a[i], b[i])) return order(arena, a[i], b[i]);
    return a.size() < b.size() ? -1 : a.size() > b.size();
}

bool contains(Arena& arena, const Value& container, const Value& value) {
    switch (container.kind) {
        case Kind::undefined:
            return false;
        case Kind::string:
            if (value.kind != Kind::string) refuse_operand("\"in\" a string", value);
            return find_text(arena, container.text, value.text) != std::string_view::npos;
        case Kind::list:
        case Kind::tuple:
        case Kind::range:
        case Kind::view:
            for (const Value& item : container.sequence->all())
                if (equals(arena, item, value)) return true;
            return false;
        case Kind::dict:
            if (!is_hashable(arena, value)) refuse_operand("\"in\" a dict", value);
            return find_member(arena, *container.mapping, value) != nullptr;
        case Kind::cursor:
            while (container.cursor->next < container.cursor->size)
                if (equals(arena, container.cursor->items[container.cursor->next++], value)) return true;
            return false;
        default:
            refuse_operand("\"in\"", container);
    }
}

bool compare(Arena& arena, Op op, const Value& left, const Value& right) {
    const bool has_nan =
        (left.kind == Kind::real && std::isnan(left.real)) || (right.kind == Kind::real && std::isnan(right.real));
    switch (op) {
        case Op::eq:
            return equals(arena, left, right);
        case Op::ne:
            return !equals(arena, left, right);
        case Op::in:
            return contains(arena, right, left);
        case Op::not_in:
            return !contains(arena, right, left);
        default:
            break;
    }
    if (left.kind == Kind::undefined) refuse_operand("comparison", left);
    const int sign = order(arena, left, right);
    if (has_nan) return false;
    return op == Op::lt ? sign < 0 : op == Op::le ? sign <= 0 : op == Op::gt ? sign > 0 : sign >= 0;
}

Value calculate(Arena& arena, Op op, const Value& left, const Value& right) {
    if (left.is_number() && right.is_number()) return arithmetic(op, left, right);
    if (op == Op::add && left.kind == right.kind && repeats(left)) return joined(arena, left, right);
    if (op == Op::mul && repeats(left) && right.is_whole()) return repeated(arena, left, right.as_whole());
    if (op == Op::mul && repeats(right) && left.is_whole()) return repeated(arena, right, left.as_whole());
    if (op == Op::mod && left.kind == Kind::string) throw Fault{"formatting with % is not supported"};
    if (left.kind == Kind::undefined || right.kind == Kind::undefined)
        refuse_operand(fmt::format("\"{}\"", op_text(op)), left.kind == Kind::undefined ? left : right);
    throw Fault{fmt::format("\"{}\" does not go with values of type {} and {}", op_text(op), kind_name(left.kind),
                            kind_name(right.kind))};
}

Value negate(const Value& value) {
    if (!value.is_number()) refuse_operand("\"-\"", value);
    if (value.kind == Kind::real) return Value::floating(-value.real);
    return Value::integer(fits(-static_cast<__int128>(value.as_whole())));
}

Value plus(const Value& value) {
    if (!value.is_number()) refuse_operand("\"+\"", value);
    return value.kind == Kind::real ? value : Value::integer(value.as_whole());
}

}  // namespace windlass::jinja
