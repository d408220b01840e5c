// What every FileQueue promises, asked of each of them: io_uring, pread threads, and the fault queue without faults.

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <map>

#include "base/error.h"
#include "base/file.h"
#include "base/rng.h"
#include "base/units.h"
#include "tests/fault_files.h"
#include "tests/unit/base/temp_folder.h"

namespace windlass {
namespace {

// A file system, a folder in it and a queue over it.
struct Stand {
    virtual ~Stand() = default;
    virtual FileSystem& files() = 0;
    virtual std::string path(std::string_view name) = 0;
    virtual std::unique_ptr<FileQueue> queue(int depth) = 0;
};

struct RealStand : Stand {
    explicit RealStand(QueueKind kind) : kind(kind) {}
    FileSystem& files() override { return real_files(); }
    std::string path(std::string_view name) override { return folder / name; }
    std::unique_ptr<FileQueue> queue(int depth) override { return files().make_queue(kind, depth); }
    TempFolder folder;
    QueueKind kind;
};

struct FaultStand : Stand {
    FileSystem& files() override { return image; }
    std::string path(std::string_view name) override { return fmt::format("/image/{}", name); }
    std::unique_ptr<FileQueue> queue(int depth) override { return make_fault_queue(depth, 7); }
    FaultFiles image{"/image"};
};

class FileQueueContract : public testing::TestWithParam<const char*> {
  protected:
    void SetUp() override {
        const std::string_view name = GetParam();
        if (name == "fault") {
            stand_ = std::make_unique<FaultStand>();
        } else {
            stand_ = std::make_unique<RealStand>(name == "uring" ? QueueKind::uring : QueueKind::pread);
        }
        try {
            stand_->queue(1);
        } catch (const MachineError& error) {
            GTEST_SKIP() << error.what();
        }
    }
    std::unique_ptr<File> open(std::string_view name, OpenMode mode, bool direct = false) {
        return stand_->files().open(stand_->path(name), {.mode = mode, .direct = direct});
    }
    std::unique_ptr<FileQueue> queue(int depth) { return stand_->queue(depth); }

    std::unique_ptr<Stand> stand_;
};

std::map<uint64_t, FileResult> drain(FileQueue& queue) {
    std::map<uint64_t, FileResult> results;
    while (queue.in_flight() > 0) {
        for (FileResult& result : queue.reap()) {
            EXPECT_FALSE(results.contains(result.tag)) << "tag " << result.tag << " came back twice";
            results[result.tag] = std::move(result);
        }
    }
    EXPECT_TRUE(queue.reap().empty());
    return results;
}

void fill(std::span<std::byte> bytes, uint64_t key) {
    Random random(key, RandomStream::test);
    for (std::byte& value : bytes) value = static_cast<std::byte>(random.next());
}

struct Piece {
    int64_t offset, bytes;
};

// Writes the pieces from one buffer, reads them back into another, and compares.
void expect_round_trip(FileQueue& queue, File& file, std::span<const Piece> pieces, std::span<std::byte> written,
                       std::span<std::byte> got) {
    fill(written, 11);
    for (const FileVerb verb : {FileVerb::write, FileVerb::read}) {
        const std::span<std::byte> buffer = verb == FileVerb::write ? written : got;
        for (size_t i = 0; i < pieces.size(); ++i) {
            const auto& [offset, bytes] = pieces[i];
            const auto part = buffer.subspan(static_cast<size_t>(offset), static_cast<size_t>(bytes));
            queue.submit({.verb = verb, .file = &file, .offset = offset, .buffer = part, .tag = i});
        }
        const auto results = drain(queue);
        EXPECT_EQ(results.size(), pieces.size());
        for (const auto& [tag, result] : results) EXPECT_EQ(result.error_number, 0) << tag << ": " << result.message;
    }
    for (const auto& [offset, bytes] : pieces) {
        EXPECT_EQ(std::memcmp(written.data() + offset, got.data() + offset, static_cast<size_t>(bytes)), 0)
            << bytes << " bytes at " << offset;
    }
}

TEST_P(FileQueueContract, MovesUnalignedPiecesOfManySizes) {
    std::vector<Piece> pieces;
    int64_t offset = 3;
    for (const int64_t bytes : {1, 2, 511, 512, 513, 4095, 4096, 4097, 65537, 1, 300'000}) {
        pieces.push_back({offset, bytes});
        offset += bytes + 5;
    }
    const HugeBuffer written(offset, true), got(offset, true);
    const auto file = open("a", OpenMode::create);
    for (const int depth : {1, 3, 64}) expect_round_trip(*queue(depth), *file, pieces, written.span(), got.span());
}

TEST_P(FileQueueContract, MovesAlignedPiecesOfADirectFile) {
    std::vector<Piece> pieces;
    int64_t offset = 0;
    for (const int64_t pages : {1, 2, 3, 16, 511, 512, 1}) {
        pieces.push_back({offset, pages * kDirectAlignment});
        offset += (pages + 1) * kDirectAlignment;
    }
    const HugeBuffer written(offset, true), got(offset, true);
    const auto file = open("a", OpenMode::create, true);
    for (const int depth : {1, 4}) expect_round_trip(*queue(depth), *file, pieces, written.span(), got.span());
}

TEST_P(FileQueueContract, ManyMoreRequestsThanItsDepth) {
    std::vector<Piece> pieces;
    for (int64_t i = 0; i < 200; ++i) pieces.push_back({i * 1000, 1000});
    const HugeBuffer written(200'000, true), got(200'000, true);
    const auto file = open("a", OpenMode::create);
    const auto small = queue(2);
    EXPECT_EQ(small->depth(), 2);
    expect_round_trip(*small, *file, pieces, written.span(), got.span());
}

TEST_P(FileQueueContract, ReadingPastTheEndFailsUnderItsOwnTag) {
    std::vector<std::byte> bytes(100), into(300);
    const auto file = open("a", OpenMode::create);
    file->write_at(bytes, 0);
    const auto four = queue(4);
    const std::span all(into);
    four->submit({.file = file.get(), .offset = 0, .buffer = all.subspan(0, 100), .tag = 1});
    four->submit({.file = file.get(), .offset = 50, .buffer = all.subspan(100, 100), .tag = 2});
    four->submit({.file = file.get(), .offset = 100, .buffer = all.subspan(200, 100), .tag = 3});
    auto results = drain(*four);
    EXPECT_EQ(results[1].error_number, 0);
    for (const uint64_t tag : {2, 3}) {
        EXPECT_EQ(results[tag].error_number, ENODATA);
        EXPECT_THAT(results[tag].message, testing::HasSubstr("ends at byte 100"));
    }
}

TEST_P(FileQueueContract, DirectReadThatStraddlesAnUnalignedEndSaysSo) {
    std::vector<std::byte> bytes(kDirectAlignment + 700);
    open("a", OpenMode::create)->write_at(bytes, 0);
    const HugeBuffer into(2 * kDirectAlignment, true);
    const auto file = open("a", OpenMode::read, true);
    const auto one = queue(1);
    one->submit({.file = file.get(), .offset = 0, .buffer = into.span(), .tag = 9});
    auto results = drain(*one);
    EXPECT_EQ(results[9].error_number, ENODATA);
    EXPECT_THAT(results[9].message, testing::HasSubstr(fmt::format("ends at byte {}", bytes.size())));
}

TEST_P(FileQueueContract, WritingAReadOnlyFileFailsAndTheRestGoesOn) {
    std::vector<std::byte> bytes(10);
    open("a", OpenMode::create)->write_at(bytes, 0);
    const auto file = open("a", OpenMode::read);
    const auto two = queue(2);
    two->submit({.verb = FileVerb::write, .file = file.get(), .offset = 0, .buffer = bytes, .tag = 1});
    two->submit({.verb = FileVerb::read, .file = file.get(), .offset = 0, .buffer = bytes, .tag = 2});
    auto results = drain(*two);
    EXPECT_EQ(results[1].error_number, EBADF);
    EXPECT_THAT(results[1].message, testing::HasSubstr(file->path()));
    EXPECT_EQ(results[2].error_number, 0);
}

// The limit on file sizes cuts a write short, and refuses what comes after: both must be noticed.
TEST_P(FileQueueContract, AShortWriteIsContinuedUntilItsError) {
    if (std::string_view(GetParam()) == "fault") GTEST_SKIP() << "limits are the kernel's";
    const auto file = open("a", OpenMode::create);
    std::vector<std::byte> bytes(3000);
    struct rlimit before {};
    ::getrlimit(RLIMIT_FSIZE, &before);
    const auto ignored = std::signal(SIGXFSZ, SIG_IGN);
    const struct rlimit limit { .rlim_cur = 1000, .rlim_max = before.rlim_max };
    ::setrlimit(RLIMIT_FSIZE, &limit);
    const auto one = queue(1);
    one->submit({.verb = FileVerb::write, .file = file.get(), .offset = 0, .buffer = bytes, .tag = 1});
    auto results = drain(*one);
    ::setrlimit(RLIMIT_FSIZE, &before);
    std::signal(SIGXFSZ, ignored);
    EXPECT_EQ(file->size(), 1000);
    EXPECT_EQ(results[1].error_number, EFBIG);
}

TEST_P(FileQueueContract, AnEmptyRequestSucceeds) {
    const auto file = open("a", OpenMode::create);
    const auto one = queue(1);
    for (const uint64_t tag : {4, 5, 6}) one->submit({.file = file.get(), .offset = 0, .buffer = {}, .tag = tag});
    EXPECT_EQ(drain(*one).size(), 3u);
}

TEST_P(FileQueueContract, DestructionWaitsForWhatIsRunning) {
    const HugeBuffer written(kMiB, true);
    fill(written.span(), 3);
    const auto file = open("a", OpenMode::create);
    {
        const auto eight = queue(8);
        for (uint64_t i = 0; i < 8; ++i) {
            const int64_t offset = static_cast<int64_t>(i) * 128 * kKiB;
            const auto part = written.span().subspan(static_cast<size_t>(offset), 128 * kKiB);
            eight->submit({.verb = FileVerb::write, .file = file.get(), .offset = offset, .buffer = part, .tag = i});
        }
    }
    std::vector<std::byte> got(kMiB);
    file->read_at(got, 0);
    EXPECT_EQ(std::memcmp(got.data(), written.data(), got.size()), 0);
}

INSTANTIATE_TEST_SUITE_P(Queues, FileQueueContract, testing::Values("uring", "pread", "fault"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace windlass
