// Functions that every template finds: range, namespace, raise_exception, ...
#include <ctime>

#include "jinja/functions.h"
#include "jinja/operators.h"

namespace windlass::jinja {
namespace {

using FunctionCall = Value (*)(Arena&, const Arguments&, const CallPlace&);

Value make_range(Arena& arena, const Arguments& arguments, const CallPlace&) {
    const Bound bound = bind(arguments, "range", {"-start", "-stop", "-step"}, 1);
    const int64_t first = whole_argument(*bound[0], "range");
    if (bound[1] == nullptr) return range_of(arena, 0, first, 1);
    return range_of(arena, first, whole_argument(*bound[1], "range"),
                    bound[2] == nullptr ? 1 : whole_argument(*bound[2], "range"));
}

// The one positional argument of namespace and dict: a dict whose members they begin with.
const Mapping* first_members(const Arguments& arguments, std::string_view name) {
    if (arguments.unnamed() == 0) return nullptr;
    const Value& value = arguments.values[0];
    if (arguments.unnamed() > 1 || value.kind != Kind::dict)
        throw Fault{fmt::format("{}: takes one dict, and names", name)};
    return value.mapping;
}

Value make_space(Arena& arena, const Arguments& arguments, const CallPlace&) {
    Value value;
    value.kind = Kind::space;
    value.space = arena.make<Space>();
    if (const Mapping* const members = first_members(arguments, "namespace"))
        for (const Member& member : members->all())
            set_member(arena, *value.space, text_argument(member.key, "namespace"), member.value);
    for (size_t i = 0; i < arguments.keywords.size(); ++i)
        set_member(arena, *value.space, arguments.keywords[i], arguments.values[arguments.unnamed() + i]);
    return value;
}

Value make_dict(Arena& arena, const Arguments& arguments, const CallPlace&) {
    std::vector<Member> members;
    if (const Mapping* const first = first_members(arguments, "dict")) {
        arena.memory(first->size * sizeof(Member));
        members.assign(first->all().begin(), first->all().end());
    }
    for (size_t i = 0; i < arguments.keywords.size(); ++i)
        put(arena, members, Value::string(arguments.keywords[i]), arguments.values[arguments.unnamed() + i]);
    return arena.dict(members);
}

Value raise_exception(Arena& arena, const Arguments& arguments, const CallPlace&) {
    const Bound bound = bind(arguments, "raise_exception", {"message"}, 1);
    throw Raised{std::string(as_string(arena, *bound[0]).text)};
}

Value strftime_now(Arena& arena, const Arguments& arguments, const CallPlace& place) {
    const Bound bound = bind(arguments, "strftime_now", {"format"}, 1);
    const std::string_view format = text_argument(*bound[0], "strftime_now");
    std::tm civil = {};
    const auto seconds = static_cast<std::time_t>(place.now_seconds);
    if (gmtime_r(&seconds, &civil) == nullptr) throw Fault{"strftime_now: the date is out of range"};
    TextBuilder out(arena);
    for (size_t i = 0; i < format.size(); ++i) {
        if (format[i] != '%') {
            out.add(format[i]);
            continue;
        }
        const size_t length = 2 + (format.substr(i).starts_with("%-"));
        const std::string directive(format.substr(i, length));
        // Those whose text is the same under every C library in the "C" locale.
        if (directive.size() != length ||
            std::string_view("aAbBdHIjmMpSyY%").find(directive.back()) == std::string_view::npos)
            throw Fault{fmt::format("strftime_now: \"{}\" is not supported", directive)};
        std::array<char, 64> text;
        out.add({text.data(), std::strftime(text.data(), text.size(), directive.c_str(), &civil)});
        i += length - 1;
    }
    return out.value();
}

struct Function {
    std::string_view name;
    FunctionCall call;
};

constexpr Function kFunctions[] = {
    {"dict", make_dict},   {"namespace", make_space},      {"raise_exception", raise_exception},
    {"range", make_range}, {"strftime_now", strftime_now},
};

}  // namespace

int find_function(std::string_view name) {
    const auto found = std::find_if(std::begin(kFunctions), std::end(kFunctions),
                                    [&](const Function& function) { return function.name == name; });
    return found == std::end(kFunctions) ? -1 : static_cast<int>(found - std::begin(kFunctions));
}

Value call_function(Arena& arena, int function, const Arguments& arguments, const CallPlace& place) {
    return kFunctions[function].call(arena, arguments, place);
}

void check_variable(const Program& program, const Token& token, bool in_macro) {
    for (const std::string_view name : {"cycler", "joiner", "lipsum", "self", "super"})
        if (token.text == name) fail_parse(program.where, token.line, fmt::format("\"{}\" is not supported", name));
    for (const std::string_view name : {"caller", "varargs", "kwargs"})
        if (in_macro && token.text == name)
            fail_parse(program.where, token.line, fmt::format("\"{}\" within a macro is not supported", name));
}

}  // namespace windlass::jinja
