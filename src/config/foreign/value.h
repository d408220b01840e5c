// value.h: a training file of another tool, read into plain values.
//
// Files are hostile: bytes, values and levels are bounded, and an alias counts as much as its target.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"

namespace windlass {

struct ForeignKey;

struct ForeignValue {
    enum class Kind { null, scalar, list, map } kind = Kind::null;
    std::string text;                 // of a scalar
    std::vector<ForeignValue> items;  // of a list
    std::vector<ForeignKey> members;  // of a map

    // The scalar of this member; empty without such a member.
    std::string_view member(std::string_view name) const;
    // "true" and what else YAML calls so; "false", null, or nothing.
    bool is_true() const;
    bool is_false() const;
    // The scalar, or the scalars of a list.
    std::vector<std::string> texts() const;
};

// Of a file, or of a map in it.
struct ForeignKey {
    std::string name;
    ForeignValue value;
};

ForeignValue list_of(const std::vector<std::string>& texts);
// "a, b" as a list.
ForeignValue parted_by_commas(const std::vector<std::string>& texts);

// UserError(usage) naming the file and line for what is no YAML, no map, too large or too deep.
std::vector<ForeignKey> read_foreign_file(FileSystem& files, const std::string& path);

}  // namespace windlass
