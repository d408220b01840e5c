#include "rows/row_template.h"

#include <fmt/ranges.h>
#include <utf8proc.h>

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/nearest.h"
#include "base/printable.h"
#include "base/text_cuts.h"
#include "base/utf8.h"

namespace windlass {
namespace {

constexpr std::string_view kSpace = " \t\r\n\v\f";

struct NamedFilter {
    std::string_view name;
    TextFilter filter;
};
constexpr std::array<NamedFilter, 6> kFilters = {{{"strip", TextFilter::strip},
                                                  {"lower", TextFilter::lower},
                                                  {"capital", TextFilter::capital},
                                                  {"small", TextFilter::small},
                                                  {"question", TextFilter::question},
                                                  {"no_stop", TextFilter::no_stop}}};

TextFilter filter_of(std::string_view name, std::string_view where) {
    std::vector<std::string_view> names;
    for (const NamedFilter& each : kFilters) {
        if (each.name == name) return each.filter;
        names.push_back(each.name);
    }
    const std::string_view near = nearest_name(name, names);
    throw UserError(ExitCode::usage, where, "there is no filter \"{}\"", excerpt(name))
        .hint(near.empty() ? "strip, lower, capital, small, question or no_stop" : std::string(near));
}

std::string lower(std::string_view text) {
    const std::string valid = to_valid_utf8(text);
    std::string out;
    for (std::string_view rest = valid; !rest.empty();) {
        const CodePoint point = first_code_point(rest);
        append_utf8(out, static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(point.value))));
        rest.remove_prefix(point.bytes);
    }
    return out;
}

std::string capital(const std::string& text) {
    const std::string valid = to_valid_utf8(text);
    if (valid.empty()) return valid;
    const CodePoint point = first_code_point(valid);
    std::string out;
    append_utf8(out, static_cast<char32_t>(utf8proc_toupper(static_cast<utf8proc_int32_t>(point.value))));
    return out + valid.substr(point.bytes);
}

std::string apply(TextFilter filter, std::string text) {
    switch (filter) {
        case TextFilter::strip:
            return std::string(stripped(text));
        case TextFilter::lower:
            return lower(text);
        case TextFilter::capital:
            return capital(text);
        case TextFilter::small: {
            const std::string first = text.substr(0, text.find(' '));
            return first == "I" ? text : lower(first) + text.substr(first.size());
        }
        case TextFilter::question:
            return text.ends_with('?') ? text : text + "?";
        case TextFilter::no_stop:
            if (text.ends_with('.')) text.pop_back();
            return text;
    }
    return text;
}

}  // namespace

std::string_view stripped(std::string_view text) {
    const size_t begin = text.find_first_not_of(kSpace);
    return begin == text.npos ? std::string_view() : text.substr(begin, text.find_last_not_of(kSpace) - begin + 1);
}

RowTemplate::Piece RowTemplate::parse_place(std::string_view place, std::string_view where) {
    const std::vector<std::string_view> parts = split(place, ':');
    Piece piece;
    for (const std::string_view field : split(parts[0], '|')) {
        if (field.empty()) throw UserError(ExitCode::usage, where, "\"{{{}}}\" names no field", excerpt(place));
        piece.fields.emplace_back(field);
    }
    for (size_t i = 1; i < parts.size(); ++i) piece.filters.push_back(filter_of(parts[i], where));
    return piece;
}

RowTemplate RowTemplate::parse(std::string_view text, std::string_view where) {
    RowTemplate made;
    std::string plain;
    const auto end_plain = [&] {
        if (!plain.empty()) made.pieces_.push_back({.text = std::move(plain)});
        plain.clear();
    };
    for (size_t i = 0; i < text.size(); ++i) {
        const bool is_brace = text[i] == '{' || text[i] == '}';
        if (is_brace && i + 1 < text.size() && text[i + 1] == text[i]) {
            plain += text[i++];
        } else if (text[i] == '{') {
            const size_t end = text.find_first_of("{}", i + 1);
            if (end == text.npos || text[end] == '{')
                throw UserError(ExitCode::usage, where, "the brace at byte {} is not closed", i)
                    .hint("{{ where a brace is meant");
            end_plain();
            made.pieces_.push_back(parse_place(text.substr(i + 1, end - i - 1), where));
            i = end;
        } else if (text[i] == '}') {
            throw UserError(ExitCode::usage, where, "the brace at byte {} closes nothing", i)
                .hint("}} where a brace is meant");
        } else {
            plain += text[i];
        }
    }
    end_plain();
    return made;
}

std::string RowTemplate::fill(const FieldText& field, std::string_view where) const {
    std::string out;
    for (const Piece& piece : pieces_) {
        if (piece.fields.empty()) {
            out += piece.text;
            continue;
        }
        std::optional<std::string> text;
        for (size_t i = 0; i < piece.fields.size() && !text; ++i) text = field(piece.fields[i]);
        if (!text) {
            throw UserError(ExitCode::data, where, "the row has no \"{}\", which the task needs",
                            fmt::format("{}", fmt::join(piece.fields, "\" or \"")));
        }
        for (const TextFilter filter : piece.filters) text = apply(filter, std::move(*text));
        out += *text;
    }
    return out;
}

}  // namespace windlass
