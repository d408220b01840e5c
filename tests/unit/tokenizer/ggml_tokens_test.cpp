// Tokenizers as tables for llama.cpp: which cut has which name, kinds of tokens, what is refused.
#include "tokenizer/ggml_tokens.h"

#include <gmock/gmock.h>

#include "base/error.h"
#include "tests/sanitizer.h"
#include "tests/unit/tokenizer/fixtures.h"

namespace windlass {
namespace {

using fixtures::Json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const std::string kSplitOfLlama3 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

GgmlTokens table(const Json& json, int64_t rows = 264) {
    const Json config = {{"bos_token", "<s>"}, {"eos_token", "</s>"}};
    return ggml_tokens(fixtures::load_json(json, config), rows, "here");
}

std::string table_refusal(const Json& json) {
    try {
        table(json);
    } catch (const UserError& error) {
        return error.what();
    }
    return "";
}

Json split_by(const std::string& regex, const char* behavior = "Isolated", bool invert = false) {
    return {{"type", "Split"}, {"pattern", {{"Regex", regex}}}, {"behavior", behavior}, {"invert", invert}};
}
Json bytes_after(const std::vector<Json>& steps, bool use_regex) {
    Json list = steps;
    list.push_back({{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", use_regex}});
    return {{"type", "Sequence"}, {"pretokenizers", list}};
}
Json byte_level(const Json& pre_tokenizer, bool ignore_merges = false) {
    Json json = fixtures::small_tokenizer_json();
    json["pre_tokenizer"] = pre_tokenizer;
    json["model"]["ignore_merges"] = ignore_merges;
    return json;
}

TEST(GgmlTokens, ACutHasANameByItsExactSteps) {
    const Json digits = {{"type", "Digits"}, {"individual_digits", true}};
    std::string qwen2 = kSplitOfLlama3;
    qwen2.replace(qwen2.find("{1,3}"), 5, "");
    EXPECT_EQ(table(byte_level(bytes_after({}, true))).cut, "gpt-2");
    EXPECT_EQ(table(byte_level(bytes_after({digits}, true))).cut, "smollm");
    EXPECT_EQ(table(byte_level(bytes_after({split_by(kSplitOfLlama3)}, false))).cut, "dbrx");
    EXPECT_EQ(table(byte_level(bytes_after({split_by(kSplitOfLlama3)}, false), true)).cut, "llama-bpe");
    EXPECT_EQ(table(byte_level(bytes_after({split_by(kSplitOfLlama3, "Removed", true)}, false))).cut, "dbrx");
    EXPECT_EQ(table(byte_level(bytes_after({split_by(qwen2)}, false))).cut, "qwen2");
}

// Two of llama.cpp's own patterns are not those of the tokenizers that they are for.
TEST(GgmlTokens, ACutThatLlamaCppHasNotQuiteIsNoted) {
    const std::string upper = R"([\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}])", lower = R"([\p{Ll}\p{Lm}\p{Lo}\p{M}])";
    const std::string begins = R"([^\r\n\p{L}\p{N}]?)", contraction = "(?i:'s|'t|'re|'ve|'m|'ll|'d)?";
    const std::string rest = R"(| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
    const auto words = [&](const std::string& behind, const char* numbers) {
        return begins + upper + "*" + lower + "+" + behind + "|" + begins + upper + "+" + lower + "*" + behind + "|" +
               numbers + rest;
    };
    const GgmlTokens tekken = table(byte_level(bytes_after({split_by(words("", R"(\p{N})"))}, false), true));
    EXPECT_EQ(tekken.cut, "tekken");
    EXPECT_THAT(tekken.notes, ElementsAre(HasSubstr("cuts words with combining marks")));
    const GgmlTokens o200k = table(byte_level(bytes_after({split_by(words(contraction, R"(\p{N}{1,3})"))}, false)));
    EXPECT_EQ(o200k.cut, "gpt-4o");
    EXPECT_THAT(o200k.notes, ElementsAre(HasSubstr("cuts words with combining marks")));
}

TEST(GgmlTokens, AnUnknownCutIsRefusedByItsPattern) {
    EXPECT_THAT(table_refusal(byte_level(bytes_after({split_by(kSplitOfLlama3 + "|x")}, false))),
                HasSubstr("split " + kSplitOfLlama3 + "|x"));
    EXPECT_THAT(table_refusal(byte_level(bytes_after({split_by(kSplitOfLlama3, "Removed")}, false))),
                HasSubstr("split otherwise"));
    EXPECT_THAT(table_refusal(byte_level(bytes_after({split_by(kSplitOfLlama3)}, true))), HasSubstr("gpt2"));
    EXPECT_THAT(table_refusal(byte_level(bytes_after({}, false))), HasSubstr("not at all"));
}

// "qwen2" of llama.cpp merges in any case; it matters where a token is made by no merges.
TEST(GgmlTokens, WholeTokensMatterOnlyWhereMergesDoNotMakeThem) {
    Json json = byte_level(bytes_after({}, true), true);
    EXPECT_EQ(table(json).cut, "gpt-2");
    json["model"]["merges"].erase(3);
    EXPECT_THAT(table_refusal(json), HasSubstr("\"ignore_merges\" is true"));
}

TEST(GgmlTokens, RowsBeyondTheTokensAreUnused) {
    const GgmlTokens tokens = table(byte_level(bytes_after({}, true)));
    EXPECT_EQ(tokens.model, "gpt2");
    ASSERT_EQ(tokens.tokens.size(), 264u);
    EXPECT_EQ(tokens.tokens[261], "hello");
    EXPECT_EQ(tokens.tokens[263], "[PAD263]");
    EXPECT_EQ(tokens.types[261], 1);
    EXPECT_EQ(tokens.types[256], 3);
    EXPECT_EQ(tokens.types[263], 5);
    EXPECT_THAT(tokens.merges, ElementsAre("h e", "l l", "he ll", "hell o"));
    EXPECT_THAT(tokens.scores, IsEmpty());
    EXPECT_THAT(tokens.notes, IsEmpty());
}

TEST(GgmlTokens, TokensWithoutARowAreLeftOutAndNoted) {
    const GgmlTokens tokens = table(byte_level(bytes_after({}, true)), 260);
    EXPECT_EQ(tokens.tokens.size(), 260u);
    EXPECT_THAT(tokens.notes, ElementsAre(HasSubstr("2 tokens have no row")));
}

TEST(GgmlTokens, WhatStandsAroundATextIsOneTokenAtMost) {
    const Json json = byte_level(bytes_after({}, true));
    const GgmlTokens tokens = table(json);
    EXPECT_EQ(tokens.bos, 256);
    EXPECT_EQ(tokens.eos, 257);
    EXPECT_TRUE(tokens.adds_bos);
    EXPECT_FALSE(tokens.adds_eos);
    const Json other = {{"bos_token", nullptr}, {"eos_token", "</s>"}};
    EXPECT_EQ(ggml_tokens(fixtures::load_json(json, other), 264, "here").bos, 256);
}

// llama.cpp strips behind special tokens of models that are called so.
TEST(GgmlTokens, AModelIsCalledPhi3WhereItsTokensStripAsPhi3s) {
    const auto named = [](std::string_view name, bool end_strips, bool begin_strips) {
        Json json = byte_level(bytes_after({}, true));
        json["added_tokens"][0]["rstrip"] = begin_strips;
        json["added_tokens"][1]["rstrip"] = end_strips;
        return ggml_model_name(name, table(json));
    };
    EXPECT_EQ(named("tuned", true, false), "phi-3 tuned");
    EXPECT_EQ(named("My-Phi-3", true, false), "My-Phi-3");
    EXPECT_EQ(named("tuned", false, false), "tuned");
    EXPECT_EQ(named("tuned", true, true), "tuned") << "that is another rule";
    EXPECT_EQ(named("my-phi3", false, false), "model");
}

// Characters with bytes for the rest, as tokenizers converted from SentencePiece are.
Json characters() {
    Json vocab = {{"<unk>", 0}};
    for (int byte = 0; byte < 256; ++byte) vocab[fmt::format("<0x{:02X}>", byte)] = byte + 1;
    for (const char* token : {"\u2581", "a", "b", "ab", "\u2581a", "\u2581ab"}) vocab[token] = vocab.size();
    const Json mark = {{"type", "Prepend"}, {"prepend", "\u2581"}};
    const Json marks = {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "\u2581"}};
    return {{"version", "1.0"},
            {"added_tokens", Json::array()},
            {"normalizer", {{"type", "Sequence"}, {"normalizers", {mark, marks}}}},
            {"pre_tokenizer", nullptr},
            {"post_processor", nullptr},
            {"decoder", nullptr},
            {"model",
             {{"type", "BPE"},
              {"unk_token", "<unk>"},
              {"byte_fallback", true},
              {"fuse_unk", true},
              {"vocab", vocab},
              {"merges", {"a b", "\u2581 a", "\u2581 ab", "\u2581a b"}}}}};
}

GgmlTokens character_table(const Json& json) {
    return ggml_tokens(fixtures::load_json(json), 264, "here");
}

TEST(GgmlTokens, HigherMergesHaveHigherScores) {
    const GgmlTokens tokens = character_table(characters());
    EXPECT_EQ(tokens.model, "llama");
    EXPECT_EQ(tokens.cut, "default");
    EXPECT_TRUE(tokens.adds_space);
    EXPECT_EQ(tokens.types[0], 2);
    EXPECT_EQ(tokens.types[1], 6);
    EXPECT_EQ(tokens.tokens[260], "ab");
    EXPECT_THAT(std::vector<float>(tokens.scores.begin() + 260, tokens.scores.begin() + 263), ElementsAre(-1, -2, -3));
    EXPECT_THAT(tokens.merges, IsEmpty());
    EXPECT_THAT(tokens.notes, IsEmpty());
}

TEST(GgmlTokens, PairsThatAreNoMergesAreNoted) {
    Json json = characters();
    json["model"]["merges"].erase(3);
    EXPECT_THAT(character_table(json).notes, ElementsAre(HasSubstr("1 tokens can be made there of other pairs")));
    json = characters();
    json["model"]["merges"] = {"a b", "\u2581 ab", "\u2581 a", "\u2581a b"};
    EXPECT_THAT(character_table(json).notes, ElementsAre(HasSubstr("1 tokens can be made there of other pairs")));
}

TEST(GgmlTokens, SpacesAreMarkedInFrontOnlyWhereTheTokenizerDoes) {
    Json json = characters();
    json["normalizer"]["normalizers"].erase(0);
    EXPECT_FALSE(character_table(json).adds_space);
    json["normalizer"] = nullptr;
    const auto refusal = [&] {
        try {
            character_table(json);
        } catch (const UserError& error) {
            return std::string(error.what());
        }
        return std::string();
    };
    EXPECT_THAT(refusal(), HasSubstr("nothing in it marks spaces"));
    json["pre_tokenizer"] = {
        {"type", "Metaspace"}, {"replacement", "\u2581"}, {"prepend_scheme", "first"}, {"split", false}};
    EXPECT_TRUE(character_table(json).adds_space);
    EXPECT_THAT(character_table(json).notes,
                ElementsAre(HasSubstr("in front of every text"), HasSubstr("after special tokens too")));
    json["pre_tokenizer"]["prepend_scheme"] = "always";
    EXPECT_THAT(character_table(json).notes, ElementsAre(HasSubstr("in front of every text")));
    json["pre_tokenizer"]["prepend_scheme"] = "never";
    EXPECT_THAT(character_table(json).notes, IsEmpty());
    json["pre_tokenizer"]["prepend_scheme"] = "first";
    json["pre_tokenizer"]["split"] = true;
    EXPECT_THAT(refusal(), HasSubstr("its pre-tokenizer cuts texts"));
    json = characters();
    json["model"]["byte_fallback"] = false;
    EXPECT_THAT(refusal(), HasSubstr("do not become bytes"));
}

TEST(GgmlTokens, TextsThatAreBroughtIntoAnotherFormAreNoted) {
    Json json = byte_level(bytes_after({split_by(kSplitOfLlama3)}, false));
    EXPECT_THAT(table(json).notes, IsEmpty());
    json["normalizer"] = {{"type", "NFC"}};
    EXPECT_THAT(table(json).notes, ElementsAre(HasSubstr("NFC")));
}

TEST(GgmlTokens, RealTokenizersHaveTheirNames) {
    WINDLASS_NEEDS_SHARED_DATA("tokenizer-qwen3/vocab.json");
    EXPECT_EQ(ggml_tokens(fixtures::gpt2(), 50257, "gpt2").cut, "gpt-2");
    EXPECT_EQ(ggml_tokens(fixtures::stories(), 512, "stories").model, "llama");
    EXPECT_THAT(ggml_tokens(fixtures::llama2(), 32000, "llama2").notes, IsEmpty());
    if (is_second_run()) return;  // the largest take the way of GPT-2's
    EXPECT_EQ(ggml_tokens(fixtures::qwen3(), 151936, "qwen3").cut, "qwen2");
    EXPECT_EQ(ggml_tokens(fixtures::llama3(), 128256, "llama3").cut, "llama-bpe");
}

}  // namespace
}  // namespace windlass
