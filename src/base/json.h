// json.h: reading JSON that somebody else wrote. nlohmann-json behind limits on size and depth.
//
// Include it in .cpp files only: it is a heavy header.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/error.h"

namespace windlass {

using Json = nlohmann::ordered_json;
using SortedJson = nlohmann::json;  // for documents with very large objects: Json looks a key up in linear time

// Parses a whole document, in time that grows with its length alone. Duplicate keys, a depth above 64 and malformed
// text throw UserError(code) that names `where` and the byte. The text is bounded by the caller (read_text takes a
// limit).
Json parse_json(std::string_view text, std::string_view where, ExitCode code);
SortedJson parse_sorted_json(std::string_view text, std::string_view where, ExitCode code);

}  // namespace windlass
