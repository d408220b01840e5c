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
    Settings settings() const { return {{"max_steps", "2"}, {"save_steps", "2"}, {"freeze", freeze_}}; }
    // Whether a run saves its checkpoint where so much is free.
    bool is_saved(const std::string& name, int64_t free) {
        NarrowFiles files(free);
        EXPECT_EQ(train(files, config(name, settings())).steps, 2);
        return !list_checkpoints(files_, at(name)).empty();
    }
    int64_t taken() {
        run("whole", settings());
        int64_t bytes = 0;
        for (const auto& entry : std::filesystem::recursive_directory_iterator(at("whole/checkpoint-2")))
            if (entry.is_regular_file()) bytes += static_cast<int64_t>(entry.file_size());
        return bytes;
    }
    std::string freeze_ = "[]";
};

TEST_F(CheckpointSpace, LeavesOutWhatIsNotTrained) {
    freeze_ = "*_proj.weight";
    const int64_t taken = this->taken();
    EXPECT_TRUE(is_saved("enough", taken + (2 << 20)));
    set_log_level(LogLevel::error);
    EXPECT_FALSE(is_saved("too_little", taken - 1));
    // Masters and moments of the matrices are what a snapshot of all takes besides.
    Settings all = settings();
    all["freeze"] = "[]";
    run("all", all);
    const ModelFolder model = ModelFolder::open(files_, at("model"));
    int64_t elements = 0;
    for (const TensorPlace& tensor : model.tensors())
        if (tensor.name.ends_with("_proj.weight")) elements += tensor.shape.numel();
    const auto state = [&](const char* run) {
        return static_cast<int64_t>(std::filesystem::file_size(at(fmt::format("{}/checkpoint-2/state.wls", run))));
    };
    EXPECT_GE(state("all") - state("whole"), elements * 12);
}

TEST_F(CheckpointSpace, IsWhatItTakes) {
    const int64_t taken = this->taken();
    ASSERT_GT(taken, 0);
    EXPECT_TRUE(is_saved("enough", taken + (2 << 20)));
    set_log_level(LogLevel::warning);
    EXPECT_FALSE(is_saved("too_little", taken - 1));
    EXPECT_THAT(bytes("too_little/log.txt"), testing::HasSubstr("checkpoint 2 is not saved: it needs"));
}

}  // namespace
}  // namespace windlass
