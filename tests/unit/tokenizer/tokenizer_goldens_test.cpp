// Frozen answers of Hugging Face tokenizers for hard strings (tools/reference/tokenizer_goldens.py).
#include <gtest/gtest.h>

#include "tests/place.h"
#include "tests/unit/tokenizer/fixtures.h"

namespace windlass {
namespace {

using fixtures::Json;
using Ids = std::vector<int32_t>;

Json golden(const std::string& name) {
    return Json::parse(fixtures::read(source_dir() + "/tests/golden/tokenizer/" + name));
}

void expect_cases(const Tokenizer& tokenizer, const Json& cases, const std::string& name) {
    ASSERT_FALSE(cases.empty());
    for (const Json& entry : cases) {
        const auto text = entry["text"].get<std::string>();
        const auto ids = entry["ids"].get<Ids>();
        EXPECT_EQ(tokenizer.encode(text, false), ids) << name << ": " << entry["text"];
        EXPECT_EQ(tokenizer.decode(ids, false), entry["decoded"].get<std::string>()) << name << ": " << entry["text"];
        EXPECT_EQ(tokenizer.decode(ids, true), entry["decoded_plain"].get<std::string>())
            << name << ": " << entry["text"];
    }
}

TEST(TokenizerGoldens, EveryPart) {
    const Json parts = golden("parts.json");
    for (const Json& entry : parts["list"]) {
        Json tokenizer = entry["tokenizer"];
        Json& model = tokenizer["model"];
        model.update(parts["vocabs"][model["vocab_name"].get<std::string>()]);
        model.erase("vocab_name");
        expect_cases(fixtures::load_json(tokenizer), entry["cases"], entry["name"].get<std::string>());
    }
}

TEST(TokenizerGoldens, Gpt2) {
    WINDLASS_NEEDS_SHARED_DATA("tokenizer-gpt2/tokenizer.json");
    expect_cases(fixtures::gpt2(), golden("real.json")["gpt2"], "gpt2");
}

TEST(TokenizerGoldens, Pythia) {
    WINDLASS_NEEDS_SHARED_DATA("tokenizer-neox-pythia/20B_tokenizer.json");
    expect_cases(fixtures::pythia(), golden("real.json")["pythia"], "pythia");
}

TEST(TokenizerGoldens, Opt) {
    WINDLASS_NEEDS_SHARED_DATA("tokenizer-opt/vocab.json");
    expect_cases(fixtures::opt(), golden("real.json")["opt"], "opt");
}

TEST(TokenizerGoldens, Qwen3) {
    WINDLASS_NEEDS_SHARED_DATA("tokenizer-qwen3/vocab.json");
    expect_cases(fixtures::qwen3(), golden("real.json")["qwen3"], "qwen3");
}

TEST(TokenizerGoldens, Llama2) {
    WINDLASS_NEEDS_SHARED_DATA("tokenizer-llama2/tokenizer.model");
    expect_cases(fixtures::llama2(), golden("real.json")["llama2"], "llama2");
}

TEST(TokenizerGoldens, Llama3) {
    WINDLASS_NEEDS_SHARED_DATA("tokenizer-llama3/tokenizer.model");
    expect_cases(fixtures::llama3(), golden("real.json")["llama3"], "llama3");
}

TEST(TokenizerGoldens, Stories) {
    WINDLASS_NEEDS_SHARED_DATA("model-stories260K-hf/tokenizer.json");
    expect_cases(fixtures::stories(), golden("real.json")["stories"], "stories");
}

}  // namespace
}  // namespace windlass
