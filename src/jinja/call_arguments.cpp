#include "jinja/functions.h"
#include "jinja/operators.h"

namespace windlass::jinja {

const Value* Arguments::named(std::string_view name) const {
    for (size_t i = 0; i < keywords.size(); ++i)
        if (keywords[i] == name) return &values[unnamed() + i];
    return nullptr;
}

Bound bind(const Arguments& arguments, std::string_view function, std::initializer_list<std::string_view> names,
           size_t required) {
    Bound bound{};
    if (arguments.unnamed() > names.size())
        throw Fault{fmt::format("{}: got {} arguments, takes at most {}", function, arguments.unnamed(), names.size())};
    for (size_t i = 0; i < arguments.unnamed(); ++i) bound[i] = &arguments.values[i];
    for (size_t i = 0; i < arguments.keywords.size(); ++i) {
        const auto found = std::find(names.begin(), names.end(), arguments.keywords[i]);
        if (found == names.end())
            throw Fault{fmt::format("{}: has no argument \"{}\"", function, arguments.keywords[i])};
        const Value*& place = bound[static_cast<size_t>(found - names.begin())];
        if (place != nullptr) throw Fault{fmt::format("{}: got the argument \"{}\" twice", function, *found)};
        place = &arguments.values[arguments.unnamed() + i];
    }
    for (size_t i = 0; i < required; ++i)
        if (bound[i] == nullptr) throw Fault{fmt::format("{}: needs {} arguments", function, required)};
    return bound;
}

int64_t whole_argument(const Value& value, std::string_view function) {
    if (!value.is_whole()) refuse_operand(fmt::format("a whole number for {}", function), value);
    return value.as_whole();
}

std::string_view text_argument(const Value& value, std::string_view function) {
    if (value.kind != Kind::string) refuse_operand(fmt::format("a string for {}", function), value);
    return value.text;
}

}  // namespace windlass::jinja
