// row_keys.h: what each key of a row means to each format of rows. docs/guide/data.md shows the table.
//
// A key that would change what is trained is honoured or refused; one that is unknown is named once, with its number
// of rows.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/json_fwd.h"
#include "rows/row_format.h"
#include "rows/row_notes.h"

namespace windlass {

enum class KeyUse : uint8_t {
    read,       // it says what the row is
    agrees,     // it must say what the keys that are read say
    unread,     // it is not read, and named before the first step
    inert,      // it is not read, and has no effect
    empty,      // refused, unless it is null, or an empty text, list or object
    one,        // a weight: refused unless it is 1
    good,       // whether the answer is a good one: refused where it says no
    not_false,  // refused where it is false; of another type it is a class, and unread
};
inline constexpr int kKeyUses = 8;

struct RowKey {
    std::string_view key;
    KeyUse uses[kRowFormats];   // in the order of RowFormat
    std::string_view reason{};  // why it is refused
    std::string_view way{};     // what to do then
    std::string_view filter{};  // of jq, which does it: {0} is the member, {1} its value
};

std::span<const RowKey> row_keys();
// The table as Markdown: a line for each group of keys that mean the same, a column for each format.
std::string row_keys_table();

// The name that a key of the file has in the table: fields can have names of the user's own.
std::string_view standard_key(std::string_view key, const FieldNames& names);
// What a key means to a format.
KeyUse use_of(std::string_view standard, RowFormat format);

// Holds each key of a row against the table. Throws UserError(data) naming `where`, the key and the way out.
void check_keys(const SortedJson& row, RowFormat format, const FieldNames& names, std::string_view where,
                RowNotes& notes);

}  // namespace windlass
