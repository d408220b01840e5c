#include "tests/train/death_trials.h"

#include <cerrno>
#include <random>

#include "base/error.h"

namespace windlass {
namespace {

uint32_t seed_of_trials() {
    const char* const given = std::getenv("WINDLASS_SEED");
    return given != nullptr ? static_cast<uint32_t>(std::stoul(given)) : std::random_device()();
}

}  // namespace

void DeathTrials::know_whole() {
    const auto files = begin();
    ASSERT_EQ(act(*files, {}), 0) << message_;
    whole_ = left(*files);
    changes_ = files->calls(FaultCall::change);
    calls_ = files->calls(FaultCall::any);
    ASSERT_GT(changes_, 10);
}

Settings DeathTrials::another_place(uint64_t index) const {
    const std::vector<Settings> all = places();
    Settings place = all.empty() ? Settings() : all[index % all.size()];
    place["threads"] = std::to_string(1 + index % 3);
    return place;
}

void DeathTrials::expect_whole(FileSystem& files, uint64_t index) {
    ASSERT_EQ(act_again(files, another_place(index)), 0) << message_;
    ASSERT_EQ(difference(left(files), whole_), "");
}

void DeathTrials::die_at(int64_t change, int64_t bytes_first) {
    SCOPED_TRACE(fmt::format("dead at change {} of {}", change, changes_));
    const auto files = begin();
    files->die_after_changes(change - 1, bytes_first);
    const int code = act(*files, another_place(static_cast<uint64_t>(change)));
    files->clear_rules();
    expect_after_death(*files);
    if (code != 0) return expect_whole(*files, static_cast<uint64_t>(change) + 1);
    EXPECT_EQ(difference(left(*files), whole_), "");  // another placement makes fewer changes
}

void DeathTrials::lose_power_at(int64_t change, uint64_t seed) {
    SCOPED_TRACE(fmt::format("power lost at change {} of {}, seed {}", change, changes_, seed));
    const auto files = begin();
    files->die_after_changes(change - 1);
    act(*files, {});
    const auto found = files->crash(seed);
    expect_after_death(*found);
    expect_whole(*found, seed);
}

void DeathTrials::fail_call(int64_t call, int error_number, int64_t bytes_first) {
    SCOPED_TRACE(fmt::format("call {} of {} fails with errno {}", call, calls_, error_number));
    const auto files = begin();
    files->fail({.nth = call, .error_number = error_number, .bytes_first = bytes_first});
    const int code = act(*files, {});
    files->clear_rules();
    EXPECT_NE(code, static_cast<int>(ExitCode::internal)) << message_;
    if (code != 0) return expect_whole(*files, 0);
    EXPECT_EQ(difference(learnt(left(*files), error_number), learnt(whole_, error_number)), "");
}

void DeathTrials::try_some(const char* name, int count) {
    const uint32_t seed = seed_of_trials();
    fmt::print("{}: {} changes, {} calls; seed {}\n", name, changes_, calls_, seed);
    std::mt19937 random(seed);
    const auto draw = [&](int64_t most) { return std::uniform_int_distribution<int64_t>(1, most)(random); };
    for (int trial = 0; trial < count && !HasFailure(); ++trial) {
        die_at(draw(changes_), draw(3) == 1 ? draw(4096) : 0);
        lose_power_at(draw(changes_), random());
        fail_call(draw(calls_), trial % 2 == 0 ? EIO : trial == 1 ? ENOSPC : EMFILE, 0);
    }
}

void DeathTrials::try_all_changes() {
    std::mt19937 random(seed_of_trials());
    for (int64_t change = 1; change <= changes_ && !HasFailure(); ++change) {
        die_at(change, change % 3 == 0 ? 1 + static_cast<int64_t>(random() % 4096) : 0);
        lose_power_at(change, random());
    }
}

void DeathTrials::try_all_calls() {
    for (int64_t call = 1; call <= calls_ && !HasFailure(); ++call)
        fail_call(call, call % 3 == 0 ? ENOSPC : call % 3 == 1 ? EIO : EMFILE, call % 2 * 512);
}

}  // namespace windlass
