#include "rows/row_notes.h"

#include <fmt/format.h>

#include "base/json.h"
#include "base/log.h"
#include "base/plural.h"
#include "base/printable.h"

namespace windlass {
namespace {

constexpr size_t kKeyBytesMax = 64;
constexpr const char* kOthers = "...";

// The place of this name in a list that files make grow, up to a bound.
template <typename Value>
Value& place_of(std::map<std::string, Value>& list, const std::string& name) {
    const auto found = list.find(name);
    return found != list.end() ? found->second : list[list.size() < kNotesMax ? name : kOthers];
}

std::string line_of(const std::string& what, const RowNotes::Note& note) {
    return fmt::format("{} ({}, the first {})", what, counted(note.rows, "row"), note.first);
}

}  // namespace

void RowNotes::add_unread_key(std::string_view key) {
    ++place_of(unread_keys_, std::string(key.substr(0, kKeyBytesMax)));
}

void RowNotes::add(std::string_view what, std::string_view where) {
    Note& note = place_of(notes_, std::string(what));
    if (note.rows++ == 0) note.first = where;
}

void RowNotes::add(const RowNotes& other) {
    for (const auto& [key, rows] : other.unread_keys_) place_of(unread_keys_, key) += rows;
    for (const auto& [what, note] : other.notes_) {
        Note& mine = place_of(notes_, what);
        if (mine.rows == 0) mine.first = note.first;
        mine.rows += note.rows;
    }
}

std::vector<std::string> RowNotes::lines() const {
    std::vector<std::string> lines = key_lines();
    for (const auto& [what, note] : notes_) lines.push_back(line_of(what, note));
    return lines;
}

void RowNotes::log() const {
    for (const std::string& line : key_lines()) log_info("{}", line);
    for (const auto& [what, note] : notes_) log_warning("{}", line_of(what, note));
}

std::vector<std::string> RowNotes::key_lines() const {
    std::string keys;
    for (const auto& [key, rows] : unread_keys_)
        keys += fmt::format("{}\"{}\" ({})", keys.empty() ? "" : ", ", printable(key), counted(rows, "row"));
    return keys.empty() ? std::vector<std::string>() : std::vector{"keys of rows that are not read: " + keys};
}

std::string RowNotes::to_json() const {
    SortedJson json = {{"unread_keys", unread_keys_}, {"notes", SortedJson::object()}};
    for (const auto& [what, note] : notes_) json["notes"][what] = {{"rows", note.rows}, {"first", note.first}};
    return json.dump(-1, ' ', false, SortedJson::error_handler_t::replace);
}

RowNotes RowNotes::from_json(std::string_view text, std::string_view where) {
    const SortedJson json = parse_sorted_json(text, where, ExitCode::storage);
    RowNotes made;
    try {
        made.unread_keys_ = json.at("unread_keys").get<std::map<std::string, int64_t>>();
        for (const auto& [what, note] : json.at("notes").items())
            made.notes_[what] = {note.at("rows").get<int64_t>(), note.at("first").get<std::string>()};
    } catch (const nlohmann::json::exception& error) {
        throw UserError(ExitCode::storage, where, "the notes on its rows are damaged: {}", excerpt(error.what()));
    }
    return made;
}

}  // namespace windlass
