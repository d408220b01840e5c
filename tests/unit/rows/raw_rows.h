// raw_rows.h: the rows of a text, as a data file of this name gives them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "rows/row_reader.h"
#include "tests/unit/tokenizer/fixtures.h"

namespace windlass::fixtures {

// "2: {...}": line and text of each.
inline std::vector<std::string> rows_in(const std::string& name, std::string_view text) {
    const TempFolder folder;
    RowReader reader(real_files(), folder.write(name, text), "");
    std::vector<std::string> rows;
    while (const auto row = reader.next())
        rows.push_back(fmt::format("{}: {}", row->line, row->text_or_refusal(fmt::format("{}:{}", name, row->line))));
    return rows;
}

// What a UserError(data) says of it, or "read".
inline std::string refusal_of(const std::string& name, std::string_view text) {
    try {
        rows_in(name, text);
    } catch (const UserError& error) {
        return error.code() == ExitCode::data ? error.what() : fmt::format("of another kind: {}", error.what());
    }
    return "read";
}

}  // namespace windlass::fixtures
