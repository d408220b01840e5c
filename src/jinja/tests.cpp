// Tests: {{ value is name(arguments) }}.
#include <algorithm>

#include "jinja/functions.h"
#include "jinja/operators.h"
#include "jinja/python_text.h"

namespace windlass::jinja {
namespace {

using TestCall = bool (*)(Arena&, const Value& input, const Value* argument);

template <Kind kind>
bool is_kind(Arena&, const Value& input, const Value*) {
    return input.kind == kind;
}
bool is_defined(Arena&, const Value& input, const Value*) {
    return input.kind != Kind::undefined;
}
bool is_the_truth(Arena&, const Value& input, const Value*) {
    return input.kind == Kind::boolean && input.truth;
}
bool is_the_falsehood(Arena&, const Value& input, const Value*) {
    return input.kind == Kind::boolean && !input.truth;
}
bool is_a_number(Arena&, const Value& input, const Value*) {
    return input.is_number() || input.kind == Kind::digits;
}
bool is_an_integer(Arena&, const Value& input, const Value*) {
    return input.kind == Kind::integer || input.kind == Kind::digits;
}
bool can_iterate(Arena&, const Value& input, const Value*) {
    return is_iterable(input);
}
// What has a length and can be indexed, in Python's eyes.
bool has_items(Arena&, const Value& input, const Value*) {
    return input.is_sequence() || input.kind == Kind::string || input.kind == Kind::dict ||
           input.kind == Kind::undefined;
}
bool can_call(Arena&, const Value& input, const Value*) {
    return input.kind == Kind::macro || input.kind == Kind::function || input.kind == Kind::method ||
           input.kind == Kind::undefined || input.kind == Kind::loop;
}
bool is_lower(Arena& arena, const Value& input, const Value*) {
    return has_only_lower(as_string(arena, input).text);
}
bool is_upper(Arena& arena, const Value& input, const Value*) {
    return has_only_upper(as_string(arena, input).text);
}

bool divides(Arena& arena, const Value& input, const Value& by, int64_t rest) {
    return equals(arena, calculate(arena, Op::mod, input, by), Value::integer(rest));
}
bool is_odd(Arena& arena, const Value& input, const Value*) {
    return divides(arena, input, Value::integer(2), 1);
}
bool is_even(Arena& arena, const Value& input, const Value*) {
    return divides(arena, input, Value::integer(2), 0);
}
bool is_divisible(Arena& arena, const Value& input, const Value* by) {
    return divides(arena, input, *by, 0);
}

template <Op op>
bool compares(Arena& arena, const Value& input, const Value* other) {
    return compare(arena, op, input, *other);
}

// The same object: for what Python has one object of.
bool is_same(Arena&, const Value& input, const Value* other) {
    const Kind kind = other->kind;
    if (kind == Kind::none) return input.kind == kind;
    if (kind == Kind::boolean) return input.kind == kind && input.truth == other->truth;
    throw Fault{"\"is sameas\" is supported with true, false and none"};
}

struct Test {
    std::string_view name;
    TestCall call;
    bool has_argument = false;
};

constexpr Test kTests[] = {
    {"boolean", is_kind<Kind::boolean>},
    {"callable", can_call},
    {"defined", is_defined},
    {"divisibleby", is_divisible, true},
    {"even", is_even},
    {"false", is_the_falsehood},
    {"float", is_kind<Kind::real>},
    {"integer", is_an_integer},
    {"iterable", can_iterate},
    {"lower", is_lower},
    {"mapping", is_kind<Kind::dict>},
    {"none", is_kind<Kind::none>},
    {"number", is_a_number},
    {"odd", is_odd},
    {"sameas", is_same, true},
    {"sequence", has_items},
    {"string", is_kind<Kind::string>},
    {"true", is_the_truth},
    {"undefined", is_kind<Kind::undefined>},
    {"upper", is_upper},
    {"in", compares<Op::in>, true},
    {"==", compares<Op::eq>, true},
    {"eq", compares<Op::eq>, true},
    {"equalto", compares<Op::eq>, true},
    {"!=", compares<Op::ne>, true},
    {"ne", compares<Op::ne>, true},
    {">", compares<Op::gt>, true},
    {"gt", compares<Op::gt>, true},
    {"greaterthan", compares<Op::gt>, true},
    {">=", compares<Op::ge>, true},
    {"ge", compares<Op::ge>, true},
    {"<", compares<Op::lt>, true},
    {"lt", compares<Op::lt>, true},
    {"lessthan", compares<Op::lt>, true},
    {"<=", compares<Op::le>, true},
    {"le", compares<Op::le>, true},
};

}  // namespace

int find_test(std::string_view name) {
    const auto found =
        std::find_if(std::begin(kTests), std::end(kTests), [&](const Test& test) { return test.name == name; });
    return found == std::end(kTests) ? -1 : static_cast<int>(found - std::begin(kTests));
}

bool call_test(Arena& arena, int test, const Value& input, const Arguments& arguments) {
    const Test& called = kTests[test];
    const std::string what = fmt::format("the test \"is {}\"", called.name);
    const Bound bound = called.has_argument ? bind(arguments, what, {"-other"}, 1) : bind(arguments, what, {});
    return called.call(arena, input, bound[0]);
}

}  // namespace windlass::jinja
