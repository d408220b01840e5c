#include "text/jq_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "base/json.h"
#include "base/shell_word.h"

namespace windlass {
namespace {

bool is_digit(char c) {
    return std::isdigit(static_cast<unsigned char>(c)) != 0;
}

// Without the line and what follows it.
std::string_view file_in(std::string_view where) {
    for (size_t at = where.find(':'); at != where.npos; at = where.find(':', at + 1)) {
        size_t end = at + 1;
        while (end < where.size() && is_digit(where[end])) ++end;
        if (end > at + 1 && (end == where.size() || where[end] == ':')) return where.substr(0, at);
    }
    return where;
}

}  // namespace

std::string jq_member(std::string_view key) {
    const auto is_plain = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; };
    const bool is_name = !key.empty() && !is_digit(key.front()) && std::ranges::all_of(key, is_plain);
    if (is_name) return fmt::format(".{}", key);
    return fmt::format(".[{}]", SortedJson(std::string(key)).dump(-1, ' ', true, SortedJson::error_handler_t::replace));
}

std::string jq_command(std::string_view where, std::string_view filter) {
    std::string file(file_in(where)), read = shell_word(file), unpack;
    for (const auto& [ending, program] : {std::pair(".gz", "gzip -dc"), {".zst", "zstd -dc"}, {".xz", "xz -dc"}}) {
        if (!file.ends_with(ending)) continue;
        unpack = fmt::format("{} {} | ", program, read);
        read.clear();
        file = file.substr(0, file.size() - std::string_view(ending).size());
    }
    if (file.ends_with(".csv") || file.ends_with(".tsv"))
        return fmt::format("the rows as .jsonl, and for them: jq -c {} rows.jsonl > NEW.jsonl",
                           shell_word(std::string(filter)));
    const std::string whole = fmt::format("{}{}", file.ends_with(".json") ? ".[] | " : "", filter);
    return fmt::format("{}jq -c {}{} > NEW.jsonl", unpack, shell_word(whole), read.empty() ? "" : " " + read);
}

}  // namespace windlass
