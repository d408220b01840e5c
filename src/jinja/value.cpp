#include "jinja/value.h"

#include <algorithm>
#include <cstring>

#include "base/json.h"

namespace windlass::jinja {
namespace {

constexpr size_t kChunkBytes = size_t{1} << 14;

// Printing, comparing and writing JSON recurse on values. Files nest no deeper than 64 (base/json.cpp).
constexpr int kValueDepthMax = 100;

int depth_of(const Value& value) {
    if (value.is_sequence() || value.kind == Kind::view) return value.sequence->depth;
    return value.kind == Kind::dict ? value.mapping->depth : 0;
}

int deeper(int depth) {
    if (depth >= kValueDepthMax) throw Fault{fmt::format("a value is nested deeper than {} levels", kValueDepthMax)};
    return depth + 1;
}

}  // namespace

Value Value::none() {
    Value value;
    value.kind = Kind::none;
    return value;
}

Value Value::boolean(bool truth) {
    Value value;
    value.kind = Kind::boolean;
    value.truth = truth;
    return value;
}

Value Value::integer(int64_t whole) {
    Value value;
    value.kind = Kind::integer;
    value.whole = whole;
    return value;
}

Value Value::digits(std::string_view text) {
    Value value;
    value.kind = Kind::digits;
    value.text = text;
    return value;
}

Value Value::floating(double real) {
    Value value;
    value.kind = Kind::real;
    value.real = real;
    return value;
}

Value Value::string(std::string_view text) {
    Value value;
    value.kind = Kind::string;
    value.text = text;
    return value;
}

Value Value::undefined(std::string_view name) {
    Value value;
    value.text = name;
    return value;
}

std::string_view Arena::keep(std::string_view text) {
    if (text.empty()) return {};
    char* const copy = static_cast<char*>(allocate(text.size(), 1));
    std::memcpy(copy, text.data(), text.size());
    work(text.size());
    return {copy, text.size()};
}

Value Arena::sequence(Kind kind, std::span<const Value> items, std::string_view name) {
    Value* const copies = make<Value>(items.size());
    std::copy(items.begin(), items.end(), copies);
    work(items.size());
    int depth = 0;
    for (const Value& item : items) depth = std::max(depth, depth_of(item));
    Sequence* const sequence = make<Sequence>();
    *sequence = {.items = copies, .size = items.size(), .depth = deeper(depth), .name = name};
    Value value;
    value.kind = kind;
    value.sequence = sequence;
    return value;
}

Value Arena::cursor(std::span<const Value> items) {
    Value* const copies = make<Value>(items.size());
    std::copy(items.begin(), items.end(), copies);
    Value value;
    value.kind = Kind::cursor;
    value.cursor = make<Cursor>();
    *value.cursor = {.items = copies, .size = items.size()};
    return value;
}

Value Arena::dict(std::span<const Member> members) {
    Member* const copies = make<Member>(members.size());
    std::copy(members.begin(), members.end(), copies);
    work(members.size());
    int depth = 0;
    for (const Member& member : members) depth = std::max({depth, depth_of(member.key), depth_of(member.value)});
    Mapping* const mapping = make<Mapping>();
    *mapping = {.members = copies, .size = members.size(), .depth = deeper(depth)};
    Value value;
    value.kind = Kind::dict;
    value.mapping = mapping;
    return value;
}

void* Arena::allocate(size_t bytes, size_t alignment) {
    memory(bytes);
    size_t gap = (alignment - reinterpret_cast<uintptr_t>(free_) % alignment) % alignment;
    if (gap + bytes > free_bytes_) {
        const size_t chunk_bytes = std::max(kChunkBytes, bytes);
        // Memory of new[] suits every type, and a value is never larger than its chunk.
        chunks_.push_back(std::make_unique_for_overwrite<std::byte[]>(chunk_bytes));
        free_ = chunks_.back().get();
        free_bytes_ = chunk_bytes;
        gap = 0;
    }
    std::byte* const found = free_ + gap;
    free_ += gap + bytes;
    free_bytes_ -= gap + bytes;
    return found;
}

void Arena::refuse_work() const {
    throw Fault{.message = fmt::format("it does more than {} units of work", limits_.work), .is_bound = true};
}

void Arena::refuse_memory() const {
    throw Fault{.message = fmt::format("it makes more than {} bytes of values", limits_.memory_bytes),
                .is_bound = true};
}

std::string_view kind_name(Kind kind) {
    switch (kind) {
        case Kind::undefined:
            return "Undefined";
        case Kind::none:
            return "NoneType";
        case Kind::boolean:
            return "bool";
        case Kind::integer:
        case Kind::digits:
            return "int";
        case Kind::real:
            return "float";
        case Kind::string:
            return "str";
        case Kind::list:
            return "list";
        case Kind::tuple:
            return "tuple";
        case Kind::range:
            return "range";
        case Kind::dict:
            return "dict";
        case Kind::view:
            return "dict view";
        case Kind::cursor:
            return "generator";
        case Kind::space:
            return "Namespace";
        case Kind::loop:
            return "LoopContext";
        case Kind::macro:
            return "Macro";
        case Kind::function:
            return "function";
        case Kind::method:
            return "method";
    }
    return "value";
}

Value value_of_json(Arena& arena, const Json& json) {
    arena.work(1);
    switch (json.type()) {
        case Json::value_t::boolean:
            return Value::boolean(json.get<bool>());
        case Json::value_t::number_integer:
        case Json::value_t::number_unsigned: {
            const std::optional<int64_t> whole = integer_of(json);
            return whole ? Value::integer(*whole) : Value::digits(arena.keep(json.dump()));
        }
        case Json::value_t::number_float:
            return Value::floating(json.get<double>());
        case Json::value_t::string:
            return Value::string(json.get_ref<const std::string&>());
        case Json::value_t::array: {
            ListBuilder items(arena);
            for (const Json& item : json) items.push(value_of_json(arena, item));
            return arena.list(items.items());
        }
        case Json::value_t::object: {
            std::vector<Member> members;
            arena.memory(json.size() * sizeof(Member));
            for (const auto& [key, value] : json.get_ref<const Json::object_t&>())
                members.push_back({Value::string(key), value_of_json(arena, value)});
            return arena.dict(members);
        }
        case Json::value_t::binary:
            return Value::digits(arena.keep(digits_of(json).value_or("0")));
        default:
            return Value::none();
    }
}

}  // namespace windlass::jinja
