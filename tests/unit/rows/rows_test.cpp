#include "rows/rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "rows/chat_format.h"
#include "rows/row_reader.h"
#include "tests/unit/tokenizer/fixtures.h"

namespace windlass {
namespace {

using testing::HasSubstr;
using Ids = std::vector<int32_t>;
using Mask = std::vector<uint8_t>;

constexpr int32_t kBos = 256;
constexpr int32_t kEos = 257;

// One data file and what becomes of it.
struct Outcome {
    std::vector<Sample> samples;
    RowsReport report;
};

Outcome read_rows(std::string_view text, const RowsOptions& options = {}, const std::string& name = "rows.jsonl") {
    static const Tokenizer tokenizer = fixtures::small_tokenizer();
    fixtures::TempFolder folder;
    const std::string path = folder.write(name, text);
    Outcome out;
    out.report = for_each_sample(real_files(), path, options, tokenizer, [&](Sample&& sample) {
        out.samples.push_back(std::move(sample));
        return true;
    });
    return out;
}

std::string refusal(std::string_view text, const RowsOptions& options = {}, const std::string& name = "rows.jsonl") {
    try {
        read_rows(text, options, name);
    } catch (const UserError& error) {
        EXPECT_EQ(error.code(), ExitCode::data);
        return error.what();
    }
    return "read";
}

TEST(Rows, TextIsTrainedFromItsSecondToken) {
    const auto out = read_rows(R"({"text": "hello ab"})");
    ASSERT_EQ(out.samples.size(), 1u);
    EXPECT_EQ(out.samples[0].ids, (Ids{kBos, 261, 32, 'a', 'b', kEos}));
    EXPECT_EQ(out.samples[0].trained, (Mask{0, 1, 1, 1, 1, 1}));
    EXPECT_EQ(out.report.tokens, 6);
    EXPECT_EQ(out.report.trained_tokens, 5);
}

TEST(Rows, BosAndEosComeOnce) {
    const auto out = read_rows(R"({"text": "<s>a</s>"})");
    EXPECT_EQ(out.samples[0].ids, (Ids{kBos, 'a', kEos}));
    EXPECT_EQ(read_rows(R"({"text": "a"})", {.add_eos = false}).samples[0].ids, (Ids{kBos, 'a'}));
    EXPECT_EQ(read_rows(R"({"prompt": "<s>q", "completion": "a"})").samples[0].trained, (Mask{0, 0, 1, 1}));
}

TEST(Rows, OnlyTheCompletionIsTrained) {
    const std::string row = R"({"prompt": "ab ", "completion": "hello"})";
    auto out = read_rows(row);
    EXPECT_EQ(out.samples[0].trained, (Mask{0, 0, 0, 0, 1, 1}));
    EXPECT_EQ(out.report.prefix_mismatches, 0);
    out = read_rows(row, {.train_on_prompt = true});
    EXPECT_EQ(out.samples[0].trained, (Mask{0, 1, 1, 1, 1, 1}));
}

TEST(Rows, TokenisesApartWhatSharesAToken) {
    const auto out = read_rows(R"({"prompt": "he", "completion": "llo"})");
    EXPECT_EQ(out.samples[0].ids, (Ids{kBos, 258, 259, 'o', kEos}));
    EXPECT_EQ(out.samples[0].trained, (Mask{0, 0, 1, 1, 1}));
    EXPECT_EQ(out.report.prefix_mismatches, 1);
    EXPECT_THAT(out.report.summary(), HasSubstr("1 row whose prompt and completion share a token"));
}

TEST(Rows, AlpacaHasTheClassicPrompt) {
    EXPECT_EQ(
        alpaca_prompt("Add.", "1 2"),
        "Below is an instruction that describes a task, paired with an input that provides further context. Write "
        "a response that appropriately completes the request.\n\n### Instruction:\nAdd.\n\n### Input:\n1 2\n\n"
        "### Response:\n");
    const auto out = read_rows(R"({"instruction": "Add.", "input": "", "output": "hello", "extra": 1})");
    static const Tokenizer tokenizer = fixtures::small_tokenizer();
    EXPECT_EQ(out.samples[0].trained_count(), 2);  // hello, EOS
    EXPECT_EQ(tokenizer.decode(out.samples[0].ids, true), alpaca_prompt("Add.", "") + "hello");
    EXPECT_THAT(refusal(R"({"instruction": "a", "output": "b", "history": [["q", "a"]]})"), HasSubstr("history"));
}

TEST(Rows, TokensAreTakenAsTheyAre) {
    auto out = read_rows(R"({"input_ids": [5, 6, 7], "labels": [-100, -100, 7], "attention_mask": [1, 1, 1]})");
    EXPECT_EQ(out.samples[0].ids, (Ids{5, 6, 7}));
    EXPECT_EQ(out.samples[0].trained, (Mask{0, 0, 1}));
    out = read_rows(R"({"input_ids": [5, 6, 7]})");
    EXPECT_EQ(out.samples[0].trained, (Mask{0, 1, 1}));
    EXPECT_THAT(refusal(R"({"input_ids": [5, 6], "labels": [6, 7]})"), HasSubstr("do not shift labels"));
    EXPECT_THAT(refusal(R"({"input_ids": [5], "labels": [5, 6]})"), HasSubstr("as long as"));
    EXPECT_THAT(refusal(R"({"input_ids": [-1]})"), HasSubstr("input_ids[0] is -1"));
    EXPECT_THAT(refusal(R"({"input_ids": [99999999]})"), HasSubstr("99999999"));
    EXPECT_THAT(refusal(R"({"input_ids": [1.5]})"), HasSubstr("not an integer"));
    // 2^64 - 100 is no way to write -100, nor 2^64 - 1 an id.
    EXPECT_THAT(refusal(R"({"input_ids": [5], "labels": [18446744073709551516]})"), HasSubstr("18446744073709551516"));
    EXPECT_THAT(refusal(R"({"input_ids": [18446744073709551615]})"),
                HasSubstr("is 18446744073709551615, which is not an id"));
}

TEST(Rows, SamplesWithoutATargetAreDropped) {
    const auto out =
        read_rows("{\"prompt\": \"a\", \"completion\": \"\"}\n{\"prompt\": \"a\", \"completion\": \"b\"}\n");
    EXPECT_EQ(out.samples.size(), 1u);
    EXPECT_EQ(out.report.rows, 2);
    EXPECT_EQ(out.report.dropped_empty, 1);
    EXPECT_EQ(read_rows(R"({"text": ""})").report.dropped_empty, 1);
}

TEST(Rows, TruncationDoesWhatItSays) {
    const std::string row = R"({"text": "abcdefg"})";  // 9 tokens with BOS and EOS
    auto out = read_rows(row, {.max_length = 5});
    EXPECT_EQ(out.samples.size(), 0u);
    EXPECT_EQ(out.report.dropped_long, 1);
    out = read_rows(row, {.max_length = 5, .truncation = Truncation::right});
    EXPECT_EQ(out.samples[0].ids, (Ids{kBos, 'a', 'b', 'c', 'd'}));
    EXPECT_EQ(out.report.truncated, 1);
    out = read_rows(row, {.max_length = 5, .truncation = Truncation::left});
    EXPECT_EQ(out.samples[0].ids, (Ids{kBos, 'e', 'f', 'g', kEos}));
    EXPECT_EQ(out.samples[0].trained, (Mask{0, 1, 1, 1, 1}));
    EXPECT_THAT(refusal(row, {.max_length = 5, .truncation = Truncation::error}),
                HasSubstr("rows.jsonl:1: the row has 9 tokens"));
    EXPECT_EQ(read_rows(row, {.max_length = 9}).samples.size(), 1u);
    EXPECT_THROW(read_rows(row, {.max_length = 1}), UserError);
}

TEST(Rows, TextAloneMayBeCutInAnotherWayThanRowsWithAPrompt) {
    const RowsOptions options{.max_length = 5, .text_truncation = Truncation::split};
    const auto text = read_rows(R"({"text": "abcdefg"})", options);
    EXPECT_EQ(text.report.trained_tokens, 8);
    EXPECT_EQ(text.samples.size(), 2u);
    const auto prompt = read_rows(R"({"prompt": "ab", "completion": "cdefg"})", options);
    EXPECT_EQ(prompt.samples.size(), 0u);
    EXPECT_EQ(prompt.report.dropped_long, 1);
}

// What the line says is the key of a cache, and by it a run that goes on finds its rows again.
TEST(Rows, TheLineOfOptionsNamesTheTruncationOfTextWhereItDiffers) {
    const std::string plain = describe({.max_length = 5, .truncation = Truncation::split});
    EXPECT_EQ(describe({.max_length = 5, .truncation = Truncation::split, .text_truncation = Truncation::split}),
              plain);
    EXPECT_NE(describe({.max_length = 5, .truncation = Truncation::split, .text_truncation = Truncation::right}),
              plain);
}

TEST(Rows, SplitTrainsEveryTokenOnce) {
    const std::string row = R"({"text": "abcdefghijklmnop"})";
    const auto whole = read_rows(row);
    for (int64_t limit = 2; limit < 20; ++limit) {
        const auto out = read_rows(row, {.max_length = limit, .truncation = Truncation::split});
        EXPECT_EQ(out.report.trained_tokens, whole.report.trained_tokens) << limit;
        Ids targets;
        for (const auto& sample : out.samples) {
            EXPECT_LE(static_cast<int64_t>(sample.ids.size()), limit);
            for (size_t i = 0; i < sample.ids.size(); ++i)
                if (sample.trained[i]) targets.push_back(sample.ids[i]);
        }
        EXPECT_EQ(targets, Ids(whole.samples[0].ids.begin() + 1, whole.samples[0].ids.end())) << limit;
    }
}

// Not a fault of the row: it is no malformed one that might be skipped.
TEST(Rows, ChatsNeedATemplate) {
    for (const char* row : {R"({"messages": [{"role": "user", "content": "hi"}]})", R"({"conversations": []})",
                            R"({"prompt": [], "completion": []})"}) {
        try {
            read_rows(row, {.skip_malformed = true});
            FAIL() << row;
        } catch (const UserError& error) {
            EXPECT_EQ(error.code(), ExitCode::usage);
            EXPECT_THAT(error.what(), HasSubstr("rows.jsonl:1: the row is a chat, and the model has no chat template. "
                                                "Try: chat_template: FILE"));
        }
    }
}

TEST(Rows, ChatsAndInstructionsAreWrittenByTheTemplate) {
    static const Tokenizer tokenizer = fixtures::small_tokenizer();
    const ChatFormat chats({.place = "t",
                            .text = "{% for m in messages %}{{ m.role[0] }}{{ m.content }}{{ eos_token if m.role == "
                                    "'assistant' }}{% endfor %}{{ 'a' if add_generation_prompt }}",
                            .tool_use = ""},
                           tokenizer, "2026-01-31");
    for (const char* row :
         {R"({"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "b"}]})",
          R"({"instruction": "q", "output": "b"})"}) {
        const auto out = read_rows(row, {.chats = &chats});
        ASSERT_EQ(out.samples.size(), 1u) << row;
        EXPECT_EQ(out.samples[0].ids, (Ids{'u', 'q', 'a', 'b', kEos})) << row;
        EXPECT_EQ(out.samples[0].trained, (Mask{0, 0, 0, 1, 1})) << row;
    }
    EXPECT_NE(describe({.chats = &chats}), describe({}));
    EXPECT_NE(describe({.chats = &chats}), describe({.chats = &chats, .train_turns = TrainTurns::all}));
}

TEST(Rows, MalformedRowsNameTheirLine) {
    const std::string rows =
        "{\"text\": \"a\"}\n\n{\"text\": 5}\n{\"text\": \"b\"}\n{broken\n{\"prompt\": \"a\", \"completion\": \"b\"}\n";
    EXPECT_THAT(refusal(rows), HasSubstr("rows.jsonl:3: \"text\" is number and not a string. Try: mend the row, or "
                                         "leave out such rows: skip_malformed=true"));
    const auto out = read_rows(rows, {.skip_malformed = true});
    EXPECT_EQ(out.samples.size(), 2u);
    EXPECT_EQ(out.report.malformed, 3);
    EXPECT_EQ(out.report.rows, 5);
    EXPECT_THAT(refusal("{\"question\": \"a\"}"), HasSubstr("the row's keys make no known format: question"));
    EXPECT_THAT(refusal("[1]"), HasSubstr("array and not an object. Try: one object a line"));
    EXPECT_THAT(refusal("{\n  \"text\": \"a\"\n}\n"),
                HasSubstr("rows.jsonl:1: the line holds \"{\" alone: rows are one JSON object a line"));
    EXPECT_THAT(refusal("{\n  \"data\": [\n", {}, "rows.json"), HasSubstr("Try: jq -c . FILE > NEW.jsonl"));
    EXPECT_THAT(refusal(std::string_view("{\"text\": \"a\"}\0{\"text\": \"b\"}", 29)), HasSubstr("byte 14 is NUL"));
    EXPECT_THAT(refusal("{\"text\": \"a\"}\n{\"prompt\": \"a\", \"completion\": \"b\"}"),
                HasSubstr("the rows before it are text"));
    EXPECT_THAT(refusal("PK", {}, "rows.xlsx"), HasSubstr("\".xlsx\" is not read"));
}

TEST(Rows, TablesHoldTheFormatsOfObjects) {
    EXPECT_EQ(read_rows("prompt,completion\nab ,hello\n", {}, "rows.csv").samples[0].trained, (Mask{0, 0, 0, 0, 1, 1}));
    EXPECT_EQ(read_rows("instruction,input,output\nAdd.,,hello\n", {}, "rows.csv").samples[0].trained_count(), 2);
    EXPECT_EQ(read_rows("id,text\n1,\"a\nb\"\n", {}, "rows.csv").samples[0].ids, (Ids{kBos, 'a', 10, 'b', kEos}));
    EXPECT_THAT(refusal("a,b\n1,2\n", {}, "rows.csv"),
                HasSubstr("rows.csv:2: the row's keys make no known format: a, b"));
}

// A line of another width is one malformed row; those behind it are read.
TEST(Rows, RowsOfTheWrongWidthAreMalformedRows) {
    const std::pair<const char*, std::string> tables[] = {{"rows.csv", "n,text\n1,a\nalone\n2,b,c\n\"3\",\"d\"\n,,,\n"},
                                                          {"rows.tsv", "n\ttext\n1\ta\nalone\n2\tb\tc\n3\td\n\tx\t\n"}};
    for (const auto& [name, table] : tables) {
        EXPECT_THAT(refusal(table, {}, name), AllOf(HasSubstr(":3: the row has 1 cells, the first line names 2"),
                                                    HasSubstr("Try: "), HasSubstr("skip_malformed=true")));
        const auto out = read_rows(table, {.skip_malformed = true}, name);
        EXPECT_EQ(out.report.rows, 5) << name;
        EXPECT_EQ(out.report.malformed, 3) << name;
        ASSERT_EQ(out.samples.size(), 2u) << name;
        EXPECT_EQ(out.samples[1].ids, (Ids{kBos, 'd', kEos})) << name;
    }
}

TEST(Rows, FieldsCanHaveOtherNames) {
    RowsOptions options;
    options.fields.prompt = "question";
    options.fields.completion = "answer";
    EXPECT_EQ(read_rows(R"({"question": "q", "answer": "a"})", options).samples[0].ids, (Ids{kBos, 'q', 'a', kEos}));
}

TEST(Rows, DescribeTellsOptionsApart) {
    RowsOptions options;
    const std::string plain = describe(options);
    options.fields.prompt = "q";
    EXPECT_NE(describe(options), plain);
    options = {};
    options.truncation = Truncation::split;
    EXPECT_NE(describe(options), plain);
}

TEST(RowReader, ReadsArraysElementByElement) {
    const auto out = read_rows("\xEF\xBB\xBF [ {\"text\": \"a],{\\\"\"},\n\n {\"text\": \"b\"} ]\n", {}, "rows.json");
    ASSERT_EQ(out.samples.size(), 2u);
    EXPECT_EQ(out.samples[0].ids.size(), 2u + 5u);
    EXPECT_EQ(read_rows("[]", {}, "rows.json").report.rows, 0);
    EXPECT_EQ(read_rows("{\"text\": \"a\"}\n{\"text\": \"b\"}", {}, "rows.json").report.rows, 2);
    EXPECT_THAT(refusal("[{\"text\": \"a\"} {\"text\": \"b\"}]", {}, "rows.json"), HasSubstr("not valid JSON"));
    EXPECT_THAT(refusal("[{\"text\": \"a\"},\n{\"text\": \"b\"", {}, "rows.json"),
                HasSubstr("rows.json:2: the file ends inside"));
    EXPECT_THAT(refusal("[{\"text\": \"a\"}] x", {}, "rows.json"), HasSubstr("something follows"));
    EXPECT_THAT(refusal("[{\"text\": \"a\"},]", {}, "rows.json"), HasSubstr("a comma without a row after it"));
    EXPECT_THAT(refusal("[{\"text\": \"a\"},\n\n{\"text\": 1}]", {}, "rows.json"), HasSubstr("rows.json:3:"));
}

TEST(RowReader, ReadsTextAsDocuments) {
    const auto whole = read_rows("a\nb\n", {}, "book.txt");
    ASSERT_EQ(whole.samples.size(), 1u);
    EXPECT_EQ(whole.samples[0].ids, (Ids{kBos, 'a', 10, 'b', 10, kEos}));
    const auto parts = read_rows("a\n---\n---\nb\nc\n---\r\nd", {.document_separator = "---"}, "book.txt");
    ASSERT_EQ(parts.samples.size(), 3u);
    EXPECT_EQ(parts.samples[1].ids, (Ids{kBos, 'b', 10, 'c', kEos}));
    EXPECT_EQ(parts.samples[2].ids, (Ids{kBos, 'd', kEos}));
    const auto padded = read_rows("\n\na\n\nb\n\n---\n\n---\n", {.document_separator = "---"}, "book.txt");
    ASSERT_EQ(padded.samples.size(), 1u);
    EXPECT_EQ(padded.samples[0].ids, (Ids{kBos, 'a', 10, 10, 'b', kEos}));
    EXPECT_EQ(read_rows("", {}, "book.txt").report.rows, 0);
}

// Bytes in another encoding are said once, by their line; what is made of them is the tokenizer's business.
TEST(RowReader, FindsTheLineOfBytesThatAreNoText) {
    const auto line_in = [](const char* name, std::string_view text) {
        const fixtures::TempFolder folder;
        RowReader reader(real_files(), folder.write(name, text), "--");
        while (reader.next()) continue;
        return reader.replaced_line();
    };
    EXPECT_EQ(line_in("book.txt", "caf\xC3\xA9\nna\xC3\xAFve\n"), std::nullopt);
    EXPECT_EQ(line_in("book.txt", "one\n--\ntwo\ncaf\xE9\nna\xEFve\n"), 4);
    EXPECT_EQ(line_in("rows.csv", "text,n\na,1\n\"b\nc\",2\ncaf\xE9,3\n\xE9,4\n"), 5);
    EXPECT_EQ(line_in("rows.tsv", "n\ttext\n1\tcaf\xE9\n"), 2);
    testing::internal::CaptureStderr();
    read_rows("one\ncaf\xE9\n", {}, "book.txt");
    EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("book.txt:2: bytes that are no UTF-8 became U+FFFD"));
}

TEST(RowReader, CrossesItsBufferAnywhere) {
    // Rows whose lengths walk over the border of the one-mebibyte buffer.
    std::string text;
    int64_t rows = 0;
    for (size_t length = 1; text.size() < (3u << 20); length = length * 7 % 100003 + 1, ++rows)
        text += "{\"text\": \"" + std::string(length, 'x') + "\"}\n";
    fixtures::TempFolder folder;
    RowReader reader(real_files(), folder.write("rows.jsonl", text), "");
    std::string joined;
    int64_t count = 0;
    for (; auto row = reader.next(); ++count) {
        EXPECT_EQ(row->line, count + 1);
        joined += row->text + "\n";
    }
    EXPECT_EQ(count, rows);
    EXPECT_EQ(joined, text);
}

TEST(RowReader, BoundsItsLines) {
    fixtures::TempFolder folder;
    const std::string path = folder.path() + "/rows.jsonl";
    real_files().open(path, {.mode = OpenMode::create})->truncate(kRowBytesMax + 10);
    RowReader reader(real_files(), path, "");
    EXPECT_THROW(reader.next(), UserError);
}

TEST(Rows, ReadRealDataSets) {
    WINDLASS_NEEDS_SHARED_DATA("data-alpaca-style/alpaca_5000.json");
    const auto count = [](const std::string& path, const RowsOptions& options = {}) {
        return for_each_sample(real_files(), fixtures::shared(path), options, fixtures::stories(),
                               [](Sample&&) { return true; });
    };
    EXPECT_EQ(count("data-alpaca-style/alpaca_en_demo.json").dropped_long, 0);
    EXPECT_GT(count("data-alpaca-style/alpaca_en_demo.json").samples, 900);
    RowsOptions gsm;
    gsm.fields.prompt = "question";
    gsm.fields.completion = "answer";
    EXPECT_EQ(count("data-gsm8k/test.jsonl", gsm).samples, 1319);
    EXPECT_EQ(count("data-tinystories-sample/tinystories_sample.txt", {.document_separator = "<|endoftext|>"}).samples,
              5);
    EXPECT_GT(count("data-chat-and-preference/wikisql_valid.jsonl").samples, 90);
}

}  // namespace
}  // namespace windlass
