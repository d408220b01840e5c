// Choosing a queue; what every queue promises is in tests/contract/file_queue_test.cpp.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"

namespace windlass {
namespace {

// While it lives no descriptor can be opened, so the kernel refuses a ring.
class NoMoreDescriptors {
  public:
    NoMoreDescriptors() {
        ::getrlimit(RLIMIT_NOFILE, &before_);
        const int lowest_free = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
        ::close(lowest_free);
        const struct rlimit none { .rlim_cur = static_cast<rlim_t>(lowest_free), .rlim_max = before_.rlim_max };
        ::setrlimit(RLIMIT_NOFILE, &none);
    }
    NoMoreDescriptors(const NoMoreDescriptors&) = delete;
    NoMoreDescriptors& operator=(const NoMoreDescriptors&) = delete;
    ~NoMoreDescriptors() { ::setrlimit(RLIMIT_NOFILE, &before_); }

  private:
    struct rlimit before_ {};
};

TEST(FileQueue, AutomaticFallsBackToThreadsWhereTheRingIsRefused) {
    const NoMoreDescriptors refusal;
    EXPECT_EQ(make_file_queue(QueueKind::automatic, 4)->name(), "pread");
}

TEST(FileQueue, AskingForTheRingByNameSaysWhyItIsRefused) {
    const NoMoreDescriptors refusal;
    try {
        make_file_queue(QueueKind::uring, 4);
        FAIL() << "the ring was made";
    } catch (const MachineError& error) {
        EXPECT_EQ(error.error_number(), EMFILE);
        EXPECT_THAT(error.what(), testing::HasSubstr("the pread queue"));
    }
}

TEST(FileQueue, KeepsTheDepthItWasGiven) {
    for (const QueueKind kind : {QueueKind::automatic, QueueKind::pread})
        EXPECT_EQ(make_file_queue(kind, 5)->depth(), 5);
}

}  // namespace
}  // namespace windlass
