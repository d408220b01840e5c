#include "base/file_lock.h"

#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>

#include "base/error.h"
#include "tests/unit/base/temp_folder.h"

namespace windlass {
namespace {

using testing::AllOf;
using testing::HasSubstr;

int flock_error = 0, fcntl_error = 0;  // that the calls below fail with; 0: they are the system's

constexpr LockCalls kCalls = {[](int descriptor, int operation) {
                                  return flock_error != 0 ? flock_error : kSystemLocks.flock(descriptor, operation);
                              },
                              [](int descriptor, int command, struct flock* range) {
                                  return fcntl_error != 0 ? fcntl_error
                                                          : kSystemLocks.fcntl(descriptor, command, range);
                              }};

class FileLockTest : public testing::Test {
  protected:
    FileLockTest() { flock_error = fcntl_error = 0; }
    LockAttempt attempt(LockUse use = LockUse::alone) const {
        if (use == LockUse::shared) std::ofstream(path_, std::ios::app);
        const OpenMode mode = use == LockUse::alone ? OpenMode::append : OpenMode::read;
        return try_lock(real_files(), real_files().open(path_, {mode}), use, kCalls);
    }
    bool takes(LockUse use = LockUse::alone) const { return attempt(use).lock.has_value(); }
    std::string owner() const { return path_ + kLockOwnerSuffix; }
    std::string owner_text() const { return read_text(real_files(), owner(), 4096); }
    void leave(const std::string& text) const { std::ofstream(owner()) << text; }
    // What a process leaves that is killed.
    std::string left_by_the_dead() const {
        const pid_t child = ::fork();
        if (child == 0) {
            new LockAttempt(attempt());
            ::_exit(0);
        }
        ::waitpid(child, nullptr, 0);
        return owner_text();
    }

    TempFolder folder_;
    std::string path_ = folder_ / ".lock";
};

// Errors of a file system without flock, and of one without any lock.
class WithoutFlock : public FileLockTest, public testing::WithParamInterface<std::pair<int, int>> {
  protected:
    WithoutFlock() { std::tie(flock_error, fcntl_error) = GetParam(); }
};

TEST_P(WithoutFlock, OneProcessAtATimeHasTheLock) {
    LockAttempt first = attempt();
    ASSERT_TRUE(first.lock);
    const LockAttempt second = attempt();
    EXPECT_FALSE(second.lock);
    EXPECT_THAT(second.holder, HasSubstr("process"));
    EXPECT_EQ(second.owner_path, "") << "it is seen to live";
    EXPECT_FALSE(takes(LockUse::shared));
    first.lock.reset();
    EXPECT_TRUE(takes());
    EXPECT_FALSE(real_files().exists(owner()));
}

TEST_P(WithoutFlock, ReadersShareIt) {
    const LockAttempt one = attempt(LockUse::shared), other = attempt(LockUse::shared);
    EXPECT_TRUE(one.lock);
    EXPECT_TRUE(other.lock);
}

TEST_P(WithoutFlock, AProcessThatIsKilledLeavesIt) {
    const pid_t child = ::fork();
    if (child == 0) {
        new LockAttempt(attempt());
        ::_exit(0);
    }
    ::waitpid(child, nullptr, 0);
    EXPECT_TRUE(takes(LockUse::shared));
    EXPECT_TRUE(takes());
}

INSTANTIATE_TEST_SUITE_P(Errors, WithoutFlock,
                         testing::Values(std::pair(0, 0), std::pair(ENOLCK, 0), std::pair(ENOSYS, 0),
                                         std::pair(EOPNOTSUPP, 0), std::pair(EINVAL, 0), std::pair(EACCES, 0),
                                         std::pair(EIO, 0), std::pair(ENOLCK, ENOLCK), std::pair(ENOSYS, ENOSYS),
                                         std::pair(EOPNOTSUPP, EINVAL), std::pair(EIO, EIO)),
                         [](const auto& info) { return fmt::format("{}and{}", info.param.first, info.param.second); });

TEST_F(FileLockTest, OnlyTheErrorsOfALockThatIsHeldMeanAProcess) {
    flock_error = EWOULDBLOCK;
    EXPECT_EQ(attempt().holder, "another process");
    flock_error = ENOLCK;
    for (const int held : {EAGAIN, EACCES}) {
        fcntl_error = held;
        EXPECT_EQ(attempt().holder, "another process");
    }
}

TEST_F(FileLockTest, SaysOnceWhatTheFileSystemLacks) {
    flock_error = ENOLCK;
    testing::internal::CaptureStderr();
    EXPECT_TRUE(takes());
    EXPECT_TRUE(takes());
    EXPECT_EQ(testing::internal::GetCapturedStderr(),
              fmt::format("warning: {}: the file system has no flock (No locks available); fcntl locks are used\n",
                          folder_.path()));
}

class OwnerFile : public FileLockTest {
  protected:
    OwnerFile() { flock_error = fcntl_error = ENOLCK; }
};

// Numbers of processes are given again.
TEST_F(OwnerFile, OfANumberThatAnotherProcessHasNowIsOver) {
    std::string text = left_by_the_dead();
    text.replace(0, text.find('\n'), std::to_string(::getppid()));
    leave(text);
    EXPECT_TRUE(takes());
}

// Another host, another container, another boot: nothing here can see that process.
TEST_F(OwnerFile, OfAProcessOutOfSightIsNeverTaken) {
    const std::string text = left_by_the_dead(), head = text.substr(0, text.rfind('\n', text.size() - 2) + 1);
    leave(head + "0a1b2c3d-0000-0000-0000-000000000000 pid:[1]\n");
    for (const LockUse use : {LockUse::alone, LockUse::shared}) {
        const LockAttempt refused = attempt(use);
        EXPECT_FALSE(refused.lock);
        EXPECT_EQ(refused.owner_path, owner());
        EXPECT_THAT(refused.holder, AllOf(HasSubstr("process "), HasSubstr(", which may be over: " + owner())));
    }
    EXPECT_TRUE(real_files().exists(owner()));
}

TEST_F(OwnerFile, OfAnotherFormIsNeverTaken) {
    for (const char* const text : {"", "1", "x\ny\nz\nw\n", "-1\n\n\n\n", "99999999999999999999\n1\nhost\nplace\n"}) {
        leave(text);
        EXPECT_EQ(attempt().owner_path, owner()) << text;
    }
    leave(std::string(100'000, '7'));
    EXPECT_THROW(attempt(), UserError);
}

}  // namespace
}  // namespace windlass
