// A checkpoint asks a drive for the bytes that it takes.
#include <gmock/gmock.h>

#include <filesystem>

#include "base/log.h"
#include "state/checkpoint.h"
#include "tests/train/passing_files.h"
#include "tests/train/train_fixture.h"

namespace windlass {
namespace {

class NarrowFiles : public PassingFiles {
  public:
    explicit NarrowFiles(int64_t free) : free_(free) {}
    int64_t free_bytes(const std::string&) override { return free_; }

  private:
    int64_t free_;
};

class CheckpointSpace : public TrainTest {
  protected:
    // Whether a run saves its checkpoint where so much is free.
    bool is_saved(const std::string& name, int64_t free) {
        NarrowFiles files(free);
        EXPECT_EQ(train(files, config(name, {{"max_steps", "2"}, {"save_steps", "2"}})).steps, 2);
        return !list_checkpoints(files_, at(name)).empty();
    }
};

TEST_F(CheckpointSpace, IsWhatItTakes) {
    run("whole", {{"max_steps", "2"}, {"save_steps", "2"}});
    int64_t taken = 0;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(at("whole/checkpoint-2")))
        if (entry.is_regular_file()) taken += static_cast<int64_t>(entry.file_size());
    ASSERT_GT(taken, 0);
    EXPECT_TRUE(is_saved("enough", taken + (2 << 20)));
    set_log_level(LogLevel::warning);
    EXPECT_FALSE(is_saved("too_little", taken - 1));
    EXPECT_THAT(bytes("too_little/log.txt"), testing::HasSubstr("checkpoint 2 is not saved: it needs"));
}

}  // namespace
}  // namespace windlass
