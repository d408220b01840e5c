// Pairs of answers through the real program: dpo and orpo, with their reference, killed and resumed, and on disk.
#include <gmock/gmock.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <thread>

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
    EXPECT_THAT(trained.err, AllOf(HasSubstr("computing the reference's log-likelihoods of 8 pairs"),
                                   HasSubstr("rewards/accuracies")));
    const Json references = read_json(sandbox_.out() + "/references.json");
    EXPECT_EQ(references.at("train").size(), 12u);
    EXPECT_EQ(references.at("eval").size(), 4u);
    const std::vector<Json> metrics = metrics_of(sandbox_.out());
    EXPECT_NEAR(metrics.front().at("loss").get<double>(), std::log(2.0), 1e-6) << "at first the model is its reference";
    EXPECT_LT(metrics.back().at("loss").get<double>(), 0.6);
    // Another run of the same rows and model finds them kept.
    Settings again = settings("dpo");
    again["output_dir"] = sandbox_ / "again";
    EXPECT_THAT(must_succeed(sandbox_.train(again)).err, Not(HasSubstr("computing the reference's log-likelihoods")));
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
    EXPECT_THAT(refused.err,
                HasSubstr("does not hold the reference's log-likelihoods of this run. Try: train_data, eval_data"));
}

// Killed while it asks the reference: what there is of the run, perhaps an engine's files, is in nobody's way, and it
// is asked again.
TEST_F(Preferences, AKillWhileTheReferenceIsFoundLosesNothing) {
    std::vector<std::string> lines;
    for (int i = 0; i < 600; ++i)
        lines.push_back(fmt::format(R"({{"prompt": "say {} ", "chosen": "{}", "rejected": "no {}"}})", i, i, i));
    const std::string rows = sandbox_.rows("many.jsonl", lines);
    Settings adapter = sandbox_.training();
    adapter["adapter"] = "lora";
    adapter["output_dir"] = sandbox_ / "adapter";
    must_succeed(sandbox_.train(adapter));
    for (const bool continues : {false, true}) {
        SCOPED_TRACE(continues ? "an adapter that goes on" : "all parameters");
        Settings on_disk = sandbox_.training_on_disk();
        for (const auto& [key, value] : Settings{{"train_data", rows}, {"objective", "dpo"}, {"max_steps", "3"}})
            on_disk[key] = value;
        if (continues) on_disk["adapter"] = sandbox_ / "adapter/final";
        Settings killed = on_disk;
        on_disk["cache_dir"] = sandbox_ / "straight cache";
        on_disk["output_dir"] = sandbox_ / "straight";
        on_disk["overwrite"] = killed["overwrite"] = "true";
        must_succeed(sandbox_.train(on_disk));
        killed["cache_dir"] = sandbox_ / fmt::format("killed cache {}", continues);
        for (int kill = 0; kill < 3; ++kill) {
            Process process(sandbox_.train(killed));
            ASSERT_TRUE(wait_until(
                [&] { return process.messages().find("computing the reference's") != std::string::npos; }, 60));
            std::this_thread::sleep_for(std::chrono::milliseconds(20 * kill));
            process.send(SIGKILL);
            process.wait();
            ASSERT_FALSE(fs::exists(sandbox_.out() + "/references.json")) << "the kill came late";
        }
        killed["overwrite"] = "false";
        Finished finished = run(sandbox_.train(killed, {"--resume"}));
        if (finished.code == kUsage) {  // it had no state of its own yet
            killed["overwrite"] = "true";
            finished = must_succeed(sandbox_.train(killed));
        }
        EXPECT_EQ(finished.code, 0) << finished.err;
        EXPECT_THAT(finished.err, HasSubstr("computing the reference's log-likelihoods"));
        EXPECT_EQ(metrics_of(sandbox_.out()), metrics_of(sandbox_ / "straight"));
        for (const auto& entry : fs::directory_iterator(fs::path(on_disk["ssd_dir"])))
            EXPECT_THAT(entry.path().string(), Not(HasSubstr(".reference")));
    }
}

// Without an adapter the base is gone behind the first step; with one it is at hand.
TEST_F(Preferences, BesideAnAdapterTheReferenceIsFoundAgain) {
    Settings run = settings("dpo");
    run["adapter"] = "lora";
    run["max_steps"] = "4";
    run["cache_dir"] = sandbox_ / "cache";
    must_succeed(sandbox_.train(run));
    const std::string said = read_bytes(sandbox_.out() + "/references.json");
    fs::remove(sandbox_.out() + "/references.json");
    fs::remove_all(sandbox_ / "cache");
    run["max_steps"] = "6";
    must_succeed(sandbox_.train(run, {"--resume"}));
    EXPECT_EQ(read_bytes(sandbox_.out() + "/references.json"), said);
}

// What a file of weights computes is decided by the configuration beside it, too.
TEST_F(Preferences, TheReferenceIsOfTheModelsConfiguration) {
    Settings run = settings("dpo");
    run["max_steps"] = "1";
    run["cache_dir"] = sandbox_ / "cache";
    must_succeed(sandbox_.train(run));
    fs::copy(sandbox_.model(), sandbox_ / "other", fs::copy_options::recursive);
    edit_json(sandbox_ / "other/config.json", [](Json& config) { config["rope_theta"] = 500.0; });
    run["model"] = sandbox_ / "other";
    run["output_dir"] = sandbox_ / "out2";
    EXPECT_THAT(must_succeed(sandbox_.train(run)).err, HasSubstr("computing the reference's log-likelihoods"));
}

// Projectors are fitted to the loss of tokens: here they stay as they were drawn, unless somebody asks, who is refused.
TEST_F(Preferences, AreLearnedByProjectorsThatStay) {
    Settings run = settings("orpo");
    run["adapter"] = "lsp";
    run["lsp_d"] = "16";
    run["lsp_r"] = "4";
    must_succeed(sandbox_.train(run));
    run["lsp_refresh"] = "4";
    run["output_dir"] = sandbox_ / "refreshed";
    const Finished refused = cli::run(sandbox_.train(run));
    EXPECT_EQ(refused.code, 2);
    EXPECT_THAT(refused.err, HasSubstr("lsp_refresh"));
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

// What the reference says is what the base says without an adapter, to the bit: with one that is new, and with one that
// was trained before.
class ReferenceOfAnAdapter : public Preferences {
  protected:
    // references.json of a run of two steps that finds it anew.
    Json references(const std::string& name, const Settings& changes) {
        Settings run = settings("dpo");
        run["max_steps"] = run["eval_steps"] = "2";
        run["output_dir"] = sandbox_ / name;
        run["cache_dir"] = sandbox_ / ("cache-" + name);
        for (const auto& [key, value] : changes) run[key] = value;
        EXPECT_THAT(must_succeed(sandbox_.train(run)).err, HasSubstr("computing the reference's log-likelihoods"));
        Json said = read_json(run["output_dir"] + "/references.json");
        said.erase("of");
        return said;
    }
    // An adapter that has learnt something.
    std::string trained(const char* kind) {
        Settings run = sandbox_.training();
        run["adapter"] = kind;
        run["learning_rate"] = "1e-2";
        run["max_steps"] = "4";
        run["output_dir"] = sandbox_ / fmt::format("trained-{}", kind);
        if (kind == std::string_view("lsp")) run["lsp_refresh"] = "0";
        must_succeed(sandbox_.train(run));
        if (kind != std::string_view("lsp")) return run["output_dir"] + "/final";
        must_succeed(sandbox_.windlass({"export", run["output_dir"], "--delta", "--to", run["output_dir"] + "/delta"}));
        return run["output_dir"] + "/delta";
    }
    double first_loss(const std::string& name) { return metrics_of(sandbox_ / name).front().at("loss").get<double>(); }
};

TEST_F(ReferenceOfAnAdapter, IsTheBaseWhateverTheAdapterHasLearnt) {
    const Json base = references("bare", {});
    for (const char* const kind : {"lora", "ia3", "lsp"}) {
        const std::string fresh = fmt::format("new-{}", kind), other = fmt::format("continued-{}", kind);
        Settings more;
        if (kind == std::string_view("lsp")) more["lsp_refresh"] = "0";
        more["adapter"] = kind;
        EXPECT_EQ(references(fresh, more), base) << kind;
        EXPECT_NEAR(first_loss(fresh), std::log(2.0), 1e-6) << kind;
        more["adapter"] = trained(kind);
        EXPECT_EQ(references(other, more), base) << kind;
        EXPECT_GT(std::abs(first_loss(other) - std::log(2.0)), 1e-6) << kind << ": the run begins with its adapter";
    }
}

TEST_F(ReferenceOfAnAdapter, IsTheBaseInFewBitsWhereItsWeightsAre) {
    const Json base = references("bare", {});
    const Json few_bits = references("new", {{"adapter", "qlora"}});
    EXPECT_NE(few_bits, base);
    EXPECT_EQ(references("continued", {{"adapter", trained("qlora")}, {"weight_storage", "nf4"}}), few_bits);
}

TEST_F(ReferenceOfAnAdapter, IsTheBaseOnDisk) {
    const std::string adapter = trained("lora");
    const Settings disk = {{"adapter", adapter}, {"policy", "three_tier"}, {"ssd_dir", sandbox_ / "ssd"}};
    EXPECT_EQ(references("disk", disk), references("bare", {}));
    for (const auto& entry : fs::directory_iterator(sandbox_ / "ssd"))
        EXPECT_THAT(entry.path().string(), Not(HasSubstr(".reference")));
    references("memory", {{"adapter", adapter}});
    EXPECT_EQ(metrics_of(sandbox_ / "disk"), metrics_of(sandbox_ / "memory"));
}

// What LoRA found of weights as they are is no answer for weights in 4 bits.
TEST_F(ReferenceOfAnAdapter, IsKeptForWeightsOfItsKindAlone) {
    Settings run = settings("dpo");
    run["adapter"] = "lora";
    must_succeed(sandbox_.train(run));
    run["adapter"] = "qlora";
    run["output_dir"] = sandbox_ / "qlora";
    EXPECT_THAT(must_succeed(sandbox_.train(run)).err, HasSubstr("computing the reference's log-likelihoods"));
}

// Of each step, as TRL logs them: the same in one micro-batch and in several, with padding of the last one, and on
// disk.
TEST_F(Preferences, RewardsAreToldOfEveryStep) {
    Settings whole = settings("dpo");
    whole["per_device_train_batch_size"] = "3";
    whole["gradient_accumulation_steps"] = "1";
    const Finished trained = must_succeed(sandbox_.train(whole));
    EXPECT_THAT(trained.err, HasSubstr("  margin "));
    const std::vector<Json> lines = metrics_of(sandbox_.out());
    EXPECT_EQ(lines.front().at("rewards/margins"), 0.0) << "at first the model is its reference";
    EXPECT_EQ(lines.front().at("rewards/accuracies"), 0.0);
    const Json& last = lines.back();
    EXPECT_GT(last.at("rewards/margins"), 0.0);
    EXPECT_NEAR(last.at("rewards/margins").get<double>(),
                last.at("rewards/chosen").get<double>() - last.at("rewards/rejected").get<double>(), 1e-9);
    EXPECT_EQ(last.at("rewards/accuracies"), 1.0);
    Settings apart = whole;
    apart["per_device_train_batch_size"] = "1";
    apart["gradient_accumulation_steps"] = "3";
    apart["output_dir"] = sandbox_ / "apart";
    must_succeed(sandbox_.train(apart));
    // Rows of one step, in other micro-batches: sums in another order, of steps that grow on each other.
    const Json again = metrics_of(sandbox_ / "apart").back();
    for (const char* key : {"rewards/chosen", "rewards/rejected", "rewards/margins"})
        EXPECT_NEAR(again.at(key).get<double>(), last.at(key).get<double>(), 1e-3) << key;
    apart["output_dir"] = sandbox_ / "disk";
    apart["policy"] = "three_tier";
    apart["ssd_dir"] = sandbox_ / "ssd";
    must_succeed(sandbox_.train(apart));
    EXPECT_EQ(metrics_of(sandbox_ / "disk"), metrics_of(sandbox_ / "apart"));
}

// eval on the same pairs prints what the run's last evaluation found.
TEST_F(Preferences, AreJudgedByEval) {
    const auto judged = [&](const std::string& model, const char* objective, std::vector<std::string> more) {
        std::vector<std::string> words = {"eval", model, "--data", pairs(), "--objective", objective, "--json"};
        words.insert(words.end(), {"preference_beta=0.2", "per_device_train_batch_size=2"});
        words.insert(words.end(), more.begin(), more.end());
        return json_of(sandbox_.windlass(words));
    };
    for (const auto& [objective, trains_prompts] :
         {std::pair("dpo", "false"), std::pair("orpo", "true"), std::pair("orpo", "false")}) {
        Settings run = settings(objective);
        run["train_on_prompt"] = trains_prompts;
        run["val_split"] = "0";
        run["eval_data"] = pairs();
        run["output_dir"] = sandbox_ / objective;
        must_succeed(sandbox_.train(run, {"--overwrite"}));
        std::vector<std::string> more = {std::string("train_on_prompt=") + trains_prompts};
        if (objective == std::string_view("dpo")) more.insert(more.end(), {"--reference", sandbox_.model()});
        const Json found = judged(sandbox_ / objective, objective, more);
        std::istringstream text(read_bytes(run["output_dir"] + "/metrics.jsonl"));
        Json last;
        for (std::string line; std::getline(text, line);) last = Json::parse(line);
        for (const char* key : {"loss", "rewards/chosen", "rewards/rejected", "rewards/margins", "rewards/accuracies"})
            // final/ is rounded to the model's type, bf16, whose weights the run computed with.
            EXPECT_NEAR(found.at(key).get<double>(), last.at(fmt::format("eval_{}", key)).get<double>(), 1e-6) << key;
        EXPECT_EQ(found.at("pairs"), 6);
    }
    // Without a reference likelihoods alone; an adapter has its base.
    const Json alone = judged(sandbox_ / "dpo", "dpo", {});
    EXPECT_FALSE(alone.contains("loss"));
    EXPECT_LT(alone.at("logps/chosen"), 0.0);
    Settings run = settings("dpo");
    run["adapter"] = "lora";
    run["learning_rate"] = "1e-2";
    must_succeed(sandbox_.train(run));
    EXPECT_GT(judged(sandbox_.out(), "dpo", {}).at("rewards/margins"), 0.0);
    const Finished refused = cli::run(sandbox_.windlass(
        {"eval", sandbox_.model(), "--data", pairs(), "--objective", "orpo", "--reference", sandbox_.model()}));
    EXPECT_EQ(refused.code, kUsage);
    EXPECT_THAT(refused.err, HasSubstr("reference: only objective dpo compares with a model. Try: --objective dpo"));
}

// The first term over prompts as well: another loss of the same rewards, in training as in eval.
TEST_F(Preferences, OfOrpoMayHavePrompts) {
    const auto first = [&](const char* trains_prompts) {
        Settings run = settings("orpo");
        run["learning_rate"] = "0";
        run["max_steps"] = "1";
        run["train_on_prompt"] = trains_prompts;
        run["output_dir"] = sandbox_ / trains_prompts;
        must_succeed(sandbox_.train(run));
        return metrics_of(run["output_dir"]).front();
    };
    const Json plain = first("false"), prompts = first("true");
    EXPECT_NE(prompts.at("loss"), plain.at("loss"));
    EXPECT_NEAR(prompts.at("rewards/chosen").get<double>(), plain.at("rewards/chosen").get<double>(), 1e-6);
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

}  // namespace
}  // namespace windlass::cli
