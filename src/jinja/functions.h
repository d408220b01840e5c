// functions.h: what templates can call: filters, tests, methods and functions, each in a table of its own.
#pragma once

#include <array>
#include <initializer_list>
#include <span>
#include <string_view>

#include "jinja/syntax.h"

namespace windlass::jinja {

// Values that were handed over; the last of them by these names.
struct Arguments {
    std::span<const Value> values;
    std::span<const std::string_view> keywords;

    size_t unnamed() const { return values.size() - keywords.size(); }
    const Value* named(std::string_view name) const;
};

// The arguments of a function whose parameters have these names, null where one was not given. A name that starts with
// '-' cannot be used by a caller. Fault: too many, unknown, given twice, or a required one (the first ones) is missing.
using Bound = std::array<const Value*, 6>;
Bound bind(const Arguments& arguments, std::string_view function, std::initializer_list<std::string_view> names,
           size_t required = 0);

// An argument that must be of this kind.
int64_t whole_argument(const Value& value, std::string_view function);
std::string_view text_argument(const Value& value, std::string_view function);

int find_filter(std::string_view name);  // -1: none
Value call_filter(Arena& arena, int filter, const Value& input, const Arguments& arguments);

int find_test(std::string_view name);  // -1: none
bool call_test(Arena& arena, int test, const Value& input, const Arguments& arguments);

// Refuses, by UserError, variables that jinja2 gives a meaning that is not supported.
void check_variable(const Program& program, const Token& token, bool in_macro);

int find_function(std::string_view name);  // -1: none
// What strftime_now and raise_exception need.
struct CallPlace {
    int64_t now_seconds;
    int line;
};
Value call_function(Arena& arena, int function, const Arguments& arguments, const CallPlace& place);

// The method, bound to its object; nothing where Python's type has no attribute of that name. Fault: it has one that is
// not supported.
bool find_method(Arena& arena, const Value& object, std::string_view name, Value& found);
Value call_method(Arena& arena, const BoundMethod& method, const Arguments& arguments);

// str.replace; a negative count means no limit.
Value replaced(Arena& arena, std::string_view text, std::string_view old, std::string_view with, int64_t count);

// What raise_exception was called with.
struct Raised {
    std::string text;
};

}  // namespace windlass::jinja
