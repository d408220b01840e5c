// A file of plain text, longer than a row, is evaluated and learned from whole.
#include <gmock/gmock.h>

#include "tests/cli/sandbox.h"
#include "tests/place.h"

namespace windlass::cli {
namespace {

using testing::HasSubstr;

class PlainText : public testing::Test {
  protected:
    // Some 4,500 tokens, one document.
    std::string book() {
        std::string text;
        for (int line = 0; line < 300; ++line) text += fmt::format("LINE {}, n. One that follows the others.\n", line);
        write_bytes(sandbox_ / "book.txt", text);
        return sandbox_ / "book.txt";
    }
    std::string model_ = source_dir() + "/examples/quickstart/model";
    Sandbox sandbox_;
};

TEST_F(PlainText, IsEvaluatedToItsEnd) {
    const auto tokens = [&](const std::vector<std::string>& more) {
        std::vector<std::string> words = {"eval", model_, "--data", book(), "--json", "--max-length", "64"};
        words.insert(words.end(), more.begin(), more.end());
        return json_of(sandbox_.windlass(words)).at("target_tokens").get<int64_t>();
    };
    const int64_t whole = tokens({});
    EXPECT_GT(whole, 3000);
    EXPECT_EQ(tokens({"--truncation", "split"}), whole);
    EXPECT_EQ(tokens({"--truncation", "right"}), 63);
}

TEST_F(PlainText, IsLearnedFromWithoutBeingAsked) {
    Settings settings = sandbox_.training();
    settings["model"] = model_;
    settings["train_data"] = book();
    settings["max_length"] = "64";
    const Finished finished = must_succeed(sandbox_.train(settings));
    EXPECT_THAT(finished.err, HasSubstr("1 row cut to max_length"));
}

}  // namespace
}  // namespace windlass::cli
