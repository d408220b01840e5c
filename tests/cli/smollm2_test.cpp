// A real chat model, SmolLM2-135M-Instruct as tools/gguf_to_folder.py makes it, is read as it is, scores what
// transformers says, answers, and learns. WINDLASS_SMOLLM2 names its folder, which otherwise lies among the shared
// data.
#include <gmock/gmock.h>

#include <cstdlib>
#include <filesystem>

#include "tests/cli/sandbox.h"
#include "tests/place.h"

namespace windlass::cli {
namespace {

namespace fs = std::filesystem;

// tools/reference/score.py on kRows (torch 2.15.0, transformers 5.23.0).
constexpr double kLoss = 3.0768789381;
constexpr int64_t kLossTokens = 124;
// The same program gives this prompt for "What is the capital of France?", from the folder's own chat template.
constexpr std::string_view kPrompt =
    "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
    "<|im_start|>user\nWhat is the capital of France?<|im_end|>\n<|im_start|>assistant\n";

// Prose, digits and bytes beyond ASCII, special tokens.
const std::vector<std::string> kRows = {
    R"({"text": "A windlass is a small crank that lifts a great load. It was used for raising anchors, buckets from wells, and stones for cathedrals; one man could do the work of ten, slowly."})",
    R"({"text": "In 1984, 27 people bought 1,250 \u00e9clairs for \u20ac3.75 each \u2014 in \u6771\u4eac!\n\ndef f(x):\n    return x**2 + 10\n"})",
    R"({"text": "<|im_start|>user\nWhat is 12 times 12?<|im_end|>\n<|im_start|>assistant\n12 times 12 is 144.<|im_end|>\n"})"};

std::string smollm2() {
    const char* const named = std::getenv("WINDLASS_SMOLLM2");
    return named != nullptr ? named : shared_data("model-smollm2-135m-instruct");
}

class SmolLm2 : public testing::Test {
  protected:
    void SetUp() override {
        if (!fs::exists(model_)) GTEST_SKIP() << model_ << " is not here (tools/gguf_to_folder.py makes it)";
    }
    double loss_of(const std::string& model, const std::string& data) {
        const Json json = json_of(
            sandbox_.windlass({"eval", model, "--data", data, "--json", "--dtype", "f32", "--add-eos", "false"}));
        target_tokens_ = json.at("target_tokens");
        return json.at("loss");
    }
    Finished answer(const std::string& dtype) {
        Command command = sandbox_.windlass({"generate", model_, "--prompt", "-", "--dtype", dtype});
        command.input = kPrompt;
        return must_succeed(command);
    }

    const std::string model_ = smollm2();
    Sandbox sandbox_;
    int64_t target_tokens_ = 0;
};
using SlowSmolLm2 = SmolLm2;

TEST_F(SmolLm2, ScoresAsTransformersDoes) {
    // Sums in f32 in another order, through 30 layers, come to some 3e-7.
    EXPECT_NEAR(loss_of(model_, sandbox_.rows("rows.jsonl", kRows)), kLoss, 1e-6);
    EXPECT_EQ(target_tokens_, kLossTokens);
}

TEST_F(SmolLm2, AnswersItsOwnChatPrompt) {
    for (const char* const dtype : {"bf16", "f32"}) {
        const Finished finished = answer(dtype);
        EXPECT_EQ(finished.out, "The capital of France is Paris.\n") << dtype;
        EXPECT_THAT(finished.err, testing::HasSubstr("7 new tokens")) << dtype;
        EXPECT_THAT(finished.err, testing::HasSubstr("end of text")) << dtype;
    }
}

TEST_F(SlowSmolLm2, LearnsAlpacaRows) {
    const std::string data = shared_data("data-alpaca-style/alpaca_en_demo.json");
    if (!fs::exists(data)) GTEST_SKIP() << data << " is not here";
    std::vector<std::string> rows;
    for (const Json& row : read_json(data)) {
        if (rows.size() < 4 && row.at("output").get<std::string>().size() < 150) rows.push_back(row.dump());
    }
    const std::string file = sandbox_.rows("alpaca.jsonl", rows);
    const double before = loss_of(model_, file);
    Command train = sandbox_.windlass({"train", "--model", model_, "--train-data", file, "--output-dir", sandbox_.out(),
                                       "--max-length", "128", "--per-device-train-batch-size", "4", "--max-steps", "4",
                                       "--learning-rate", "5e-5", "--truncation", "error"});
    train.seconds_max = 900;
    must_succeed(train);
    EXPECT_LT(loss_of(sandbox_.out() + "/final", file), before - 0.2);
}

}  // namespace
}  // namespace windlass::cli
