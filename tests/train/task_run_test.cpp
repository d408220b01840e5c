// Runs on tasks: what is learned of rows with candidates and of short answers, and by which objective.
#include <gmock/gmock.h>

#include <csignal>

#include "base/error.h"
#include "base/json.h"
#include "base/rng.h"
#include "data/data.h"
#include "format/manifest.h"
#include "infer/inference.h"
#include "infer/task_evaluate.h"
#include "tests/train/train_fixture.h"

namespace windlass {
namespace {

using testing::HasSubstr;

// Which of two letters does a word end with? The second candidate is longer.
constexpr const char* kChoice = R"({"name": "last", "about": "the last letter", "prompt": "{word}=",
    "candidates": {"p": "p", "q": "qq"}, "label": "{last}"})";
// The same, to be written.
constexpr const char* kAnswer = R"({"name": "spell", "about": "the last letter, twice", "prompt": "{word}=",
    "completion": "{last}{last};", "answers": "last", "metric": "f1", "stop": ";", "max_new_tokens": 4})";

class TaskRun : public TrainTest {
  protected:
    TaskRun() {
        write("choice.json", kChoice);
        write("answer.json", kAnswer);
        write_words("words.jsonl", 24, 1);
        write_words("held.jsonl", 10, 2);
    }

    void write_words(const std::string& name, int64_t count, uint64_t seed) const {
        Random random(seed, RandomStream::test);
        std::string text;
        for (int64_t row = 0; row < count; ++row) {
            std::string word;
            for (uint64_t i = 0; i < 2 + random.below(6); ++i) word += random.below(2) == 0 ? 'p' : 'q';
            text += Json({{"word", word}, {"last", std::string(1, word.back())}}).dump() + "\n";
        }
        write(name, text);
    }

    Settings on(const char* task, const Settings& changes = {}) const {
        Settings settings = {
            {"train_data", "[" + at("words.jsonl") + "]"}, {"eval_data", at("held.jsonl")}, {"task", at(task)}};
        for (const auto& [key, value] : changes) settings[key] = value;
        return settings;
    }
    // The last of these numbers in the run's metrics.
    double last(const std::string& run_name, const std::string& key) const {
        std::istringstream text(bytes(run_name + "/metrics.jsonl"));
        double value = -1;
        for (std::string line; std::getline(text, line);) {
            const Json json = Json::parse(line);
            if (json.contains(key)) value = json[key].get<double>();
        }
        return value;
    }
    std::string problem(const Settings& changes) {
        try {
            run("refused", changes);
        } catch (const UserError& error) {
            return error.what();
        }
        return "no problem";
    }

    // The held-out rows of a task, as a run has them.
    TaskSet held_out(const char* task, const Tokenizer& tokenizer) const {
        const std::vector<std::string> paths = {at("held.jsonl")};
        std::vector<uint32_t> rows(10);
        std::iota(rows.begin(), rows.end(), 0u);
        return read_task_set(files_, find_task(files_, at(task)), paths, rows, {.max_length = 64}, tokenizer);
    }
};

TEST_F(TaskRun, LearnsToChoose) {
    const TrainResult before = run("before", on("choice.json", {{"max_steps", "1"}, {"learning_rate", "0"}}));
    const TrainResult after = run("after", on("choice.json", {{"max_steps", "80"}, {"eval_steps", "40"}}));
    ASSERT_TRUE(before.eval_score && after.eval_score);
    EXPECT_GT(*after.eval_score, 0.85);
    EXPECT_GE(*after.eval_score, *before.eval_score);
    EXPECT_LT(after.eval_loss, before.eval_loss);
    EXPECT_EQ(last("after", "eval_accuracy"), *after.eval_score);
    EXPECT_EQ(last("after", "eval_loss"), after.eval_loss);
}

struct Scored {
    int64_t last = 0, best_step = 0;
    double best = -1;
};
// The evaluations in a run's metrics.
Scored scores_in(const std::string& metrics, const std::string& score) {
    Scored found;
    std::istringstream text(metrics);
    for (std::string line; std::getline(text, line);) {
        const Json json = Json::parse(line);
        if (!json.contains(score)) continue;
        found.last = json["step"];
        if (json[score].get<double>() > found.best) found.best = json[score], found.best_step = found.last;
    }
    return found;
}

// At a rate at which scores go up and down: of a few seeds one has its best score before its end, whatever the
// processor's sums are.
TEST_F(TaskRun, EndsWithTheStepOfTheBestScore) {
    for (const char* task : {"choice.json", "answer.json"}) {
        SCOPED_TRACE(task);
        const std::string score = std::string("eval_") + (task[0] == 'c' ? "accuracy" : "exact_match");
        Scored scored;
        for (int seed = 1; seed <= 6 && scored.best_step == scored.last; ++seed) {
            run("best", on(task, {{"max_steps", "60"},
                                  {"eval_steps", "5"},
                                  {"learning_rate", "0.03"},
                                  {"seed", fmt::format("{}", seed)},
                                  {"load_best_model_at_end", "true"},
                                  {"metric_for_best_model", score},
                                  {"save_total_limit", "1"},
                                  {"overwrite", "true"}}));
            scored = scores_in(bytes("best/metrics.jsonl"), score);
            EXPECT_EQ(scored.last, 60);
            EXPECT_EQ(read_manifest(files_, at("best/final")).step, scored.best_step);
        }
        EXPECT_NE(scored.best_step, scored.last) << "runs that tell nothing";
        const TrainResult again = run(
            "again",
            on(task, {{"model", at("best/final")}, {"max_steps", "1"}, {"learning_rate", "0"}, {"overwrite", "true"}}));
        EXPECT_EQ(again.eval_score, scored.best);
    }
}

TEST_F(TaskRun, OnlyTheCandidateIsTrained) {
    run("run", on("choice.json", {{"max_steps", "2"}}));
    const Json line = Json::parse(bytes("run/metrics.jsonl").substr(0, bytes("run/metrics.jsonl").find('\n')));
    EXPECT_LE(line["target_tokens"].get<int>(), 4 * 2) << "four rows of one or two tokens";
    EXPECT_GE(line["target_tokens"].get<int>(), 4);
    EXPECT_THAT(bytes("run/run.yaml"), HasSubstr("\nadd_eos: false\n"));
}

Settings judged_by(const char* objective) {
    return {{"method", "zeroth_order"}, {"objective", objective},   {"directions", "3"},
            {"zo_eps", "0.05"},         {"learning_rate", "0.001"}, {"gradient_accumulation_steps", "2"}};
}

TEST_F(TaskRun, AnObjectiveGivesTheSameBitsEverywhereAndGoesOn) {
    for (const char* objective : {"accuracy", "choice_loss"}) {
        const Settings settings = on("choice.json", judged_by(objective));
        const auto with = [&](const std::string& key, const std::string& value) {
            Settings changed = settings;
            changed[key] = value;
            return changed;
        };
        const std::string name = objective;
        run(name, settings);
        run(name + "_disk", with("policy", "three_tier"));
        run(name + "_thread", with("threads", "1"));
        run(name + "_parts", with("max_steps", "5"));
        run(name + "_parts", with("resume", "auto"));
        EXPECT_NE(bytes(name + kWeights), bytes("model/model.safetensors"));
        for (const std::string& other : {name + "_disk", name + "_thread", name + "_parts"}) {
            EXPECT_EQ(history(other), history(name)) << other;
            EXPECT_EQ(bytes(other + kWeights), bytes(name + kWeights)) << other;
        }
        for (const double loss : losses(name)) EXPECT_TRUE(loss >= 0 && (name != "accuracy" || loss <= 1)) << loss;
        EXPECT_THAT(bytes(name + "/run.yaml"), HasSubstr("\nper_device_train_batch_size: 2\n"))
            << "examples, each of two rows";
        Settings other = with("resume", "auto");
        other["max_steps"] = "13";
        other["objective"] = name == "accuracy" ? "choice_loss" : "accuracy";
        EXPECT_THROW(run(name, other), UserError);
    }
}

TEST_F(TaskRun, ForwardGradientsLearnFromCandidates) {
    Settings settings = on("choice.json", judged_by("choice_loss"));
    settings["method"] = "forward_gradient";
    settings["directions"] = "16";
    settings["learning_rate"] = "0.003";
    settings["max_steps"] = "60";
    run("run", settings);
    const std::vector<double> values = losses("run");
    const auto mean = [&](size_t first) { return std::accumulate(&values[first], &values[first] + 10, 0.0) / 10; };
    EXPECT_LT(mean(50), mean(0));
}

TEST_F(TaskRun, ShortAnswersAreCountedWhereEveryTokenIsTheLikeliest) {
    const TrainResult result = run("run", on("answer.json", {{"max_steps", "80"}}));
    ASSERT_TRUE(result.eval_score);
    EXPECT_EQ(last("run", "eval_exact_match"), *result.eval_score);
    // Greedy decoding writes just those rows.
    OpenModel opened = open_model(files_, {.model = at("run/final")});
    const TaskSet set = held_out("answer.json", opened.tokenizer);
    const int64_t capacity = answer_capacity(set, opened.model.context_length);
    Inference inference(files_, opened, {.model = at("run/final"), .dtype = "f32", .threads = 2},
                        {.sequence_lengths = {1}, .schedules = answer_requests(capacity)});
    int64_t exact = 0;
    for (const ChoiceRow& row : set.rows) {
        const Sample& sample = row.candidates[0];
        const size_t begin = sample.ids.size() - static_cast<size_t>(sample.trained_count());
        const GenerateResult written = generate(inference.engine(), std::span(sample.ids).first(begin),
                                                {.max_new_tokens = sample.trained_count(), .vocab = opened.model.vocab},
                                                [](int32_t) { return true; });
        exact += std::equal(written.ids.begin(), written.ids.end(), sample.ids.begin() + static_cast<int64_t>(begin),
                            sample.ids.end());
    }
    EXPECT_EQ(*result.eval_score, static_cast<double>(exact) / 10);
    EXPECT_GT(exact, 0);
    const AnswerResult answers =
        evaluate_answers(inference.engine(), set, opened.tokenizer, opened.tokenizer.vocab_size(), capacity);
    EXPECT_EQ(answers.rows, 10);
    EXPECT_LE(answers.new_tokens, 40);
}

TEST_F(TaskRun, ExactMatchIsAnObjectiveOfRowsWithOneAnswer) {
    run("task", on("answer.json", judged_by("exact_match")));
    for (const double loss : losses("task")) EXPECT_TRUE(loss >= 0 && loss <= 1) << loss;
    Settings rows = judged_by("exact_match");
    rows["max_steps"] = "2";
    run("rows", rows);  // rows of text are judged too
    EXPECT_THAT(problem(on("choice.json", judged_by("exact_match"))), HasSubstr("exact_match is for rows with one"));
    EXPECT_THAT(problem(on("answer.json", judged_by("accuracy"))), HasSubstr("accuracy compares candidates"));
    Settings many = on("choice.json", judged_by("accuracy"));
    many["per_device_train_batch_size"] = "65536";
    EXPECT_THAT(problem(many), HasSubstr("65536 examples of 2 candidates are 131072 rows; 65536 are the most"));
}

TEST_F(TaskRun, RowsAreChosenByTheSeed) {
    Settings settings = on("choice.json", {{"eval_data", "null"}, {"val_split", "6"}, {"train_samples", "8"}});
    settings["num_train_epochs"] = "1";
    settings["max_steps"] = "null";
    EXPECT_EQ(run("run", settings).steps, 2) << "8 rows, 4 a step";
    run("again", settings);
    settings["seed"] = "7";
    run("other", settings);
    EXPECT_EQ(history("again"), history("run"));
    EXPECT_NE(losses("other"), losses("run"));
    OpenModel opened = open_model(files_, {.model = at("model")});
    settings["eval_samples"] = "4";
    const RunData data = RunData::open(files_, config("data", settings), opened.tokenizer);
    EXPECT_EQ(data.eval_count(), 4);
    EXPECT_EQ(data.report().rows, 8);
}

TEST_F(TaskRun, DemonstrationsStandInFrontOfThePrompt) {
    const TaskSpec task = find_task(files_, at("choice.json"));
    const std::vector<std::string> paths = {at("held.jsonl"), at("words.jsonl")};
    EXPECT_EQ(count_task_rows(files_, paths), 34);
    const std::vector<uint32_t> rows = {0, 11};  // the first of one file, the second of the other
    const auto shown = [&](const std::string& file, int line) {
        std::istringstream text(bytes(file));
        std::string row;
        for (int i = 0; i <= line; ++i) std::getline(text, row);
        const Json json = Json::parse(row);
        return json.value("word", "") + "=" + (json.value("last", "") == "p" ? "p" : "qq") + "\n\n";
    };
    EXPECT_EQ(read_demonstrations(files_, task, paths, rows), shown("held.jsonl", 0) + shown("words.jsonl", 1));
}

}  // namespace
}  // namespace windlass
