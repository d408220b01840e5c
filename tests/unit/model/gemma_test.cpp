// Gemma's configurations, older and newer.
#include <cmath>

#include "base/json.h"
#include "op/ops.h"
#include "tests/unit/model/model_fixtures.h"

namespace windlass {
namespace {

const char* const kGemma2With27b = R"({"model_type": "gemma2", "hidden_size": 4608, "intermediate_size": 36864,
    "num_hidden_layers": 46, "num_attention_heads": 32, "num_key_value_heads": 16, "head_dim": 128,
    "query_pre_attn_scalar": 144})";
const char* const kGemma3With1b = R"({"model_type": "gemma3_text", "vocab_size": 262144, "hidden_size": 1152,
    "intermediate_size": 6912, "num_attention_heads": 4, "num_key_value_heads": 1, "sliding_window": 512})";
// As published: what the section does not mention is Gemma 3's default.
const char* const kGemma3With4b = R"({"model_type": "gemma3", "boi_token_index": 255999, "eoi_token_index": 256000,
    "image_token_index": 262144, "mm_tokens_per_image": 256, "torch_dtype": "bfloat16", "text_config": {
    "hidden_size": 2560, "intermediate_size": 10240, "model_type": "gemma3_text", "num_hidden_layers": 34,
    "rope_scaling": {"factor": 8.0, "rope_type": "linear"}, "sliding_window": 1024}, "vision_config": {
    "hidden_size": 1152, "image_size": 896, "model_type": "siglip_vision_model"}})";

TEST(Gemma, CountsItsParametersAsPublished) {
    EXPECT_EQ(build_text(R"({"model_type": "gemma2"})").param_count(), 2'614'341'888);
    EXPECT_EQ(build_text(kGemma2With27b).param_count(), 27'227'128'320);
    EXPECT_EQ(build_text(kGemma3With1b).param_count(), 999'885'952);
    EXPECT_EQ(build_text(kGemma3With4b).param_count(), 3'880'263'168);  // without what sees
}

// Blocks of equal programs have one.
void expect_same_programs(const ModelSpec& one, const ModelSpec& other) {
    ASSERT_EQ(one.blocks.size(), other.blocks.size());
    for (size_t i = 0; i < one.blocks.size(); ++i)
        EXPECT_EQ(*one.blocks[i].program, *other.blocks[i].program) << one.blocks[i].name;
    EXPECT_EQ(*one.logits.program, *other.logits.program);
}

TEST(Gemma, IsReadInItsOlderAndNewerSpelling) {
    const Json newer2 = {{"rope_theta", nullptr},
                         {"rope_parameters", {{"rope_type", "default"}, {"rope_theta", 1000.0}}},
                         {"layer_types", {"sliding_attention", "full_attention"}},
                         {"use_bidirectional_attention", false}};
    expect_same_programs(build_text(golden_config("gemma2")), build_text(golden_config("gemma2", newer2)));
    const Json older3 = {{"rope_parameters", nullptr},
                         {"layer_types", nullptr},
                         {"rope_theta", 1000.0},
                         {"rope_local_base_freq", 100.0},
                         {"rope_scaling", {{"rope_type", "linear"}, {"factor", 8.0}}},
                         {"sliding_window_pattern", 2}};
    const ModelSpec text = build_text(golden_config("gemma3_text"));
    expect_same_programs(text, build_text(golden_config("gemma3_text", older3)));
    expect_same_programs(text, build_text(golden_config("gemma3")));
}

TEST(Gemma, IsReadWithItsKnobs) {
    const auto caps = [](const ModelSpec& model) {
        return std::pair(nodes_of(model, kAttention)[0]->spec.get<AttentionAttrs>().softcap,
                         nodes_of(model, kCrossEntropy)[0]->spec.get<CrossEntropyAttrs>().softcap);
    };
    EXPECT_EQ(caps(build_text(kGemma2With27b)), std::pair(50.0, 30.0));
    std::string none = golden_config("gemma2");
    for (const std::string value : {"\"attn_logit_softcapping\": 3.0", "\"final_logit_softcapping\": 2.0"})
        none.replace(none.find(value), value.size(), value.substr(0, value.size() - 3) + "null");
    EXPECT_EQ(caps(build_text(none)), std::pair(0.0, 0.0));
    EXPECT_DOUBLE_EQ(nodes_of(build_text(kGemma2With27b), kAttention)[0]->spec.get<AttentionAttrs>().scale, 1.0 / 12);
    const ModelSpec large = build_text(kGemma3With4b);
    std::vector<int64_t> six = windows_of(large);
    six.resize(6);
    EXPECT_THAT(six, testing::ElementsAre(1024, 1024, 1024, 1024, 1024, 0));
    const auto slowest = [&](size_t layer) {
        return nodes_of(large, kRope)[2 * layer]->spec.get<RopeAttrs>().frequencies.back();
    };
    EXPECT_DOUBLE_EQ(slowest(0), std::pow(1e4, -254.0 / 256));
    EXPECT_DOUBLE_EQ(slowest(5), std::pow(1e6, -254.0 / 256) / 8);
    EXPECT_EQ(large.params[0].file_dtype, DType::bf16);
}

}  // namespace
}  // namespace windlass
