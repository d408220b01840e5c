// Methods of Python's types, as far as templates use them.
#include "base/utf8.h"
#include "jinja/functions.h"
#include "jinja/operators.h"
#include "jinja/python_text.h"

namespace windlass::jinja {
namespace {

using MethodCall = Value (*)(Arena&, const Value& self, const Arguments&, std::string_view name);

std::string_view optional_set(const Value* set, std::string_view name) {
    return set == nullptr || set->kind == Kind::none ? std::string_view() : text_argument(*set, name);
}

Value call_strip(Arena& arena, const Value& self, const Arguments& arguments, std::string_view name) {
    const Bound bound = bind(arguments, name, {"-chars"});
    const bool has_set = bound[0] != nullptr && bound[0]->kind != Kind::none;
    const std::string_view set = optional_set(bound[0], name);
    std::string_view text = self.text;
    arena.work(text.size());
    if (name != "rstrip") text = has_set ? strip_left(arena, text, set) : strip_left(text);
    if (name != "lstrip") text = has_set ? strip_right(arena, text, set) : strip_right(text);
    return Value::string(text);
}

// The pieces of a text between white space, after at most `cuts` cuts, from the left or from the right.
void split_at_space(ListBuilder& pieces, std::string_view text, size_t cuts) {
    for (text = strip_left(text); !text.empty(); text = strip_left(text)) {
        if (cuts-- == 0) return pieces.push(Value::string(text));
        size_t end = 0;
        while (end < text.size()) {
            const CodePoint point = first_code_point(text.substr(end));
            if (is_space(point.value)) break;
            end += point.bytes;
        }
        pieces.push(Value::string(text.substr(0, end)));
        text.remove_prefix(end);
    }
}

void split_at_space_from_right(ListBuilder& pieces, std::string_view text, size_t cuts) {
    for (text = strip_right(text); !text.empty(); text = strip_right(text)) {
        if (cuts-- == 0) return pieces.push(Value::string(text));
        size_t begin = text.size();
        while (begin > 0) {
            const CodePoint point = last_code_point(text.substr(0, begin));
            if (is_space(point.value)) break;
            begin -= point.bytes;
        }
        pieces.push(Value::string(text.substr(begin)));
        text = text.substr(0, begin);
    }
}

void split_at(Arena& arena, ListBuilder& pieces, std::string_view text, std::string_view separator, size_t cuts,
              bool from_right) {
    while (cuts-- > 0) {
        const size_t at = find_text(arena, text, separator, from_right);
        if (at == std::string_view::npos) break;
        const std::string_view before = text.substr(0, at), after = text.substr(at + separator.size());
        pieces.push(Value::string(from_right ? after : before));
        text = from_right ? before : after;
    }
    pieces.push(Value::string(text));
}

Value call_split(Arena& arena, const Value& self, const Arguments& arguments, std::string_view name) {
    const Bound bound = bind(arguments, name, {"sep", "maxsplit"});
    const int64_t most = bound[1] == nullptr ? -1 : whole_argument(*bound[1], name);
    const size_t cuts = most < 0 ? SIZE_MAX : static_cast<size_t>(most);
    const bool from_right = name == "rsplit";
    arena.work(self.text.size());
    ListBuilder pieces(arena);
    if (bound[0] == nullptr || bound[0]->kind == Kind::none) {
        if (from_right)
            split_at_space_from_right(pieces, self.text, cuts);
        else
            split_at_space(pieces, self.text, cuts);
    } else {
        const std::string_view separator = text_argument(*bound[0], name);
        if (separator.empty()) throw Fault{fmt::format("{}: the separator is empty", name)};
        split_at(arena, pieces, self.text, separator, cuts, from_right);
    }
    std::vector<Value> items(pieces.items().begin(), pieces.items().end());
    if (from_right) std::reverse(items.begin(), items.end());
    return arena.list(items);
}

Value call_starts_or_ends(Arena& arena, const Value& self, const Arguments& arguments, std::string_view name) {
    const Bound bound = bind(arguments, name, {"-prefix"}, 1);
    const std::span<const Value> all =
        bound[0]->kind == Kind::tuple ? bound[0]->sequence->all() : std::span<const Value>(bound[0], 1);
    bool found = false;
    for (const Value& one : all) {
        const std::string_view text = text_argument(one, name);
        arena.work(text.size());
        found |= name == "startswith" ? self.text.starts_with(text) : self.text.ends_with(text);
        if (found) break;
    }
    return Value::boolean(found);
}

Value call_change_case(Arena& arena, const Value& self, const Arguments& arguments, std::string_view name) {
    bind(arguments, name, {});
    if (name == "upper") return to_upper(arena, self.text);
    if (name == "lower") return to_lower(arena, self.text);
    return name == "title" ? to_title(arena, self.text) : to_capitalized(arena, self.text);
}

Value call_replace(Arena& arena, const Value& self, const Arguments& arguments, std::string_view name) {
    const Bound bound = bind(arguments, name, {"-old", "-new", "-count"}, 2);
    const int64_t count = bound[2] == nullptr ? -1 : whole_argument(*bound[2], name);
    return replaced(arena, self.text, text_argument(*bound[0], name), text_argument(*bound[1], name), count);
}

// find, rfind and count, in code points.
Value call_search(Arena& arena, const Value& self, const Arguments& arguments, std::string_view name) {
    const Bound bound = bind(arguments, name, {"-sub"}, 1);
    const std::string_view wanted = text_argument(*bound[0], name);
    arena.work(self.text.size() + wanted.size());
    if (name != "count") {
        const size_t at = find_text(arena, self.text, wanted, name == "rfind");
        if (at == std::string_view::npos) return Value::integer(-1);
        return Value::integer(static_cast<int64_t>(count_points(self.text.substr(0, at))));
    }
    if (wanted.empty()) return Value::integer(static_cast<int64_t>(count_points(self.text)) + 1);
    int64_t count = 0;
    std::string_view rest = self.text;
    for (size_t at = 0; (at = find_text(arena, rest, wanted)) != std::string_view::npos; ++count)
        rest.remove_prefix(at + wanted.size());
    return Value::integer(count);
}

Value call_join(Arena& arena, const Value& self, const Arguments& arguments, std::string_view name) {
    const Bound bound = bind(arguments, name, {"-iterable"}, 1);
    TextBuilder out(arena);
    bool is_first = true;
    for (const Value& item : iterate(arena, *bound[0])) {
        if (!std::exchange(is_first, false)) out.add(self.text);
        out.add(text_argument(item, name));
    }
    return out.value();
}

Value call_remove_affix(Arena& arena, const Value& self, const Arguments& arguments, std::string_view name) {
    const Bound bound = bind(arguments, name, {"-affix"}, 1);
    const std::string_view affix = text_argument(*bound[0], name);
    arena.work(affix.size());
    std::string_view text = self.text;
    if (name == "removeprefix" && text.starts_with(affix)) text.remove_prefix(affix.size());
    if (name == "removesuffix" && text.ends_with(affix)) text.remove_suffix(affix.size());
    return Value::string(text);
}

Value call_split_lines(Arena& arena, const Value& self, const Arguments& arguments, std::string_view name) {
    const Bound bound = bind(arguments, name, {"keepends"});
    const bool keeps = bound[0] != nullptr && is_true(*bound[0]);
    arena.work(self.text.size());
    ListBuilder lines(arena);
    const std::string_view text = self.text;
    for (size_t start = 0, at = 0; at < text.size();) {
        const CodePoint point = first_code_point(text.substr(at));
        const char32_t value = point.value;
        const bool is_end = (value >= 10 && value <= 13) || (value >= 0x1C && value <= 0x1E) || value == 0x85 ||
                            value == 0x2028 || value == 0x2029;
        size_t next = at + point.bytes;
        if (is_end) {
            if (value == '\r' && text.substr(next).starts_with('\n')) ++next;
            lines.push(Value::string(text.substr(start, (keeps ? next : at) - start)));
            start = next;
        } else if (next == text.size()) {
            lines.push(Value::string(text.substr(start)));
        }
        at = next;
    }
    return arena.list(lines.items());
}

Value call_is_of(Arena& arena, const Value& self, const Arguments& arguments, std::string_view name) {
    bind(arguments, name, {});
    arena.work(self.text.size());
    if (name == "isupper") return Value::boolean(has_only_upper(self.text));
    if (name == "islower") return Value::boolean(has_only_lower(self.text));
    return Value::boolean(!self.text.empty() && strip_left(self.text).empty());  // isspace
}

Value call_view(Arena& arena, const Value& self, const Arguments& arguments, std::string_view name) {
    bind(arguments, name, {});
    ListBuilder items(arena);
    for (const Member& member : self.mapping->all()) {
        const Value pair[] = {member.key, member.value};
        if (name == "items")
            items.push(arena.tuple(pair));
        else
            items.push(name == "keys" ? member.key : member.value);
    }
    return arena.sequence(Kind::view, items.items(),
                          name == "items"  ? "dict_items"
                          : name == "keys" ? "dict_keys"
                                           : "dict_values");
}

Value call_get(Arena& arena, const Value& self, const Arguments& arguments, std::string_view name) {
    const Bound bound = bind(arguments, name, {"-key", "-default"}, 1);
    if (!is_hashable(arena, *bound[0])) refuse_operand("a key of a dict", *bound[0]);
    const Value* const found = find_member(arena, *self.mapping, *bound[0]);
    if (found != nullptr) return *found;
    return bound[1] != nullptr ? *bound[1] : Value::none();
}

Value call_copy_dict(Arena&, const Value& self, const Arguments& arguments, std::string_view name) {
    bind(arguments, name, {});
    return self;  // nothing can change it
}

Value call_count_or_index(Arena& arena, const Value& self, const Arguments& arguments, std::string_view name) {
    const Bound bound = bind(arguments, name, {"-value"}, 1);
    int64_t count = 0;
    for (size_t i = 0; i < self.sequence->size; ++i) {
        if (!equals(arena, self.sequence->items[i], *bound[0])) continue;
        if (name == "index") return Value::integer(static_cast<int64_t>(i));
        ++count;
    }
    if (name == "index") throw Fault{"index: the list does not have that value"};
    return Value::integer(count);
}

Value call_cycle(Arena&, const Value& self, const Arguments& arguments, std::string_view name) {
    if (arguments.values.empty() || !arguments.keywords.empty())
        throw Fault{fmt::format("{}: needs values, without names", name)};
    return arguments.values[self.loop->index % arguments.values.size()];
}

Value call_changed(Arena& arena, const Value& self, const Arguments& arguments, std::string_view name) {
    if (!arguments.keywords.empty()) throw Fault{fmt::format("{}: needs values, without names", name)};
    const Value now = arena.tuple(arguments.values);
    Value before = now;
    before.sequence = self.loop->changed;
    const bool is_changed = before.sequence == nullptr || !equals(arena, before, now);
    if (is_changed) self.loop->changed = now.sequence;
    return Value::boolean(is_changed);
}

struct Method {
    Kind kind;
    std::string_view name;
    MethodCall call;  // null: Python has it, and it is not supported here
};

constexpr Method kMethods[] = {
    {Kind::string, "strip", call_strip},
    {Kind::string, "lstrip", call_strip},
    {Kind::string, "rstrip", call_strip},
    {Kind::string, "split", call_split},
    {Kind::string, "rsplit", call_split},
    {Kind::string, "startswith", call_starts_or_ends},
    {Kind::string, "endswith", call_starts_or_ends},
    {Kind::string, "upper", call_change_case},
    {Kind::string, "lower", call_change_case},
    {Kind::string, "title", call_change_case},
    {Kind::string, "capitalize", call_change_case},
    {Kind::string, "replace", call_replace},
    {Kind::string, "find", call_search},
    {Kind::string, "rfind", call_search},
    {Kind::string, "count", call_search},
    {Kind::string, "join", call_join},
    {Kind::string, "removeprefix", call_remove_affix},
    {Kind::string, "removesuffix", call_remove_affix},
    {Kind::string, "splitlines", call_split_lines},
    {Kind::string, "isupper", call_is_of},
    {Kind::string, "islower", call_is_of},
    {Kind::string, "isspace", call_is_of},
    {Kind::dict, "items", call_view},
    {Kind::dict, "keys", call_view},
    {Kind::dict, "values", call_view},
    {Kind::dict, "get", call_get},
    {Kind::dict, "copy", call_copy_dict},
    {Kind::list, "count", call_count_or_index},
    {Kind::list, "index", call_count_or_index},
    {Kind::tuple, "count", call_count_or_index},
    {Kind::tuple, "index", call_count_or_index},
    {Kind::range, "count", call_count_or_index},
    {Kind::range, "index", call_count_or_index},
    {Kind::loop, "cycle", call_cycle},
    {Kind::loop, "changed", call_changed},
};

// Attributes that Python's types have besides these. Without them a template's x.index would be found in a dict, or be
// undefined, where Python finds a method.
struct Unsupported {
    Kind kind;
    std::string_view names;  // with a space around each
};

constexpr Unsupported kUnsupported[] = {
    {Kind::string,
     " casefold center encode expandtabs format format_map index isalnum isalpha isascii isdecimal isdigit "
     "isidentifier "
     "isnumeric isprintable istitle ljust maketrans partition rindex rjust rpartition swapcase translate zfill "},
    {Kind::dict, " clear fromkeys pop popitem setdefault update "},
    {Kind::list, " append clear copy extend insert pop remove reverse sort "},
    {Kind::range, " start stop step "},
    {Kind::view, " isdisjoint mapping "},
    {Kind::boolean,
     " as_integer_ratio bit_count bit_length conjugate denominator from_bytes imag numerator real to_bytes "},
    {Kind::integer,
     " as_integer_ratio bit_count bit_length conjugate denominator from_bytes imag numerator real to_bytes "},
    {Kind::real, " as_integer_ratio conjugate fromhex hex imag is_integer real "},
    {Kind::cursor, " close send throw gi_code gi_frame gi_running gi_suspended gi_yieldfrom "},
    {Kind::macro, " arguments caller catch_kwargs catch_varargs explicit_caller name "},
};

}  // namespace

Value replaced(Arena& arena, std::string_view text, std::string_view old, std::string_view with, int64_t count) {
    size_t left = count < 0 ? SIZE_MAX : static_cast<size_t>(count);
    arena.work(text.size() + old.size());
    TextBuilder out(arena);
    while (old.empty() && left-- > 0) {  // before each code point, and at the end
        out.add(with);
        if (text.empty()) return out.value();
        const size_t bytes = first_code_point(text).bytes;
        out.add(text.substr(0, bytes));
        text.remove_prefix(bytes);
    }
    for (; !old.empty() && left > 0; --left) {
        const size_t at = find_text(arena, text, old);
        if (at == std::string_view::npos) break;
        out.add(text.substr(0, at));
        out.add(with);
        text.remove_prefix(at + old.size());
    }
    out.add(text);
    return out.value();
}

bool find_method(Arena& arena, const Value& object, std::string_view name, Value& found) {
    for (size_t i = 0; i < std::size(kMethods); ++i) {
        if (kMethods[i].kind != object.kind || kMethods[i].name != name) continue;
        if (object.is_safe)
            throw Fault{fmt::format("the method \"{}\" is not supported on the output of the filter \"safe\"", name)};
        Value* const self = arena.make<Value>();
        *self = object;
        BoundMethod* const bound = arena.make<BoundMethod>();
        *bound = {.self = self, .method = static_cast<int>(i)};
        found = Value();
        found.kind = Kind::method;
        found.method = bound;
        return true;
    }
    for (const Unsupported& unsupported : kUnsupported)
        if (unsupported.kind == object.kind &&
            unsupported.names.find(fmt::format(" {} ", name)) != std::string_view::npos)
            throw Fault{fmt::format("the attribute \"{}\" of a value of type {} is not supported", name,
                                    kind_name(object.kind))};
    return false;
}

Value call_method(Arena& arena, const BoundMethod& method, const Arguments& arguments) {
    const Method& called = kMethods[method.method];
    return called.call(arena, *method.self, arguments, called.name);
}

}  // namespace windlass::jinja
