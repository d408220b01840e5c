#include "format/checksummed_json.h"

#include <optional>

#include "base/error.h"
#include "base/log.h"
#include "format/checksum.h"

namespace windlass {
namespace {

// How the member begins, where the checked part of the text ends, and what closes the object.
struct Form {
    std::string_view member, end;
};
constexpr Form kText = {",\n  \"checksum\": \"", "\"\n}\n"}, kLine = {",\"checksum\":\"", "\"}"};

std::string end_of(std::string_view checked, const Form& form) {
    return fmt::format("{}{:016x}{}", form.member, xxh3_64(bytes_of(checked)), form.end);
}

std::string with_member(std::string_view object, const Form& form) {
    const auto without_space = [&] { object = object.substr(0, object.find_last_not_of(" \t\r\n") + 1); };
    without_space();
    WINDLASS_CHECK(object.ends_with('}'), "only an object has a checksum");
    object.remove_suffix(1);
    without_space();
    WINDLASS_CHECK(!object.ends_with('{'), "an object without members has no checksum");
    return std::string(object) + end_of(object, form);
}

std::optional<TextChecksum> checksum_in(std::string_view text, const Form& form) {
    const size_t end = text.rfind(form.member);
    if (end == text.npos) return std::nullopt;
    return text.substr(end) == end_of(text.substr(0, end), form) ? TextChecksum::right : TextChecksum::wrong;
}

}  // namespace

std::string with_checksum(std::string_view object) {
    return with_member(object, kText);
}

std::string line_with_checksum(std::string_view object) {
    return with_member(object, kLine);
}

TextChecksum text_checksum(std::string_view text) {
    const size_t line = text.find('\n');
    const bool is_line = line == text.npos || line + 1 == text.size();
    return checksum_in(text, kText).value_or(is_line ? TextChecksum::absent : TextChecksum::wrong);
}

TextChecksum line_checksum(std::string_view line) {
    return checksum_in(line, kLine).value_or(TextChecksum::absent);
}

void require_checksum(std::string_view text, std::string_view where, std::string_view what_to_do) {
    switch (text_checksum(text)) {
        case TextChecksum::right:
            return;
        case TextChecksum::absent:
            log_warning("{}: has no checksum, as an older build of Windlass wrote it; it is read once more, unchecked",
                        where);
            return;
        case TextChecksum::wrong:
            UserError damage(ExitCode::storage, where, "is damaged: its checksum does not match");
            if (!what_to_do.empty()) damage.hint(what_to_do);
            throw damage;
    }
}

}  // namespace windlass
