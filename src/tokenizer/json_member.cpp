#include "base/printable.h"
#include "tokenizer/parts.h"

namespace windlass {

const SortedJson& member(const SortedJson& json, const char* key) {
    static const SortedJson kNull;
    if (!json.is_object()) return kNull;
    const auto entry = json.find(key);
    return entry == json.end() ? kNull : *entry;
}

bool bool_member(const SortedJson& json, const char* key, bool fallback, std::string_view where) {
    const SortedJson& value = member(json, key);
    if (value.is_null()) return fallback;
    if (!value.is_boolean()) throw UserError(ExitCode::model, where, "\"{}\" is not true or false", key);
    return value.get<bool>();
}

std::string string_member(const SortedJson& json, const char* key, const std::string& fallback,
                          std::string_view where) {
    const SortedJson& value = member(json, key);
    if (value.is_null()) return fallback;
    if (!value.is_string()) throw UserError(ExitCode::model, where, "\"{}\" is not a string", key);
    return value.get<std::string>();
}

int64_t int_member(const SortedJson& json, const char* key, std::string_view where) {
    const SortedJson& value = member(json, key);
    const std::optional<int64_t> integer = integer_of(value);
    if (!integer) throw UserError(ExitCode::model, where, "\"{}\" is not an integer", key);
    return *integer;
}

void check_members(const SortedJson& json, std::string_view part, std::initializer_list<std::string_view> known,
                   std::string_view where) {
    if (!json.is_object()) throw UserError(ExitCode::model, where, "{} is not an object", part);
    for (const auto& [key, value] : json.items())
        if (std::find(known.begin(), known.end(), key) == known.end())
            throw UserError(ExitCode::model, where, "{} has the unknown field \"{}\"", part, excerpt(key));
}

}  // namespace windlass
