#include "rows/csv_rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "base/json.h"
#include "tests/unit/rows/raw_rows.h"

namespace windlass {
namespace {

using fixtures::refusal_of;
using fixtures::rows_in;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

TEST(Csv, RowsAreObjectsByTheNamesOfTheFirst) {
    EXPECT_THAT(rows_in("rows.csv", "prompt,completion\r\n a ,\"b, \"\"c\"\"\"\r\n\r\n,\n"),
                ElementsAre(R"(2: {"completion":"b, \"c\"","prompt":" a "})", R"(4: {"completion":"","prompt":""})"));
    EXPECT_THAT(rows_in("rows.csv", "text\none"), ElementsAre(R"(2: {"text":"one"})"));
    EXPECT_THAT(rows_in("rows.csv", "\xEF\xBB\xBFtext\n\"\xC3\xA9\"\n"), ElementsAre("2: {\"text\":\"\xC3\xA9\"}"));
    EXPECT_THAT(rows_in("rows.csv", ",text,,\n0,one,,\n"), ElementsAre(R"(2: {"text":"one"})"));
    EXPECT_THAT(rows_in("rows.csv", "text\n"), ElementsAre());
    EXPECT_THAT(rows_in("rows.csv", ""), ElementsAre());
    EXPECT_THAT(rows_in("rows.csv", "\n\n"), ElementsAre());
}

// Lines in quotes are the cell's own; each row is named by the line on which it starts.
TEST(Csv, CellsMayHoldLines) {
    EXPECT_THAT(rows_in("rows.csv", "a,b\n\"1\n2\r\n3\",x\n\n\"\n\",y\nz,z\n"),
                ElementsAre(R"(2: {"a":"1\n2\r\n3","b":"x"})", R"(6: {"a":"\n","b":"y"})", R"(8: {"a":"z","b":"z"})"));
    EXPECT_THAT(rows_in("rows.csv", "a\r1\r2\r"), ElementsAre(R"(2: {"a":"1"})", R"(3: {"a":"2"})"));
}

TEST(Csv, BytesThatAreNoTextBecomeReplacements) {
    EXPECT_THAT(rows_in("rows.csv", "text\na\xFFz\n"), ElementsAre("2: {\"text\":\"a\xEF\xBF\xBDz\"}"));
    EXPECT_THAT(rows_in("rows.csv", std::string_view("text\na\0z\n", 9)), ElementsAre(R"(2: {"text":"a\u0000z"})"));
}

TEST(Csv, WhatIsNoTableIsRefusedByItsLine) {
    EXPECT_THAT(refusal_of("rows.csv", "a,b\n1,2\n\"\n\",2,3\n"),
                HasSubstr("rows.csv:3: the row has 3 cells, the first line names 2"));
    EXPECT_THAT(refusal_of("rows.csv", "a,b\n1\n"), HasSubstr("rows.csv:2: the row has 1 cells"));
    EXPECT_THAT(refusal_of("rows.csv", "a,a\n1,2\n"), HasSubstr("rows.csv:1: two columns have the same name, \"a\""));
    EXPECT_THAT(refusal_of("rows.csv", "a,b\n1,2\n5\" wide,2\n"),
                AllOf(HasSubstr("rows.csv:3: a quote is inside"), HasSubstr("Try: put the whole cell into quotes")));
    EXPECT_THAT(refusal_of("rows.csv", "a,b\n\"1\"x,2\n"), HasSubstr("rows.csv:2: a quote is inside"));
    EXPECT_THAT(refusal_of("rows.csv", "a,b\n1,2\n\"open,2\n3,4\n"),
                AllOf(HasSubstr("rows.csv:3: the file ends inside of a quoted cell"), HasSubstr("Try: ")));
    EXPECT_THAT(refusal_of("rows.csv", "prompt;completion\n1;2\n"),
                AllOf(HasSubstr("rows.csv:1:"), HasSubstr("between commas"), HasSubstr("Try: ")));
    EXPECT_THAT(refusal_of("rows.csv", "prompt\tcompletion\n1\t2\n"), HasSubstr("name it .tsv"));
    std::string wide;
    for (int column = 0; column <= 1024; ++column) wide += fmt::format("{},", column);
    EXPECT_THAT(refusal_of("rows.csv", wide + "\n"), HasSubstr("more than 1024 columns"));
}

TEST(Csv, ARowIsBounded) {
    const std::string commas(static_cast<size_t>(kRowBytesMax) / 2, ',');
    EXPECT_THAT(refusal_of("rows.csv", "a,b\n" + commas + "\n"), HasSubstr("rows.csv:2: the row has 1025 cells"));
    std::string text = "a,b\n1,\"";
    text.append(static_cast<size_t>(kRowBytesMax) + (2 << 20), 'x');
    for (const char* end : {"", "\"\n"})
        EXPECT_THAT(refusal_of("rows.csv", text + end),
                    AllOf(HasSubstr("rows.csv:2: the row is longer than"), HasSubstr("Try: look for a quote")));
}

// Any text comes back as it was, wherever the reader's blocks end.
TEST(Csv, TakesAnyTextInQuotes) {
    std::mt19937 random(11);
    const char* const parts[] = {"\"", ",", "\n", "\r\n", "\r", " ", "\t", "a", "word", "\xC3\xA9", ";", "\\"};
    std::string text = "a,b\n";
    std::vector<std::string> expected;
    int64_t line = 2;
    while (text.size() < 3u << 20) {
        std::string cells[2];
        for (std::string& cell : cells)
            for (uint32_t i = random() % 40; i > 0; --i) cell += parts[random() % std::size(parts)];
        const int64_t begins = line;
        for (size_t i = 0; i < 2; ++i) {
            text += i == 0 ? "\"" : ",\"";
            for (size_t at = 0; at < cells[i].size(); ++at) {
                text += cells[i][at];
                if (cells[i][at] == '"') text += '"';
                const bool is_return = cells[i][at] == '\r';
                const bool is_pair = cells[i][at] == '\n' && at > 0 && cells[i][at - 1] == '\r';
                line += is_return || (cells[i][at] == '\n' && !is_pair);
            }
            text += '"';
        }
        text += random() % 2 == 0 ? "\n" : "\r\n";
        ++line;
        expected.push_back(fmt::format("{}: {}", begins, SortedJson({{"a", cells[0]}, {"b", cells[1]}}).dump()));
    }
    const std::vector<std::string> rows = rows_in("rows.csv", text);
    ASSERT_EQ(rows.size(), expected.size());
    for (size_t i = 0; i < rows.size(); ++i) ASSERT_EQ(rows[i], expected[i]) << "row " << i;
}

}  // namespace
}  // namespace windlass
