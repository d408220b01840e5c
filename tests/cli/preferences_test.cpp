// Pairs of answers through the real program: dpo and orpo, with their reference, killed and resumed, and on disk.
#include <gmock/gmock.h>

#include <filesystem>

#include "tests/cli/sandbox.h"

namespace windlass::cli {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class Preferences : public testing::Test {
  protected:
    std::string pairs() {
        std::vector<std::string> lines;
        for (const char* word : {"red", "green", "blue", "black", "white", "grey"})
            lines.push_back(
                fmt::format(R"({{"prompt": "say {} ", "chosen": "{}", "rejected": "no {}"}})", word, word, word));
        return sandbox_.rows("pairs.jsonl", lines);
    }

    Settings settings(const char* objective) {
        Settings settings = sandbox_.training();
        settings["train_data"] = pairs();
        settings["objective"] = objective;
        settings["val_split"] = "2";
        settings["max_steps"] = "8";
        settings["eval_steps"] = "8";
        settings["learning_rate"] = "1e-3";
        settings["preference_beta"] = "0.2";
        return settings;
    }

    Sandbox sandbox_;
};

TEST_F(Preferences, AreLearnedBesideAReference) {
    const Finished trained = must_succeed(sandbox_.train(settings("dpo")));
    EXPECT_THAT(trained.err,
                AllOf(HasSubstr("finding what the reference says of 8 pairs"), HasSubstr("rewards/accuracies")));
    const Json references = read_json(sandbox_.out() + "/references.json");
    EXPECT_EQ(references.at("train").size(), 12u);
    EXPECT_EQ(references.at("eval").size(), 4u);
    const std::vector<Json> metrics = metrics_of(sandbox_.out());
    EXPECT_NEAR(metrics.front().at("loss").get<double>(), std::log(2.0), 1e-6) << "at first the model is its reference";
    EXPECT_LT(metrics.back().at("loss").get<double>(), 0.6);
    // Another run of the same rows and model finds them kept.
    Settings again = settings("dpo");
    again["output_dir"] = sandbox_ / "again";
    EXPECT_THAT(must_succeed(sandbox_.train(again)).err, Not(HasSubstr("finding what the reference says")));
    EXPECT_EQ(metrics_of(sandbox_ / "again"), metrics);
}

// Each form of conversations, by the model's own template.
TEST_F(Preferences, MayBeConversations) {
    write_bytes(sandbox_.model() + "/chat_template.jinja",
                "{% for m in messages %}{{ m['role'][0] }}{{ m['content'] }}{{ eos_token if m['role'] == 'assistant' }}"
                "{% endfor %}{{ 'a' if add_generation_prompt }}");
    const char* const rows[] = {
        R"({"prompt": [{"role": "user", "content": "q"}], "chosen": [{"role": "assistant", "content": "b"}], )"
        R"("rejected": [{"role": "assistant", "content": "c"}]})",
        R"({"prompt": "q", "chosen": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "b"}], )"
        R"("rejected": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "c"}]})",
        R"({"conversations": [{"from": "human", "value": "q"}], "chosen": {"from": "gpt", "value": "b"}, )"
        R"("rejected": {"from": "gpt", "value": "c"}})",
        R"({"instruction": "q", "chosen": "b", "rejected": "c"})"};
    for (const char* row : rows) {
        const std::string file = sandbox_.rows("chats.jsonl", {row});
        const Finished shown = must_succeed(sandbox_.windlass(
            {"data", "show", "--model", sandbox_.model(), "--train-data", file, "--objective", "dpo"}));
        EXPECT_THAT(shown.out, AllOf(HasSubstr("uqa⟦b</s>⟧"), HasSubstr("uqa⟦c</s>⟧"))) << row;
    }
}

TEST_F(Preferences, GoOnWithTheReferenceOfTheBeginning) {
    must_succeed(sandbox_.train(settings("dpo")));
    const std::vector<Json> whole = metrics_of(sandbox_.out());
    Settings half = settings("dpo");
    half["output_dir"] = sandbox_ / "half";
    half["max_steps"] = "4";
    half["lr_scheduler_type"] = "constant";
    Settings full = half;
    full["max_steps"] = "8";
    half["cache_dir"] = full["cache_dir"] = sandbox_ / "cache";
    must_succeed(sandbox_.train(half));
    fs::remove_all(sandbox_ / "cache");  // the run's own copy is enough
    must_succeed(sandbox_.train(full, {"--resume"}));
    Settings straight = full;
    straight["output_dir"] = sandbox_ / "straight";
    must_succeed(sandbox_.train(straight));
    const auto losses = [](const std::vector<Json>& lines) {
        std::vector<double> all;
        for (const Json& line : lines) all.push_back(line.at("loss"));
        return all;
    };
    EXPECT_EQ(losses(metrics_of(sandbox_ / "half")), losses(metrics_of(sandbox_ / "straight")));
    fs::remove(fs::path(sandbox_ / "half") / "references.json");
    fs::remove_all(sandbox_ / "cache");
    full["max_steps"] = "10";
    const Finished refused = run(sandbox_.train(full, {"--resume"}));
    EXPECT_EQ(refused.code, kStorage);
    EXPECT_THAT(refused.err, HasSubstr("does not hold what the reference said when the run began. Try: begin anew"));
}

TEST_F(Preferences, AreTheSameOnDisk) {
    Settings on_disk = sandbox_.training_on_disk();
    for (const auto& [key, value] : settings("dpo"))
        if (!on_disk.contains(key) || key == "train_data" || key == "max_steps") on_disk[key] = value;
    on_disk["output_dir"] = sandbox_ / "disk";
    must_succeed(sandbox_.train(on_disk));
    must_succeed(sandbox_.train(settings("dpo")));
    EXPECT_EQ(metrics_of(sandbox_ / "disk"), metrics_of(sandbox_.out()));
}

TEST_F(Preferences, OrpoNeedsNoReference) {
    const Finished trained = must_succeed(sandbox_.train(settings("orpo")));
    EXPECT_THAT(trained.err, Not(HasSubstr("reference")));
    EXPECT_FALSE(fs::exists(sandbox_.out() + "/references.json"));
    const std::vector<Json> metrics = metrics_of(sandbox_.out());
    EXPECT_LT(metrics.back().at("loss").get<double>(), metrics.front().at("loss").get<double>());
}

TEST_F(Preferences, PlanTellsTheTimeOfTheReference) {
    Settings planned = settings("dpo");
    planned.erase("output_dir");
    std::vector<std::string> words = {"plan"};
    for (const std::string& word : words_of(planned)) words.push_back(word);
    EXPECT_THAT(must_succeed(sandbox_.windlass(words)).out,
                HasSubstr("the reference's log-likelihoods of 16 answers are found before the first step, in "));
}

struct Mistake {
    const char* name;
    Settings change;
    std::vector<std::string> rows;
    int code;
    std::vector<const char*> said;
};

void PrintTo(const Mistake& mistake, std::ostream* out) {
    *out << mistake.name;
}

class PreferenceMistakes : public testing::TestWithParam<Mistake> {};

TEST_P(PreferenceMistakes, AreNamed) {
    Sandbox sandbox;
    Settings settings = sandbox.training();
    settings["objective"] = "dpo";
    settings["train_data"] = sandbox.rows("pairs.jsonl", GetParam().rows);
    for (const auto& [key, value] : GetParam().change) settings[key] = value;
    const Finished refused = run(sandbox.train(settings));
    EXPECT_EQ(refused.code, GetParam().code) << describe(refused);
    for (const char* part : GetParam().said) EXPECT_THAT(refused.err, HasSubstr(part));
}

constexpr const char* kGoodPair = R"({"prompt": "a ", "chosen": "b", "rejected": "c"})";

INSTANTIATE_TEST_SUITE_P(
    All, PreferenceMistakes,
    testing::Values(
        Mistake{"RowsOfText",
                {},
                {R"({"text": "a"})"},
                kUsage,
                {"pairs.jsonl:1", "compares pairs of answers", "Try: rows with \"chosen\""}},
        Mistake{"PairsWithoutAnObjective",
                {{"objective", "loss"}},
                {kGoodPair},
                kUsage,
                {"pairs.jsonl:1", "is a pair of answers", "Try: objective: dpo"}},
        Mistake{
            "NoPrompt", {}, {R"({"chosen": "b", "rejected": "c"})"}, kData, {"pairs.jsonl:1", "\"prompt\" is missing"}},
        Mistake{"EmptyAnswer",
                {{"add_eos", "false"}},
                {R"({"prompt": "a", "chosen": "", "rejected": "c"})"},
                kData,
                {"pairs.jsonl:1", "an answer of the pair has no token"}},
        Mistake{"AnswerOfNobody",
                {},
                {R"({"prompt": "a", "chosen": 3, "rejected": "c"})"},
                kUsage,
                {"pairs.jsonl:1", "chat"}},
        Mistake{
            "Packing", {{"packing", "true"}}, {kGoodPair}, kUsage, {"objective dpo compares rows; packing mixes them"}},
        Mistake{"Task", {{"task", "sst2"}}, {kGoodPair}, kUsage, {"objective dpo compares answers"}},
        Mistake{"Split",
                {{"truncation", "split"}},
                {kGoodPair},
                kUsage,
                {"truncation: pairs of answers are not cut at their ends", "Try: drop"}}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace windlass::cli
