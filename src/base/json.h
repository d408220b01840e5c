// json.h: reads JSON from outside, with nlohmann-json, within limits on size and depth.
//
// Include it in .cpp files only, and base/json_fwd.h in headers: it is a heavy header.
#pragma once

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/json_fwd.h"

namespace windlass {

// Parses a whole document, in time that grows with its length alone. Duplicate keys, a depth above 64 and malformed
// text throw UserError(code) that names `where` and the byte. The text is bounded by the caller (read_text takes a
// limit).
Json parse_json(std::string_view text, std::string_view where, ExitCode code);
// Whole numbers that int64_t does not hold are kept by their digits, where the others make them a double.
Json parse_json_with_digits(std::string_view text, std::string_view where, ExitCode code);
SortedJson parse_sorted_json(std::string_view text, std::string_view where, ExitCode code);

// The integer that a value is: nothing for another kind of value, and for one that int64_t does not hold, which
// get<int64_t> would turn into another number.
template <typename AnyJson>
std::optional<int64_t> integer_of(const AnyJson& value) {
    if (!value.is_number_integer()) return std::nullopt;
    if (value.is_number_unsigned() && value.template get<uint64_t>() > uint64_t{INT64_MAX}) return std::nullopt;
    return value.template get<int64_t>();
}

// The digits of a whole number that parse_json_with_digits kept; nothing for every other value.
std::optional<std::string> digits_of(const Json& value);

// Whether a value says nothing: null, or an empty text, list or object, or one that holds nothing else.
template <typename AnyJson>
bool is_nothing(const AnyJson& value) {
    if (value.is_string()) return value.template get_ref<const std::string&>().empty();
    return value.is_null() || (value.is_structured() && std::all_of(value.begin(), value.end(), is_nothing<AnyJson>));
}

// Removes the member that this key names: its own, or where it has none of that name, one of an object in it, with dots
// between the names. Whether there was one.
template <typename AnyJson>
bool erase_member(AnyJson& json, std::string_view key) {
    for (AnyJson* object = &json;;) {
        if (object->erase(std::string(key)) > 0) return true;
        const size_t dot = key.find('.');
        if (dot == std::string_view::npos) return false;
        const auto inner = object->find(std::string(key.substr(0, dot)));
        if (inner == object->end() || !inner->is_object()) return false;
        object = &*inner;
        key.remove_prefix(dot + 1);
    }
}

}  // namespace windlass
