// What values hold: items, members, slices, and going over them.
#include "base/utf8.h"
#include "jinja/functions.h"
#include "jinja/operators.h"
#include "jinja/python_text.h"

namespace windlass::jinja {
namespace {

constexpr int64_t kRangeMax = 100000;  // as in jinja2's sandbox

// What Python's slice.indices gives.
struct SliceRange {
    int64_t start, stop, step;
};

int64_t slice_bound(const Value* bound, int64_t missing) {
    if (bound == nullptr || bound->kind == Kind::none) return missing;
    if (!bound->is_whole()) refuse_operand("a bound of a slice", *bound);
    return bound->as_whole();
}

SliceRange slice_range(int64_t size, const Value* start, const Value* stop, const Value* step) {
    const int64_t by = slice_bound(step, 1);
    if (by == 0) throw Fault{"the step of a slice is 0"};
    const int64_t low = by < 0 ? -1 : 0, high = by < 0 ? size - 1 : size;
    const auto bounded = [&](int64_t at) {
        return std::clamp(at < 0 ? std::max(at, -size - 1) + size : at, low, high);
    };
    const bool has_start = start != nullptr && start->kind != Kind::none;
    const bool has_stop = stop != nullptr && stop->kind != Kind::none;
    return {.start = has_start ? bounded(slice_bound(start, 0))
                     : by < 0  ? high
                               : low,
            .stop = has_stop ? bounded(slice_bound(stop, 0))
                    : by < 0 ? low
                             : high,
            .step = by};
}

template <typename Function>
void each_index(const SliceRange& range, Function function) {
    for (int64_t i = range.start; range.step > 0 ? i < range.stop : i > range.stop;) {
        function(static_cast<size_t>(i));
        if (__builtin_add_overflow(i, range.step, &i)) break;
    }
}

// The byte at which the code point of this index begins; the text's end for one after the last.
size_t offset_of(std::string_view text, int64_t index) {
    size_t at = 0;
    for (int64_t i = 0; i < index && at < text.size(); ++i) at += first_code_point(text.substr(at)).bytes;
    return at;
}

Value slice_text(Arena& arena, std::string_view text, const Value* start, const Value* stop, const Value* step) {
    arena.work(text.size());
    const SliceRange range = slice_range(static_cast<int64_t>(count_points(text)), start, stop, step);
    if (range.step == 1) {
        if (range.start >= range.stop) return Value::string({});
        const size_t from = offset_of(text, range.start);
        return Value::string(text.substr(from, offset_of(text.substr(from), range.stop - range.start)));
    }
    const std::vector<size_t> offsets = point_offsets(arena, text);
    TextBuilder out(arena);
    each_index(range, [&](size_t i) { out.add(text.substr(offsets[i], offsets[i + 1] - offsets[i])); });
    return out.value();
}

Value index_text(Arena& arena, std::string_view text, int64_t index) {
    arena.work(text.size());
    const auto size = static_cast<int64_t>(count_points(text));
    if (index < -size || index >= size) return Value::undefined({});
    const size_t at = offset_of(text, index < 0 ? index + size : index);
    return Value::string(text.substr(at, first_code_point(text.substr(at)).bytes));
}

// object[key], where Python finds something.
bool find_item(Arena& arena, const Value& object, const Value& key, Value& found) {
    if (object.kind == Kind::dict) {
        if (!is_hashable(arena, key)) return false;
        const Value* const value = find_member(arena, *object.mapping, key);
        if (value != nullptr) found = *value;
        return value != nullptr;
    }
    if (!key.is_whole()) return false;
    const int64_t index = key.as_whole();
    if (object.kind == Kind::string) {
        found = index_text(arena, object.text, index);
        found.is_safe = object.is_safe;
        return found.kind != Kind::undefined;
    }
    if (!object.is_sequence()) return false;
    const auto size = static_cast<int64_t>(object.sequence->size);
    if (index < -size || index >= size) return false;
    found = object.sequence->items[index < 0 ? index + size : index];
    return true;
}

bool find_loop_attribute(Arena& arena, const LoopState& loop, std::string_view name, Value& found) {
    const auto size = static_cast<int64_t>(loop.size), index = static_cast<int64_t>(loop.index);
    if (name == "index")
        found = Value::integer(index + 1);
    else if (name == "index0")
        found = Value::integer(index);
    else if (name == "revindex")
        found = Value::integer(size - index);
    else if (name == "revindex0")
        found = Value::integer(size - index - 1);
    else if (name == "first")
        found = Value::boolean(index == 0);
    else if (name == "last")
        found = Value::boolean(index + 1 == size);
    else if (name == "length")
        found = Value::integer(size);
    else if (name == "depth")
        found = Value::integer(1);
    else if (name == "depth0")
        found = Value::integer(0);
    else if (name == "previtem")
        found = index > 0 ? loop.items[index - 1] : Value::undefined("loop.previtem");
    else if (name == "nextitem")
        found = index + 1 < size ? loop.items[index + 1] : Value::undefined("loop.nextitem");
    else {
        Value object;
        object.kind = Kind::loop;
        object.loop = const_cast<LoopState*>(&loop);
        return find_method(arena, object, name, found);
    }
    return true;
}

bool find_attribute(Arena& arena, const Value& object, std::string_view name, Value& found) {
    if (name.starts_with("__")) throw Fault{fmt::format("the attribute \"{}\" is not supported", name)};
    if (object.kind == Kind::loop) return find_loop_attribute(arena, *object.loop, name, found);
    if (object.kind != Kind::space) return find_method(arena, object, name, found);
    const Value* const value = find_member(arena, *object.space, name);
    if (value != nullptr) found = *value;
    return value != nullptr;
}

}  // namespace

bool is_hashable(Arena& arena, const Value& value) {
    arena.work(1);
    if (value.kind == Kind::list || value.kind == Kind::dict || value.kind == Kind::view) return false;
    if (value.kind != Kind::tuple) return true;
    for (const Value& item : value.sequence->all())
        if (!is_hashable(arena, item)) return false;
    return true;
}

const Value* find_member(Arena& arena, const Mapping& mapping, const Value& key) {
    for (const Member& member : mapping.all())
        if (equals(arena, member.key, key)) return &member.value;
    return nullptr;
}

const Value* find_member(Arena& arena, const Space& space, std::string_view name) {
    arena.work(space.size);
    for (size_t i = 0; i < space.size; ++i)
        if (space.members[i].key.text == name) return &space.members[i].value;
    return nullptr;
}

void set_member(Arena& arena, Space& space, std::string_view name, const Value& value) {
    if (name.starts_with('_')) throw Fault{fmt::format("a namespace cannot have the member \"{}\"", name)};
    if (const Value* const present = find_member(arena, space, name)) {
        *const_cast<Value*>(present) = value;
        return;
    }
    if (space.size == space.capacity) {
        const size_t capacity = std::max<size_t>(8, space.capacity * 2);
        Member* const members = arena.make<Member>(capacity);
        std::copy(space.members, space.members + space.size, members);
        space.members = members;
        space.capacity = capacity;
    }
    space.members[space.size++] = {Value::string(name), value};
}

void put(Arena& arena, std::vector<Member>& members, const Value& key, const Value& value) {
    if (!is_hashable(arena, key)) refuse_operand("a key of a dict", key);
    for (Member& member : members)
        if (equals(arena, member.key, key)) {
            member.value = value;
            return;
        }
    arena.memory(sizeof(Member));
    members.push_back({key, value});
}

int64_t length(Arena& arena, const Value& value) {
    switch (value.kind) {
        case Kind::undefined:
            return 0;
        case Kind::string:
            arena.work(value.text.size());
            return static_cast<int64_t>(count_points(value.text));
        case Kind::list:
        case Kind::tuple:
        case Kind::range:
        case Kind::view:
            return static_cast<int64_t>(value.sequence->size);
        case Kind::dict:
            return static_cast<int64_t>(value.mapping->size);
        case Kind::loop:
            return static_cast<int64_t>(value.loop->size);
        default:
            refuse_operand("length", value);
    }
}

bool is_iterable(const Value& value) {
    switch (value.kind) {
        case Kind::none:
        case Kind::boolean:
        case Kind::integer:
        case Kind::digits:
        case Kind::real:
        case Kind::space:
        case Kind::macro:
        case Kind::function:
        case Kind::method:
            return false;
        default:
            return true;
    }
}

std::span<const Value> iterate(Arena& arena, const Value& value) {
    switch (value.kind) {
        case Kind::undefined:
            return {};
        case Kind::list:
        case Kind::tuple:
        case Kind::range:
        case Kind::view:
            return value.sequence->all();
        case Kind::cursor: {
            const size_t next = std::exchange(value.cursor->next, value.cursor->size);
            return {value.cursor->items + next, value.cursor->size - next};
        }
        case Kind::dict: {
            Value* const keys = arena.make<Value>(value.mapping->size);
            for (size_t i = 0; i < value.mapping->size; ++i) keys[i] = value.mapping->members[i].key;
            return {keys, value.mapping->size};
        }
        case Kind::string: {
            const size_t count = count_points(value.text);
            Value* const points = arena.make<Value>(count);
            arena.work(value.text.size());
            for (size_t at = 0, i = 0; at < value.text.size(); ++i) {
                const size_t bytes = first_code_point(value.text.substr(at)).bytes;
                points[i] = Value::string(value.text.substr(at, bytes));
                at += bytes;
            }
            return {points, count};
        }
        default:
            refuse_operand("going over the items", value);
    }
}

Value range_of(Arena& arena, int64_t start, int64_t stop, int64_t step) {
    if (step == 0) throw Fault{"the step of a range is 0"};
    const __int128 gap = step > 0 ? static_cast<__int128>(stop) - start : static_cast<__int128>(start) - stop;
    const __int128 size = step > 0 ? step : -static_cast<__int128>(step);
    const __int128 count = gap > 0 ? (gap + size - 1) / size : 0;
    if (count > kRangeMax) throw Fault{fmt::format("a range has more than {} numbers", kRangeMax)};
    ListBuilder items(arena);
    for (int64_t i = 0; i < count; ++i) items.push(Value::integer(start + i * step));
    const std::string name =
        step == 1 ? fmt::format("range({}, {})", start, stop) : fmt::format("range({}, {}, {})", start, stop, step);
    return arena.sequence(Kind::range, items.items(), arena.keep(name));
}

Value attribute(Arena& arena, const Value& object, std::string_view name) {
    if (object.kind == Kind::undefined) refuse_operand(fmt::format("the attribute \"{}\"", name), object);
    Value found;
    if (find_attribute(arena, object, name, found)) return found;
    if (object.kind == Kind::dict && find_item(arena, object, Value::string(name), found)) return found;
    return Value::undefined(name);
}

Value item(Arena& arena, const Value& object, const Value& key) {
    if (object.kind == Kind::undefined) refuse_operand("an item", object);
    Value found;
    if (find_item(arena, object, key, found)) return found;
    if (key.kind != Kind::string) return Value::undefined({});
    return find_attribute(arena, object, key.text, found) ? found : Value::undefined(key.text);
}

Value slice(Arena& arena, const Value& object, const Value* start, const Value* stop, const Value* step) {
    if (object.kind == Kind::string) {
        Value result = slice_text(arena, object.text, start, stop, step);
        result.is_safe = object.is_safe;
        return result;
    }
    if (!object.is_sequence()) refuse_operand("a slice", object);
    const SliceRange range = slice_range(static_cast<int64_t>(object.sequence->size), start, stop, step);
    ListBuilder items(arena);
    each_index(range, [&](size_t i) { items.push(object.sequence->items[i]); });
    return arena.sequence(object.kind, items.items());
}

}  // namespace windlass::jinja
