// An export from the working store goes on beside one step, and the step after that waits for it.
#include <atomic>
#include <chrono>
#include <thread>

#include "tests/train/train_fixture.h"
#include "train/export.h"

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

class RestingFiles : public FileSystem {
  public:
    explicit RestingFiles(std::function<void()> rest) : rest_(std::move(rest)) {}
    std::unique_ptr<File> open(const std::string& path, const OpenOptions& options) override {
        auto file = real_files().open(path, options);
        if (options.mode != OpenMode::read || !path.ends_with(".wls")) return file;
        return std::make_unique<RestingFile>(std::move(file), rest_);
    }
    bool exists(const std::string& path) override { return real_files().exists(path); }
    FileStatus status(const std::string& path) override { return real_files().status(path); }
    std::string resolve(const std::string& path) override { return real_files().resolve(path); }
    std::vector<std::string> list(const std::string& folder) override { return real_files().list(folder); }
    void make_folders(const std::string& path) override { real_files().make_folders(path); }
    void rename(const std::string& from, const std::string& to) override { real_files().rename(from, to); }
    void remove_file(const std::string& path) override { real_files().remove_file(path); }
    void remove_tree(const std::string& path) override { real_files().remove_tree(path); }
    void sync_folder(const std::string& path) override { real_files().sync_folder(path); }
    int64_t free_bytes(const std::string& path) override { return real_files().free_bytes(path); }
    std::unique_ptr<FileQueue> make_queue(QueueKind kind, int depth) override {
        return real_files().make_queue(kind, depth);
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
