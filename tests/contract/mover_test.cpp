// What every mover promises, whichever way it moves bytes: up, down, from disk or to disk, with and without a throttle,
// over every queue.

#include <gtest/gtest.h>

#include <thread>

#include "base/error.h"
#include "base/rng.h"
#include "base/units.h"
#include "device/fake/fake_stream.h"
#include "device/host_memory.h"
#include "tests/fault_files.h"
#include "tests/unit/base/temp_folder.h"
#include "tests/unit/tier/fake_clock.h"
#include "tier/copy_mover.h"
#include "tier/disk_mover.h"
#include "tier/pool.h"

namespace windlass {
namespace {

constexpr int64_t kBytes = 12 * kMiB;
constexpr double kRate = 1e9;

struct MoverCase {
    std::string_view way;    // up | down | read | write
    std::string_view queue;  // of disk movers: uring | pread | fault
    bool throttled;
};

std::string case_name(const MoverCase& one) {
    return fmt::format("{}{}{}", one.way, one.queue.empty() ? "" : "_", one.queue) +
           (one.throttled ? "_throttled" : "");
}

// What is moved: a stretch of the source to a place in the target.
struct Stretch {
    int64_t from, to, bytes;
};

void fill(std::span<std::byte> bytes, uint64_t key) {
    Random random(key, RandomStream::test);
    for (std::byte& value : bytes) value = static_cast<std::byte>(random.next());
}

// The same random bytes at every call: all tests start from them.
const std::vector<std::byte>& random_bytes(uint64_t key) {
    static const auto made = [] {
        std::array<std::vector<std::byte>, 2> all;
        for (size_t i = 0; i < all.size(); ++i) fill(all[i] = std::vector<std::byte>(kBytes), i);
        return all;
    }();
    return made[key];
}

std::span<std::byte> part(std::span<std::byte> all, int64_t offset, int64_t bytes) {
    return all.subspan(static_cast<size_t>(offset), static_cast<size_t>(bytes));
}

// A source and a target of kBytes each, and a mover from one to the other.
struct Stand {
    virtual ~Stand() = default;
    virtual void load_source(std::span<const std::byte> bytes) = 0;
    virtual void load_target(std::span<const std::byte> bytes) = 0;
    virtual std::vector<std::byte> target() = 0;
    virtual void move(std::span<const Stretch> stretches) = 0;
};

struct CopyStand : Stand {
    CopyStand(bool up, Throttle* link) : from(up ? host : device), to(up ? device : host), mover(link) {}
    void load_source(std::span<const std::byte> bytes) override {
        std::memcpy(from.lease(0, kBytes, true).data(), bytes.data(), kBytes);
    }
    void load_target(std::span<const std::byte> bytes) override {
        std::memcpy(to.lease(0, kBytes, true).data(), bytes.data(), kBytes);
    }
    std::vector<std::byte> target() override {
        std::vector<std::byte> all(kBytes);
        std::memcpy(all.data(), to.lease(0, kBytes, false).data(), kBytes);
        return all;
    }
    void move(std::span<const Stretch> stretches) override {
        const Lease source = from.lease(0, kBytes, false), sink = to.lease(0, kBytes, true);
        std::vector<CopyRange> ranges;
        for (const Stretch& one : stretches)
            ranges.push_back({part(source.span(), one.from, one.bytes), part(sink.span(), one.to, one.bytes)});
        mover.transfer(ranges, stream);
    }
    FakeStream stream;
    Pool host{"host", std::make_unique<HostMemory>(kBytes)}, device{"device", std::make_unique<HostMemory>(kBytes)};
    Pool &from, &to;
    CopyMover mover;
};

struct DiskStand : Stand {
    DiskStand(FileVerb verb, std::string_view queue, Throttle* link)
        : verb(verb), image("/image"), mover(make_queue(queue), link) {
        FileSystem& files = queue == "fault" ? image : real_files();
        path = queue == "fault" ? "/image/a" : folder / "a";
        file = files.open(path, {.mode = OpenMode::create});
        file->preallocate(kBytes);
        read_only = files.open(path, {.mode = OpenMode::read});
    }
    static std::unique_ptr<FileQueue> make_queue(std::string_view name) {
        if (name == "fault") return make_fault_queue(kDepth, 5);
        return make_file_queue(name == "uring" ? QueueKind::uring : QueueKind::pread, kDepth);
    }
    bool reads() const { return verb == FileVerb::read; }
    void load(bool into_file, std::span<const std::byte> bytes) {
        if (into_file) return file->write_at(bytes, 0);
        std::memcpy(host.lease(0, kBytes, true).data(), bytes.data(), kBytes);
    }
    void load_source(std::span<const std::byte> bytes) override { load(reads(), bytes); }
    void load_target(std::span<const std::byte> bytes) override { load(!reads(), bytes); }
    std::vector<std::byte> target() override {
        std::vector<std::byte> all(kBytes);
        if (reads()) {
            std::memcpy(all.data(), host.lease(0, kBytes, false).data(), kBytes);
        } else {
            file->read_at(all, 0);
        }
        return all;
    }
    void move(std::span<const Stretch> stretches) override {
        const Lease memory = host.lease(0, kBytes, reads());
        std::vector<DiskRange> ranges;
        for (const Stretch& one : stretches) {
            const auto& [in_file, in_memory] = reads() ? std::pair(one.from, one.to) : std::pair(one.to, one.from);
            ranges.push_back({file.get(), in_file, part(memory.span(), in_memory, one.bytes)});
        }
        mover.transfer(verb, ranges);
    }
    static constexpr int kDepth = 3;
    FileVerb verb;
    Pool host{"host", std::make_unique<HostMemory>(kBytes)};
    TempFolder folder;
    FaultFiles image;
    std::string path;
    std::unique_ptr<File> file, read_only;
    DiskMover mover;  // last: what is in flight uses what is above
};

class MoverContract : public testing::TestWithParam<MoverCase> {
  protected:
    void SetUp() override {
        const auto& [way, queue, throttled] = GetParam();
        Throttle* const link = throttled ? &link_ : nullptr;
        try {
            if (way == "up" || way == "down") {
                stand_ = std::make_unique<CopyStand>(way == "up", link);
            } else {
                stand_ = std::make_unique<DiskStand>(way == "read" ? FileVerb::read : FileVerb::write, queue, link);
            }
        } catch (const MachineError& error) {
            GTEST_SKIP() << error.what();
        }
        source_ = random_bytes(0);
        expected_ = random_bytes(1);
        stand_->load_source(source_);
        stand_->load_target(expected_);
    }
    // Moves them, and looks at every byte of the target, moved or not, and at what the link has counted.
    void expect_moved(std::span<const Stretch> stretches) {
        const int64_t counted = link_.bytes(), start_ns = clock_.now();
        stand_->move(stretches);
        int64_t asked = 0;
        for (const auto& [from, to, bytes] : stretches) {
            std::memcpy(expected_.data() + to, source_.data() + from, static_cast<size_t>(bytes));
            asked += bytes;
        }
        EXPECT_EQ(std::memcmp(stand_->target().data(), expected_.data(), kBytes), 0);
        const int64_t through_link = GetParam().throttled ? asked : 0;
        EXPECT_EQ(link_.bytes() - counted, through_link);
        EXPECT_EQ(clock_.now() - start_ns, through_link) << "a nanosecond a byte";
    }

    FakeClock clock_;
    Throttle link_{kRate, clock_.throttle_clock()};
    std::unique_ptr<Stand> stand_;
    std::vector<std::byte> source_, expected_;
};

TEST_P(MoverContract, WholeRangesOfManySizes) {
    for (const int64_t bytes : {int64_t{1}, int64_t{4095}, kMiB, 2 * kMiB - 1, 2 * kMiB, 2 * kMiB + 1, 5 * kMiB + 77}) {
        const Stretch one{.from = 3 * kMiB + 5, .to = 6 * kMiB - 3, .bytes = bytes};
        expect_moved({&one, 1});
    }
}

TEST_P(MoverContract, ManyRangesInOneTransfer) {
    std::vector<Stretch> stretches;
    Random random(9, RandomStream::test);
    int64_t to = 0;
    while (stretches.size() < 400) {
        const auto bytes = static_cast<int64_t>(random.below(40'000));
        stretches.push_back({static_cast<int64_t>(random.below(kBytes - 40'000)), to, bytes});
        to += bytes + static_cast<int64_t>(random.below(3));
    }
    ASSERT_LE(to, kBytes);
    expect_moved(stretches);
}

TEST_P(MoverContract, LargeAndSmallRangesTogether) {
    const Stretch stretches[] = {{0, 7, 1},
                                 {100, 4096, 3 * kMiB + 17},
                                 {5 * kMiB, 4 * kMiB, 0},
                                 {9 * kMiB, 5 * kMiB, 4095},
                                 {kMiB, 6 * kMiB, 4 * kMiB}};
    expect_moved(stretches);
    expect_moved(stretches);
}

TEST_P(MoverContract, NothingIsFine) {
    expect_moved({});
    const Stretch empty[] = {{0, 0, 0}, {kBytes, kBytes, 0}};
    expect_moved(empty);
}

TEST_P(MoverContract, TheWholeTier) {
    const Stretch all{0, 0, kBytes};
    expect_moved({&all, 1});
}

std::vector<MoverCase> all_cases() {
    std::vector<MoverCase> cases;
    for (const bool throttled : {false, true}) {
        for (const std::string_view way : {"up", "down"}) cases.push_back({way, "", throttled});
        for (const std::string_view way : {"read", "write"}) {
            for (const std::string_view queue : {"uring", "pread", "fault"}) cases.push_back({way, queue, throttled});
        }
    }
    return cases;
}

INSTANTIATE_TEST_SUITE_P(Movers, MoverContract, testing::ValuesIn(all_cases()),
                         [](const auto& info) { return case_name(info.param); });

class DiskMoverContract : public MoverContract {
  protected:
    DiskStand& disk() { return static_cast<DiskStand&>(*stand_); }
    // Eight ranges of one piece and a byte, of which the fourth fails: reads run into the end, writes meet a file that
    // may only be read.
    std::vector<DiskRange> with_a_failure(std::span<std::byte> memory) {
        std::vector<DiskRange> ranges;
        constexpr int64_t kRange = kMiB + 1;
        for (int64_t i = 0; i < 8; ++i)
            ranges.push_back({disk().file.get(), i * kRange, part(memory, i * kRange, kRange)});
        if (disk().reads()) {
            ranges[3].offset = kBytes - kRange / 2;
        } else {
            ranges[3].file = disk().read_only.get();
        }
        return ranges;
    }
};

TEST_P(DiskMoverContract, AFailureComesOutOnceAndNothingIsLeftInFlight) {
    std::vector<std::byte> memory(kBytes, std::byte{3});
    const std::vector<DiskRange> ranges = with_a_failure(memory);
    try {
        disk().mover.transfer(disk().verb, ranges);
        FAIL() << "one range cannot be moved";
    } catch (const MachineError& error) {
        EXPECT_EQ(error.error_number(), disk().reads() ? ENODATA : EBADF);
        EXPECT_THAT(error.what(), testing::HasSubstr(disk().path));
    }
    int64_t asked = 0;
    for (const DiskRange& range : ranges) asked += static_cast<int64_t>(range.memory.size());
    EXPECT_LE(link_.bytes(), asked);
    EXPECT_EQ(clock_.now(), link_.bytes());
    // Whatever was in flight is over: the memory is the caller's, and the file stays as it is.
    std::ranges::fill(memory, std::byte{4});
    stand_->load_source(source_);
    stand_->load_target(expected_);
    const Stretch next{17, 4711, 5 * kMiB};
    expect_moved({&next, 1});
    EXPECT_EQ(std::ranges::count(memory, std::byte{4}), kBytes);
}

std::vector<MoverCase> disk_cases() {
    std::vector<MoverCase> cases = all_cases();
    std::erase_if(cases, [](const MoverCase& one) { return one.queue.empty(); });
    return cases;
}

INSTANTIATE_TEST_SUITE_P(Movers, DiskMoverContract, testing::ValuesIn(disk_cases()),
                         [](const auto& info) { return case_name(info.param); });

TEST(DiskMoverFailures, NothingIsSubmittedOnceAFailureIsKnown) {
    for (const auto& [verb, call] : {std::pair{FileVerb::write, FaultCall::write}, {FileVerb::read, FaultCall::read}}) {
        FaultFiles files("/image");
        const auto file = files.open("/image/a", {.mode = OpenMode::create});
        file->preallocate(100);
        files.fail({.call = call, .times = FaultRule::kForever});
        std::vector<std::byte> memory(100);
        std::vector<DiskRange> ranges;
        for (int64_t i = 0; i < 100; ++i) ranges.push_back({file.get(), i, part(memory, i, 1)});
        EXPECT_THROW(DiskMover(make_fault_queue(4, 5)).transfer(verb, ranges), MachineError);
        EXPECT_LE(files.calls(call), 8);  // as deep as the queue is, and what it took until its first result
    }
}

// A half-duplex disk: what a reader and a writer move at once takes as long as one after the other.
TEST(MoversOfOneLink, ShareItsRate) {
    FakeClock clock;
    Throttle link(kRate, clock.throttle_clock());
    FaultFiles files("/image");
    const auto file = files.open("/image/a", {.mode = OpenMode::create});
    file->preallocate(2 * kBytes);
    std::vector<std::byte> read(kBytes), written(kBytes, std::byte{7}), after(kBytes);
    {
        const auto lane = [&](FileVerb verb, int64_t offset, std::span<std::byte> memory) {
            DiskMover mover(files.make_queue(QueueKind::automatic, 4), &link);
            const DiskRange range{file.get(), offset, memory};
            for (int i = 0; i < 5; ++i) mover.transfer(verb, {&range, 1});
        };
        const std::jthread reader(lane, FileVerb::read, 0, std::span(read));
        const std::jthread writer(lane, FileVerb::write, kBytes, std::span(written));
    }
    EXPECT_EQ(link.bytes(), 10 * kBytes);
    EXPECT_EQ(clock.now(), 10 * kBytes);
    file->read_at(after, kBytes);
    EXPECT_TRUE(after == written);
}

TEST(MoverDeath, ACopyHasTwoEndsOfOneSize) {
    std::vector<std::byte> from(10), to(11);
    const CopyRange range{from, to};
    FakeStream stream;
    EXPECT_DEATH(CopyMover().transfer({&range, 1}, stream), "10 bytes are copied to 11");
}

}  // namespace
}  // namespace windlass
