#include "base/file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "base/units.h"
#include "tests/sanitizer.h"
#include "tests/unit/base/temp_folder.h"

namespace windlass {
namespace {

std::span<const std::byte> bytes_of(std::string_view text) {
    return std::as_bytes(std::span(text));
}

int error_number_of(const std::function<void()>& action) {
    try {
        action();
    } catch (const MachineError& error) {
        return error.error_number();
    }
    return 0;
}

TEST(File, ReadsBackWhatItWroteAtAnyOffset) {
    const TempFolder folder;
    const auto file = real_files().open(folder / "a", {.mode = OpenMode::create});
    file->write_at(bytes_of("world"), 5);
    file->write_at(bytes_of("hello"), 0);
    file->sync();
    std::string text(10, '\0');
    file->read_at(std::as_writable_bytes(std::span(text)), 0);
    EXPECT_EQ(text, "helloworld");
    EXPECT_EQ(file->size(), 10);
    EXPECT_EQ(real_files().status(folder / "a").bytes, 10);
}

TEST(File, ReadingPastTheEndNamesTheFileAndItsEnd) {
    const TempFolder folder;
    write_text_atomic(real_files(), folder / "a", "1234");
    const auto file = real_files().open(folder / "a", {});
    std::string text(3, '\0');
    try {
        file->read_at(std::as_writable_bytes(std::span(text)), 2);
        FAIL() << "the read succeeded";
    } catch (const UserError& error) {
        EXPECT_EQ(error.code(), ExitCode::storage);
        EXPECT_THAT(error.what(), testing::HasSubstr(folder / "a: ends at byte 4, but 3 bytes at offset 2"));
    }
}

TEST(File, ModesDoWhatTheySay) {
    const TempFolder folder;
    FileSystem& files = real_files();
    EXPECT_EQ(error_number_of([&] { files.open(folder / "a", {.mode = OpenMode::read}); }), ENOENT);
    EXPECT_EQ(error_number_of([&] { files.open(folder / "a", {.mode = OpenMode::update}); }), ENOENT);
    files.open(folder / "a", {.mode = OpenMode::create_new})->write_at(bytes_of("ab"), 0);
    EXPECT_EQ(error_number_of([&] { files.open(folder / "a", {.mode = OpenMode::create_new}); }), EEXIST);
    files.open(folder / "a", {.mode = OpenMode::append})->write_at(bytes_of("cd"), 0);
    EXPECT_EQ(read_text(files, folder / "a", 100), "abcd");
    files.open(folder / "a", {.mode = OpenMode::create});
    EXPECT_EQ(files.status(folder / "a").bytes, 0);
}

TEST(File, PreallocateSetsTheLengthAndReservesBlocks) {
    const TempFolder folder;
    const auto file = real_files().open(folder / "a", {.mode = OpenMode::create});
    file->preallocate(kMiB);
    EXPECT_EQ(file->size(), kMiB);
    file->preallocate(100);
    EXPECT_EQ(file->size(), 100);
}

TEST(File, PreallocateOnAFullDiskSaysWhatIsNeededAndFree) {
    const TempFolder folder;
    const auto file = real_files().open(folder / "a", {.mode = OpenMode::create});
    const int64_t too_much = real_files().free_bytes(folder.path()) + 64 * kGiB;
    try {
        file->preallocate(too_much);
        FAIL() << "the reservation succeeded";
    } catch (const MachineError& error) {
        EXPECT_EQ(error.error_number(), ENOSPC);
        EXPECT_THAT(error.what(), testing::HasSubstr("are needed"));
    }
    EXPECT_EQ(file->size(), 0);
}

TEST(File, DirectFilesReadAndWriteAlignedBuffers) {
    const TempFolder folder;
    HugeBuffer buffer(2 * kDirectAlignment, true);
    std::memset(buffer.data(), 'x', static_cast<size_t>(buffer.size()));
    const auto file = real_files().open(folder / "a", {.mode = OpenMode::create, .direct = true});
    file->write_at(buffer.span(), kDirectAlignment);
    std::memset(buffer.data(), 0, static_cast<size_t>(buffer.size()));
    file->read_at(buffer.span(), kDirectAlignment);
    EXPECT_EQ(buffer.data()[0], std::byte{'x'});
    EXPECT_EQ(buffer.data()[buffer.size() - 1], std::byte{'x'});
}

TEST(File, FoldersAreListedInByteOrder) {
    const TempFolder folder;
    FileSystem& files = real_files();
    files.make_folders(folder / "b/c");
    for (const char* name : {"z", "a", "Z"}) write_text_atomic(files, folder / name, name);
    EXPECT_THAT(files.list(folder.path()), testing::ElementsAre("Z", "a", "b", "z"));
    EXPECT_TRUE(files.status(folder / "b").is_folder);
    files.remove_tree(folder / "b");
    files.remove_tree(folder / "b");
    EXPECT_FALSE(files.exists(folder / "b"));
    EXPECT_FALSE(files.exists(folder / "a/below-a-file"));
}

TEST(Text, AtomicWriteReplacesTheWholeFile) {
    const TempFolder folder;
    write_text_atomic(real_files(), folder / "a", "a long first version");
    write_text_atomic(real_files(), folder / "a", "short");
    EXPECT_EQ(read_text(real_files(), folder / "a", 100), "short");
    EXPECT_THAT(real_files().list(folder.path()), testing::ElementsAre("a"));
}

TEST(Text, IsReadWithoutAByteOrderMark) {
    const TempFolder folder;
    const std::vector<std::pair<std::string, std::string>> tried = {{"\xEF\xBB\xBFmodel: m\n", "model: m\n"},
                                                                    {"\xEF\xBB\xBF", ""},
                                                                    {"a\xEF\xBB\xBF", "a\xEF\xBB\xBF"},
                                                                    {"\xEF\xBB", "\xEF\xBB"}};
    for (const auto& [bytes, text] : tried) {
        write_text_atomic(real_files(), folder / "a", bytes);
        EXPECT_EQ(read_text(real_files(), folder / "a", 100), text);
    }
}

TEST(Text, RefusesAFileAboveTheLimit) {
    const TempFolder folder;
    write_text_atomic(real_files(), folder / "a", "12345");
    EXPECT_THROW(read_text(real_files(), folder / "a", 4), UserError);
    EXPECT_EQ(read_text(real_files(), folder / "a", 5), "12345");
}

TEST(HugeBuffer, IsAlignedZeroAndMovable) {
    HugeBuffer first(3 * kMiB + 5, true);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(first.data()) % (2 * kMiB), 0u);
    EXPECT_EQ(first.size(), 3 * kMiB + 5);
    EXPECT_EQ(first.data()[first.size() - 1], std::byte{0});
    first.data()[0] = std::byte{7};
    HugeBuffer second = std::move(first);
    EXPECT_EQ(first.data(), nullptr);
    EXPECT_EQ(second.data()[0], std::byte{7});
    EXPECT_EQ(HugeBuffer(0, true).size(), 0);
}

// In a process of its own, which ends with it: the limit must not outlive the test.
TEST(HugeBufferDeathTest, RefusalByTheDataLimitIsAnErrorThatDoesNotFit) {
    if (is_sanitized()) GTEST_SKIP() << "sanitizers do not run under a data limit";
    const auto exceed = [] {
        const struct rlimit limit { .rlim_cur = 256 * kMiB, .rlim_max = 256 * kMiB };
        ::setrlimit(RLIMIT_DATA, &limit);
        try {
            const HugeBuffer within(64 * kMiB, false);
            const HugeBuffer beyond(512 * kMiB, false);
        } catch (const UserError& error) {
            std::exit(static_cast<int>(error.code()));
        }
        std::exit(0);
    };
    EXPECT_EXIT(exceed(), testing::ExitedWithCode(static_cast<int>(ExitCode::no_fit)), "");
}

// A pipe without a writer would be waited for without end, and /dev/zero be read as an empty file.
TEST(File, OnlyRegularFilesAreRead) {
    const TempFolder folder;
    ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
    for (const OpenMode mode : {OpenMode::read, OpenMode::update, OpenMode::append, OpenMode::create}) {
        try {
            real_files().open(folder / "pipe", {.mode = mode});
            ADD_FAILURE() << "a pipe was opened";
        } catch (const UserError& error) {
            EXPECT_EQ(error.code(), ExitCode::storage);
            EXPECT_THAT(error.what(), testing::HasSubstr("pipe: is a pipe, expected a regular file"));
        } catch (const MachineError& error) {
            EXPECT_EQ(error.error_number(), ENXIO);  // to append, the kernel refuses it without a reader
        }
    }
    EXPECT_THROW(real_files().open("/dev/zero", {}), UserError);
    EXPECT_NO_THROW(real_files().open("/dev/null", {.mode = OpenMode::create}));
    EXPECT_FALSE(real_files().status(folder / "pipe").is_regular);
    EXPECT_FALSE(real_files().status(folder.path()).is_regular);
}

// io_uring fails a transfer that has to wait on a file which was opened not to.
TEST(File, TransfersWait) {
    const TempFolder folder;
    for (const bool direct : {false, true}) {
        const auto file = real_files().open(folder / "a", {.mode = OpenMode::create, .direct = direct});
        const int flags = ::fcntl(file->descriptor(), F_GETFL);
        EXPECT_EQ(flags & O_NONBLOCK, 0);
        EXPECT_EQ((flags & O_DIRECT) != 0, file->direct());
    }
}

TEST(File, KnowsAFolderByAnyPathThatLeadsThere) {
    const TempFolder folder;
    FileSystem& files = real_files();
    files.make_folders(folder / "a/b");
    ASSERT_EQ(::symlink("a", (folder / "link").c_str()), 0);
    EXPECT_TRUE(files.status(folder / "link/b/..").is_same(files.status(folder / "a")));
    EXPECT_FALSE(files.status(folder / "a/b").is_same(files.status(folder / "a")));
    EXPECT_EQ(files.resolve(folder / "link/./b/"), files.resolve(folder.path()) + "/a/b");
    EXPECT_EQ(error_number_of([&] { files.resolve(folder / "nothing"); }), ENOENT);
}

}  // namespace
}  // namespace windlass
