// An export from the working store goes on beside one step, and the step after that waits for it.
#include <atomic>
#include <chrono>
#include <thread>

#include "persist/export.h"
#include "tests/train/passing_files.h"
#include "tests/train/train_fixture.h"

namespace windlass {
namespace {

// A store whose reader, once it has begun on the chunks, rests until somebody says so.
class RestingFile : public File {
  public:
    RestingFile(std::unique_ptr<File> file, std::function<void()> rest)
        : file_(std::move(file)), rest_(std::move(rest)) {}
    const std::string& path() const override { return file_->path(); }
    int descriptor() const override { return file_->descriptor(); }
    bool direct() const override { return file_->direct(); }
    int64_t size() override { return file_->size(); }
    void read_at(std::span<std::byte> into, int64_t offset) override {
        if (std::this_thread::get_id() != opener_) rest_();
        file_->read_at(into, offset);
    }
    void write_at(std::span<const std::byte> from, int64_t offset) override { file_->write_at(from, offset); }
    void preallocate(int64_t bytes) override { file_->preallocate(bytes); }
    void truncate(int64_t bytes) override { file_->truncate(bytes); }
    void sync() override { file_->sync(); }

  private:
    std::unique_ptr<File> file_;
    std::function<void()> rest_;
    std::thread::id opener_ = std::this_thread::get_id();  // the exporter reads in a thread of its own
};

class RestingFiles : public PassingFiles {
  public:
    explicit RestingFiles(std::function<void()> rest) : rest_(std::move(rest)) {}
    std::unique_ptr<File> open(const std::string& path, const OpenOptions& options) override {
        auto file = real_files().open(path, options);
        if (options.mode != OpenMode::read || !path.ends_with(".wls")) return file;
        return std::make_unique<RestingFile>(std::move(file), rest_);
    }

  private:
    std::function<void()> rest_;
};

class ExportBeside : public TrainTest, public testing::WithParamInterface<const char*> {};

TEST_P(ExportBeside, OneStepIsTrainedMeanwhileAndNoSecondOne) {
    constexpr int64_t kExported = 3, kPatience = 6000;
    std::atomic<bool> rested{false};
    std::atomic<int64_t> lines_seen{0};
    RestingFiles files([&] {
        if (rested.exchange(true)) return;
        const auto pause = [] { std::this_thread::sleep_for(std::chrono::milliseconds(10)); };
        const auto lines = [&] {
            const std::string text = bytes("run/metrics.jsonl");
            return static_cast<int64_t>(std::count(text.begin(), text.end(), '\n'));
        };
        for (int64_t i = 0; i < kPatience && lines() < kExported + 1; ++i) pause();
        for (int i = 0; i < 20; ++i) pause();  // for a step that does not wait, enough to be done
        lines_seen.store(lines());
    });
    const Settings settings = {{"policy", "three_tier"}, {"update_time", GetParam()}, {"max_grad_norm", "3"}};
    Settings exporting = settings;
    exporting["max_steps"] = "5";
    exporting["export_steps"] = std::to_string(kExported);
    EXPECT_EQ(train(files, config("run", exporting)).steps, 5);
    EXPECT_TRUE(rested.load());
    EXPECT_EQ(lines_seen.load(), kExported + 1);
    Settings shorter = settings;
    shorter["max_steps"] = std::to_string(kExported);
    run("same", shorter);
    EXPECT_TRUE(bytes("run/export-3/model.safetensors") == bytes("same/final/model.safetensors"));
}

// Not next_forward: there the step beside the export has its line only with the step after it.
INSTANTIATE_TEST_SUITE_P(Times, ExportBeside, testing::Values("after_backward", "in_backward"));

}  // namespace
}  // namespace windlass
