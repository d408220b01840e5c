// Published expectations: ids that other implementations give for hard strings.
#include <gtest/gtest.h>

#include <sstream>

#include "tests/unit/tokenizer/fixtures.h"

namespace windlass {
namespace {

using fixtures::Json;
using Ids = std::vector<int32_t>;

struct Vector {
    std::string text;
    Ids ids;
};

std::vector<Vector> read_vectors(const std::string& name) {
    const std::string stem = "tokenizer-vectors-llamacpp/ggml-vocab-" + name + ".gguf";
    const std::string texts = fixtures::read(fixtures::shared(stem + ".inp"));
    std::istringstream lines(fixtures::read(fixtures::shared(stem + ".out")));
    static constexpr std::string_view kBorder = "\n__ggml_vocab_test__\n";
    std::vector<Vector> out;
    std::string line;
    for (size_t at = 0; std::getline(lines, line);) {
        const size_t end = texts.find(kBorder, at);
        Vector vector{texts.substr(at, end == std::string::npos ? end : end - at), {}};
        std::istringstream ids(line);
        for (int32_t id = 0; ids >> id;) vector.ids.push_back(id);
        out.push_back(vector);
        if (end == std::string::npos) break;
        at = end + kBorder.size();
    }
    return out;
}

void expect_vectors(const Tokenizer& tokenizer, const std::string& name) {
    const auto vectors = read_vectors(name);
    EXPECT_GT(vectors.size(), 40u);
    for (const auto& vector : vectors) {
        EXPECT_EQ(tokenizer.encode(vector.text, false), vector.ids) << name << ": " << vector.text;
        EXPECT_EQ(tokenizer.decode(vector.ids, true), vector.text) << name;
    }
}

TEST(TokenizerVectors, Gpt2) {
    WINDLASS_NEEDS_SHARED_DATA("tokenizer-gpt2/tokenizer.json");
    expect_vectors(fixtures::gpt2(), "gpt-2");
}

TEST(TokenizerVectors, Gpt2FromVocabAndMerges) {
    WINDLASS_NEEDS_SHARED_DATA("tokenizer-gpt2/vocab.json");
    expect_vectors(
        fixtures::load_shared("tokenizer-gpt2", {{"vocab.json", "vocab.json"}, {"merges.txt", "merges.txt"}}), "gpt-2");
}

TEST(TokenizerVectors, Llama2) {
    WINDLASS_NEEDS_SHARED_DATA("tokenizer-llama2/tokenizer.model");
    expect_vectors(fixtures::llama2(), "llama-spm");
}

TEST(TokenizerVectors, Qwen) {
    WINDLASS_NEEDS_SHARED_DATA("tokenizer-qwen3/vocab.json");
    expect_vectors(fixtures::qwen3(), "qwen2");
}

// One long French text per tokenizer; ids and the text that they decode to.
void expect_french(const Tokenizer& tokenizer, const std::string& name) {
    const Json json = Json::parse(fixtures::read(fixtures::shared("tokenizer-vectors-hf/" + name)));
    const auto ids = json["token_ids"].get<Ids>();
    const auto text = json["text"].get<std::string>();
    const bool with_bos = tokenizer.bos() && ids.front() == *tokenizer.bos();
    EXPECT_EQ(tokenizer.encode(text, with_bos), ids);
    EXPECT_EQ(tokenizer.decode(ids, false), json["decoded_text"].get<std::string>());
}

TEST(TokenizerVectors, FrenchGpt2) {
    WINDLASS_NEEDS_SHARED_DATA("tokenizer-gpt2/tokenizer.json");
    expect_french(fixtures::gpt2(), "gpt2_encoded_tokens.json");
}

TEST(TokenizerVectors, FrenchLlama2) {
    WINDLASS_NEEDS_SHARED_DATA("tokenizer-llama2/tokenizer.model");
    expect_french(fixtures::llama2(), "llama_encoded.json");
}

TEST(TokenizerVectors, FrenchLlama3) {
    WINDLASS_NEEDS_SHARED_DATA("tokenizer-llama3/tokenizer.model");
    expect_french(fixtures::llama3(), "llama_3.2_encoded.json");
}

// Some decoded texts in that file went through transformers' clean_up_tokenization_spaces, which is no part of a
// tokenizer and not reversible; we do not do it.
std::string clean_up(std::string text) {
    for (const char* mark : {".", "?", "!", ",", "'", "n't", "'m", "'s", "'ve", "'re"})
        for (size_t at = 0; (at = text.find(fmt::format(" {}", mark), at)) != std::string::npos;) text.erase(at, 1);
    return text;
}

void expect_hugging_face(const Tokenizer& tokenizer, const std::string& name, bool cleaned) {
    const auto decode = [&](const Ids& ids, bool skip_special) {
        const std::string text = tokenizer.decode(ids, skip_special);
        return cleaned ? clean_up(text) : text;
    };
    const Json all = Json::parse(fixtures::read(fixtures::shared("tokenizer-vectors-hf/tokenizer_tests.json")));
    for (const Json& entry : all[name]) {
        const auto ids = entry["encoded"]["input_ids"].get<Ids>();
        EXPECT_EQ(tokenizer.encode(entry["input"].get<std::string>(), true), ids) << entry["input"];
        EXPECT_EQ(decode(ids, false), entry["decoded_with_special"].get<std::string>());
        EXPECT_EQ(decode(ids, true), entry["decoded_without_special"].get<std::string>());
    }
}

TEST(TokenizerVectors, HuggingFaceGpt2) {
    WINDLASS_NEEDS_SHARED_DATA("tokenizer-gpt2/tokenizer.json");
    expect_hugging_face(fixtures::gpt2(), "distilgpt2", true);
}

TEST(TokenizerVectors, HuggingFaceLlama2) {
    WINDLASS_NEEDS_SHARED_DATA("tokenizer-llama2/tokenizer.model");
    expect_hugging_face(fixtures::llama2(), "coreml-projects/Llama-2-7b-chat-coreml", false);
}

TEST(TokenizerVectors, HuggingFaceLlama3) {
    WINDLASS_NEEDS_SHARED_DATA("tokenizer-llama3/tokenizer.model");
    expect_hugging_face(fixtures::llama3(), "pcuenq/Llama-3.2-1B-Instruct-tokenizer", true);
}

}  // namespace
}  // namespace windlass
