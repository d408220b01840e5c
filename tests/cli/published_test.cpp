// A published model gives the published loss and the published greedy text, through the real program.
#include <gmock/gmock.h>

#include <filesystem>

#include "base/file.h"
#include "tests/cli/sandbox.h"
#include "tests/place.h"

namespace windlass::cli {
namespace {

namespace fs = std::filesystem;

std::string shared(const std::string& name) {
    return shared_data(name);
}

class Stories : public testing::Test {
  protected:
    void SetUp() override {
        if (!fs::exists(model_)) GTEST_SKIP() << model_ << " is not here";
    }
    std::string model_ = shared("model-stories260K-hf");
    Sandbox sandbox_;
};

TEST_F(Stories, ScoresWhatItsAuthorMeasured) {
    const Json json = json_of(
        sandbox_.windlass({"eval", model_, "--data", shared("data-tinystories-sample/tinystories_sample.txt"), "--json",
                           "--document-separator", "<|endoftext|>", "--add-eos", "false", "--truncation", "right"}));
    EXPECT_EQ(json.at("rows"), 5);
    // The reference, in another framework, is given to three digits.
    EXPECT_NEAR(json.at("loss").get<double>(), 1.266, 0.002);
}

TEST_F(Stories, TellsThePublishedStory) {
    const std::string page = read_text(real_files(), shared("model-stories260K/stories260K.md"), 1 << 20);
    const std::string command = "-t 0.0\n";  // the greedy run's text follows
    const size_t begin = page.find(command) + command.size();
    const std::string story = page.substr(begin, page.find("\n```", begin) - begin);
    ASSERT_THAT(story, testing::StartsWith("Once upon a time"));
    const Finished told =
        must_succeed(sandbox_.windlass({"generate", model_, "--prompt", "", "--max-new-tokens", "256"}));
    EXPECT_EQ(told.out, story + "\n");
}

}  // namespace
}  // namespace windlass::cli
