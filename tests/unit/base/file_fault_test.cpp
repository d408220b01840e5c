#include "tests/fault_files.h"

#include <gtest/gtest.h>

#include <set>

#include "base/error.h"
#include "tests/unit/base/temp_folder.h"

namespace windlass {
namespace {

constexpr int64_t kTextMax = 1 << 20;

void write(FileSystem& files, const std::string& path, std::string_view text, bool sync) {
    const auto file = files.open(path, {.mode = OpenMode::create});
    file->write_at(std::as_bytes(std::span(text)), 0);
    if (sync) file->sync();
}

// Everything that crash(seed) leaves at a path over many seeds; "absent" where the file is gone.
std::set<std::string> outcomes(const FaultFiles& files, const std::string& path) {
    std::set<std::string> texts;
    for (uint64_t seed = 0; seed < 64; ++seed) {
        const auto left = files.crash(seed);
        texts.insert(left->exists(path) ? read_text(*left, path, kTextMax) : "absent");
    }
    return texts;
}

TEST(FaultFiles, KeepsFilesLikeARealFileSystem) {
    FaultFiles files("/image");
    files.make_folders("/image/a/b");
    write(files, "/image/a/b/x", "one", true);
    write(files, "/image/a/y", "two", false);
    EXPECT_THAT(files.list("/image/a"), testing::ElementsAre("b", "y"));
    files.rename("/image/a/b", "/image/a/c");
    EXPECT_EQ(read_text(files, "/image/a/c/x", 10), "one");
    EXPECT_THROW(files.open("/image/a/b/x", {}), MachineError);
    EXPECT_THROW(files.open("/image/none/x", {.mode = OpenMode::create}), MachineError);
    files.remove_tree("/image/a");
    EXPECT_FALSE(files.exists("/image/a/y"));
    EXPECT_TRUE(files.list("/image").empty());
}

TEST(FaultFiles, ANewFileNeedsItsOwnSyncAndItsFolders) {
    FaultFiles files("/image");
    write(files, "/image/x", "text", true);
    EXPECT_THAT(outcomes(files, "/image/x"), testing::UnorderedElementsAre("absent", "text"));
    files.sync_folder("/image");
    EXPECT_THAT(outcomes(files, "/image/x"), testing::UnorderedElementsAre("text"));
}

TEST(FaultFiles, UnsyncedWritesAreLostKeptOrTornInAnyOrder) {
    FaultFiles files("/image");
    const std::string before(1024, 'a');
    write(files, "/image/x", before, true);
    files.sync_folder("/image");
    const auto file = files.open("/image/x", {.mode = OpenMode::update});
    const std::string b(1024, 'b'), c(10, 'c');
    file->write_at(std::as_bytes(std::span(b)), 0);
    file->write_at(std::as_bytes(std::span(c)), 0);
    const auto texts = outcomes(files, "/image/x");
    EXPECT_TRUE(texts.contains(before));
    EXPECT_TRUE(texts.contains(c + b.substr(10)));
    EXPECT_TRUE(texts.contains(c + before.substr(10))) << "the second write may survive the first";
    EXPECT_TRUE(texts.contains(before.substr(0, 512) + b.substr(512))) << "sectors tear";
    file->sync();
    EXPECT_EQ(outcomes(files, "/image/x").size(), 1u);
}

TEST(FaultFiles, TheExtremeSeedsLoseAndKeepEverything) {
    FaultFiles files("/image");
    write(files, "/image/x", "text", false);
    EXPECT_FALSE(files.crash(0)->exists("/image/x"));
    EXPECT_EQ(read_text(*files.crash(1), "/image/x", 10), "text");
}

TEST(FaultFiles, ARenameIsAtomicAndNeedsItsFolder) {
    FaultFiles files("/image");
    write_text_atomic(files, "/image/x", "old");
    write(files, "/image/x.tmp", "new", true);
    files.rename("/image/x.tmp", "/image/x");
    EXPECT_THAT(outcomes(files, "/image/x"), testing::UnorderedElementsAre("old", "new"));
    files.sync_folder("/image");
    EXPECT_THAT(outcomes(files, "/image/x"), testing::UnorderedElementsAre("new"));
}

TEST(FaultFiles, AtomicTextSurvivesAPowerCutAtEveryCall) {
    for (int64_t calls = 0;; ++calls) {
        FaultFiles files("/image");
        write_text_atomic(files, "/image/x", "old");
        files.cut_power_after(calls);
        bool done = true;
        try {
            write_text_atomic(files, "/image/x", "new");
        } catch (const MachineError&) {
            done = false;
        }
        for (const std::string& text : outcomes(files, "/image/x"))
            EXPECT_TRUE(text == "new" || (text == "old" && !done)) << text << " after " << calls << " calls";
        if (done) break;
        ASSERT_LT(calls, 20);
    }
}

TEST(FaultFiles, AFolderThatIsRenamedIntoPlaceComesWithWhatWasSyncedInIt) {
    FaultFiles files("/image");
    files.make_folders("/image/new.tmp");
    files.sync_folder("/image");
    write(files, "/image/new.tmp/x", "text", true);
    files.sync_folder("/image/new.tmp");
    write(files, "/image/new.tmp/y", "late", true);
    files.rename("/image/new.tmp", "/image/new");
    EXPECT_THAT(outcomes(files, "/image/new/x"), testing::UnorderedElementsAre("absent", "text"));
    files.sync_folder("/image");
    EXPECT_THAT(outcomes(files, "/image/new/x"), testing::UnorderedElementsAre("text"));
    EXPECT_THAT(outcomes(files, "/image/new/y"), testing::UnorderedElementsAre("absent", "late"));
    EXPECT_THAT(outcomes(files, "/image/new.tmp/x"), testing::UnorderedElementsAre("absent"));
}

TEST(FaultFiles, FailsTheNthCallOfAKindOnAPath) {
    FaultFiles files("/image");
    files.fail({.call = FaultCall::write, .nth = 2, .error_number = ENOSPC, .path_part = "x"});
    write(files, "/image/y", "1", false);
    write(files, "/image/x", "1", false);
    try {
        write(files, "/image/x", "2", false);
        FAIL() << "the write succeeded";
    } catch (const MachineError& error) {
        EXPECT_EQ(error.error_number(), ENOSPC);
    }
    write(files, "/image/x", "3", false);
    EXPECT_EQ(files.calls(FaultCall::write), 4);
}

TEST(FaultFiles, AFailingWriteMayHaveWrittenItsBeginning) {
    FaultFiles files("/image");
    files.fail({.call = FaultCall::write, .error_number = EIO, .bytes_first = 3});
    EXPECT_THROW(write(files, "/image/x", "abcdef", false), MachineError);
    EXPECT_EQ(read_text(files, "/image/x", 10), "abc");
}

TEST(FaultFiles, AFullImageSaysWhatIsNeededAndFree) {
    FaultFiles files("/image");
    files.set_capacity(1000);
    const auto file = files.open("/image/x", {.mode = OpenMode::create});
    file->preallocate(900);
    try {
        file->preallocate(1100);
        FAIL() << "the reservation succeeded";
    } catch (const MachineError& error) {
        EXPECT_EQ(error.error_number(), ENOSPC);
        EXPECT_THAT(error.what(), testing::HasSubstr("200 B are needed, 100 B are free"));
    }
}

TEST(FaultFiles, DirectFilesRefuseUnalignedTransfers) {
    FaultFiles files("/image");
    const auto file = files.open("/image/x", {.mode = OpenMode::create, .direct = true});
    const HugeBuffer buffer(2 * kDirectAlignment, true);
    file->write_at(buffer.span(), 0);
    EXPECT_THROW(file->write_at(buffer.span(), 512), MachineError);
    EXPECT_THROW(file->write_at(buffer.span().first(100), 0), MachineError);
    EXPECT_THROW(file->write_at(buffer.span().subspan(1, kDirectAlignment), 0), MachineError);
}

TEST(FaultFiles, PathsElsewherePassThroughAndCanFail) {
    const TempFolder folder;
    FaultFiles files("/image");
    write(files, folder / "x", "real", true);
    EXPECT_EQ(read_text(real_files(), folder / "x", 10), "real");
    files.fail({.call = FaultCall::read, .error_number = EIO});
    EXPECT_THROW(read_text(files, folder / "x", 10), MachineError);
    EXPECT_EQ(read_text(files, folder / "x", 10), "real");
}

TEST(FaultFiles, ACrashedImageCanBeCopiedToRealFiles) {
    const TempFolder folder;
    FaultFiles files("/image");
    files.make_folders("/image/a");
    write(files, "/image/a/x", "text", true);
    files.crash(1)->copy_to(real_files(), folder / "copy");
    EXPECT_EQ(read_text(real_files(), folder / "copy/a/x", 10), "text");
}

TEST(FaultQueue, CompletesInAnOrderOfItsOwnAndTransfersLate) {
    FaultFiles files("/image");
    const auto file = files.open("/image/x", {.mode = OpenMode::create});
    std::set<std::vector<uint64_t>> orders;
    for (uint64_t seed = 0; seed < 20; ++seed) {
        const auto queue = make_fault_queue(4, seed);
        std::vector<std::byte> bytes(64);
        std::vector<uint64_t> order;
        for (uint64_t tag = 0; tag < 4; ++tag)
            queue->submit({.verb = FileVerb::write, .file = file.get(), .offset = 0, .buffer = bytes, .tag = tag});
        while (queue->in_flight() > 0) {
            for (const FileResult& result : queue->reap()) order.push_back(result.tag);
        }
        orders.insert(order);
    }
    EXPECT_GT(orders.size(), 5u);
}

TEST(FaultQueue, AFailureReachesItsRequest) {
    FaultFiles files("/image");
    const auto file = files.open("/image/x", {.mode = OpenMode::create});
    files.fail({.call = FaultCall::write, .error_number = ENOSPC, .times = FaultRule::kForever});
    std::vector<std::byte> bytes(64);
    const auto queue = files.make_queue(QueueKind::automatic, 4);
    queue->submit({.verb = FileVerb::write, .file = file.get(), .offset = 0, .buffer = bytes, .tag = 5});
    const auto results = queue->reap();
    ASSERT_EQ(results.size(), 1u);
    EXPECT_EQ(results[0].tag, 5u);
    EXPECT_EQ(results[0].error_number, ENOSPC);
}

}  // namespace
}  // namespace windlass
