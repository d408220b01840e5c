// Measuring the machine: without what the run has open, and without a drive that is full.
#include "session/machine_cache.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "base/error.h"
#include "base/units.h"
#include "tests/sanitizer.h"
#include "tests/train/passing_files.h"
#include "tests/train/train_fixture.h"

namespace windlass {
namespace {

using MachineCacheTest = TrainTest;  // whose cache folder is its own

// A lock is held as long as any process has its descriptor: a run that is killed while it measures must leave none.
TEST_F(MachineCacheTest, MeasuresWithoutTheDescriptorsOfTheRun) {
    enum Seen : int { kNothing, kOpen, kClosed };
    void* const shared = ::mmap(nullptr, sizeof(int), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(shared, MAP_FAILED);
    static volatile int* seen = nullptr;
    seen = static_cast<int*>(shared);
    static int held = -1;
    const int lock = ::open("/dev/null", O_RDONLY);
    held = ::fcntl(lock, F_DUPFD, 300);  // a number that the other process does not use for files of its own
    ::close(lock);
    class WatchingFiles : public PassingFiles {
        std::unique_ptr<File> open(const std::string& path, const OpenOptions& options) override {
            if (path.find(".windlass-probe-") != std::string::npos)
                *seen = ::fcntl(held, F_GETFD) < 0 && errno == EBADF ? kClosed : kOpen;
            return PassingFiles::open(path, options);
        }
    } files;
    EXPECT_GT(known_machine(files, at("ssd"), 1).disk_read_bytes_per_s, 0);
    EXPECT_EQ(*seen, kClosed);
    EXPECT_GE(::fcntl(held, F_GETFD), 0) << "it is closed in this process too";
    ::close(held);
    ::munmap(shared, sizeof(int));
}

// A drive with less than 32 MiB free.
class FullDrive : public PassingFiles {
    int64_t free_bytes(const std::string&) override { return 20 * kMiB; }
};

TEST_F(MachineCacheTest, AssumesADriveThatIsTooFullToBeMeasured) {
    FullDrive files;
    const std::string kept = machine_cache_path(at("ssd"), 2);  // the fixture's, as is that of the host alone
    std::filesystem::remove(kept);
    EXPECT_FALSE(has_room_to_measure(files, at("ssd")));
    EXPECT_TRUE(has_room_to_measure(files, ""));
    const Machine machine = known_machine(files, at("ssd"), 2);
    EXPECT_EQ(machine.gemm_f32_flops, 1e11);
    EXPECT_EQ(machine.disk_bytes, 0);
    EXPECT_EQ(machine.disk_read_bytes_per_s, 0.5e9);
    EXPECT_EQ(machine.disk_write_bytes_per_s, 0.5e9);
    EXPECT_FALSE(std::filesystem::exists(kept)) << "with room it would not be measured";
}

// It had room when the probe began.
TEST_F(MachineCacheTest, AssumesADriveThatFillsMeanwhile) {
    if (is_sanitized()) GTEST_SKIP() << "the first test measures under sanitizers";
    std::filesystem::remove(machine_cache_path(at("ssd"), 2));
    class FillingDrive : public PassingFiles {
        std::unique_ptr<File> open(const std::string& path, const OpenOptions& options) override {
            if (path.find(".windlass-probe-") != std::string::npos) throw MachineError("fallocate", path, ENOSPC);
            return PassingFiles::open(path, options);
        }
    } files;
    EXPECT_EQ(known_machine(files, at("ssd"), 2).disk_read_bytes_per_s, 0.5e9);
}

TEST_F(MachineCacheTest, TellsWhyADriveCannotBeMeasured) {
    if (is_sanitized()) GTEST_SKIP() << "the first test measures under sanitizers";
    class BrokenDrive : public PassingFiles {
        std::unique_ptr<File> open(const std::string& path, const OpenOptions& options) override {
            if (path.find(".windlass-probe-") != std::string::npos) throw MachineError("open", path, EIO);
            return PassingFiles::open(path, options);
        }
    } files;
    try {
        known_machine(files, at("ssd"), 1);
        ADD_FAILURE() << "it was measured";
    } catch (const UserError& error) {
        EXPECT_EQ(error.code(), ExitCode::storage);
        EXPECT_THAT(error.what(), testing::AllOf(testing::HasSubstr("this machine could not be measured"),
                                                 testing::HasSubstr("open"), testing::HasSubstr("errno 5")));
    }
}

}  // namespace
}  // namespace windlass
