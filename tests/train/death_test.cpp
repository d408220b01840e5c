// A run that dies at any of the changes that it makes to a drive, anywhere from its first to its last: the next command
// ends it with the bits of a run that nobody disturbed, and leaves nothing over. So it is where a call fails, and where
// the power does. How it is placed, and with how many threads, differs from one command to the next.
//
// The process that dies is this one: from the chosen change on every further one fails, which a drive cannot tell from
// a kill. CI takes a sample that a seed draws (WINDLASS_SEED=N: the same again); slow tests take all.
#include <cerrno>
#include <random>

#include "base/error.h"
#include "tests/train/image_runs.h"

namespace windlass {
namespace {

uint32_t seed_of_trials() {
    const char* const given = std::getenv("WINDLASS_SEED");
    return given != nullptr ? static_cast<uint32_t>(std::stoul(given)) : std::random_device()();
}

class Deaths : public ImageRunTest, public testing::WithParamInterface<ImageRun> {
  protected:
    // A run that nothing disturbs.
    void SetUp() override {
        const auto files = drive();
        ASSERT_EQ(run_in(*files, GetParam(), {}), 0) << message_;
        whole_ = left_in(*files);
        changes_ = files->calls(FaultCall::change);
        calls_ = files->calls(FaultCall::any);
        ASSERT_GT(changes_, 20);
    }
    // The placement with which trial `index` continues.
    Settings another_place(uint64_t index) const {
        const std::vector<Settings>& places = GetParam().places;
        Settings place = places.empty() ? Settings() : places[index % places.size()];
        place["threads"] = std::to_string(1 + index % 3);
        return place;
    }
    // The run continues from what is in `files`, and ends as one that was not disturbed.
    void expect_whole(FileSystem& files, uint64_t index) {
        ASSERT_EQ(finish_in(files, GetParam(), another_place(index)), 0) << message_;
        ASSERT_EQ(difference(left_in(files), whole_), "");
    }
    // The process dies at this change, of which it does these bytes first.
    void die_at(int64_t change, int64_t bytes_first) {
        SCOPED_TRACE(fmt::format("dead at change {} of {}", change, changes_));
        const auto files = drive();
        files->die_after_changes(change - 1, bytes_first);
        const int code = run_in(*files, GetParam(), another_place(static_cast<uint64_t>(change)));
        files->clear_rules();
        if (code != 0) return expect_whole(*files, static_cast<uint64_t>(change) + 1);
        EXPECT_EQ(difference(left_in(*files), whole_), "");  // another placement makes fewer changes
    }
    // The power fails there.
    void lose_power_at(int64_t change, uint64_t seed) {
        SCOPED_TRACE(fmt::format("power lost at change {} of {}, seed {}", change, changes_, seed));
        const auto files = drive();
        files->die_after_changes(change - 1);
        run_in(*files, GetParam(), {});
        const auto found = files->crash(seed);
        expect_whole(*found, seed);
    }
    // One call fails, and the run ends, or continues.
    void fail_call(int64_t call, int error_number, int64_t bytes_first) {
        SCOPED_TRACE(fmt::format("call {} of {} fails with errno {}", call, calls_, error_number));
        const auto files = drive();
        files->fail({.nth = call, .error_number = error_number, .bytes_first = bytes_first});
        const int code = run_in(*files, GetParam(), {});
        files->clear_rules();
        EXPECT_NE(code, static_cast<int>(ExitCode::internal)) << message_;
        if (code != 0) return expect_whole(*files, 0);
        // The best step is then the best of those that a full drive could take.
        const bool may_lose_best = error_number == ENOSPC && GetParam().settings.contains("load_best_model_at_end");
        EXPECT_EQ(difference(learnt(left_in(*files), may_lose_best), learnt(whole_, may_lose_best)), "");
    }
    // A run continues where a checkpoint, an export or a copy of a text could not be written, and says so.
    static RunFiles learnt(RunFiles files, bool may_lose_best) {
        const auto may_be_missing = [may_lose_best](const auto& file) {
            const std::string& name = file.first;
            if (name.starts_with("run/final/")) return may_lose_best;
            return name != "run/metrics.jsonl" && !name.starts_with("run/refresh-");
        };
        std::erase_if(files, may_be_missing);
        std::erase_if(files, [](const auto& file) { return file.second.empty(); });
        return files;
    }

    RunFiles whole_;
    int64_t changes_ = 0, calls_ = 0;
};

// Of each kind this many of each sort.
constexpr int kSample = 4;

TEST_P(Deaths, LoseNothing) {
    const uint32_t seed = seed_of_trials();
    fmt::print("{}: {} changes, {} calls; seed {}\n", GetParam().name, changes_, calls_, seed);
    std::mt19937 random(seed);
    const auto draw = [&](int64_t most) { return std::uniform_int_distribution<int64_t>(1, most)(random); };
    for (int trial = 0; trial < kSample && !HasFailure(); ++trial) {
        die_at(draw(changes_), draw(3) == 1 ? draw(4096) : 0);
        lose_power_at(draw(changes_), random());
        fail_call(draw(calls_), trial % 2 == 0 ? EIO : trial == 1 ? ENOSPC : EMFILE, 0);
    }
}

class SlowDeaths : public Deaths {};

TEST_P(SlowDeaths, AtAnyChangeLoseNothing) {
    std::mt19937 random(seed_of_trials());
    for (int64_t change = 1; change <= changes_ && !HasFailure(); ++change) {
        die_at(change, change % 3 == 0 ? 1 + static_cast<int64_t>(random() % 4096) : 0);
        lose_power_at(change, random());
    }
}

TEST_P(SlowDeaths, OfAnyCallLoseNothing) {
    for (int64_t call = 1; call <= calls_ && !HasFailure(); ++call)
        fail_call(call, call % 3 == 0 ? ENOSPC : call % 3 == 1 ? EIO : EMFILE, call % 2 * 512);
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
