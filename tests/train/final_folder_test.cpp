// final/ lacks no file that the model's folder has: a tokenizer that cannot be read when weights are written is an
// error, after they are written, and a resume adds it.
#include <gmock/gmock.h>

#include <cerrno>
#include <filesystem>

#include "base/error.h"
#include "tests/train/passing_files.h"
#include "tests/train/train_fixture.h"

namespace windlass {
namespace {

namespace fs = std::filesystem;

// Once this folder is begun, the file cannot be opened, a few times.
class LateFailure final : public PassingFiles {
  public:
    LateFailure(std::string file, std::string folder, int times)
        : file_(std::move(file)), folder_(std::move(folder)), times_(times) {}
    void make_folders(const std::string& path) override {
        has_begun_ = has_begun_ || path.ends_with(folder_);
        PassingFiles::make_folders(path);
    }
    std::unique_ptr<File> open(const std::string& path, const OpenOptions& options) override {
        if (has_begun_ && path == file_ && times_-- > 0) throw MachineError("open", path, EIO);
        return PassingFiles::open(path, options);
    }

  private:
    std::string file_, folder_;
    bool has_begun_ = false;
    int times_;
};

class FinalFolder : public TrainTest {
  protected:
    std::string end(int failures, const Settings& more = {}, const std::string& folder = "final.tmp-writing") {
        Settings settings = {{"max_steps", "2"}, {"save_steps", "1"}};
        settings.insert(more.begin(), more.end());
        LateFailure files(at("model/tokenizer.json"), folder, failures);
        try {
            train(files, config("run", settings));
            return "";
        } catch (const Error& error) {
            EXPECT_EQ(error.code(), ExitCode::storage);
            return error.what();
        }
    }
    bool has_tokenizer() const { return bytes("run/final/tokenizer.json") == bytes("model/tokenizer.json"); }
    static constexpr int kAlways = 1 << 20;
};

TEST_F(FinalFolder, HasATokenizerThatCouldNotBeReadAtFirst) {
    EXPECT_EQ(end(4), "");
    EXPECT_TRUE(has_tokenizer());
}

TEST_F(FinalFolder, WithoutATokenizerIsAnErrorThatAResumeMends) {
    EXPECT_THAT(end(kAlways), testing::HasSubstr("run/final: has the trained weights, but not tokenizer.json, which "
                                                 "could not be read"));
    const std::string weights = bytes(std::string("run") + kWeights);
    EXPECT_GT(weights.size(), 1000u);
    EXPECT_FALSE(fs::exists(at("run/final/manifest.json"))) << "the run is over";
    EXPECT_EQ(end(0, {{"resume", "auto"}}), "");
    EXPECT_TRUE(has_tokenizer());
    EXPECT_EQ(bytes(std::string("run") + kWeights), weights);
    EXPECT_TRUE(fs::exists(at("run/final/manifest.json")));
}

// The best step's folder is that of a checkpoint, which may lack it.
TEST_F(FinalFolder, OfABestStepHasATokenizerThatItsCheckpointLacks) {
    const Settings best = {{"eval_data", "[" + at("eval.jsonl") + "]"},
                           {"eval_steps", "1"},
                           {"load_best_model_at_end", "true"},
                           {"learning_rate", "1"},
                           {"max_steps", "3"}};
    constexpr int kTries = 3;
    EXPECT_EQ(end(kTries, best, "checkpoint-1.tmp"), "");
    EXPECT_FALSE(fs::exists(at("run/checkpoint-1/model/tokenizer.json")));
    EXPECT_TRUE(has_tokenizer());
}

// A user who removes a file during the run has no use for it.
TEST_F(FinalFolder, LacksAFileThatIsGone) {
    write("model/notes.txt", "mine");
    class Removing final : public PassingFiles {
      public:
        explicit Removing(std::string file) : file_(std::move(file)) {}
        void make_folders(const std::string& path) override {
            if (path.ends_with("final.tmp-writing")) fs::remove(file_);
            PassingFiles::make_folders(path);
        }
        std::string file_;
    } files(at("model/notes.txt"));
    EXPECT_EQ(train(files, config("run", {{"max_steps", "1"}})).steps, 1);
    EXPECT_TRUE(has_tokenizer());
    EXPECT_FALSE(fs::exists(at("run/final/notes.txt")));
}

}  // namespace
}  // namespace windlass
