// Filters: {{ value | name(arguments) }}.
#include <charconv>
#include <cmath>

#include "jinja/functions.h"
#include "jinja/operators.h"
#include "jinja/python_text.h"

namespace windlass::jinja {
namespace {

using FilterCall = Value (*)(Arena&, const Value& input, const Arguments&, std::string_view name);

Value filter_trim(Arena& arena, const Value& input, const Arguments& arguments, std::string_view name) {
    const Bound bound = bind(arguments, name, {"chars"});
    Value result = as_string(arena, input);
    arena.work(result.text.size());
    if (bound[0] == nullptr || bound[0]->kind == Kind::none) {
        result.text = strip_right(strip_left(result.text));
    } else {
        const std::string_view set = text_argument(*bound[0], name);
        result.text = strip_right(arena, strip_left(arena, result.text, set), set);
    }
    return result;
}

Value filter_change_case(Arena& arena, const Value& input, const Arguments& arguments, std::string_view name) {
    bind(arguments, name, {});
    const Value text = as_string(arena, input);
    Value result = name == "upper"   ? to_upper(arena, text.text)
                   : name == "lower" ? to_lower(arena, text.text)
                                     : to_capitalized(arena, text.text);
    result.is_safe = text.is_safe;
    return result;
}

Value filter_replace(Arena& arena, const Value& input, const Arguments& arguments, std::string_view name) {
    const Bound bound = bind(arguments, name, {"old", "new", "count"}, 2);
    const bool has_count = bound[2] != nullptr && bound[2]->kind != Kind::none;
    return replaced(arena, as_string(arena, input).text, as_string(arena, *bound[0]).text,
                    as_string(arena, *bound[1]).text, has_count ? whole_argument(*bound[2], name) : -1);
}

Value filter_string(Arena& arena, const Value& input, const Arguments& arguments, std::string_view name) {
    bind(arguments, name, {});
    return as_string(arena, input);
}

Value filter_safe(Arena& arena, const Value& input, const Arguments& arguments, std::string_view name) {
    bind(arguments, name, {});
    Value result = as_string(arena, input);
    result.is_safe = true;
    return result;
}

Value filter_length_of(Arena& arena, const Value& input, const Arguments& arguments, std::string_view name) {
    bind(arguments, name, {});
    return Value::integer(length(arena, input));
}

Value filter_or_default(Arena&, const Value& input, const Arguments& arguments, std::string_view name) {
    const Bound bound = bind(arguments, name, {"default_value", "boolean"});
    const bool is_missing =
        input.kind == Kind::undefined || (bound[1] != nullptr && is_true(*bound[1]) && !is_true(input));
    if (!is_missing) return input;
    return bound[0] != nullptr ? *bound[0] : Value::string({});
}

Value filter_items(Arena& arena, const Value& input, const Arguments& arguments, std::string_view name) {
    bind(arguments, name, {});
    if (input.kind == Kind::undefined) return arena.cursor({});
    if (input.kind != Kind::dict) refuse_operand("items", input);
    ListBuilder pairs(arena);
    for (const Member& member : input.mapping->all()) {
        const Value pair[] = {member.key, member.value};
        pairs.push(arena.tuple(pair));
    }
    return arena.cursor(pairs.items());
}

Value filter_dict_sort(Arena& arena, const Value& input, const Arguments& arguments, std::string_view name) {
    const Bound bound = bind(arguments, name, {"case_sensitive", "by", "reverse"});
    if (input.kind != Kind::dict) refuse_operand(name, input);
    const bool keeps_case = bound[0] != nullptr && is_true(*bound[0]),
               is_reverse = bound[2] != nullptr && is_true(*bound[2]);
    const std::string_view by = bound[1] == nullptr ? "key" : text_argument(*bound[1], name);
    if (by != "key" && by != "value") throw Fault{"dictsort: sorts by \"key\" or \"value\""};
    struct Entry {
        Value key;
        const Member* member;
    };
    std::vector<Entry> entries;
    arena.memory(input.mapping->size * sizeof(Entry));
    for (const Member& member : input.mapping->all()) {
        const Value& key = by == "key" ? member.key : member.value;
        entries.push_back({key.kind == Kind::string && !keeps_case ? to_lower(arena, key.text) : key, &member});
    }
    // Equal entries stay in order, in either direction.
    std::stable_sort(entries.begin(), entries.end(), [&](const Entry& left, const Entry& right) {
        return is_reverse ? order(arena, right.key, left.key) < 0 : order(arena, left.key, right.key) < 0;
    });
    ListBuilder pairs(arena);
    for (const Entry& entry : entries) {
        const Value pair[] = {entry.member->key, entry.member->value};
        pairs.push(arena.tuple(pair));
    }
    return arena.list(pairs.items());
}

Value filter_list(Arena& arena, const Value& input, const Arguments& arguments, std::string_view name) {
    bind(arguments, name, {});
    return arena.list(iterate(arena, input));
}

// An attribute's path, "function.name": each part looked up in what the one before gave.
Value path(Arena& arena, Value object, const Value& parts, const Value* otherwise = nullptr) {
    if (parts.is_whole()) return item(arena, object, parts);
    std::string_view rest = text_argument(parts, "an attribute");
    for (bool is_last = false; !is_last;) {
        const size_t dot = rest.find('.');
        is_last = dot == std::string_view::npos;
        const std::string_view part = rest.substr(0, dot);
        if (!is_last) rest.remove_prefix(dot + 1);
        const bool is_number = !part.empty() && part.find_first_not_of("0123456789") == std::string_view::npos;
        int64_t index = 0;
        if (is_number && std::from_chars(part.data(), part.data() + part.size(), index).ec != std::errc())
            throw Fault{"the index of an attribute does not fit into 64 bits"};
        object = item(arena, object, is_number ? Value::integer(index) : Value::string(part));
        if (object.kind == Kind::undefined && otherwise != nullptr) object = *otherwise;
    }
    return object;
}

Value filter_join(Arena& arena, const Value& input, const Arguments& arguments, std::string_view name) {
    const Bound bound = bind(arguments, name, {"d", "attribute"});
    const bool has_attribute = bound[1] != nullptr && bound[1]->kind != Kind::none;
    const Value separator = bound[0] == nullptr ? Value::string({}) : as_string(arena, *bound[0]);
    TextBuilder out(arena);
    bool is_first = true;
    for (const Value& one : iterate(arena, input)) {
        if (!std::exchange(is_first, false)) out.add(separator.text);
        write_text(out, has_attribute ? path(arena, one, *bound[1]) : one);
    }
    return out.value();
}

Value filter_first_or_last(Arena& arena, const Value& input, const Arguments& arguments, std::string_view name) {
    bind(arguments, name, {});
    if (input.kind == Kind::cursor) {
        if (name == "last") refuse_operand(name, input);
        Cursor& cursor = *input.cursor;
        return cursor.next < cursor.size ? cursor.items[cursor.next++] : Value::undefined("first");
    }
    const std::span<const Value> all = iterate(arena, input);
    if (all.empty()) return Value::undefined(name);
    return name == "first" ? all.front() : all.back();
}

Value filter_reverse(Arena& arena, const Value& input, const Arguments& arguments, std::string_view name) {
    bind(arguments, name, {});
    if (input.kind == Kind::string) {
        const Value back = Value::integer(-1);
        return slice(arena, input, nullptr, nullptr, &back);
    }
    const std::span<const Value> all = iterate(arena, input);
    std::vector<Value> reversed(all.rbegin(), all.rend());
    if (input.kind == Kind::cursor) return arena.list(reversed);
    return arena.cursor(reversed);
}

Value filter_map(Arena& arena, const Value& input, const Arguments& arguments, std::string_view) {
    const Value* const attribute = arguments.unnamed() == 0 ? arguments.named("attribute") : nullptr;
    ListBuilder results(arena);
    if (!is_true(input)) return arena.cursor({});
    if (attribute != nullptr) {
        const Bound bound = bind(arguments, "map", {"attribute", "default"});
        const Value* const otherwise = bound[1] != nullptr && bound[1]->kind != Kind::none ? bound[1] : nullptr;
        for (const Value& one : iterate(arena, input)) results.push(path(arena, one, *attribute, otherwise));
        return arena.cursor(results.items());
    }
    if (arguments.unnamed() == 0) throw Fault{"map: needs the name of a filter, or attribute=..."};
    const std::string_view name = text_argument(arguments.values[0], "map");
    const int filter = find_filter(name);
    if (filter < 0) throw Fault{fmt::format("the filter \"{}\" is not supported", name)};
    if (name == "map" || name.starts_with("select") || name.starts_with("reject"))
        throw Fault{"map: of filters that take filters and tests is not supported"};
    const Arguments rest{.values = arguments.values.subspan(1), .keywords = arguments.keywords};
    for (const Value& one : iterate(arena, input)) results.push(call_filter(arena, filter, one, rest));
    return arena.cursor(results.items());
}

// select, reject, selectattr and rejectattr.
Value filter_select(Arena& arena, const Value& input, const Arguments& arguments, std::string_view name) {
    const size_t attributes = name.ends_with("attr");
    if (!is_true(input)) return arena.cursor({});
    if (arguments.unnamed() < attributes) throw Fault{fmt::format("{}: needs the name of an attribute", name)};
    int test = -1;
    Arguments rest;
    if (arguments.unnamed() > attributes) {
        const std::string_view test_name = text_argument(arguments.values[attributes], name);
        test = find_test(test_name);
        if (test < 0) throw Fault{fmt::format("the test \"{}\" is not supported", test_name)};
        rest = {.values = arguments.values.subspan(attributes + 1), .keywords = arguments.keywords};
    }
    ListBuilder results(arena);
    for (const Value& one : iterate(arena, input)) {
        const Value looked_at = attributes > 0 ? path(arena, one, arguments.values[0]) : one;
        const bool passes = test < 0 ? is_true(looked_at) : call_test(arena, test, looked_at, rest);
        if (passes == name.starts_with("select")) results.push(one);
    }
    return arena.cursor(results.items());
}

Value filter_to_json(Arena& arena, const Value& input, const Arguments& arguments, std::string_view name) {
    const Bound bound = bind(arguments, name, {"ensure_ascii", "indent", "separators", "sort_keys"});
    JsonStyle style;
    style.is_ascii = bound[0] != nullptr && is_true(*bound[0]);
    style.is_sorted = bound[3] != nullptr && is_true(*bound[3]);
    if (const Value* const indent = bound[1]; indent != nullptr && indent->kind != Kind::none) {
        constexpr int64_t kIndentMax = 100;  // written once a level and line
        style.is_indented = true;
        style.item_separator = ",";
        if (indent->kind == Kind::string)
            style.indent = indent->text;
        else
            style.indent.assign(
                static_cast<size_t>(std::clamp(whole_argument(*indent, name), int64_t{0}, kIndentMax + 1)), ' ');
        if (style.indent.size() > kIndentMax)
            throw Fault{fmt::format("tojson: an indent above {} is not supported", kIndentMax)};
    }
    if (const Value* const separators = bound[2]; separators != nullptr && separators->kind != Kind::none) {
        const std::span<const Value> pair = iterate(arena, *separators);
        if (pair.size() != 2) throw Fault{"tojson: needs two separators"};
        style.item_separator = text_argument(pair[0], name);
        style.key_separator = text_argument(pair[1], name);
    }
    TextBuilder out(arena);
    write_json(out, input, style);
    return out.value();
}

Value filter_to_int(Arena&, const Value& input, const Arguments& arguments, std::string_view name) {
    const Bound bound = bind(arguments, name, {"default"});
    if (input.kind == Kind::undefined) refuse_operand(name, input);
    if (input.is_whole()) return Value::integer(input.as_whole());
    const Value otherwise = bound[0] != nullptr ? *bound[0] : Value::integer(0);
    if (input.kind == Kind::real) {
        if (std::isnan(input.real)) return otherwise;
        if (std::abs(input.real) >= 9e18) throw Fault{"int: the number does not fit into 64 bits"};
        return Value::integer(static_cast<int64_t>(input.real));
    }
    if (input.kind != Kind::string) return otherwise;
    std::string_view text = strip_right(strip_left(input.text));
    if (text.find_first_not_of("+-0123456789") != std::string_view::npos)
        throw Fault{"int: of a text that is more than a sign and digits is not supported"};
    if (text.starts_with('+')) text.remove_prefix(1);
    int64_t whole = 0;
    const auto result = std::from_chars(text.data(), text.data() + text.size(), whole);
    if (result.ec == std::errc::result_out_of_range) throw Fault{"int: the number does not fit into 64 bits"};
    const bool is_number = result.ec == std::errc() && result.ptr == text.data() + text.size() &&
                           input.text.find("+-") == std::string_view::npos;
    return is_number ? Value::integer(whole) : otherwise;
}

Value filter_absolute(Arena&, const Value& input, const Arguments& arguments, std::string_view name) {
    bind(arguments, name, {});
    const Value value = plus(input);
    if (value.kind == Kind::real) return Value::floating(std::abs(value.real));
    return value.whole < 0 ? negate(value) : value;
}

struct Filter {
    std::string_view name;
    FilterCall call;
};

constexpr Filter kFilters[] = {
    {"abs", filter_absolute},
    {"capitalize", filter_change_case},
    {"count", filter_length_of},
    {"d", filter_or_default},
    {"default", filter_or_default},
    {"dictsort", filter_dict_sort},
    {"first", filter_first_or_last},
    {"int", filter_to_int},
    {"items", filter_items},
    {"join", filter_join},
    {"last", filter_first_or_last},
    {"length", filter_length_of},
    {"list", filter_list},
    {"lower", filter_change_case},
    {"map", filter_map},
    {"reject", filter_select},
    {"rejectattr", filter_select},
    {"replace", filter_replace},
    {"reverse", filter_reverse},
    {"safe", filter_safe},
    {"select", filter_select},
    {"selectattr", filter_select},
    {"string", filter_string},
    {"tojson", filter_to_json},
    {"trim", filter_trim},
    {"upper", filter_change_case},
};

}  // namespace

int find_filter(std::string_view name) {
    const auto found = std::find_if(std::begin(kFilters), std::end(kFilters),
                                    [&](const Filter& filter) { return filter.name == name; });
    return found == std::end(kFilters) ? -1 : static_cast<int>(found - std::begin(kFilters));
}

Value call_filter(Arena& arena, int filter, const Value& input, const Arguments& arguments) {
    return kFilters[filter].call(arena, input, arguments, kFilters[filter].name);
}

}  // namespace windlass::jinja
