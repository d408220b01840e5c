// root.h: the folder that the page may read and write in. What a path means is decided by the kernel (openat2 with
// RESOLVE_BENEATH): neither "..", nor an absolute path, nor a link leads out of it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ui/descriptor.h"

namespace windlass {

struct PartOfFile {
    int64_t begin = 0;  // its first byte in the file
    std::string bytes;
};

class Root {
  public:
    // UserError(usage, --root) if there is no such folder. `others`: folders that may be used too; one that
    // does not exist counts as none.
    Root(const std::string& folder, std::vector<std::string> others);

    const std::string& folder() const { return folder_; }  // absolute, without links

    const std::vector<std::string>& others() const { return others_; }

    // The path as a verb that works in the root's folder takes it. It need not exist; what exists of it must be beneath
    // the root, or, if it is absolute, beneath the root or one of the others. Throws HttpRefusal (400) that names
    // `where`.
    std::string checked(std::string_view path, std::string_view where) const;

    // At most `bytes_max` bytes of a file beneath the root: from this byte on, or the last -from ones if `from` is
    // negative; from the beginning if the file is shorter. Empty if there is no such regular file.
    PartOfFile read(const std::string& path, int64_t from, int64_t bytes_max) const;
    // Makes an empty file beneath the root, if none has its name.
    void touch(const std::string& path) const;

    // Calls `see(path, bytes)` for each regular file beneath the root whose path has at most `depth` folders; hidden
    // ones and links are left out, and what is beyond `entries_max` entries.
    template <typename See>
    void walk(int depth, int64_t entries_max, const See& see) const {
        int64_t entries_left = entries_max;
        walk_from("", depth, entries_left, see);
    }

  private:
    struct Entry {
        std::string name;
        bool is_folder = false;
        int64_t bytes = 0;
    };
    Descriptor open(const std::string& path, int flags) const;
    // Sorted by name; empty where the folder cannot be read.
    std::vector<Entry> list(const std::string& folder, int64_t entries_max) const;

    template <typename See>
    void walk_from(const std::string& folder, int depth, int64_t& entries_left, const See& see) const {
        for (const Entry& entry : list(folder.empty() ? "." : folder, entries_left)) {
            if (entries_left-- <= 0) return;
            const std::string path = folder.empty() ? entry.name : folder + "/" + entry.name;
            if (!entry.is_folder)
                see(path, entry.bytes);
            else if (depth > 0)
                walk_from(path, depth - 1, entries_left, see);
        }
    }

    std::string folder_;
    std::vector<std::string> others_;
    Descriptor at_;
};

}  // namespace windlass
