// Data files that must be refused, through the real program.
#include <filesystem>

#include "tests/cli/provoked.h"

namespace windlass::cli {
namespace {

constexpr const char* kGood = R"({"text": "a good row"})";

std::vector<Provoked> rows() {
    return {
        {"MalformedLine",
         with_rows("bad.jsonl", {kGood, kGood, R"({"text": "cut)"}),
         kData,
         {"bad.jsonl:3", "not valid JSON"}},
        {"RowIsAList",
         with_rows("bad.jsonl", {kGood, R"(["text"])"}),
         kData,
         {"bad.jsonl:2", "array", "not an object"}},
        {"UnknownKeys",
         with_rows("bad.jsonl", {R"({"question": "?", "answer": "!"})"}),
         kData,
         {"bad.jsonl:1", "question", "answer", "no known format", "Try: "}},
        {"ChatRow",
         with_rows("bad.jsonl", {R"({"messages": [{"role": "user", "content": "hi"}]})"}),
         kUsage,
         {"bad.jsonl:1", "chat", "no chat template", "Try: chat_template: FILE"}},
        {"ShareGptRow",
         with_rows("bad.jsonl", {R"({"conversations": [{"from": "human", "value": "hi"}]})"}),
         kUsage,
         {"bad.jsonl:1", "chat", "Try: "}},
        {"MixedFormats",
         with_rows("bad.jsonl", {kGood, R"({"prompt": "a", "completion": "b"})"}),
         kData,
         {"bad.jsonl:2", "prompt/completion", "text", "Try: "}},
        {"TextIsANumber", with_rows("bad.jsonl", {R"({"text": 7})"}), kData, {"bad.jsonl:1", "\"text\" is number"}},
        {"CompletionMissing",
         with_rows("bad.jsonl", {R"({"prompt": "a", "completion": "b"})", R"({"prompt": "a"})"}),
         kData,
         {"bad.jsonl:2", "completion"}},
        {"ShiftedLabels",
         with_rows("bad.jsonl", {R"({"input_ids": [1, 2, 3], "labels": [2, 3, -100]})"}),
         kData,
         {"bad.jsonl:1", "labels[0] is 2", "Try: do not shift"}},
        {"NegativeId",
         with_rows("bad.jsonl", {R"({"input_ids": [1, -2, 3]})"}),
         kData,
         {"bad.jsonl:1", "input_ids[1] is -2"}},
        {"IdBeyondVocabulary",
         with_rows("bad.jsonl", {R"({"input_ids": [1, 2]})", R"({"input_ids": [1, 260, 3]})"}),
         kData,
         {"bad.jsonl:2", "260", "Try: "}},
        {"IdFarBeyondVocabulary",
         with_rows("bad.jsonl", {R"({"input_ids": [1, 2000000000]})"}),
         kData,
         {"bad.jsonl:1", "2000000000"}},
        {"BrokenArray", with_rows("bad.json", {"[", kGood, "}"}), kData, {"bad.json:"}},
        {"EmptyFile", with_rows("empty.jsonl", {}), kData, {"empty.jsonl", "nothing to learn"}},
        {"OnlyPrompts",
         with_rows("bad.jsonl", {R"({"input_ids": [1, 2], "labels": [-100, -100]})"}),
         kData,
         {"bad.jsonl", "nothing to learn"}},
    };
}

std::vector<Provoked> kinds() {
    return {
        {"UnknownKind",
         with_rows("rows.xlsx", {"text", "a row"}),
         kData,
         {"rows.xlsx", "\".xlsx\" is not read", "Try: "}},
        {"RaggedTable",
         with_rows("rows.csv", {"text,n", "\"a", "row\",1", "alone"}),
         kData,
         {"rows.csv:4", "the row has 1 cells, the first line names 2"}},
        {"PlainTextNamedAsGzip",
         with_rows("rows.jsonl.gz", {kGood}),
         kData,
         {"rows.jsonl.gz", "no gzip file", "Try: "}},
    };
}

std::vector<Provoked> data_files() {
    return {
        {"NoFile",
         with_settings([](Settings& settings, Sandbox& sandbox) { settings["train_data"] = sandbox / "absent.jsonl"; }),
         kData,
         {"absent.jsonl", "there is no such file", "Try: a path"}},
        {"NoEvalFile",
         with_settings([](Settings& settings, Sandbox& sandbox) { settings["eval_data"] = sandbox / "absent.jsonl"; }),
         kData,
         {"absent.jsonl", "there is no such file", "Try: a path"}},
        {"RowsTooLong",
         with_settings([](Settings& settings, Sandbox&) {
             settings["max_length"] = "8";
             settings["truncation"] = "error";
         }),
         kData,
         {"rows.jsonl:2", "max_length is 8", "Try: raise max_length"}},
        {"SplitTakesAll",
         with_settings([](Settings& settings, Sandbox&) { settings["val_split"] = "50"; }),
         kData,
         {"val_split", "50 rows", "there are 10", "Try: "}},
        {"ChoiceNotThere",
         [](Sandbox& sandbox) {
             const std::string rows = sandbox.rows("choice.jsonl", {R"({"prompt": "2+2=", "completion": "5"})"});
             return sandbox.windlass({"eval", sandbox.model(), "--data", rows, "--choices", "3|4"});
         },
         kData,
         {"choice.jsonl:1", "\"5\" is not one of the choices"}},
    };
}

class DataErrors : public testing::TestWithParam<Provoked> {};

TEST_P(DataErrors, NameFileAndLine) {
    expect_refused(GetParam());
}

INSTANTIATE_TEST_SUITE_P(Rows, DataErrors, testing::ValuesIn(rows()), name_of_provoked);
INSTANTIATE_TEST_SUITE_P(Kinds, DataErrors, testing::ValuesIn(kinds()), name_of_provoked);
INSTANTIATE_TEST_SUITE_P(Files, DataErrors, testing::ValuesIn(data_files()), name_of_provoked);

TEST(DataErrors, MalformedRowsAreSkippedAndCountedWhenAsked) {
    Sandbox sandbox;
    Settings settings = sandbox.training();
    settings["train_data"] = sandbox.rows("bad.jsonl", {kGood, "{", kGood, kGood, R"([3])"});
    settings["skip_malformed"] = "true";
    const Finished finished = run(sandbox.train(settings));
    EXPECT_EQ(finished.code, 0) << describe(finished);
    EXPECT_NE(finished.err.find("2 malformed"), std::string::npos) << finished.err;
}

// After a refusal the same folder takes the mended run: nothing has to be cleared away by hand.
TEST(DataErrors, MendedRunStartsInTheSameFolder) {
    Sandbox sandbox;
    Settings settings = sandbox.training();
    const std::string good = settings["train_data"];
    settings["train_data"] = sandbox.rows("bad.jsonl", {"{"});
    EXPECT_EQ(run(sandbox.train(settings)).code, kData);
    write_bytes(sandbox.out() + "/run.yaml.tmp", "mod");  // as a kill leaves it
    settings["train_data"] = good;
    const Finished finished = run(sandbox.train(settings));
    EXPECT_EQ(finished.code, 0) << describe(finished);
}

}  // namespace
}  // namespace windlass::cli
