// What DiskMover promises over every queue there is.
#include "tier/disk_mover.h"

#include <deque>

#include "base/error.h"
#include "base/rng.h"
#include "tests/fault_files.h"
#include "tests/unit/base/temp_folder.h"
#include "tests/unit/tier/fake_clock.h"

namespace windlass {
namespace {

void fill(std::span<std::byte> bytes, uint64_t key) {
    Random random(key, RandomStream::test);
    for (std::byte& value : bytes) value = static_cast<std::byte>(random.next());
}

class DiskMoverOver : public testing::TestWithParam<const char*> {
  protected:
    void SetUp() override {
        try {
            queue(1);
        } catch (const MachineError& error) {
            GTEST_SKIP() << error.what();
        }
    }
    bool on_image() const { return std::string_view(GetParam()) == "fault"; }
    std::string path(std::string_view name) const {
        return on_image() ? fmt::format("/image/{}", name) : folder_ / name;
    }
    std::unique_ptr<FileQueue> queue(int depth) {
        if (on_image()) return make_fault_queue(depth, 5);
        return make_file_queue(std::string_view(GetParam()) == "uring" ? QueueKind::uring : QueueKind::pread, depth);
    }
    std::unique_ptr<File> open(std::string_view name, OpenOptions options) {
        return (on_image() ? image_ : real_files()).open(path(name), options);
    }
    // Files of real folders under fault rules; the queue over them works through File's calls.
    FaultFiles image_{"/image"};
    TempFolder folder_;
};

TEST_P(DiskMoverOver, ManyRangesOfManyFilesAreMovedWhole) {
    const auto a = open("a", {OpenMode::create}), b = open("b", {OpenMode::create});
    std::vector<DiskRange> ranges;
    // More than a queue is deep, one larger than a request, and empty ones.
    const int64_t sizes[] = {1, 4096, 3 * kRequestBytesMax + 17, 0, 511, 70'000, 2 * kRequestBytesMax, 0, 12};
    int64_t total = 0;
    for (const int64_t size : sizes) total += size;
    const HugeBuffer written(total, true), got(total, true);
    fill(written.span(), 3);
    const auto list = [&](const HugeBuffer& memory) {
        ranges.clear();
        int64_t offset = 0, in_file = 0;
        for (const int64_t size : sizes) {
            File* const file = ranges.size() % 2 == 0 ? a.get() : b.get();
            ranges.push_back(
                {file, in_file, memory.span().subspan(static_cast<size_t>(offset), static_cast<size_t>(size))});
            offset += size;
            in_file += size + 100;
        }
    };
    DiskMover mover(queue(3));
    list(written);
    mover.transfer(FileVerb::write, ranges);
    list(got);
    mover.transfer(FileVerb::read, ranges);
    EXPECT_EQ(std::memcmp(written.data(), got.data(), static_cast<size_t>(total)), 0);
    mover.transfer(FileVerb::read, {});
}

// In order and whole, read and written, however requests end.
TEST_P(DiskMoverOver, WhoLooksSeesEveryByteOnceInOrder) {
    const auto file = open("a", {OpenMode::create});
    const int64_t sizes[] = {100, 0, 7 * kRequestBytesMax + 5, 3, 2 * kRequestBytesMax};
    int64_t total = 0;
    for (const int64_t size : sizes) total += size;
    const HugeBuffer written(total, true), got(total, true);
    fill(written.span(), 4);
    DiskMover mover(queue(3));
    for (const FileVerb verb : {FileVerb::write, FileVerb::read}) {
        const HugeBuffer& memory = verb == FileVerb::write ? written : got;
        std::vector<DiskRange> ranges;
        int64_t offset = 0;
        for (const int64_t size : sizes) {
            ranges.push_back(
                {file.get(), offset, memory.span().subspan(static_cast<size_t>(offset), static_cast<size_t>(size))});
            offset += size;
        }
        std::vector<std::byte> seen;
        std::vector<int64_t> seen_of(std::size(sizes));
        mover.transfer(verb, ranges, [&](size_t range, std::span<const std::byte> bytes) {
            seen_of[range] += std::ssize(bytes);
            seen.insert(seen.end(), bytes.begin(), bytes.end());
        });
        EXPECT_THAT(seen_of, testing::ElementsAreArray(sizes));
        ASSERT_EQ(std::ssize(seen), total);
        EXPECT_EQ(std::memcmp(seen.data(), written.data(), static_cast<size_t>(total)), 0);
    }
}

TEST_P(DiskMoverOver, AFailureNamesItsFileAndTheMoverGoesOn) {
    std::vector<std::byte> bytes(100'000);
    fill(bytes, 9);
    const auto whole = open("whole", {OpenMode::create}), brief = open("brief", {OpenMode::create});
    whole->write_at(bytes, 0);
    brief->write_at(std::span(bytes).first(10), 0);
    std::vector<std::byte> into(200'000);
    const std::span all(into);
    DiskMover mover(queue(2));
    std::vector<DiskRange> ranges;
    for (size_t i = 0; i < 8; ++i) ranges.push_back({whole.get(), 0, all.subspan(i * 1000, 1000)});
    ranges.insert(ranges.begin() + 3, {brief.get(), 0, all.subspan(20'000, 1000)});
    try {
        mover.transfer(FileVerb::read, ranges);
        FAIL() << "a file that ends before the range does";
    } catch (const MachineError& error) {
        EXPECT_THAT(error.what(), testing::HasSubstr(path("brief")));
        EXPECT_EQ(error.error_number(), ENODATA);
    }
    // Nothing is left in flight: what comes next is moved whole and nothing else is.
    const DiskRange next{whole.get(), 0, all.first(bytes.size())};
    mover.transfer(FileVerb::read, {&next, 1});
    EXPECT_EQ(std::memcmp(into.data(), bytes.data(), bytes.size()), 0);
}

INSTANTIATE_TEST_SUITE_P(Queues, DiskMoverOver, testing::Values("uring", "pread", "fault"),
                         [](const auto& info) { return std::string(info.param); });

// Whichever request fails, the error comes out once, after all others are done with the memory.
TEST(DiskMoverFaults, AnyRequestMayFail) {
    for (int64_t nth = 1; nth <= 12; ++nth) {
        for (const auto& [verb, call] :
             {std::pair{FileVerb::write, FaultCall::write}, {FileVerb::read, FaultCall::read}}) {
            FaultFiles files("/image");
            const auto file = files.open("/image/a", {OpenMode::create});
            file->preallocate(10 * kRequestBytesMax);
            HugeBuffer memory(10 * kRequestBytesMax, true);
            std::vector<DiskRange> ranges;
            for (int64_t i = 0; i < 5; ++i) {
                const auto part = memory.span().subspan(static_cast<size_t>(2 * i * kRequestBytesMax),
                                                        static_cast<size_t>(2 * kRequestBytesMax));
                ranges.push_back({file.get(), 2 * i * kRequestBytesMax, part});
            }
            DiskMover mover(files.make_queue(QueueKind::automatic, 4));
            files.fail({.call = call, .nth = nth, .error_number = ENOSPC});
            try {
                mover.transfer(verb, ranges);
                ADD_FAILURE() << "call " << nth << " was to fail";
            } catch (const MachineError& error) {
                EXPECT_EQ(error.error_number(), ENOSPC);
                EXPECT_THAT(error.what(), testing::HasSubstr("/image/a"));
            }
            files.clear_rules();
            EXPECT_NO_THROW(mover.transfer(verb, ranges));
        }
    }
}

// Finishes nothing until it must, and then the oldest request only: a drive far slower than the link.
struct SlowQueue : FileQueue {
    std::string_view name() const override { return "slow"; }
    int depth() const override { return 4; }
    int in_flight() const override { return static_cast<int>(tags.size()); }
    void submit(const FileRequest& request) override { tags.push_back(request.tag); }
    std::vector<FileResult> reap() override {
        in_flight_at_reap.push_back(in_flight());
        const uint64_t tag = tags.front();
        tags.pop_front();
        return {{.tag = tag}};
    }
    std::deque<uint64_t> tags;
    std::vector<int> in_flight_at_reap;
};

TEST(DiskMover, ManyRequestsAreInFlightUnderAThrottleToo) {
    FakeClock clock;
    Throttle link(1e9, clock.throttle_clock());
    FaultFiles files("/image");
    const auto file = files.open("/image/a", {OpenMode::create});
    HugeBuffer memory(10 * kRequestBytesMax, false);
    for (Throttle* const throttle : {static_cast<Throttle*>(nullptr), &link}) {
        auto owned = std::make_unique<SlowQueue>();
        const SlowQueue& queue = *owned;
        DiskMover mover(std::move(owned), throttle);
        const DiskRange range{file.get(), 0, memory.span()};
        mover.transfer(FileVerb::write, {&range, 1});
        EXPECT_EQ(queue.in_flight_at_reap, (std::vector{4, 4, 4, 4, 4, 4, 4, 3, 2, 1}));
    }
}

// Of ten requests, four at a time: only the end is looked at with nothing behind it to wait for.
TEST(DiskMover, TheDriveIsAtWorkWhileSomebodyLooks) {
    FaultFiles files("/image");
    const auto file = files.open("/image/a", {OpenMode::create});
    HugeBuffer memory(10 * kRequestBytesMax, false);
    const DiskRange range{file.get(), 0, memory.span()};
    for (const auto& [verb, wanted] : {std::pair{FileVerb::write, std::vector{1, 2, 3, 4, 4, 4, 4, 4, 4, 4}},
                                       {FileVerb::read, std::vector{4, 4, 4, 4, 4, 4, 3, 2, 1, 0}}}) {
        auto owned = std::make_unique<SlowQueue>();
        const SlowQueue& queue = *owned;
        DiskMover mover(std::move(owned));
        std::vector<int> in_flight;
        mover.transfer(verb, {&range, 1}, [&](size_t, auto) { in_flight.push_back(queue.in_flight()); });
        EXPECT_EQ(in_flight, wanted);
    }
}

}  // namespace
}  // namespace windlass
