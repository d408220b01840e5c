// Power lost anywhere in the life of a trajectory log: what is found again is a prefix of what was appended that holds
// everything synced, and goes on to the bytes of a log whose power stayed.
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/log.h"
#include "tests/fault_files.h"
#include "tests/unit/format/trajectory_samples.h"

namespace windlass {
namespace {

const std::string kPath = "/image/run.trajectory";
const std::string kBranch = "/image/branch.trajectory";
constexpr int64_t kDirections = 150;  // 632 bytes a record: every append spans sectors
constexpr int64_t kLastStep = 14;

// What may be found after a cut: the first steps of this history, at least `durable` of them.
struct Expected {
    bool exists = false;       // the log was made
    std::vector<int> history;  // of each step that was appended and not undone: which attempt at it
    int64_t durable = 0;
    int64_t appended() const { return std::ssize(history); }
};

TrajectoryRecord record(int64_t step, int attempt) {
    return sample_record(step, kDirections, attempt);
}

void append(TrajectoryWriter& writer, int64_t last_step, int attempt, Expected& expected) {
    while (writer.next_step() <= last_step) {
        expected.history.push_back(attempt);
        writer.append(record(writer.next_step(), attempt));
    }
}

void undo(TrajectoryWriter& writer, int64_t last_step, Expected& expected) {
    expected.durable = std::min(expected.durable, last_step);
    writer.truncate_after(last_step);
    expected.history.resize(static_cast<size_t>(last_step));
    expected.durable = last_step;
}

void sync(TrajectoryWriter& writer, Expected& expected) {
    writer.sync();
    expected.durable = expected.appended();
}

// Appends, syncs now and then, undoes steps that were synced and steps that were not, is closed and opened.
void live(FileSystem& files, Expected& expected) {
    {
        TrajectoryWriter writer = TrajectoryWriter::create(files, kPath, sample_header(kDirections));
        expected.exists = true;
        append(writer, 3, 0, expected);
        sync(writer, expected);
        append(writer, 8, 0, expected);
        sync(writer, expected);
        append(writer, 9, 0, expected);
        undo(writer, 5, expected);
        append(writer, 7, 1, expected);
        undo(writer, 6, expected);
        append(writer, 10, 2, expected);
    }
    TrajectoryWriter writer = TrajectoryWriter::open(files, kPath);
    expected.durable = 10;
    append(writer, kLastStep, 2, expected);
    sync(writer, expected);
}

// A life without a cut, and its log.
struct Finished {
    std::vector<int> history;
    std::string bytes;
    int64_t calls = 0;
};
const Finished& finished() {
    static const Finished life = [] {
        FaultFiles files("/image");
        Expected expected;
        live(files, expected);
        const int64_t calls = files.calls(FaultCall::any);
        return Finished{expected.history, log_bytes(files, kPath), calls};
    }();
    return life;
}

void expect_survival(const FaultFiles& dark, const Expected& expected, uint64_t seed) {
    const auto files = dark.crash(seed);
    if (!expected.exists && !files->exists(kPath)) return;
    TrajectoryReader reader = TrajectoryReader::open(*files, kPath);
    const int64_t found = reader.last_step();
    ASSERT_GE(found, expected.durable);
    ASSERT_LE(found, expected.appended());
    for (int64_t step = 1; step <= found; ++step)
        ASSERT_EQ(reader.read(step), record(step, expected.history[static_cast<size_t>(step - 1)]));
    TrajectoryWriter writer = TrajectoryWriter::open(*files, kPath);
    ASSERT_EQ(writer.next_step(), found + 1);
    // From where it agrees with the life without a cut, it goes on to the same bytes.
    const std::vector<int>& history = finished().history;
    int64_t common = 0;
    while (common < found && expected.history[static_cast<size_t>(common)] == history[static_cast<size_t>(common)])
        ++common;
    writer.truncate_after(common);
    while (writer.next_step() <= kLastStep)
        writer.append(record(writer.next_step(), history[static_cast<size_t>(writer.next_step() - 1)]));
    writer.sync();
    ASSERT_TRUE(log_bytes(*files, kPath) == finished().bytes);
}

// Warnings of logs that are cut off are what these tests are about.
class TrajectoryPower : public testing::Test {
  protected:
    void SetUp() override { set_log_level(LogLevel::error); }
    void TearDown() override { set_log_level(LogLevel::info); }
};

TEST_F(TrajectoryPower, AnyCutLeavesAPrefixThatHoldsWhatWasSynced) {
    for (int64_t cut = 0; cut <= finished().calls; ++cut) {
        FaultFiles files("/image");
        files.cut_power_after(cut);
        Expected expected;
        try {
            live(files, expected);
        } catch (const MachineError&) {
        }
        for (uint64_t seed = 0; seed < 24; ++seed) {
            SCOPED_TRACE(fmt::format("power lost after {} of {} calls, seed {}", cut, finished().calls, seed));
            ASSERT_NO_FATAL_FAILURE(expect_survival(files, expected, seed));
        }
    }
}

// A write stops within itself, then the power goes.
TEST_F(TrajectoryPower, AnAppendThatIsCutShortIsNotThere) {
    for (int64_t bytes_first = 1; bytes_first < 632; bytes_first += 30) {
        FaultFiles files("/image");
        TrajectoryWriter writer = TrajectoryWriter::create(files, kPath, sample_header(kDirections));
        Expected expected{.exists = true};
        append(writer, 4, 0, expected);
        sync(writer, expected);
        append(writer, 6, 0, expected);
        files.fail({.call = FaultCall::write, .times = FaultRule::kForever, .bytes_first = bytes_first});
        EXPECT_THROW(writer.append(record(7, 0)), MachineError);
        for (uint64_t seed = 0; seed < 24; ++seed) ASSERT_NO_FATAL_FAILURE(expect_survival(files, expected, seed));
    }
}

// Record 5 was lost with the power and record 6 kept; the same step 5 again is a predecessor that would fit.
TEST_F(TrajectoryPower, WhatWasCutOffDoesNotComeBack) {
    for (uint64_t seed = 0; seed < 24; ++seed) {
        FaultFiles files("/image");
        {
            TrajectoryWriter writer = TrajectoryWriter::create(files, kPath, sample_header(kDirections));
            append_samples(writer, 4);
            writer.sync();
            const int64_t lost_offset = files.status(kPath).bytes;
            append_samples(writer, 6);
            const std::vector<std::byte> lost(static_cast<size_t>(files.status(kPath).bytes - lost_offset) / 2);
            const auto file = files.open(kPath, {.mode = OpenMode::update});
            file->write_at(lost, lost_offset);
            file->sync();
        }
        TrajectoryWriter writer = TrajectoryWriter::open(files, kPath);
        ASSERT_EQ(writer.next_step(), 5);
        append_samples(writer, 5);
        EXPECT_LE(TrajectoryReader::open(*files.crash(seed), kPath).last_step(), 5) << "seed " << seed;
    }
}

TEST_F(TrajectoryPower, ABranchIsWholeOrNotThere) {
    FaultFiles first("/image");
    Expected ignored;
    live(first, ignored);
    const int64_t before = first.calls(FaultCall::any);
    TrajectoryWriter::fork(first, kPath, 9, kBranch);
    const int64_t calls = first.calls(FaultCall::any) - before;
    const std::string branch = log_bytes(first, kBranch);
    for (int64_t cut = 0; cut <= calls; ++cut) {
        FaultFiles files("/image");
        Expected expected;
        live(files, expected);
        files.cut_power_after(cut);
        try {
            TrajectoryWriter::fork(files, kPath, 9, kBranch);
        } catch (const MachineError&) {
        }
        for (uint64_t seed = 0; seed < 24; ++seed) {
            SCOPED_TRACE(fmt::format("power lost after {} of {} calls, seed {}", cut, calls, seed));
            const auto found = files.crash(seed);
            EXPECT_EQ(TrajectoryReader::open(*found, kPath).last_step(), kLastStep);
            if (!found->exists(kBranch)) TrajectoryWriter::fork(*found, kPath, 9, kBranch);
            EXPECT_EQ(TrajectoryReader::open(*found, kBranch).last_step(), 9);
            TrajectoryWriter::open(*found, kBranch);
            ASSERT_TRUE(log_bytes(*found, kBranch) == branch);
        }
    }
}

}  // namespace
}  // namespace windlass
