#include "format/trajectory.h"

#include <gtest/gtest.h>

#include <bit>
#include <limits>

#include "tests/fault_files.h"
#include "tests/unit/base/temp_folder.h"
#include "tests/unit/format/safetensors_bytes.h"
#include "tests/unit/format/trajectory_samples.h"

namespace windlass {
namespace {

using ::testing::HasSubstr;

const std::string kLogPath = "/image/run.trajectory";
const std::string kBranch = "/image/branch.trajectory";

void expect_samples(FileSystem& files, const std::string& path, int64_t last_step, int history = 0) {
    TrajectoryReader reader = TrajectoryReader::open(files, path);
    ASSERT_EQ(reader.last_step(), last_step);
    EXPECT_EQ(reader.tail(), "");
    if (last_step == 0) return;
    const std::vector<TrajectoryRecord> records = reader.read(1, last_step);
    ASSERT_EQ(std::ssize(records), last_step);
    for (int64_t step = 1; step <= last_step; ++step)
        EXPECT_EQ(records[static_cast<size_t>(step - 1)], sample_record(step, reader.header().directions, history));
}

TEST(Trajectory, ReadsWhatItWrote) {
    const TempFolder folder;
    const std::string path = folder / "log";
    make_log(real_files(), path, 30, 3);
    EXPECT_EQ(TrajectoryReader::open(real_files(), path).header(), sample_header(3));
    expect_samples(real_files(), path, 30);
}

TEST(Trajectory, KeepsEveryKindOfHeader) {
    TrajectoryHeader plain = sample_header();
    plain.noise = {.kind = TrajectoryNoiseKind::rademacher};
    plain.run_seed = 0;
    plain.eps = 0;
    plain.storage = DType::f32;
    plain.stochastic_rounding = false;
    plain.first_step = 4'000'000'000;
    plain.base.name = "ein \"Modell\" \xc3\xbc";
    plain.settings = "[1,2.5,null]";
    TrajectoryHeader branch = plain;
    branch.noise.kind = TrajectoryNoiseKind::gaussian;
    branch.eps = 0x1.fffffffffffffp-12;
    branch.origin = {.file = "other.trajectory", .step = 4'000'000'007, .history_sum = 0xfedcba9876543210};
    for (const TrajectoryHeader& header : {plain, branch}) {
        FaultFiles files("/image");
        TrajectoryWriter::create(files, kLogPath, header);
        TrajectoryReader reader = TrajectoryReader::open(files, kLogPath);
        EXPECT_EQ(reader.header(), header);
        EXPECT_EQ(reader.count(), 0);
        EXPECT_EQ(reader.last_step(), 3'999'999'999);
    }
}

// The bits of what was not finite are kept too: they are what a divergence is looked for in.
TEST(Trajectory, KeepsTheBitsOfAStepThatWasNotApplied) {
    FaultFiles files("/image");
    TrajectoryWriter writer = TrajectoryWriter::create(files, kLogPath, sample_header(2));
    const float odd_nan = std::bit_cast<float>(0x7fc01234u), subnormal = std::bit_cast<float>(0x80000001u);
    writer.append(
        {.step = 1, .learning_rate = 5e-324, .decay = -0.0, .applied = false, .scalars = {odd_nan, subnormal}});
    const TrajectoryRecord record = TrajectoryReader::open(files, kLogPath).read(1);
    EXPECT_FALSE(record.applied);
    EXPECT_EQ(record.learning_rate, 5e-324);
    EXPECT_TRUE(std::signbit(record.decay));
    EXPECT_EQ(std::bit_cast<uint32_t>(record.scalars[0]), 0x7fc01234u);
    EXPECT_EQ(std::bit_cast<uint32_t>(record.scalars[1]), 0x80000001u);
}

TEST(Trajectory, TwentyThousandStepsStayBelowAMegabyteAndADirectionCostsFourBytesAStep) {
    constexpr int64_t kSteps = 20'000;
    FaultFiles files("/image");
    const auto bytes_with = [&](int64_t directions) {
        const std::string path = fmt::format("/image/{}", directions);
        TrajectoryWriter writer = TrajectoryWriter::create(files, path, sample_header(directions));
        const int64_t header_bytes = files.status(path).bytes;
        append_samples(writer, kSteps);
        EXPECT_LT(header_bytes, 1000);
        return files.status(path).bytes - header_bytes;
    };
    const int64_t one = bytes_with(1);
    EXPECT_LT(one + 1000, 1'000'000);
    EXPECT_EQ(one, 36 * kSteps);
    EXPECT_EQ(bytes_with(2) - one, 4 * kSteps);
    EXPECT_EQ(bytes_with(16) - one, 15 * 4 * kSteps);
}

TEST(Trajectory, AnAppendIsOneWriteAndNothingElse) {
    FaultFiles files("/image");
    TrajectoryWriter writer = TrajectoryWriter::create(files, kLogPath, sample_header(100));
    for (int64_t step = 1; step <= 5; ++step) {
        const int64_t calls = files.calls(FaultCall::any), writes = files.calls(FaultCall::write);
        writer.append(sample_record(step, 100));
        EXPECT_EQ(files.calls(FaultCall::any) - calls, 1);
        EXPECT_EQ(files.calls(FaultCall::write) - writes, 1);
    }
    const int64_t syncs = files.calls(FaultCall::sync);
    writer.sync();
    writer.sync();  // nothing is left to do
    EXPECT_EQ(files.calls(FaultCall::sync) - syncs, 1);
}

TEST(Trajectory, FindsAnyStepWithoutReadingTheOthers) {
    FaultFiles files("/image");
    make_log(files, kLogPath, 50'000, 7);  // more than is read at once
    TrajectoryReader reader = TrajectoryReader::open(files, kLogPath);
    ASSERT_EQ(reader.count(), 50'000);
    for (const int64_t step : {1, 2, 49'999, 50'000, 17'476, 17'477}) {
        const int64_t reads = files.calls(FaultCall::read);
        EXPECT_EQ(reader.read(step), sample_record(step, 7));
        EXPECT_LE(files.calls(FaultCall::read) - reads, 2);
    }
    EXPECT_EQ(reader.read(17'470, 17'480)[6], sample_record(17'476, 7));
}

TEST(Trajectory, SaysWhichStepsItHolds) {
    FaultFiles files("/image");
    make_log(files, kLogPath, 5);
    TrajectoryReader reader = TrajectoryReader::open(files, kLogPath);
    EXPECT_THAT(message_of<UserError>([&] { reader.read(6); }),
                HasSubstr("run.trajectory: the log holds steps 1 to 5, step 6 was asked for"));
    EXPECT_THAT(message_of<UserError>([&] { reader.read(0, 3); }), HasSubstr("step 0 was asked for"));
    TrajectoryWriter::create(files, kBranch, sample_header());
    TrajectoryReader empty = TrajectoryReader::open(files, kBranch);
    EXPECT_THAT(message_of<UserError>([&] { empty.read(1); }), HasSubstr("the log holds no steps"));
}

TEST(Trajectory, GoesOnAsIfItHadNeverBeenClosed) {
    FaultFiles files("/image");
    make_log(files, kLogPath, 20, 2);
    const std::string whole = log_bytes(files, kLogPath);
    make_log(files, "/image/parts", 8, 2);
    for (const int64_t last : {8, 9, 15, 20}) {
        TrajectoryWriter writer = TrajectoryWriter::open(files, "/image/parts");
        append_samples(writer, last);
        writer.sync();
    }
    EXPECT_TRUE(log_bytes(files, "/image/parts") == whole);
}

TEST(Trajectory, DoesNotMakeALogOverAnother) {
    FaultFiles files("/image");
    make_log(files, kLogPath, 3);
    make_log(files, kBranch, 4);
    const auto create = [&] { TrajectoryWriter::create(files, kLogPath, sample_header()); };
    EXPECT_THAT(message_of<UserError>(create), HasSubstr("run.trajectory: exists already"));
    const auto fork = [&] { TrajectoryWriter::fork(files, kBranch, 2, kLogPath); };
    EXPECT_THAT(message_of<UserError>(fork), HasSubstr("run.trajectory: exists already"));
    expect_samples(files, kLogPath, 3);
}

// ---- history ----

TEST(Trajectory, HistorySumsTellHistoriesApart) {
    FaultFiles files("/image");
    const TrajectoryWriter writer = make_log(files, kLogPath, 10);
    TrajectoryWriter other = TrajectoryWriter::create(files, kBranch, sample_header());
    append_samples(other, 5);
    other.append(sample_record(6, 1, 1));
    append_samples(other, 10);
    TrajectoryReader a = TrajectoryReader::open(files, kLogPath), b = TrajectoryReader::open(files, kBranch);
    for (int64_t step = 0; step <= 10; ++step) EXPECT_EQ(a.history_sum(step) == b.history_sum(step), step < 6) << step;
    EXPECT_EQ(writer.history_sum(), a.history_sum(10));
    EXPECT_EQ(other.history_sum(), b.history_sum(10));
}

TEST(Trajectory, UndoLeavesTheBytesOfALogThatNeverWentFurther) {
    for (const bool is_synced : {true, false}) {
        FaultFiles files("/image");
        make_log(files, "/image/short", 6, 2);
        TrajectoryWriter writer = make_log(files, kLogPath, 4, 2);
        append_samples(writer, 12);
        if (is_synced) writer.sync();
        writer.truncate_after(6);
        EXPECT_EQ(writer.next_step(), 7);
        EXPECT_TRUE(log_bytes(files, kLogPath) == log_bytes(files, "/image/short"));
        append_samples(writer, 9);
        writer.sync();
        expect_samples(files, kLogPath, 9);
        writer.truncate_after(0);
        append_samples(writer, 3, 1);
        expect_samples(files, kLogPath, 3, 1);
    }
}

TEST(Trajectory, UndoesOnlyStepsThatItHolds) {
    FaultFiles files("/image");
    TrajectoryWriter writer = make_log(files, kLogPath, 5);
    for (const int64_t step : {int64_t{6}, int64_t{-1}, std::numeric_limits<int64_t>::min()})
        EXPECT_THAT(message_of<UserError>([&] { writer.truncate_after(step); }),
                    HasSubstr(fmt::format("the log holds steps up to 5, it cannot be cut after step {}", step)));
    writer.truncate_after(5);
    expect_samples(files, kLogPath, 5);
}

TEST(Trajectory, ABranchSharesTheStepsUpToItsOriginAndNamesIt) {
    FaultFiles files("/image");
    make_log(files, kLogPath, 60'000);  // more than is copied at once
    const std::string original = log_bytes(files, kLogPath);
    TrajectoryWriter branch = TrajectoryWriter::fork(files, kLogPath, 50'000, kBranch);
    TrajectoryReader source = TrajectoryReader::open(files, kLogPath);
    TrajectoryHeader expected = sample_header();
    expected.origin = {.file = kLogPath, .step = 50'000, .history_sum = source.history_sum(50'000)};
    EXPECT_EQ(branch.header(), expected);
    expect_samples(files, kBranch, 50'000);
    append_samples(branch, 50'002, 1);
    TrajectoryReader reader = TrajectoryReader::open(files, kBranch);
    EXPECT_EQ(reader.read(50'000), sample_record(50'000));
    EXPECT_EQ(reader.read(50'001), sample_record(50'001, 1, 1));
    EXPECT_TRUE(log_bytes(files, kLogPath) == original);
    EXPECT_EQ(files.list("/image"), (std::vector<std::string>{"branch.trajectory", "run.trajectory"}));
}

TEST(Trajectory, ABranchMayHaveNoStepsAndNoMoreThanThereAre) {
    FaultFiles files("/image");
    make_log(files, kLogPath, 5);
    EXPECT_THAT(message_of<UserError>([&] { TrajectoryWriter::fork(files, kLogPath, 6, kBranch); }),
                HasSubstr("step 6 was asked for"));
    EXPECT_FALSE(files.exists(kBranch));
    EXPECT_EQ(TrajectoryWriter::fork(files, kLogPath, 0, kBranch).next_step(), 1);
    EXPECT_EQ(TrajectoryReader::open(files, kBranch).header().origin->step, 0u);
}

TEST(Trajectory, ABranchOfABranchNamesTheBranch) {
    FaultFiles files("/image");
    make_log(files, kLogPath, 5);
    TrajectoryWriter::fork(files, kLogPath, 4, kBranch);
    EXPECT_EQ(TrajectoryWriter::fork(files, kBranch, 2, "/image/third").header().origin->file, kBranch);
    expect_samples(files, "/image/third", 2);
}

// ---- what the world does ----

TEST(Trajectory, AFailedAppendLeavesTheLogAsItWas) {
    for (const int64_t bytes_first : {0, 1, 20, 35}) {
        FaultFiles files("/image");
        TrajectoryWriter writer = make_log(files, kLogPath, 4);
        files.fail({.call = FaultCall::write, .error_number = ENOSPC, .bytes_first = bytes_first});
        EXPECT_THROW(writer.append(sample_record(5)), MachineError);
        EXPECT_EQ(TrajectoryReader::open(files, kLogPath).last_step(), 4);
        EXPECT_EQ(writer.next_step(), 5);
        append_samples(writer, 8);
        writer.sync();
        expect_samples(files, kLogPath, 8);
    }
}

TEST(Trajectory, AfterAFailedSyncItIsToBeOpenedAnew) {
    FaultFiles files("/image");
    TrajectoryWriter writer = make_log(files, kLogPath, 4);
    append_samples(writer, 6);
    files.fail({.call = FaultCall::sync});
    EXPECT_THROW(writer.sync(), MachineError);
    EXPECT_THAT(message_of<UserError>([&] { writer.append(sample_record(7)); }), HasSubstr("must be opened again"));
    EXPECT_THAT(message_of<UserError>([&] { writer.truncate_after(3); }), HasSubstr("must be opened again"));
    TrajectoryWriter again = TrajectoryWriter::open(files, kLogPath);
    append_samples(again, 9);
    expect_samples(files, kLogPath, 9);
}

// ---- the base ----

TEST(Trajectory, KnowsItsBase) {
    const TrajectoryHeader header = sample_header();
    TrajectoryBase base = header.base;
    base.name = "a copy elsewhere";
    require_trajectory_base(header, base, "log");
    base.weights_sum ^= 1;
    EXPECT_THAT(message_of<UserError>([&] { require_trajectory_base(header, base, "log"); }),
                HasSubstr("log: the log belongs to \"tiny\", not to \"a copy elsewhere\": checksum of the weights "
                          "000000000000002b, expected 000000000000002a"));
    base.table_sum ^= 1;
    EXPECT_THAT(message_of<UserError>([&] { require_trajectory_base(header, base, "log"); }),
                HasSubstr("checksum of the parameter table"));
    base.elements = 7;
    EXPECT_THAT(message_of<UserError>([&] { require_trajectory_base(header, base, "log"); }),
                HasSubstr("number of elements 7, expected 1234"));
}

TEST(Trajectory, NoTwoTablesHaveOneSum) {
    using Table = std::vector<TrajectoryParam>;
    const TrajectoryParam a{.name = "a", .dtype = DType::bf16, .shape = {2, 3}};
    const auto with = [&](auto change) {
        TrajectoryParam changed = a;
        change(changed);
        return Table{changed};
    };
    const std::vector<Table> tables = {
        {},
        {a},
        {a, a},
        with([](TrajectoryParam& x) { x.name = "b"; }),
        with([](TrajectoryParam& x) { x.name = "abf16"; }),
        with([](TrajectoryParam& x) { x.dtype = DType::f16; }),
        with([](TrajectoryParam& x) {
            x.shape = {3, 2};
        }),
        with([](TrajectoryParam& x) { x.shape = {6}; }),
        with([](TrajectoryParam& x) {
            x.shape = {2, 3, 1};
        }),
        with([](TrajectoryParam& x) { x.shape = {}; }),
        with([](TrajectoryParam& x) { x.trainable = false; }),
        with([](TrajectoryParam& x) { x.decay = false; }),
    };
    std::set<uint64_t> sums;
    for (const Table& table : tables) sums.insert(trajectory_table_sum(table));
    EXPECT_EQ(sums.size(), tables.size());
}

}  // namespace
}  // namespace windlass
