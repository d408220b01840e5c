// Tasks through the real program: what eval prints, which rows it takes, and what it says of tasks that are none.
#include <gmock/gmock.h>

#include "tests/cli/sandbox.h"
#include "tests/place.h"

namespace windlass::cli {
namespace {

using testing::HasSubstr;

constexpr const char* kQuestions[] = {R"({"q": "one", "a": "no", "label": 0})",
                                      R"({"q": "two", "a": "so", "label": 1})",
                                      R"({"q": "three", "a": "no", "label": 0})"};

std::string questions(Sandbox& sandbox) {
    return sandbox.rows("questions.jsonl", {kQuestions[0], kQuestions[1], kQuestions[2]});
}

std::string write_task(const Sandbox& sandbox, const std::string& members) {
    const std::string path = sandbox / "mine.json";
    write_bytes(path, R"({"name": "mine", "about": "a test", "prompt": "{q}?", )" + members + "}");
    return path;
}

constexpr const char* kCandidates = R"("candidates": {"0": " no", "1": " so"}, "label": "{label}")";

TEST(EvalTask, PrintsAccuracyAndWhatWasChosen) {
    Sandbox sandbox;
    const std::vector<std::string> words = {"eval",   sandbox.model(),   "--task", write_task(sandbox, kCandidates),
                                            "--data", questions(sandbox)};
    const std::string text = must_succeed(sandbox.windlass(words)).out;
    for (const char* part : {"task      mine\n", "accuracy  ", " of 3\n", "label     0: right in ", "label     1: "})
        EXPECT_THAT(text, HasSubstr(part));
    std::vector<std::string> in_json = words;
    in_json.push_back("--json");
    const Json json = json_of(sandbox.windlass(in_json));
    EXPECT_EQ(json.at("metric"), "accuracy");
    EXPECT_EQ(json.at("rows"), 3);
    EXPECT_DOUBLE_EQ(json.at("accuracy").get<double>(), json.at("right").get<double>() / 3);
    EXPECT_EQ(json.at("labels")[0].at("rows"), 2);
    EXPECT_EQ(json.at("labels")[0].at("chosen").get<int>() + json.at("labels")[1].at("chosen").get<int>(), 3);
    in_json.insert(in_json.end(), {"--threads", "2", "--per-device-train-batch-size", "3"});
    EXPECT_EQ(json_of(sandbox.windlass(in_json)).at("labels"), json.at("labels"));
}

TEST(EvalTask, LetsTheModelWriteShortAnswers) {
    Sandbox sandbox;
    const std::string task = write_task(
        sandbox,
        R"("completion": " {a}\n", "answers": "a", "metric": "exact_match", "stop": "\n", "max_new_tokens": 5)");
    const Json json =
        json_of(sandbox.windlass({"eval", sandbox.model(), "--task", task, "--data", questions(sandbox), "--json"}));
    EXPECT_EQ(json.at("metric"), "exact_match");
    EXPECT_EQ(json.at("rows"), 3);
    EXPECT_GE(json.at("exact_match").get<double>(), 0);
    EXPECT_LE(json.at("new_tokens").get<int>(), 15);
    const std::string text =
        must_succeed(sandbox.windlass({"eval", sandbox.model(), "--task", task, "--data", questions(sandbox)})).out;
    EXPECT_THAT(text, HasSubstr("exact_match  "));
}

TEST(EvalTask, ShowsDemonstrations) {
    Sandbox sandbox;
    const std::string task = write_task(sandbox, kCandidates), data = questions(sandbox);
    const auto loss = [&](const std::vector<std::string>& more) {
        std::vector<std::string> words = {"eval", sandbox.model(), "--task", task, "--data", data, "--json"};
        words.insert(words.end(), more.begin(), more.end());
        return json_of(sandbox.windlass(words)).at("loss").get<double>();
    };
    EXPECT_NE(loss({"--shots", "2", "--train-data", data}), loss({}));
    EXPECT_EQ(loss({"--shots", "2", "--train-data", data}), loss({"--shots", "2", "--train-data", data}));
}

TEST(EvalTask, SaysWhatIsWrong) {
    Sandbox sandbox;
    const std::string task = write_task(sandbox, kCandidates), data = questions(sandbox);
    struct Refused {
        std::vector<std::string> words;
        ExitCode code;
        std::string says;
    };
    const Refused table[] = {
        {{"--task", "sst3", "--data", data}, ExitCode::usage, "no task of that name. Try: sst2"},
        {{"--task", "hellaswag", "--data", data},
         ExitCode::usage,
         "or lm_eval run --model hf --model_args pretrained=" + sandbox.model() + " --tasks hellaswag"},
        {{"--task", "none.json", "--data", data}, ExitCode::usage, "no task of that name. Try: aqua, arithmetic"},
        {{"--task", "sst2", "--data", data}, ExitCode::data, "questions.jsonl:1: the row has no \"sentence\""},
        {{"--task", task, "--data", data, "--choices", " a| b"}, ExitCode::usage, "has its own"},
        {{"--task", task, "--data", data, "--shots", "2"}, ExitCode::usage, "train_data, which is not set"},
        {{"--data", data, "--shots", "2"}, ExitCode::usage, "only a task has demonstrations. Try: --task"},
        {{"--task", task, "--data", data, "--truncation", "drop"}, ExitCode::usage, "truncation drop"},
        {{"--task", task, "--data", sandbox.rows("book.txt", {"words"})},
         ExitCode::data,
         "book.txt: plain text has no rows, and a task reads rows. Try: a .jsonl"},
        {{"--task", task, "--data", sandbox.rows("ragged.tsv", {"q\tlabel", "x"})},
         ExitCode::data,
         "ragged.tsv:2: the row has 1 cells, the first line names 2. Try: "},
        {{"--data", sandbox.rows("book.txt", {"words"}), "--choices", " a| b"},
         ExitCode::data,
         "book.txt: plain text has no rows, and choices need rows of prompt and completion. Try: a .jsonl"},
        {{"--data", sandbox.rows("text.jsonl", {R"({"text": "a b"})"}), "--choices", " a| b"},
         ExitCode::data,
         "text.jsonl:1: the row is text; choices need rows of prompt and completion"},
        {{"--task", task, "--data", sandbox.rows("empty.jsonl", {})}, ExitCode::data, "empty.jsonl: holds no rows"},
        {{"--task", task, "--data", sandbox.rows("bad.jsonl", {kQuestions[0], R"({"q": "x", "label": 7})"})},
         ExitCode::data,
         "bad.jsonl:2: the row's label \"7\" is not one of: 0, 1"}};
    for (const Refused& each : table) {
        std::vector<std::string> words = {"eval", sandbox.model()};
        words.insert(words.end(), each.words.begin(), each.words.end());
        const Finished finished = run(sandbox.windlass(words));
        EXPECT_EQ(finished.code, static_cast<int>(each.code)) << each.says;
        EXPECT_THAT(finished.err, HasSubstr(each.says));
        EXPECT_EQ(finished.out, "");
    }
}

// Rows that hold a candidate: as many as are asked for, without those that are malformed where that is asked for.
TEST(EvalChoices, CountsRowsThatItLeavesOut) {
    Sandbox sandbox;
    const std::string data =
        sandbox.rows("rows.csv", {"prompt,completion", "x, a", "alone", "y, b", "z, c", "\"one, two\", a"});
    std::vector<std::string> words = {"eval", sandbox.model(), "--data", data, "--choices", " a| b", "--json"};
    EXPECT_THAT(run(sandbox.windlass(words)).err,
                testing::AllOf(HasSubstr("rows.csv:3: the row has 1 cells"), HasSubstr("skip_malformed=true")));
    words.push_back("--skip-malformed");
    const Finished finished = must_succeed(sandbox.windlass(words));
    EXPECT_THAT(finished.err, HasSubstr("3 rows; 2 malformed rows skipped"));
    EXPECT_EQ(json_of(sandbox.windlass(words)).at("rows"), 3);
    words.insert(words.end(), {"--eval-samples", "2"});
    EXPECT_EQ(json_of(sandbox.windlass(words)).at("rows"), 2);
}

TEST(EvalTask, SkipsRowsOfTheWrongWidth) {
    Sandbox sandbox;
    const std::string data = sandbox.rows("rows.tsv", {"q\tlabel", "a\t1", "b", "c\t0\t0", "d\t0"});
    const std::vector<std::string> words = {
        "eval", sandbox.model(), "--task", write_task(sandbox, kCandidates), "--data", data, "--skip-malformed"};
    EXPECT_THAT(must_succeed(sandbox.windlass(words)).err, HasSubstr("2 malformed rows skipped"));
}

TEST(TrainTask, RefusesObjectivesThatAMethodCannotFollow) {
    Sandbox sandbox;
    Settings settings = sandbox.training();
    settings["objective"] = "accuracy";
    settings["packing"] = "true";
    const Finished finished = run(sandbox.train(settings));
    EXPECT_EQ(finished.code, static_cast<int>(ExitCode::usage));
    for (const char* part : {"3 problems", "no gradient that method adamw could find. Try: method: zeroth_order",
                             "packing mixes them", "task is not set"})
        EXPECT_THAT(finished.err, HasSubstr(part));
}

// A published model and task, where they are at hand.
TEST(EvalTask, TakesTheSameRowsOfSst2ByTheSameSeed) {
    WINDLASS_NEEDS_SHARED_DATA("data-sst2/dev.tsv", "model-stories260K-hf");
    const std::string data = shared_data("");
    const Sandbox sandbox;
    const auto eval = [&](const std::string& seed, const std::string& threads) {
        Json json = json_of(sandbox.windlass({"eval", data + "/model-stories260K-hf", "--task", "sst2", "--data",
                                              data + "/data-sst2/dev.tsv", "--eval-samples", "100", "--seed", seed,
                                              "--threads", threads, "--json"}));
        EXPECT_EQ(json.at("rows"), 100);
        json.erase("seconds");
        return json;
    };
    EXPECT_EQ(eval("1", "1"), eval("1", "2"));
    EXPECT_NE(eval("1", "1").at("loss"), eval("2", "1").at("loss"));
}

}  // namespace
}  // namespace windlass::cli
