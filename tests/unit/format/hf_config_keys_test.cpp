#include "format/hf_config_keys.h"

#include "base/json.h"
#include "format/hf_config_rope.h"
#include "tests/place.h"
#include "tests/unit/format/safetensors_bytes.h"

namespace windlass {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::string_view kTypes[] = {"gemma2", "gemma3", "gemma3_text", "gpt2",  "granite", "llama",  "mistral",
                                       "olmo2",  "opt",    "phi3",        "qwen2", "qwen3",   "smollm3"};

Json golden() {
    const std::string path = fmt::format("{}/tests/golden/config_keys.json", source_dir());
    return parse_json(read_text(real_files(), path, 1 << 20), path, ExitCode::internal);
}

std::vector<std::string> texts(std::span<const std::string_view> keys) {
    return {keys.begin(), keys.end()};
}

TEST(HfConfigKeys, AreThoseThatTransformersReads) {
    const Json read = golden();
    ASSERT_EQ(read.size(), std::size(kTypes) + 2);  // "made_with", "common"
    EXPECT_EQ(texts(keys_read("").of_all), read.at("common").get<std::vector<std::string>>());
    for (const std::string_view type : kTypes)
        EXPECT_EQ(texts(keys_read(type).of_type), read.at(std::string(type)).get<std::vector<std::string>>()) << type;
}

// A document of this type with one more key.
HfConfig with(std::string_view type, std::string_view member) {
    return HfConfig::parse(fmt::format(R"({{"model_type": "{}", {}}})", type, member), "config.json");
}

std::string complaint(std::string_view type, std::string_view member) {
    return message_of<UserError>([&] { with(type, member).finish(); });
}

TEST(HfConfigKeys, PassAndAreNamedWhereTransformersDoesNotReadThem) {
    for (const auto& [type, key] : {std::pair{"llama", "is_llama_config"},
                                    {"llama", "transformers.js_config"},
                                    {"gpt2", "_num_labels"},
                                    {"qwen2", "_model_name_or_path"}}) {
        const HfConfig config = with(type, fmt::format("\"{}\": true", key));
        config.finish();
        EXPECT_THAT(config.unread(), ElementsAre(key));
        config.finish();
        EXPECT_THAT(config.unread(), ElementsAre(key)) << "told once, however often it is built";
    }
}

TEST(HfConfigKeys, StopWhereTransformersReadsThem) {
    EXPECT_THAT(complaint("llama", R"("attention_chunk_size": 8192)"), HasSubstr("\"attention_chunk_size\" is 8192"));
    EXPECT_THAT(complaint("llama", R"("layer_types": ["x"])"), HasSubstr("layer_types"));
    EXPECT_THAT(complaint("opt", R"("layer_norm_elementwise_affine": false)"),
                HasSubstr("Try: ignore_config_keys: [layer_norm_elementwise_affine]"));
    // The same key means nothing to another type.
    with("llama", R"("layer_norm_elementwise_affine": false)").finish();
}

// Keys that a configuration class takes while it is made, without having a field for them.
TEST(HfConfigKeys, StopWhereTransformersTakesThemWithoutAField) {
    for (const std::string_view type : kTypes) {
        const bool turns = type != "gpt2" && type != "opt" && type != "gemma3";  // whose text is a section
        for (const char* key : {"rope_theta", "original_max_position_embeddings", "partial_rotary_factor"})
            if (turns) {
                EXPECT_THAT(complaint(type, fmt::format("\"{}\": 8", key)), HasSubstr("it may change")) << type;
            }
        for (const char* key : {"rope_scaling", "head_dim", "is_causal", "attention_chunk_size"})
            EXPECT_THAT(complaint(type, fmt::format("\"{}\": 8", key)), HasSubstr("it may change")) << type;
    }
    for (const char* key : {"rope_local_base_freq", "sliding_window_pattern"}) {
        EXPECT_THAT(complaint("gemma3_text", fmt::format("\"{}\": 8", key)), HasSubstr("it may change"));
        with("llama", fmt::format("\"{}\": 8", key)).finish();
    }
}

// Each key of the lists, by itself: one that transformers reads and nobody here implements stops the load by its name.
TEST(HfConfigKeys, OfTheListsStopOrAreKnownToChangeNothing) {
    for (const std::string_view type : kTypes) {
        int stopping = 0;
        const auto [of_all, of_type] = keys_read(type);
        for (const auto& keys : {of_all, of_type})
            for (const std::string_view key : keys) {
                if (meaning_of(key) != KeyMeaning::unknown || key == "model_type") continue;
                EXPECT_THAT(complaint(type, fmt::format("\"{}\": 12345", key)),
                            HasSubstr(fmt::format("\"{}\" is 12345: it may change", key)))
                    << type;
                ++stopping;
            }
        EXPECT_GT(stopping, 20) << type;
    }
}

TEST(HfConfigKeys, StopWhereOthersReadThem) {
    EXPECT_THAT(complaint("qwen2", R"("dual_chunk_attention_config": {"chunk_size": 262144})"),
                HasSubstr("dual_chunk_attention_config"));
    EXPECT_THAT(complaint("llama", R"("attn_logit_softcapping": 50.0)"), HasSubstr("attn_logit_softcapping"));
}

TEST(HfConfigKeys, StopWhereTheModelBringsItsOwnCode) {
    EXPECT_THAT(complaint("llama", R"("is_llama_config": true, "auto_map": {"AutoConfig": "x.Y"})"),
                HasSubstr("has its own code"));
    EXPECT_THAT(complaint("novel", R"("is_llama_config": true)"), HasSubstr("is_llama_config")) << "a type unknown";
}

TEST(HfConfigKeys, AreTakenNotToBeThereWhereTheUserSaysSo) {
    HfConfig config = with("llama", R"("twist": 1, "rope_scaling": {"type": "yarn"}, "hidden_size": 8)");
    const std::vector<std::string> keys = {"rope_scaling", "absent"};
    config.ignore(keys);
    EXPECT_FALSE(config.has("rope_scaling"));
    EXPECT_THAT(config.ignored(), ElementsAre("rope_scaling"));
    EXPECT_THAT(config.to_text(), HasSubstr("yarn"));
    EXPECT_EQ(config.integer("hidden_size", 1, 9), 8);
    config.finish();
    EXPECT_THAT(config.unread(), ElementsAre("twist"));
}

// Keys of a section are named with it, in the complaint as in the way out.
TEST(HfConfigKeys, OfASectionAreIgnoredByTheNameThatTheComplaintGives) {
    const std::string member = R"("rope_scaling": {"rope_type": "linear", "factor": 2.0, "mscale": 1.5}, "a.b": 1)";
    HfConfig config = with("llama", member);
    (void)read_rope(config);
    EXPECT_THAT(message_of<UserError>([&] { config.finish(); }),
                testing::AllOf(HasSubstr("config.json: rope_scaling: \"mscale\" is 1.5"),
                               HasSubstr("Try: ignore_config_keys: [rope_scaling.mscale]")));
    HfConfig again = with("llama", member);
    const std::vector<std::string> keys = {"rope_scaling.mscale", "rope_scaling.absent", "absent.mscale", "a.b"};
    again.ignore(keys);
    EXPECT_THAT(again.ignored(), ElementsAre("rope_scaling.mscale", "a.b"));
    EXPECT_EQ(read_rope(again).factor, 2.0);
    again.finish();
    // Deeper, and what is in a text or a list is no member.
    HfConfig deep =
        with("llama", R"("rope_parameters": {"full": {"rope_theta": 5.0, "mscale": 2}}, "x": "y", "z": [1])");
    const std::vector<std::string> deep_keys = {"rope_parameters.full.mscale", "x.y", "z.0"};
    deep.ignore(deep_keys);
    EXPECT_THAT(deep.ignored(), ElementsAre("rope_parameters.full.mscale"));
    EXPECT_EQ(deep.section("rope_parameters").section("full").number("rope_theta", 1, 9), 5.0);
    deep.finish();
}

}  // namespace
}  // namespace windlass
