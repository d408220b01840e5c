// checksummed_json.h: JSON texts of ours whose last member is the checksum of the text before it.
//
//   {...,
//     "checksum": "<16 hexadecimal digits>"
//   }
//
// XXH3, 64 bits, from the first byte up to the comma before the member. It is compared as text, before anything is
// parsed, so any changed byte shows before a value is believed.
#pragma once

#include <string>
#include <string_view>

namespace windlass {

// `object`: the text of a JSON object with at least one member. The second in one line, for a file of many lines:
// {...,"checksum":"..."}
std::string with_checksum(std::string_view object);
std::string line_with_checksum(std::string_view object);

// absent: one line without a checksum, which is what builds wrote that knew none. A text with a checksum has three
// lines at least, so no single flipped bit makes one of the other.
enum class TextChecksum { right, wrong, absent };
TextChecksum text_checksum(std::string_view text);
// The same of a line; absent: it has no such member.
TextChecksum line_checksum(std::string_view line);

// Returns if the checksum is right or absent; the latter is a warning that names `where`. Throws UserError(storage) if
// it is wrong, with `what_to_do` as its hint unless that is empty.
void require_checksum(std::string_view text, std::string_view where, std::string_view what_to_do);

}  // namespace windlass
