#include "rows/jq_command.h"

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

// How a file of rows is read by a program: its name without the ending of a compression, what decompresses it, and what
// the program reads if nothing does.
struct Reading {
    std::string file, unpack, read;
};
Reading reading_of(std::string_view where) {
    Reading made{.file = std::string(file_in(where))};
    made.read = shell_word(made.file);
    for (const auto& [ending, program] : {std::pair(".gz", "gzip -dc"), {".zst", "zstd -dc"}, {".xz", "xz -dc"}}) {
        if (!made.file.ends_with(ending)) continue;
        made.unpack = fmt::format("{} {} | ", program, made.read);
        made.read.clear();
        made.file = made.file.substr(0, made.file.size() - std::string_view(ending).size());
    }
    return made;
}

// Whether the JSON has a whole number that a double does not hold, outside of its strings.
bool has_long_number(std::string_view json) {
    constexpr std::string_view kMost = "9007199254740992";  // 2^53
    bool in_string = false;
    for (size_t at = 0; at < json.size(); ++at) {
        if (json[at] == '"') in_string = !in_string;
        if (in_string && json[at] == '\\') ++at;
        if (in_string || at >= json.size() || !is_digit(json[at])) continue;
        const bool is_fraction = at > 0 && json[at - 1] == '.';
        const size_t begin = at;
        while (at + 1 < json.size() && is_digit(json[at + 1])) ++at;
        const std::string_view digits = json.substr(begin, at + 1 - begin);
        if (!is_fraction && (digits.size() > kMost.size() || (digits.size() == kMost.size() && digits > kMost)))
            return true;
    }
    return false;
}

}  // namespace

std::string finite_command(std::string_view where) {
    const auto [file, unpack, read] = reading_of(where);
    const bool is_array = file.ends_with(".json");
    const std::string program =
        is_array ? "import json, sys; json.dump(json.load(sys.stdin, parse_constant=lambda _: None), sys.stdout)"
                 : "import json, sys; [print(json.dumps(json.loads(line, parse_constant=lambda _: None))) "
                   "for line in sys.stdin]";
    return fmt::format("{}python3 -c {}{} > NEW{}", unpack, shell_word(program), read.empty() ? "" : " < " + read,
                       is_array ? ".json" : ".jsonl");
}

void remark_on_digits(UserError& error, std::string_view row) {
    if (std::string_view(error.what()).find("jq -c ") == std::string_view::npos || !has_long_number(row)) return;
    error.or_hint("the same with jq 1.7, as earlier ones round whole numbers above 2^53, and this row has one");
}

std::string jq_member(std::string_view key) {
    const auto is_plain = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; };
    const bool is_name = !key.empty() && !is_digit(key.front()) && std::ranges::all_of(key, is_plain);
    if (is_name) return fmt::format(".{}", key);
    return fmt::format(".[{}]", SortedJson(std::string(key)).dump(-1, ' ', true, SortedJson::error_handler_t::replace));
}

std::string jq_command(std::string_view where, std::string_view filter) {
    const auto [file, unpack, read] = reading_of(where);
    if (file.ends_with(".csv") || file.ends_with(".tsv"))
        return fmt::format("the rows as .jsonl, and for them: jq -c {} rows.jsonl > NEW.jsonl",
                           shell_word(std::string(filter)));
    const std::string whole = fmt::format("{}{}", file.ends_with(".json") ? ".[] | " : "", filter);
    return fmt::format("{}jq -c {}{} > NEW.jsonl", unpack, shell_word(whole), read.empty() ? "" : " " + read);
}

}  // namespace windlass
