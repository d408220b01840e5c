// Models in GGUF files: names, order of rows, types, and what is refused. What llama.cpp computes with such files is
// checked by tools/reference/check_gguf.py.
#include <gmock/gmock.h>

#include "base/json.h"
#include "model/gguf.h"
#include "tests/unit/format/gguf_bytes.h"
#include "tests/unit/model/model_fixtures.h"

namespace windlass {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Changes = std::vector<std::pair<std::string, std::string>>;

// The golden model of this name, or a folder, as it is.
GgufBytes saved(const std::string& folder, std::optional<GgufType> type = GgufType::f32) {
    const TempFolder temp;
    const ModelFolder base = ModelFolder::open(real_files(), folder);
    const ModelSpec model = build_folder(base);
    const SaveOptions options{.gguf = GgufOutput{.type = type,
                                                 .fields = {{"general.name", std::string("tuned")},
                                                            {"tokenizer.ggml.model", std::string("t")}}}};
    save_model(real_files(), folder, temp / "tuned.gguf", model, options,
               [&](int param, int64_t first, std::span<float> out) {
                   load_elements(base, model.params[static_cast<size_t>(param)], first, out);
               });
    return GgufBytesReader(read_text(real_files(), temp / "tuned.gguf", 64 << 20)).read();
}

std::string gguf_complaint(const std::string& config) {
    const TempFolder temp;
    write_folder(temp / "model", config, tensors_of(config));
    try {
        saved(temp / "model");
    } catch (const UserError& error) {
        return error.what();
    }
    return "";
}

std::vector<float> numbers_of(const std::string& folder, const std::string& name) {
    const ModelFolder base = ModelFolder::open(real_files(), folder);
    const TensorPlace* const place = base.find(name);
    std::vector<float> out(static_cast<size_t>(place->shape.numel()));
    const ParamSpec param{.name = name, .shape = place->shape, .file_dtype = *place->dtype};
    load_elements(base, param, 0, out);
    return out;
}

TEST(SaveGguf, NamesWhatTheModelIs) {
    const GgufBytes read = saved(golden_folder("llama"));
    EXPECT_EQ(read.values.at("general.architecture"), "llama");
    EXPECT_EQ(read.values.at("general.name"), "tuned");
    EXPECT_EQ(read.values.at("general.file_type"), "0");
    EXPECT_EQ(read.values.at("tokenizer.ggml.model"), "t");
    const HfConfig config = HfConfig::parse(golden_config("llama"), "config.json");
    for (const auto& [key, name] : Changes{{"llama.block_count", "num_hidden_layers"},
                                           {"llama.embedding_length", "hidden_size"},
                                           {"llama.feed_forward_length", "intermediate_size"},
                                           {"llama.attention.head_count", "num_attention_heads"},
                                           {"llama.attention.head_count_kv", "num_key_value_heads"},
                                           {"llama.context_length", "max_position_embeddings"},
                                           {"llama.vocab_size", "vocab_size"}})
        EXPECT_EQ(read.values.at(key), std::to_string(config.integer(name.c_str(), 0, 1 << 30))) << key;
}

// Row s * D/2 + i of each head is row 2 i + s there.
TEST(SaveGguf, RowsOfQAndKAreNeighboursInLlamasAndStayElsewhere) {
    const std::string folder = golden_folder("llama"), name = "model.layers.1.self_attn.k_proj.weight";
    const HfConfig config = HfConfig::parse(golden_config("llama"), "config.json");
    const auto heads = static_cast<size_t>(config.integer("num_key_value_heads", 1, 64));
    const auto cols = static_cast<size_t>(config.integer("hidden_size", 1, 4096));
    const std::vector<float> before = numbers_of(folder, name);
    const std::vector<float> after = saved(folder).numbers<float>("blk.1.attn_k.weight", before.size());
    const size_t rows = before.size() / cols, half = rows / heads / 2;
    ASSERT_GT(heads, 1u);
    for (size_t row = 0; row < rows; ++row) {
        const size_t head = row / (2 * half), side = row % (2 * half) / half, i = row % half;
        const size_t to = head * 2 * half + 2 * i + side;
        for (size_t col = 0; col < cols; ++col)
            ASSERT_EQ(before[row * cols + col], after[to * cols + col]) << row << ", " << col;
    }
    for (const auto& [golden, tensor] :
         Changes{{"qwen2", "self_attn.k_proj.weight"}, {"qwen2", "self_attn.q_proj.bias"}}) {
        const std::vector<float> same = numbers_of(golden_folder(golden), "model.layers.0." + tensor);
        const std::string there = tensor.ends_with("bias") ? "blk.0.attn_q.bias" : "blk.0.attn_k.weight";
        EXPECT_EQ(saved(golden_folder(golden)).numbers<float>(there, same.size()), same) << tensor;
    }
}

TEST(SaveGguf, MatricesOfGpt2AreTurned) {
    const std::string folder = golden_folder("gpt2");
    const std::vector<float> before = numbers_of(folder, "transformer.h.0.attn.c_attn.weight");
    const GgufBytes read = saved(folder);
    const auto cols = read.tensors.at("blk.0.attn_qkv.weight").dims[1], rows = before.size() / cols;
    EXPECT_EQ(read.tensors.at("blk.0.attn_qkv.weight").dims[0] * 3, cols);
    const std::vector<float> after = read.numbers<float>("blk.0.attn_qkv.weight", before.size());
    for (size_t row = 0; row < rows; ++row)
        for (size_t col = 0; col < cols; ++col) ASSERT_EQ(before[row * cols + col], after[col * rows + row]);
}

TEST(SaveGguf, ATiedTableIsWrittenOnceAsTheEmbedding) {
    EXPECT_FALSE(saved(golden_folder("qwen2")).tensors.contains("output.weight"));
    EXPECT_TRUE(saved(golden_folder("qwen2")).tensors.contains("token_embd.weight"));
    EXPECT_TRUE(saved(golden_folder("llama")).tensors.contains("output.weight"));
    // Files may hold it under the head's name alone.
    const TempFolder temp;
    std::vector<TestTensor> tensors = tensors_of(golden_config("qwen2"));
    ASSERT_EQ(tensors.front().spec.name, "model.embed_tokens.weight");
    tensors.front().spec.name = "lm_head.weight";
    write_folder(temp / "model", golden_config("qwen2"), tensors);
    EXPECT_TRUE(saved(temp / "model").tensors.contains("token_embd.weight"));
}

TEST(SaveGguf, VectorsAndPositionsAreF32WhateverTheTypeOfMatrices) {
    const GgufBytes read = saved(golden_folder("gpt2"), GgufType::bf16);
    EXPECT_EQ(read.tensors.at("blk.0.ffn_up.weight").type, 30u);
    EXPECT_EQ(read.tensors.at("blk.0.ffn_up.bias").type, 0u);
    EXPECT_EQ(read.tensors.at("blk.0.attn_norm.weight").type, 0u);
    EXPECT_EQ(read.tensors.at("position_embd.weight").type, 0u);
    EXPECT_EQ(read.values.at("general.file_type"), "32");
    EXPECT_EQ(saved(golden_folder("gpt2"), std::nullopt).values.at("general.file_type"), "0") << "as the files";
}

// Rows of 20 numbers are no blocks of 32.
TEST(SaveGguf, RowsThatAreNoWholeBlocksAreF16) {
    const TempFolder temp;
    const std::string config =
        golden_config("llama", {{"intermediate_size", 20}, {"hidden_size", 32}, {"head_dim", 8}});
    write_folder(temp / "model", config, tensors_of(config));
    const GgufBytes read = saved(temp / "model", GgufType::q8_0);
    EXPECT_EQ(read.tensors.at("blk.0.ffn_up.weight").type, 8u);
    EXPECT_EQ(read.tensors.at("blk.0.ffn_down.weight").type, 1u);
}

TEST(SaveGguf, StretchedRopeIsAFieldOrAVector) {
    EXPECT_EQ(saved(golden_folder("llama_linear")).values.at("llama.rope.scaling.type"), "linear");
    const GgufBytes read = saved(golden_folder("llama3"));
    const GgufBytesTensor& factors = read.tensors.at("rope_freqs.weight");
    const std::vector<float> values = read.numbers<float>("rope_freqs.weight", factors.dims[0]);
    EXPECT_EQ(values.front(), 1.0f) << "short wavelengths are kept";
    const HfConfig config = HfConfig::parse(golden_config("llama3"), "config.json");
    EXPECT_FLOAT_EQ(values.back(), static_cast<float>(read_rope(config).factor)) << "long ones are not";
    EXPECT_FALSE(saved(golden_folder("llama")).tensors.contains("rope_freqs.weight"));
}

TEST(SaveGguf, RefusesWhatLlamaCppComputesOtherwise) {
    EXPECT_THAT(gguf_complaint(golden_config("opt")), HasSubstr("models of type opt are not exported to GGUF"));
    EXPECT_THAT(gguf_complaint(golden_config("qwen3", {{"attention_bias", true}})),
                HasSubstr("self_attn.k_proj.bias: llama.cpp has no place for this tensor"));
    EXPECT_THAT(gguf_complaint(golden_config("gpt2", {{"activation_function", "relu"}})), HasSubstr("is not gelu_new"));
    EXPECT_THAT(gguf_complaint(golden_config("gpt2", {{"scale_attn_by_inverse_layer_idx", true}})),
                HasSubstr("scale_attn_by_inverse_layer_idx"));
}

TEST(SaveGguf, ATiedHeadIsWrittenTwiceWhereLlamaCppWantsOne) {
    const TempFolder temp;
    const std::string config = golden_config("olmo2", {{"tie_word_embeddings", true}});
    write_folder(temp / "model", config, tensors_of(config));
    const GgufBytes read = saved(temp / "model");
    const size_t numbers = read.tensors.at("output.weight").dims[0] * read.tensors.at("output.weight").dims[1];
    EXPECT_EQ(read.numbers<float>("output.weight", numbers), read.numbers<float>("token_embd.weight", numbers));
}

TEST(SaveGguf, RefusesGemma2WithoutItsCaps) {
    for (const char* const key : {"attn_logit_softcapping", "final_logit_softcapping"}) {
        const std::string capped = golden_config("gemma2", {{"query_pre_attn_scalar", 12}});
        Json config = parse_json(capped, "config.json", ExitCode::model);
        config[key] = nullptr;
        EXPECT_THAT(gguf_complaint(config.dump()), HasSubstr(fmt::format("\"{}\" is null: llama.cpp caps", key)));
    }
}

struct RefusedVariant {
    std::string name, golden;
    Json changes;
    std::string words;
};

const Json kLlama3Rope = {{"rope_type", "llama3"},
                          {"factor", 8.0},
                          {"low_freq_factor", 1.0},
                          {"high_freq_factor", 4.0},
                          {"original_max_position_embeddings", 16},
                          {"rope_theta", 100.0}};
const Json kStretched = {{"rope_type", "linear"}, {"factor", 2.0}, {"rope_theta", 100.0}};
const Json kYarn = {
    {"rope_type", "yarn"}, {"factor", 4.0}, {"original_max_position_embeddings", 16}, {"rope_theta", 100.0}};
const Json kOneOfEach = {"sliding_attention", "full_attention"};

const std::vector<RefusedVariant> kRefused = {
    {"SmolLm3OfOtherLayers", "smollm3", Json::object(), "positions do not show in layer 2"},
    {"SmolLm3ThatAlwaysTurns",
     "smollm3",
     {{"num_hidden_layers", 4},
      {"no_rope_layers", {1, 1, 1, 1}},
      {"layer_types", {"full_attention", "full_attention", "full_attention", "full_attention"}}},
     "positions turn queries and keys in layer 4"},
    {"RopeThatTheCodeOfAFamilyDoesNotRead",
     "qwen2",
     {{"rope_parameters", kLlama3Rope}, {"rope_theta", nullptr}},
     "rope type \"llama3\": llama.cpp does not know it in models of type qwen2"},
    {"YarnWithBounds", "llama_yarn", Json::object(), "\"beta_fast\" 1.5"},
    {"Olmo2OfWideHeads", "olmo2", {{"head_dim", 16}}, "4 heads of 16 channels"},
    {"Olmo2WithBiases", "olmo2", {{"attention_bias", true}}, "has no place for this tensor"},
    {"Phi3OfWideHeads", "phi3", {{"head_dim", 16}}, "4 heads of 16 channels"},
    {"Gemma2OfOtherScores", "gemma2", Json::object(), "\"query_pre_attn_scalar\" is 10"},
    {"Gemma2WithAHead",
     "gemma2",
     {{"tie_word_embeddings", false}, {"query_pre_attn_scalar", 12}},
     "\"tie_word_embeddings\" is false"},
    {"Gemma2OfOtherWindows",
     "gemma2",
     {{"layer_types", {"full_attention", "sliding_attention"}}, {"query_pre_attn_scalar", 12}},
     "layer 1 has no window"},
    {"Gemma3OfOtherWindows",
     "gemma3_text",
     {{"query_pre_attn_scalar", 12}, {"layer_types", kOneOfEach}},
     "layer 2 has no window"},
    {"Gemma3OfStretchedWindows",
     "gemma3_text",
     {{"query_pre_attn_scalar", 12},
      {"rope_parameters", {{"full_attention", kStretched}, {"sliding_attention", kStretched}}}},
     "rope of layers with a window is stretched"},
    {"Gemma3WithYarn",
     "gemma3_text",
     {{"query_pre_attn_scalar", 12},
      {"rope_parameters",
       {{"full_attention", kYarn}, {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", 100.0}}}}}},
     "rope type \"yarn\": llama.cpp would scale layers with a window too"},
};

class GgufVariant : public testing::TestWithParam<RefusedVariant> {};
TEST_P(GgufVariant, IsRefusedWithAWayOut) {
    const std::string text = gguf_complaint(golden_config(GetParam().golden, GetParam().changes));
    EXPECT_THAT(text, HasSubstr(GetParam().words));
    EXPECT_THAT(text, testing::AnyOf(HasSubstr("Try: "), HasSubstr("has no place for this tensor")));
}
INSTANTIATE_TEST_SUITE_P(SaveGguf, GgufVariant, testing::ValuesIn(kRefused),
                         [](const auto& test) { return test.param.name; });

TEST(SaveGguf, RefusesNumbersThatATypeDoesNotHold) {
    const TempFolder temp;
    std::vector<TestTensor> tensors = tensors_of(golden_config("llama"));
    const float large = 1e7f;
    for (TestTensor& tensor : tensors)
        if (tensor.spec.name == "lm_head.weight") std::memcpy(tensor.bytes.data(), &large, sizeof large);
    write_folder(temp / "model", golden_config("llama"), tensors);
    for (const GgufType type : {GgufType::f16, GgufType::q8_0}) {
        try {
            saved(temp / "model", type);
            FAIL() << "written as " << gguf_type_name(type);
        } catch (const UserError& error) {
            EXPECT_THAT(error.what(), HasSubstr("lm_head.weight"));
            EXPECT_THAT(error.what(), HasSubstr("--type bf16 or f32"));
        }
    }
    EXPECT_FLOAT_EQ(saved(temp / "model", GgufType::f32).numbers<float>("output.weight", 1)[0], large);
}

}  // namespace
}  // namespace windlass
