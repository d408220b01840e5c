// not_finite.h: numbers of a row that are not finite, where they would be used.
#pragma once

#include <string_view>

#include "base/error.h"
#include "base/json_row.h"
#include "base/printable.h"
#include "rows/jq_command.h"

namespace windlass {

// Throws UserError(data) naming `where` for a value of this key that is NaN or infinite.
template <typename AnyJson>
void refuse_not_finite(const AnyJson& value, std::string_view key, std::string_view where) {
    if (!is_not_finite(value)) return;
    throw UserError(ExitCode::data, where, "\"{}\" is NaN or infinite, which JSON has no word for", printable(key))
        .hint(finite_command(where) + ", which makes it null");
}
// The same for a value that is such a number, or holds one.
template <typename AnyJson>
void refuse_not_finite_in(const AnyJson& value, std::string_view key, std::string_view where) {
    if (!holds_not_finite(value)) return;
    throw UserError(ExitCode::data, where, "\"{}\" holds NaN or an infinite number, which JSON has no word for",
                    printable(key))
        .hint(finite_command(where) + ", which makes it null");
}

}  // namespace windlass
