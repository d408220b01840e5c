// operators.h: what Python's operators and built-in functions do with values.
#pragma once

#include "jinja/syntax.h"

namespace windlass::jinja {

bool is_true(const Value& value);
bool equals(Arena& arena, const Value& left, const Value& right);
int order(Arena& arena, const Value& left, const Value& right);  // below, at or above 0; Fault for what has no order
bool contains(Arena& arena, const Value& container, const Value& value);
bool compare(Arena& arena, Op op, const Value& left, const Value& right);
Value calculate(Arena& arena, Op op, const Value& left, const Value& right);
Value negate(const Value& value);
Value plus(const Value& value);

int64_t length(Arena& arena, const Value& value);
// What a loop goes over; a cursor is used up.
std::span<const Value> iterate(Arena& arena, const Value& value);
bool is_iterable(const Value& value);
Value range_of(Arena& arena, int64_t start, int64_t stop, int64_t step);

// object.name, object[key] and object[start:stop:step].
Value attribute(Arena& arena, const Value& object, std::string_view name);
Value item(Arena& arena, const Value& object, const Value& key);
Value slice(Arena& arena, const Value& object, const Value* start, const Value* stop, const Value* step);
const Value* find_member(Arena& arena, const Mapping& mapping, const Value& key);
const Value* find_member(Arena& arena, const Space& space, std::string_view name);
void set_member(Arena& arena, Space& space, std::string_view name, const Value& value);
bool is_hashable(Arena& arena, const Value& value);
// Adds a member, or gives the one with this key another value.
void put(Arena& arena, std::vector<Member>& members, const Value& key, const Value& value);

// Where `wanted` is in the text first, or last; npos: nowhere. In linear time, whatever the texts are.
size_t find_text(Arena& arena, std::string_view text, std::string_view wanted, bool from_right = false);

// str() and repr().
void write_text(TextBuilder& out, const Value& value);
void write_repr(TextBuilder& out, const Value& value);
std::string real_text(double real);
// The text itself where a value is one, else what str() makes of it.
Value as_string(Arena& arena, const Value& value);

// json.dumps.
struct JsonStyle {
    bool is_ascii = false, is_sorted = false, is_indented = false;
    std::string indent, item_separator = ", ", key_separator = ": ";
};
void write_json(TextBuilder& out, const Value& value, const JsonStyle& style);

[[noreturn]] void refuse_operand(std::string_view what, const Value& value);

}  // namespace windlass::jinja
