// Runs that learn from the F1 of what they write.
#include <gmock/gmock.h>

#include "base/error.h"
#include "base/json.h"
#include "base/rng.h"
#include "data/task_answers.h"
#include "infer/inference.h"
#include "infer/task_evaluate.h"
#include "persist/replay.h"
#include "session/run_text.h"
#include "tests/train/train_fixture.h"

namespace windlass {
namespace {

using testing::HasSubstr;

// Which letter does a word end with? It is to be written twice.
constexpr const char* kWords = R"({"name": "words", "about": "the last letters", "prompt": "{word}=",
    "completion": "{both};", "answers": "both", "metric": "f1", "stop": ";", "max_new_tokens": 5})";

class AnswersRun : public TrainTest {
  protected:
    AnswersRun() {
        write("words.json", kWords);
        Random random(1, RandomStream::test);
        std::string text;
        for (int64_t row = 0; row < kRows; ++row) {
            std::string word;
            for (uint64_t i = 0; i < 2 + random.below(6); ++i) word += random.below(2) == 0 ? 'p' : 'q';
            const std::string last(1, word.back());
            text += Json({{"word", word}, {"last", last}, {"both", last + " " + last}}).dump() + "\n";
        }
        write("words.jsonl", text);
    }

    Settings judged(const Settings& changes = {}) const {
        Settings settings = {{"train_data", "[" + at("words.jsonl") + "]"},
                             {"task", at("words.json")},
                             {"method", "zeroth_order"},
                             {"objective", "f1"},
                             {"directions", "3"},
                             {"zo_eps", "0.05"},
                             {"learning_rate", "0.001"},
                             {"max_steps", "8"}};
        for (const auto& [key, value] : changes) settings[key] = value;
        return settings;
    }
    std::vector<int64_t> rounds(const std::string& run_name) const {
        std::istringstream text(bytes(run_name + "/metrics.jsonl"));
        std::vector<int64_t> rounds;
        for (std::string line; std::getline(text, line);)
            rounds.push_back(Json::parse(line).at("rounds").get<int64_t>());
        return rounds;
    }
    std::string problem(const Settings& changes) {
        try {
            run("refused", changes);
        } catch (const UserError& error) {
            return error.what();
        }
        return "no problem";
    }
    TaskSet all_rows(const Tokenizer& tokenizer, int64_t max_length = 64) const {
        const std::vector<std::string> paths = {at("words.jsonl")};
        std::vector<uint32_t> rows(kRows);
        std::iota(rows.begin(), rows.end(), 0u);
        return read_task_set(files_, find_task(files_, at("words.json")), paths, rows, {.max_length = max_length},
                             tokenizer);
    }
    // 1 - what evaluating says of a model on all rows.
    double loss_of(const std::string& model) {
        OpenModel opened = open_model(files_, {.model = at(model)});
        const TaskSet set = all_rows(opened.tokenizer);
        const int64_t capacity = answer_capacity(set, opened.model.context_length);
        Inference inference(files_, opened, {.model = at(model), .dtype = "f32", .threads = 2},
                            {.sequence_lengths = {1}, .schedules = answer_requests(capacity)});
        return 1 - evaluate_answers(inference.engine(), set, opened.tokenizer, opened.tokenizer.vocab_size(), capacity)
                       .score();
    }

    static constexpr int64_t kRows = 24;
};

// A model that answers some of the rows, so that there is something to tell.
Settings taught(const Settings& settings, const char* steps) {
    Settings made = settings;
    for (const char* key : {"objective", "directions", "zo_eps"}) made.erase(key);
    made["method"] = "adamw";
    made["learning_rate"] = "0.01";
    made["max_steps"] = steps;
    return made;
}

TEST_F(AnswersRun, AStepIsJudgedAsEvaluationJudges) {
    run("taught", taught(judged(), "12"));
    const double expected = loss_of("taught/final");
    EXPECT_GT(expected, 0.05);
    EXPECT_LT(expected, 0.95);
    run("run", judged({{"model", at("taught/final")},
                       {"zo_eps", "1e-12"},
                       {"max_steps", "1"},
                       {"per_device_train_batch_size", "8"},
                       {"gradient_accumulation_steps", "3"}}));
    EXPECT_NEAR(losses("run")[0], expected, 1e-12) << "sums of F1 in another order";
}

TEST_F(AnswersRun, GivesTheSameBitsEverywhereAndGoesOn) {
    run("taught", taught(judged(), "12"));
    const auto with = [&](const Settings& changes) {
        Settings settings = judged({{"model", at("taught/final")}});
        for (const auto& [key, value] : changes) settings[key] = value;
        return settings;
    };
    run("run", with({}));
    run("disk", with({{"policy", "three_tier"}}));
    run("rarely", with({{"policy", "three_tier"}, {"writeback_steps", "3"}}));
    run("copied", with({{"device", "cpu:emulate"}, {"policy", "host_stream"}}));
    run("thread", with({{"threads", "1"}}));
    run("parts", with({{"max_steps", "5"}}));
    run("parts", with({{"resume", "auto"}}));
    EXPECT_NE(bytes(std::string("run") + kWeights), bytes("taught/final/model.safetensors"));
    for (const char* other : {"disk", "rarely", "copied", "thread", "parts"}) {
        EXPECT_EQ(history(other), history("run")) << other;
        EXPECT_EQ(rounds(other), rounds("run")) << other;
        EXPECT_TRUE(bytes(std::string(other) + kWeights) == bytes(std::string("run") + kWeights)) << other;
    }
    for (const double loss : losses("run")) EXPECT_TRUE(loss >= 0 && loss <= 1) << loss;
    for (const int64_t count : rounds("run")) EXPECT_TRUE(count >= 1 && count <= 5) << count;
    replay_log(files_, {.base = at("taught/final"), .log = at("run/trajectory.wlt"), .target = at("replayed")});
    EXPECT_TRUE(bytes("replayed/model.safetensors") == bytes(std::string("run") + kWeights));
}

TEST_F(AnswersRun, WritesBetterAnswers) {
    run("taught", taught(judged(), "12"));
    run("run", judged({{"model", at("taught/final")}, {"max_steps", "60"}, {"per_device_train_batch_size", "12"}}));
    EXPECT_LT(loss_of("run/final"), loss_of("taught/final"));
}

TEST_F(AnswersRun, RowsArePromptsWithRoomForAnAnswer) {
    const Tokenizer tokenizer = Tokenizer::load(files_, at("model"));
    TaskSet set = all_rows(tokenizer);
    const std::vector<ChoiceRow> whole = set.rows;
    make_room_for_answers(set, 9, tokenizer);
    for (size_t row = 0; row < set.rows.size(); ++row) {
        const Sample &made = set.rows[row].candidates[0], &given = whole[row].candidates[0];
        ASSERT_EQ(made.trained_count(), 5);
        ASSERT_LE(std::ssize(made.ids), 9);
        const auto prompt = std::ssize(made.ids) - 5, longer = std::ssize(given.ids) - 4;
        EXPECT_EQ(prompt, std::min<int64_t>(4, longer));
        EXPECT_TRUE(std::equal(made.ids.begin(), made.ids.end() - 1, given.ids.begin() + longer - prompt))
            << "the end of the prompt, and as first guess what is right";
        EXPECT_EQ(made.ids.back(), given.ids.back());
    }
}

TEST_F(AnswersRun, AnswersAreJudgedAsTextUpToTheStop) {
    const Tokenizer tokenizer = Tokenizer::load(files_, at("model"));
    TaskSet set = all_rows(tokenizer);
    set.answers[3] = {"the red fox", "den"};
    const AnswerRules rules = f1_rules(set, {3}, tokenizer, tokenizer.vocab_size());
    const auto loss = [&](const std::string& text) { return rules.loss(0, tokenizer.encode(text, false)); };
    EXPECT_EQ(loss(" Red fox;"), 0);
    EXPECT_EQ(loss("den; the red fox"), 0);
    EXPECT_DOUBLE_EQ(loss("a red hen"), 0.5);
    EXPECT_DOUBLE_EQ(loss("red"), 1 - 2.0 / 3);
    EXPECT_EQ(loss(""), 1);
    EXPECT_FALSE(rules.is_whole(tokenizer.encode("den", false)));
    EXPECT_TRUE(rules.is_whole(tokenizer.encode("den;", false)));
    EXPECT_EQ(rules.end_ids, tokenizer.eos_ids());
}

TEST_F(AnswersRun, APlanCountsTheRounds) {
    const Config plain = config("plan", judged({{"objective", "exact_match"}})), wanted = config("plan", judged());
    const Session once = prepare_session(files_, plain, std::nullopt);
    const Session session = prepare_session(files_, wanted, std::nullopt);
    EXPECT_EQ(once.rounds_most, 1);
    EXPECT_EQ(session.rounds_most, 5);
    EXPECT_THAT(plan_text(session), HasSubstr("at most 5 rounds of "));
    const Json json = plan_json(session, Json::object(), Json());
    EXPECT_DOUBLE_EQ(json["step"]["seconds"].get<double>(), 5 * session.planned.step.seconds);
    EXPECT_EQ(json["step"]["rounds"], 5);
    EXPECT_EQ(plan_json(once, Json::object(), Json())["step"]["rounds"], 1);
}

// In every round what has not been written back is applied once more.
TEST_F(AnswersRun, UpdatesGoHomeAtOnceUnlessTheDriveIsToRest) {
    const auto period = [&](const Settings& changes) {
        Settings settings = judged({{"policy", "three_tier"}, {"disk_rate", "1MB"}, {"noise", "rademacher"}});
        for (const auto& [key, value] : changes) settings[key] = value;
        return prepare_session(files_, config("plan", settings), std::nullopt).planned.plan.writeback_steps;
    };
    EXPECT_EQ(period({}), 1);
    EXPECT_GT(period({{"objective", "exact_match"}}), 1);
    EXPECT_EQ(period({{"writeback_steps", "4"}}), 4);
}

TEST_F(AnswersRun, SaysWhatIsWrong) {
    write("choice.json", R"({"name": "last", "about": "the last letter", "prompt": "{word}=",
        "candidates": {"p": "p", "q": "q"}, "label": "{last}"})");
    EXPECT_THAT(problem(judged({{"task", at("choice.json")}})),
                HasSubstr("f1 judges answers that are written; last has candidates. Try: accuracy or choice_loss"));
    EXPECT_THAT(problem(judged({{"max_length", "5"}})),
                HasSubstr("answers of 5 tokens leave rows of max_length 5 no room for a prompt"));
    write("bare.json", R"({"name": "bare", "about": "nothing", "prompt": "{asks}", "completion": "{last};",
        "answers": "last", "metric": "f1", "max_new_tokens": 5})");
    write("bare.jsonl", R"({"asks": "what?", "last": "p"})"
                        "\n"
                        R"({"asks": "", "last": "q"})"
                        "\n");
    EXPECT_THAT(problem(judged({{"task", at("bare.json")}, {"train_data", "[" + at("bare.jsonl") + "]"}})),
                HasSubstr("bare: row 2 has a prompt of no token"));
    Settings other = judged({{"max_steps", "1"}});
    run("run", other);
    other["resume"] = "auto";
    other["max_steps"] = "2";
    other["objective"] = "exact_match";
    EXPECT_THROW(run("run", other), UserError) << "what it learns from is a part of a run";
}

}  // namespace
}  // namespace windlass
