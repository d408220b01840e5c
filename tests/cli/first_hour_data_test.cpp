// The first hour: files of rows as people have them.
#include <gmock/gmock.h>

#include "base/error.h"
#include "tests/cli/first_hour.h"

namespace windlass::cli {
namespace {

constexpr int kData = static_cast<int>(ExitCode::data);

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

constexpr const char* kPair = R"({"prompt": "a b", "completion": " c"})";

std::vector<Tried> rows() {
    return {
        {"Chat",
         training_on("chat.jsonl", {R"({"messages": [{"role": "user", "content": "a"}]})"}),
         kData,
         {"chat.jsonl:1", "is a chat", "\"prompt\" and \"completion\""},
         then_training_on("pairs.jsonl", {kPair, kPair})},
        {"Sharegpt",
         training_on("chat.jsonl", {R"({"conversations": [{"from": "human", "value": "a"}]})"}),
         kData,
         {"chat.jsonl:1", "conversations", "Try: "},
         then_training_on("pairs.jsonl", {kPair, kPair})},
        {"Parquet",
         training_on("rows.parquet", {"PAR1"}),
         kData,
         {"rows.parquet", "Try: convert it to .jsonl"},
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

class FirstHourData : public testing::TestWithParam<Tried> {};

TEST_P(FirstHourData, EndsInTheResultOrInHelp) {
    expect_it_helps(GetParam());
}

INSTANTIATE_TEST_SUITE_P(Rows, FirstHourData, testing::ValuesIn(rows()), name_of);

}  // namespace
}  // namespace windlass::cli
