// The first hour: files of rows as people have them.
#include <gmock/gmock.h>

#include <filesystem>

#include "base/error.h"
#include "tests/cli/first_hour.h"
#include "tests/unit/rows/compressed.h"

namespace windlass::cli {
namespace {

// Training on a file of this name that holds these lines.
std::function<Command(Sandbox&)> training_on(const std::string& name, const std::vector<std::string>& lines,
                                             Settings changes = {}) {
    return [=](Sandbox& sandbox) {
        Settings settings = changes;
        settings["train_data"] = sandbox.rows(name, lines);
        return training(settings)(sandbox);
    };
}

std::function<Command(Sandbox&, const Finished&)> then_training_on(const std::string& name,
                                                                   const std::vector<std::string>& lines) {
    return [=](Sandbox& sandbox, const Finished&) { return training_on(name, lines)(sandbox); };
}

// With the file that the hint asks for.
std::function<Command(Sandbox&, const Finished&)> then_training_by_template(const std::string& name,
                                                                            const std::vector<std::string>& lines) {
    return [=](Sandbox& sandbox, const Finished&) {
        Settings settings = sandbox.training();
        settings["train_data"] = sandbox.rows(name, lines);
        settings["chat_template"] = sandbox / "t.jinja";
        write_bytes(settings["chat_template"],
                    "{% for m in messages %}{{ m['content'] }}{{ eos_token if m['role'] == 'assistant' }}{% endfor %}");
        return sandbox.train(settings);
    };
}

constexpr const char* kChat =
    R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]})";
constexpr const char* kShareGpt =
    R"({"conversations": [{"from": "human", "value": "a"}, {"from": "gpt", "value": "b"}]})";
constexpr const char* kPair = R"({"prompt": "a b", "completion": " c"})";

std::vector<Tried> tried_rows() {
    return {
        {"Chat",
         training_on("chat.jsonl", {R"({"messages": [{"role": "user", "content": "a"}]})"}),
         kUsage,
         {"chat.jsonl:1", "is a chat", "no chat template", "Try: chat_template: FILE"},
         then_training_by_template("chat.jsonl", {kChat})},
        {"Sharegpt",
         training_on("chat.jsonl", {R"({"conversations": [{"from": "human", "value": "a"}]})"}),
         kUsage,
         {"chat.jsonl:1", "is a chat", "Try: chat_template: FILE"},
         then_training_by_template("chat.jsonl", {kShareGpt})},
        {"Parquet",
         training_on("rows.parquet", {"PAR1"}),
         kData,
         {"\".parquet\" is not read", "Try: convert it to .jsonl: python -c", "rows.parquet'", "to_json('rows.jsonl')"},
         then_training_on("rows.jsonl", {kPair, kPair})},
        {"Pairs", training_on("pairs.jsonl", {kPair, kPair}), 0, {"final"}},
        {"Alpaca",
         training_on("a.jsonl", {R"({"instruction": "a", "input": "", "output": "b"})"}, {{"max_length", "256"}}),
         0,
         {"final"}},
        {"Text", training_on("t.jsonl", {R"({"text": "some words"})"}), 0, {"final"}},
        {"JsonList", training_on("t.json", {R"([{"text": "some words"}, {"text": "more"}])"}), 0, {"final"}},
    };
}

// Files of these bytes, and training on what `train_data` says, with "@" for the sandbox.
std::function<Command(Sandbox&)> training_beside(std::map<std::string, std::string> files,
                                                 const std::string& train_data, const Settings& changes = {}) {
    return [=](Sandbox& sandbox) {
        for (const auto& [name, bytes] : files) {
            std::filesystem::create_directories(std::filesystem::path(sandbox / name).parent_path());
            write_bytes(sandbox / name, bytes);
        }
        Settings settings = changes;
        settings["train_data"] = train_data;
        return training(settings)(sandbox);
    };
}

std::function<Command(Sandbox&, const Finished&)> then_training_beside(std::map<std::string, std::string> files,
                                                                       const std::string& train_data) {
    return [=](Sandbox& sandbox, const Finished&) { return training_beside(files, train_data)(sandbox); };
}

constexpr const char* kPairs =
    "{\"prompt\": \"a b\", \"completion\": \" c\"}\n{\"prompt\": \"d\", \"completion\": \" e\"}\n";
constexpr const char* kTable = "prompt,completion\r\na b, c\r\n\"d, \"\"d\"\"\",\" e\ne\"\r\n";

std::function<Command(Sandbox&)> choices_over(const std::string& name, const std::string& text) {
    return [=](Sandbox& sandbox) {
        write_bytes(sandbox / name, text);
        return sandbox.windlass({"eval", sandbox.model(), "--data", sandbox / name, "--choices", " b| c"});
    };
}

// Every kind of file that is read.
std::vector<Tried> tried_kinds() {
    const auto packed = [](const char* text, Compression compression) {
        return fixtures::compressed(text, compression);
    };
    const std::string gz = packed(kPairs, Compression::gzip);
    return {
        {"Gzip",
         training_beside({{"a.jsonl.gz", gz}}, "@a.jsonl.gz"),
         0,
         {"of text from", "of gzip", "2 rows", "final"}},
        {"Zstd",
         training_beside({{"a.json.zst", packed("[{\"text\": \"a b c\"}]", Compression::zstd)}}, "@a.json.zst"),
         0,
         {"of zstd", "final"}},
        {"Xz",
         training_beside({{"a.txt.xz", packed("some words\n", Compression::xz)}}, "@a.txt.xz"),
         0,
         {"of xz", "final"}},
        {"Csv", training_beside({{"a.csv", kTable}}, "@a.csv"), 0, {"2 rows: 2 samples", "final"}},
        {"CompressedCsv",
         training_beside({{"a.csv.gz", packed(kTable, Compression::gzip)}}, "@a.csv.gz"),
         0,
         {"2 rows: 2 samples", "final"}},
        {"PlainText", training_beside({{"a.txt", "some words\n"}}, "@a.txt"), 0, {"final"}},
        {"TwoFiles",
         training_beside({{"a.jsonl", kPairs}, {"b.csv", kTable}}, "[@a.jsonl, @b.csv]"),
         0,
         {"4 samples", "final"}},
        {"Folder",
         training_beside({{"d/a.jsonl.gz", gz}, {"d/b.csv", kTable}, {"d/README.md", "x"}}, "@d"),
         0,
         {"2 files", "final"}},
        {"Pattern",
         training_beside({{"d/a.jsonl.gz", gz}, {"d/b.csv", kTable}}, "@d/*.jsonl*"),
         0,
         {"1 file", "final"}},
    };
}

// Where people's rows lie.
std::vector<Tried> places() {
    return {
        {"FolderOfParquet",
         training_beside({{"d/part-0.parquet", "PAR1"}}, "@d"),
         kData,
         {"the folder holds only .parquet files", "Try: make rows of them: python -c", "/d/*.parquet'"},
         then_training_beside({{"d/rows.jsonl", kPairs}}, "@d")},
        {"FolderOfADataSetFromTheHub",
         training_beside({{"alpaca/README.md", "x"}, {"alpaca/data/train-00000-of-00001.parquet", "PAR1"}}, "@alpaca"),
         kData,
         {"in the folder data", "Try: make rows of them: python -c", "/alpaca/data/*.parquet'"},
         then_training_beside({{"alpaca/rows.jsonl", kPairs}}, "@alpaca")},
        {"FolderSavedByDatasets",
         training_beside({{"d/data-00000-of-00001.arrow", "x"}, {"d/state.json.old", "{}"}}, "@d"),
         kData,
         {"only .arrow files", "d('arrow', data_files='"},
         then_training_beside({{"d/rows.jsonl", kPairs}}, "@d")},
        {"RowsOneFolderDeeper",
         training_beside({{"d/rows/a.jsonl", kPairs}}, "@d"),
         kData,
         {"no rows but in the folder rows", "/d/rows"},
         then_training_beside({}, "@d/rows")},
        {"TrainRowsOneFolderDeeper",
         training_beside({{"d/test/a.jsonl", kPairs}, {"d/train/a.jsonl", kPairs}}, "@d"),
         0,
         {"1 file: ", "/d/train/a.jsonl", "left out because of its name: "}},
        {"DataSetOfTheHub",
         training({{"train_data", "tatsu-lab/alpaca"}}),
         kData,
         {"tatsu-lab/alpaca: there is no such file, and data sets are not fetched",
          "hf download tatsu-lab/alpaca --repo-type dataset --local-dir alpaca"}},
        {"DataSetOfTheHubForATask",
         words({"eval", "MODEL", "--task", "sst2", "--data", "stanfordnlp/sst2"}),
         kData,
         {"hf download stanfordnlp/sst2 --repo-type dataset --local-dir sst2"}},
    };
}

// Names and contents that do not agree, and other kinds.
std::vector<Tried> other_contents() {
    const std::string gz = fixtures::compressed(kPairs, Compression::gzip);
    return {
        {"GzipUnderAPlainName",
         training_beside({{"a.jsonl", gz}}, "@a.jsonl"),
         kData,
         {"a.jsonl: the file is gzip data", "Try: rename it to end in .jsonl.gz"},
         then_training_beside({{"a.jsonl.gz", gz}}, "@a.jsonl.gz")},
        {"GzipCutOff",
         training_beside({{"a.jsonl.gz", gz.substr(0, gz.size() - 3)}}, "@a.jsonl.gz"),
         kData,
         {"a.jsonl.gz:3: the gzip data cannot be decompressed after", "the file ends before they do",
          "Try: copy or fetch"},
         then_training_beside({{"a.jsonl.gz", gz}}, "@a.jsonl.gz")},
        {"TextUnderAGzipName",
         training_beside({{"a.jsonl.gz", kPairs}}, "@a.jsonl.gz"),
         kData,
         {"a.jsonl.gz: is no gzip file, as its name says", "Try: if it holds plain text, rename it to ", "/a.jsonl"},
         then_training_beside({{"a.jsonl", kPairs}}, "@a.jsonl")},
        {"DownloadThatHardlyBegan",
         training_beside({{"a.jsonl.zst", ""}}, "@a.jsonl.zst"),
         kData,
         {"a.jsonl.zst: the file ends before its zstd data begin", "Try: copy or fetch"},
         then_training_beside({{"a.jsonl.zst", fixtures::compressed(kPairs, Compression::zstd)}}, "@a.jsonl.zst")},
        {"JsonLaidOutForPeople",
         training_beside({{"a.jsonl", "{\n  \"text\": \"a b\"\n}\n"}}, "@a.jsonl"),
         kData,
         {"a.jsonl:1: the line holds \"{\" alone: rows are one JSON object a line", "Try: jq -c . FILE > NEW.jsonl"},
         then_training_beside({{"a.jsonl", "{\"text\":\"a b\"}\n"}}, "@a.jsonl")},
        {"TableWithRaggedRows",
         training_beside({{"a.csv", "text,n\na b,1\nc\n"}}, "@a.csv"),
         kData,
         {"a.csv:3: the row has 1 cells, the first line names 2", "or leave out such rows: skip_malformed=true"},
         then_training({{"train_data", "@a.csv"}, {"skip_malformed", "true"}})},
        {"TextInAnotherEncoding",
         training_beside({{"a.txt", "one caf\xE9\n"}}, "@a.txt"),
         0,
         {"a.txt:1: bytes that are no UTF-8 became U+FFFD. Try: iconv", "final"}},
        {"EndingInCapitals", training_beside({{"A.JSONL", kPairs}}, "@A.JSONL"), 0, {"final"}},
        {"ChoicesOverPlainText",
         choices_over("a.txt", "some words\n"),
         kData,
         {"a.txt: plain text has no rows, and choices need rows of prompt and completion. Try: a .jsonl"},
         [](Sandbox& sandbox, const Finished&) { return choices_over("a.csv", "prompt,completion\na, b\n")(sandbox); }},
    };
}

// Files of other kinds.
std::vector<Tried> other_kinds() {
    const std::string gz = fixtures::compressed(kPairs, Compression::gzip);
    return {
        {"TarOfFiles",
         training_beside({{"a.tar.gz", gz}}, "@a.tar.gz"),
         kData,
         {"\".tar.gz\" is not read", "Try: unpack it"},
         then_training_beside({{"a/a.jsonl", kPairs}}, "@a")},
        {"SpreadsheetWithSemicolons",
         training_beside({{"a.csv", "prompt;completion\na;b\n"}}, "@a.csv"),
         kData,
         {"a.csv:1", "between commas", "Try: save it with commas"},
         then_training_beside({{"a.csv", kTable}}, "@a.csv")},
        {"Spreadsheet",
         training_beside({{"a.xlsx", "PK\x03\x04"}}, "@a.xlsx"),
         kData,
         {"\".xlsx\" is not read", "Try: convert it to .jsonl", ".csv"},
         then_training_beside({{"a.csv", kTable}}, "@a.csv")},
    };
}

class FirstHourData : public testing::TestWithParam<Tried> {};

TEST_P(FirstHourData, EndsInTheResultOrInHelp) {
    expect_it_helps(GetParam());
}

INSTANTIATE_TEST_SUITE_P(Rows, FirstHourData, testing::ValuesIn(tried_rows()), name_of_tried);
INSTANTIATE_TEST_SUITE_P(Kinds, FirstHourData, testing::ValuesIn(tried_kinds()), name_of_tried);
INSTANTIATE_TEST_SUITE_P(Places, FirstHourData, testing::ValuesIn(places()), name_of_tried);
INSTANTIATE_TEST_SUITE_P(Contents, FirstHourData, testing::ValuesIn(other_contents()), name_of_tried);
INSTANTIATE_TEST_SUITE_P(OtherKinds, FirstHourData, testing::ValuesIn(other_kinds()), name_of_tried);

}  // namespace
}  // namespace windlass::cli
