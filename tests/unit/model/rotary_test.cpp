#include "model/families/rotary.h"

#include "base/json.h"
#include "tests/unit/model/model_fixtures.h"

namespace windlass {
namespace {

using testing::HasSubstr;

// All that rope nodes go by, in order.
std::vector<RopeAttrs> ropes_of(const ModelSpec& model) {
    std::vector<RopeAttrs> found;
    for (const Node* node : nodes_of(model, kRope)) found.push_back(node->spec.get<RopeAttrs>());
    return found;
}

// The same configuration as the other version of transformers writes it.
std::string in_other_spelling(const std::string& text) {
    Json config = Json::parse(text);
    if (config.contains("rope_parameters")) {
        Json rope = config["rope_parameters"];
        config["rope_theta"] = rope["rope_theta"];
        rope.erase("rope_theta");
        for (const char* key : {"partial_rotary_factor", "original_max_position_embeddings"}) {
            if (rope.contains(key) && rope["rope_type"] == "longrope") {
                config[key] = rope[key];
                rope.erase(key);
            }
        }
        rope["type"] = rope["rope_type"];
        rope.erase("rope_type");
        config["rope_scaling"] = rope["type"] == "default" ? Json(nullptr) : rope;
        config.erase("rope_parameters");
    } else {
        Json rope = config["rope_scaling"].is_null() ? Json{{"rope_type", "default"}} : config["rope_scaling"];
        rope["rope_theta"] = config["rope_theta"];
        config["rope_parameters"] = rope;
        config.erase("rope_theta");
        config.erase("rope_scaling");
    }
    return config.dump();
}

TEST(RotaryTables, AreTheSameInEitherSpelling) {
    for (const char* name : {"llama_yarn", "smollm3", "olmo2", "granite", "phi3", "phi4_mini"}) {
        const ModelSpec model = build_text(golden_config(name));
        const ModelSpec other = build_text(in_other_spelling(golden_config(name)));
        ASSERT_EQ(model.blocks.size(), other.blocks.size()) << name;
        for (size_t i = 0; i < model.blocks.size(); ++i)
            EXPECT_TRUE(*model.blocks[i].program == *other.blocks[i].program) << name << ", " << model.blocks[i].name;
    }
}

TEST(RotaryTables, TakeThreeNamesOfPhisLongRope) {
    Json config = Json::parse(in_other_spelling(golden_config("phi4_mini")));
    const ModelSpec model = build_text(config.dump());
    for (const char* name : {"su", "yarn"}) {
        config["rope_scaling"]["type"] = name;
        EXPECT_EQ(ropes_of(build_text(config.dump())), ropes_of(model)) << name;
    }
    config["rope_scaling"]["long_factor"] = {1.0, 2.0};
    EXPECT_THAT(complaint([&] { build_text(config.dump()); }), HasSubstr("\"long_factor\" has 2 numbers"));
    config["rope_scaling"]["long_factor"] = {1.0, 2.0, 0.0};
    EXPECT_THAT(complaint([&] { build_text(config.dump()); }), HasSubstr("long_factor"));
    config["rope_scaling"].erase("long_factor");
    EXPECT_THAT(complaint([&] { build_text(config.dump()); }), HasSubstr("\"long_factor\" is missing"));
}

// Phi-3.5-mini: the file of the collection says 4096 positions, Microsoft's says 131072.
TEST(RotaryTables, ScaleLongRopeByHowFarItWasStretched) {
    Json config = Json::parse(in_other_spelling(golden_config("phi4_mini")));
    config["max_position_embeddings"] = 131072;
    config["original_max_position_embeddings"] = 4096;
    const ModelSpec model = build_text(config.dump());
    const auto& attrs = nodes_of(model, kRope).at(0)->spec.get<RopeAttrs>();
    EXPECT_DOUBLE_EQ(attrs.scale, std::sqrt(1 + std::log(32.0) / std::log(4096.0)));
    EXPECT_EQ(attrs.short_length, 4096);
}

TEST(RotaryTables, KnowInWhichLayersPositionsTurn) {
    const auto ropes = [](const Json& change) {
        std::vector<int64_t> found;
        const ModelSpec model = build_text(golden_config("smollm3", change));
        for (const Block& block : model.blocks) {
            const auto turns = [](const Node& node) { return node.op == &kRope; };
            found.push_back(std::ranges::count_if(block.program->nodes, turns));
        }
        return found;
    };
    using testing::ElementsAre;
    const Json full = {"full_attention", "full_attention", "full_attention", "full_attention"};
    const Json four = {{"num_hidden_layers", 4}, {"layer_types", full}, {"no_rope_layers", nullptr}};
    EXPECT_THAT(ropes(four), ElementsAre(0, 2, 0, 2, 0, 0)) << "every second, as the golden's interval says";
    Json absent = four;
    absent["no_rope_layer_interval"] = nullptr;
    EXPECT_THAT(ropes(absent), ElementsAre(0, 2, 2, 2, 0, 0)) << "every fourth";
    Json named = four;
    named["no_rope_layers"] = {0, 1, 1, 0};
    EXPECT_THAT(ropes(named), ElementsAre(0, 0, 2, 2, 0, 0));
    EXPECT_THAT(windows_of(build_text(golden_config("smollm3", {{"layer_types", nullptr}}))), ElementsAre(0, 7));
}

}  // namespace
}  // namespace windlass
