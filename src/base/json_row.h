// json_row.h: reads the JSON of a row of data, which Python may have written with NaN, Infinity and -Infinity.
//
// These are no JSON: they become numbers that are not finite.
#pragma once

#include <cmath>

#include "base/json.h"

namespace windlass {

// parse_json_with_digits and parse_sorted_json for rows. Throw UserError(data).
Json parse_row_with_digits(std::string_view text, std::string_view where);
SortedJson parse_sorted_row(std::string_view text, std::string_view where);

// Whether a value is a number that is not finite.
template <typename AnyJson>
bool is_not_finite(const AnyJson& value) {
    return value.is_number_float() && !std::isfinite(value.template get<double>());
}

// Whether a value is one, or holds one.
template <typename AnyJson>
bool holds_not_finite(const AnyJson& value) {
    return is_not_finite(value) ||
           (value.is_structured() && std::any_of(value.begin(), value.end(), holds_not_finite<AnyJson>));
}

}  // namespace windlass
