#include "base/failure_json.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "base/json.h"

namespace windlass {
namespace {

constexpr std::string_view kTry = "Try: ", kOr = "or: ";

std::string_view kind_of(ExitCode code) {
    switch (code) {
        case ExitCode::ok:
            return "ok";
        case ExitCode::internal:
            return "internal";
        case ExitCode::usage:
            return "usage";
        case ExitCode::no_fit:
            return "no_fit";
        case ExitCode::data:
            return "data";
        case ExitCode::model:
            return "model";
        case ExitCode::storage:
            return "storage";
        case ExitCode::gpu:
            return "device";
        case ExitCode::diverged:
            return "diverged";
        case ExitCode::interrupted:
            return "interrupted";
        case ExitCode::terminated:
            return "terminated";
    }
    return "internal";
}

struct Parts {
    std::string place, text;
    std::vector<std::string> tries;
};

std::string_view without_spaces(std::string_view line) {
    const size_t begin = line.find_first_not_of(' ');
    return begin == std::string_view::npos ? "" : line.substr(begin);
}

// A line's advice goes to `tries`, and what is before it to the text.
void take_line(std::string_view line, Parts& parts) {
    const size_t at = line.find(kTry);
    const bool is_next = without_spaces(line).starts_with(kOr) && !parts.tries.empty();
    std::string_view told = is_next ? "" : line.substr(0, at);
    if (is_next) parts.tries.emplace_back(without_spaces(line).substr(kOr.size()));
    if (!is_next && at != std::string_view::npos) {
        parts.tries.emplace_back(line.substr(at + kTry.size()));
        while (told.ends_with(' ') || told.ends_with('.')) told.remove_suffix(1);
    }
    if (without_spaces(told).empty()) return;
    if (!parts.text.empty()) parts.text += '\n';
    parts.text += told;
}

// "place: text"; a place holds no sentence.
void part_place(Parts& parts) {
    const size_t end = parts.text.find(": ");
    if (end == std::string::npos || parts.text.substr(0, end).find('\n') != std::string::npos) return;
    parts.place = parts.text.substr(0, end);
    parts.text = parts.text.substr(end + 2);
}

}  // namespace

Json failure_json(ExitCode code, const std::string& message) {
    Parts parts;
    for (std::string_view rest = message; !rest.empty();) {
        const size_t end = std::min(rest.find('\n'), rest.size());
        take_line(rest.substr(0, end), parts);
        rest = rest.substr(std::min(end + 1, rest.size()));
    }
    part_place(parts);
    // Of one problem with the configuration, the flag or the line that it is about.
    const std::string inner = parts.text.substr(0, parts.text.find(": "));
    if (parts.place == "configuration" && inner.size() < parts.text.size() && inner.find(' ') == std::string::npos)
        part_place(parts);
    return {{"code", static_cast<int>(code)},
            {"kind", kind_of(code)},
            {"place", parts.place},
            {"text", parts.text},
            {"tries", parts.tries}};
}

}  // namespace windlass
