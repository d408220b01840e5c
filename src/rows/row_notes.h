// row_notes.h: what a user should know of rows that were read and not refused: counted, each with the first row it is
// true of.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace windlass {

class RowNotes {
  public:
    struct Note {
        int64_t rows = 0;
        std::string first;  // "rows.jsonl:3"
    };

    // One more row has this key, which is not read.
    void add_unread_key(std::string_view key);
    // One more row for which this is true.
    void add(std::string_view what, std::string_view where);
    void add(const RowNotes& other);

    // Keys that are not read, each with its number of rows; at most kNotesMax, the others together under "...".
    const std::map<std::string, int64_t>& unread_keys() const { return unread_keys_; }
    const std::map<std::string, Note>& notes() const { return notes_; }
    // A line for all keys that are not read, and one for each note.
    std::vector<std::string> lines() const;
    // Logs the lines: keys as information, notes as warnings.
    void log() const;

    // The notes as JSON, and those in one that to_json made. Throws UserError(storage) naming `where`.
    std::string to_json() const;
    static RowNotes from_json(std::string_view text, std::string_view where);

  private:
    std::vector<std::string> key_lines() const;

    std::map<std::string, int64_t> unread_keys_;
    std::map<std::string, Note> notes_;
};

// Files choose how many keys there are.
inline constexpr size_t kNotesMax = 64;

}  // namespace windlass
