#include "model/shortened.h"

#include <gmock/gmock.h>

#include <set>

#include "format/hf_config.h"
#include "model/families.h"

namespace windlass {
namespace {

ModelSpec model_of(const char* family, int layers, bool tied) {
    const std::string text =
        fmt::format(R"({{"model_type": "{}", "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": {},
        "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 128, "max_position_embeddings": 64,
        "tie_word_embeddings": {}}})",
                    family, layers, tied);
    HfConfig config = HfConfig::parse(text, "config.json");
    return build_model(config, {});
}

// What is left is what the family makes of the shorter configuration: names, shapes, homes and programs.
TEST(Shortened, IsTheModelOfFewerLayers) {
    for (const char* family : {"llama", "qwen3"}) {
        for (const bool tied : {false, true}) {
            const ModelSpec got = shortened(model_of(family, 13, tied), 3), want = model_of(family, 3, tied);
            EXPECT_EQ(layer_count(got), 3);
            ASSERT_EQ(got.params.size(), want.params.size());
            for (size_t i = 0; i < got.params.size(); ++i) {
                EXPECT_EQ(got.params[i].name, want.params[i].name);
                EXPECT_EQ(got.params[i].shape, want.params[i].shape);
                EXPECT_EQ(got.params[i].block, want.params[i].block);
            }
            ASSERT_EQ(got.blocks.size(), want.blocks.size());
            for (size_t i = 0; i < got.blocks.size(); ++i) {
                EXPECT_EQ(got.blocks[i].name, want.blocks[i].name);
                EXPECT_EQ(got.blocks[i].params, want.blocks[i].params);
                EXPECT_EQ(got.blocks[i].program->to_string(), want.blocks[i].program->to_string());
            }
            EXPECT_EQ(got.logits.params, want.logits.params);
            EXPECT_EQ(got.param_count(), want.param_count());
        }
    }
}

TEST(Shortened, KeepsAllLayersWhenAskedTo) {
    const ModelSpec model = model_of("llama", 5, true), same = shortened(model, 5);
    EXPECT_EQ(same.param_count(), model.param_count());
    EXPECT_EQ(same.blocks.size(), model.blocks.size());
    for (size_t i = 0; i < model.params.size(); ++i) EXPECT_EQ(same.params[i].block, model.params[i].block);
}

}  // namespace
}  // namespace windlass
