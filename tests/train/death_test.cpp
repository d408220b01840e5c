// A run that dies at any of the changes that it makes to a drive, anywhere from its first to its last: the next command
// ends it with the bits of a run that nobody disturbed, and leaves nothing over. So it is where a call fails, and where
// the power does. How it is placed, and with how many threads, differs from one command to the next.
//
// CI takes a sample that a seed draws (WINDLASS_SEED=N: the same again); slow tests take all.
#include <cerrno>

#include "tests/train/death_trials.h"

namespace windlass {
namespace {

class Deaths : public DeathTrials, public testing::WithParamInterface<ImageRun> {
  protected:
    void SetUp() override { know_whole(); }
    std::unique_ptr<FaultFiles> begin() const override { return drive(); }
    int act(FileSystem& files, const Settings& place) override { return run_in(files, GetParam(), place); }
    int act_again(FileSystem& files, const Settings& place) override { return finish_in(files, GetParam(), place); }
    std::vector<Settings> places() const override { return GetParam().places; }
    // A run continues where a checkpoint, an export or a copy of a text could not be written, and says so. But final/
    // is whole: only the best step may then be the best of those that a full drive could take. The report of a refresh
    // may find no room either.
    RunFiles learnt(RunFiles files, int error_number) const override {
        const bool was_full = error_number == ENOSPC;
        const bool may_lose_best = was_full && GetParam().settings.contains("load_best_model_at_end");
        std::erase_if(files, [&](const auto& file) {
            const std::string& name = file.first;
            if (name.starts_with("run/final/")) return may_lose_best;
            if (name.starts_with("run/refresh-")) return was_full;
            return name != "run/metrics.jsonl" || file.second.empty();
        });
        return files;
    }
};

TEST_P(Deaths, LoseNothing) {
    try_some(GetParam().name, GetParam().sample);
}

class SlowDeaths : public Deaths {};

TEST_P(SlowDeaths, AtAnyChangeLoseNothing) {
    try_all_changes();
}

TEST_P(SlowDeaths, OfAnyCallLoseNothing) {
    try_all_calls();
}

// Its store has the base as well, which memory takes from the model's files.
TEST_F(ImageRunTest, AStoreOfAnAdapterGoesOnInMemory) {
    const ImageRun lora{.name = "lora",
                        .settings = {{"adapter", "lora"}, {"lora_r", "4"}},
                        .places = {{{"policy", "in_memory"}}, {{"policy", "three_tier"}}}};
    const auto whole = drive(), files = drive();
    ASSERT_EQ(run_in(*whole, lora, lora.places[0]), 0) << message_;
    files->fail({.call = FaultCall::make_folders, .times = FaultRule::kForever, .path_part = "checkpoint-4"});
    ASSERT_NE(run_in(*files, lora, lora.places[1]), 0);
    files->clear_rules();
    ASSERT_TRUE(files->list(at("drive/ssd")).size() >= 1) << "no store is left";
    ASSERT_EQ(finish_in(*files, lora, lora.places[0]), 0) << message_;
    EXPECT_EQ(difference(left_in(*files), left_in(*whole)), "");
}

const auto name_of_kind = [](const auto& info) { return std::string(info.param.name); };
INSTANTIATE_TEST_SUITE_P(Kinds, Deaths, testing::ValuesIn(image_runs()), name_of_kind);
INSTANTIATE_TEST_SUITE_P(Kinds, SlowDeaths, testing::ValuesIn(image_runs()), name_of_kind);

}  // namespace
}  // namespace windlass
