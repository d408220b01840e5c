#include "format/hf_config_values.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace windlass {
namespace {

using Values = std::map<std::string, std::string>;

Values values_of(const std::string& text, const std::vector<std::string>& ignored = {}) {
    HfConfig config = HfConfig::parse(text, "config.json");
    config.ignore(ignored);
    return values_that_compute(config);
}

TEST(HfConfigValues, AreThoseThatDecideWhatIsComputed) {
    EXPECT_EQ(values_of(R"({"model_type": "llama", "rms_norm_eps": 1e-05, "hidden_act": "silu", "rope_scaling": null,
                            "rope_parameters": {"factor": 8.0, "rope_type": "llama3"}, "attention_bias": true})"),
              (Values{{"model_type", "llama"},
                      {"rms_norm_eps", "1e-05"},
                      {"hidden_act", "silu"},
                      {"rope_parameters.factor", "8"},
                      {"rope_parameters.rope_type", "llama3"},
                      {"attention_bias", "true"}}));
}

TEST(HfConfigValues, SpacesVersionsTokensAndDropoutsAreNotAmongThem) {
    const Values values = values_of(R"({"model_type":"llama","hidden_size":32})");
    EXPECT_EQ(values_of(R"({"hidden_size": 32.0, "transformers_version": "5.1", "model_type": "llama",
                            "torch_dtype": "float32", "eos_token_id": [1, 2], "attention_dropout": 0.5,
                            "use_cache": false})"),
              values);
}

TEST(HfConfigValues, IgnoredKeysAreNotAmongThem) {
    const std::string text = R"({"model_type": "llama", "rope_scaling": {"mscale": 2, "factor": 3}})";
    EXPECT_EQ(values_of(text, {"rope_scaling.mscale"}),
              (Values{{"model_type", "llama"}, {"rope_scaling.factor", "3"}}));
}

TEST(HfConfigValues, LongOnesAreOneChecksum) {
    std::string types = "\"a\"";
    for (int layer = 0; layer < 60; ++layer) types += ",\"full_attention\"";
    const std::string text = R"({"layer_types": [)" + types + "]}";
    const std::string value = values_of(text).at("layer_types");
    EXPECT_LT(value.size(), 40u);
    EXPECT_NE(values_of(R"({"layer_types": ["b",)" + types.substr(4) + "]}").at("layer_types"), value);
}

}  // namespace
}  // namespace windlass
