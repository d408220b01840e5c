// Going back to a step of a run, branching from it, and exports that were asked for: a death at any change of the drive
// loses none of them, and changes no bit.
#include "base/file_error.h"
#include "tests/train/death_trials.h"

namespace windlass {
namespace {

constexpr uint64_t kAllKept = 1;

// What happens to a run that is on the drive already.
class LaterDeaths : public DeathTrials {
  protected:
    void know_whole_after(std::unique_ptr<FaultFiles> files) {
        before_ = files->crash(kAllKept);
        know_whole();
    }
    std::unique_ptr<FaultFiles> begin() const override { return before_->crash(kAllKept); }

  private:
    std::unique_ptr<FaultFiles> before_;
};

struct Rewind {
    ImageRun run;
    const char* step;
};

void PrintTo(const Rewind& rewind, std::ostream* out) {
    *out << rewind.run.name;
}

const auto name_of_rewind = [](const auto& info) { return std::string(info.param.run.name); };

// ---- --resume=STEP ----

class RewindDeaths : public LaterDeaths, public testing::WithParamInterface<Rewind> {
  protected:
    void SetUp() override {
        auto files = drive();
        ASSERT_EQ(run_in(*files, GetParam().run, {}), 0) << message_;
        know_whole_after(std::move(files));
    }
    int act(FileSystem& files, const Settings& place) override {
        Settings changes = place;
        changes["resume"] = GetParam().step;
        return run_in(files, GetParam().run, changes);
    }
    // The same command, or the one that follows the newest state: which state that is does not matter.
    int act_again(FileSystem& files, const Settings& place) override {
        return again_++ % 4 < 2 ? act(files, place) : finish_in(files, GetParam().run, place);
    }
    std::vector<Settings> places() const override { return GetParam().run.places; }
    // How many checkpoints were undone depends on how often a command was repeated. A run that was killed before its
    // steps were undone, but after a checkpoint was, has all its steps, and not that checkpoint.
    RunFiles left(FileSystem& files) const override {
        RunFiles found = left_in(files);
        std::erase_if(found, [](const auto& file) {
            return file.first.starts_with("run/undone-checkpoint-") || file.first.starts_with("run/checkpoint-");
        });
        return found;
    }
    RunFiles learnt(RunFiles files, int /*error_number*/) const override {
        std::erase_if(files, [](const auto& file) {
            return !file.first.starts_with("run/final/") && file.first != "run/metrics.jsonl";
        });
        return files;
    }

    int again_ = 0;
};

TEST_P(RewindDeaths, LoseNothing) {
    try_some(GetParam().run.name, ImageRun::kFew);
}

// It was stopped on its way to the end, at which final/ of the undone steps is still there.
TEST_P(RewindDeaths, AreNotOverBeforeTheirSteps) {
    const auto files = begin();
    Settings shorter = {{"resume", GetParam().step}, {"max_steps", "4"}};
    files->fail({.call = FaultCall::make_folders, .times = FaultRule::kForever, .path_part = "run/checkpoint-4.tmp"});
    files->fail({.call = FaultCall::make_folders, .times = FaultRule::kForever, .path_part = "run/final.tmp"});
    ASSERT_NE(run_in(*files, GetParam().run, shorter), 0);
    files->clear_rules();
    ASSERT_EQ(finish_in(*files, GetParam().run, {}), 0) << message_;
    EXPECT_TRUE(files->exists(at("drive/run/checkpoint-5")));
    EXPECT_EQ(difference(left(*files), whole_), "");
}

class SlowRewindDeaths : public RewindDeaths {};

TEST_P(SlowRewindDeaths, AtAnyChangeLoseNothing) {
    try_all_changes();
}

TEST_P(SlowRewindDeaths, OfAnyCallLoseNothing) {
    try_all_calls();
}

ImageRun keeping_checkpoints(const char* name, Settings settings, std::vector<Settings> places = {}) {
    settings["save_total_limit"] = "3";
    return {.name = name, .settings = std::move(settings), .places = std::move(places)};
}

std::vector<Rewind> rewinds() {
    const Settings lsp = {{"adapter", "lsp"}, {"lsp_d", "16"}, {"lsp_refresh", "2"}, {"lsp_samples", "4"}};
    const Settings log = {{"method", "zeroth_order"}, {"learning_rate", "0.003"}};
    const std::vector<Settings> both = {{{"policy", "in_memory"}}, {{"policy", "three_tier"}}};
    Settings log_on_disk = log;
    log_on_disk["policy"] = "three_tier";
    return {{keeping_checkpoints("adamw", {}, both), "2"},
            {keeping_checkpoints("lsp", lsp, both), "2"},
            {keeping_checkpoints("zeroth_order", log), "3"},
            {keeping_checkpoints("zeroth_order_on_disk", log_on_disk), "1"}};
}

INSTANTIATE_TEST_SUITE_P(Kinds, RewindDeaths, testing::ValuesIn(rewinds()), name_of_rewind);
INSTANTIATE_TEST_SUITE_P(Kinds, SlowRewindDeaths, testing::ValuesIn(rewinds()), name_of_rewind);

// ---- --branch-from ----

class BranchDeaths : public LaterDeaths, public testing::WithParamInterface<Rewind> {
  protected:
    void SetUp() override {
        auto files = drive();
        ASSERT_EQ(run_in(*files, GetParam().run, {}), 0) << message_;
        files->make_folders(at("drive/branch"));
        know_whole_after(std::move(files));
    }
    Settings into_branch(Settings changes) const {
        changes["output_dir"] = at("drive/branch");
        return changes;
    }
    int act(FileSystem& files, const Settings& place) override {
        Settings changes = into_branch(place);
        changes["branch_from"] = at("drive/run@") + GetParam().step;
        return run_in(files, GetParam().run, changes);
    }
    // It continues; or it begins again if there is nothing yet from which it could.
    int act_again(FileSystem& files, const Settings& place) override {
        Settings changes = into_branch(place);
        changes["resume"] = "auto";
        const int code = run_in(files, GetParam().run, changes);
        if (code != static_cast<int>(ExitCode::usage)) return code;
        changes = place;
        changes["overwrite"] = "true";
        return act(files, changes);
    }
    RunFiles left(FileSystem& files) const override { return left_in(files, {"run", "branch", "ssd"}); }
    RunFiles learnt(RunFiles files, int /*error_number*/) const override {
        std::erase_if(files, [](const auto& file) {
            return !file.first.starts_with("run/") && !file.first.starts_with("branch/final/") &&
                   file.first != "branch/metrics.jsonl";
        });
        return files;
    }
};

TEST_P(BranchDeaths, LoseNothing) {
    try_some(GetParam().run.name, ImageRun::kFew);
}

class SlowBranchDeaths : public BranchDeaths {};

TEST_P(SlowBranchDeaths, AtAnyChangeLoseNothing) {
    try_all_changes();
}

TEST_P(SlowBranchDeaths, OfAnyCallLoseNothing) {
    try_all_calls();
}

std::vector<Rewind> branches() {
    std::vector<Rewind> all = rewinds();
    std::erase_if(all, [](const Rewind& rewind) { return !rewind.run.settings.contains("method"); });
    return all;
}

INSTANTIATE_TEST_SUITE_P(Kinds, BranchDeaths, testing::ValuesIn(branches()), name_of_rewind);
INSTANTIATE_TEST_SUITE_P(Kinds, SlowBranchDeaths, testing::ValuesIn(branches()), name_of_rewind);

// ---- the file `export` in a run's folder ----

class RequestDeaths : public LaterDeaths, public testing::WithParamInterface<ImageRun> {
  protected:
    // A run of 3 steps that continues to 5. Exports of all of them are known.
    void SetUp() override {
        const auto all = drive();
        ASSERT_EQ(run_in(*all, GetParam(), {{"export_steps", "1"}}), 0) << message_;
        exports_ = left_in(*all, {"run"});
        std::erase_if(exports_, [](const auto& file) { return !file.first.starts_with("run/export-"); });
        auto files = drive();
        ASSERT_EQ(run_in(*files, GetParam(), {{"max_steps", "3"}}), 0) << message_;
        write_text_atomic(*files, at("drive/run/export"), "");
        know_whole_after(std::move(files));
        EXPECT_TRUE(whole_.contains("run/an export"));
    }
    int act(FileSystem& files, const Settings& place) override {
        Settings changes = place;
        changes["resume"] = "auto";
        return run_in(files, GetParam(), changes);
    }
    int act_again(FileSystem& files, const Settings& place) override { return finish_in(files, GetParam(), place); }
    std::vector<Settings> places() const override { return GetParam().places; }
    // A run that dies during the export exports the step from which it continues. Each is right and whole.
    RunFiles left(FileSystem& files) const override {
        RunFiles found = left_in(files), rest;
        for (const auto& [name, content] : found) {
            if (!name.starts_with("run/export-")) {
                rest[name] = content;
                continue;
            }
            const bool is_right = exports_.contains(name) && exports_.at(name) == content;
            EXPECT_TRUE(is_right) << name << " is another";
            rest["run/an export"] = "";
        }
        return rest;
    }
    // It may fail with a warning, and then the request is gone too.
    RunFiles learnt(RunFiles files, int /*error_number*/) const override {
        EXPECT_FALSE(files.contains("run/export"));
        std::erase_if(files, [](const auto& file) {
            return !file.first.starts_with("run/final/") && file.first != "run/metrics.jsonl";
        });
        return files;
    }

    RunFiles exports_;
};

TEST_P(RequestDeaths, AreAnswered) {
    try_some(GetParam().name, 2 * ImageRun::kSample);
}

class SlowRequestDeaths : public RequestDeaths {};

TEST_P(SlowRequestDeaths, AtAnyChangeAreAnswered) {
    try_all_changes();
}

TEST_P(SlowRequestDeaths, OfAnyCallLoseNothing) {
    try_all_calls();
}

const std::vector<ImageRun> kAsked = {{.name = "in_memory", .settings = {{"policy", "in_memory"}}},
                                      {.name = "on_disk", .settings = {{"policy", "three_tier"}}}};
const auto name_of_asked = [](const auto& info) { return std::string(info.param.name); };
INSTANTIATE_TEST_SUITE_P(Kinds, RequestDeaths, testing::ValuesIn(kAsked), name_of_asked);
INSTANTIATE_TEST_SUITE_P(Kinds, SlowRequestDeaths, testing::ValuesIn(kAsked), name_of_asked);

}  // namespace
}  // namespace windlass
