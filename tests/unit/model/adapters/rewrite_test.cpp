// What a rewrite leaves as it was, and where it puts what it adds.
#include "tests/unit/model/adapters/adapter_fixtures.h"

#include <set>

#include "model/shortened.h"
#include "model/sublayers.h"
#include "op/ops.h"

namespace windlass {
namespace {

const AdapterSettings kLoraOf4{.kind = "lora", .rank = 4, .scale = 1.75};

std::vector<int> weights_named(const ModelSpec& model, const std::vector<std::string>& ends) {
    std::vector<int> weights = linear_layers(model);
    std::erase_if(weights, [&](int weight) {
        return !is_named_by(module_name(model, layer_of(model.params[at(weight)])), ends);
    });
    return weights;
}

// The table of tokens and the head.
std::vector<int> ends_of(const ModelSpec& model) {
    std::vector<int> ends = adaptable_layers(model, find_adapter("lora"));
    const std::vector<int> linear = linear_layers(model);
    std::erase_if(ends, [&](int layer) { return std::ranges::count(linear, layer) > 0; });
    return ends;
}

std::vector<std::string> op_names(const Program& program) {
    std::vector<std::string> names;
    for (const Node& node : program.nodes) names.emplace_back(node.op->name);
    return names;
}

TEST(Rewrite, LeavesTheModelsOwnParametersInTheirPlaces) {
    for (const AdapterKind* kind : all_adapters()) {
        for (const std::string& name : golden_names()) {
            const GoldenBase base(name);
            const ModelSpec model = base.with(small_settings(base, *kind, /*everywhere=*/true));
            const std::vector<int64_t> before = global_offsets(base.model), after = global_offsets(model);
            ASSERT_GT(model.params.size(), base.model.params.size()) << name;
            for (size_t param = 0; param < base.model.params.size(); ++param) {
                EXPECT_EQ(model.params[param].name, base.model.params[param].name);
                EXPECT_EQ(model.params[param].block, base.model.params[param].block);
                EXPECT_EQ(after[param], before[param]);
                EXPECT_FALSE(model.params[param].added);
            }
        }
    }
}

TEST(Rewrite, SortsWhatItAddsBehindThem) {
    for (const std::string& name : golden_names()) {
        const GoldenBase base(name);
        const ModelSpec model = base.with(kLoraOf4);
        for (size_t param = base.model.params.size(); param < model.params.size(); ++param) {
            const ParamSpec& added = model.params[param];
            ASSERT_TRUE(added.added) << added.name;
            EXPECT_EQ(added.name, fmt::format("{}.{}", added.added->layer, added.added->part));
            EXPECT_EQ(added.file_dtype, DType::f32);
            EXPECT_TRUE(param == base.model.params.size() || model.params[param - 1].name < added.name) << added.name;
            const auto layer = std::ranges::find(model.params, added.added->layer + ".weight", &ParamSpec::name);
            ASSERT_NE(layer, model.params.end()) << added.name;
            EXPECT_EQ(added.layer, layer->layer) << added.name;
            EXPECT_EQ(added.block, layer->block) << added.name;
        }
        EXPECT_EQ(std::ssize(model.params) - std::ssize(base.model.params),
                  2 * std::ssize(linear_layers_of_layers(base.model)));
    }
}

TEST(Rewrite, EqualBlocksShareAProgram) {
    const GoldenBase base("llama");
    const ModelSpec all = base.with(kLoraOf4);
    EXPECT_EQ(all.blocks[1].program, all.blocks[2].program);
    const ModelSpec some = with_adapter(base.model, kLoraOf4,
                                        std::vector{weight_of_module(base.model, "model.layers.1.self_attn.q_proj")});
    EXPECT_NE(some.blocks[1].program, some.blocks[2].program);
    EXPECT_EQ(*some.blocks[1].program, *base.model.blocks[1].program);
    EXPECT_EQ(some.blocks[1].params, base.model.blocks[1].params);
}

// Products of one input run as one where they are neighbours (OpCells::together): the model's own, and the A's.
TEST(Rewrite, NeighboursStayNeighbours) {
    const GoldenBase base("llama");
    const ModelSpec model = with_adapter(base.model, kLoraOf4, weights_named(base.model, {"q_proj", "v_proj"}));
    std::vector<std::string> names = op_names(*model.blocks[1].program);
    names.resize(12);
    EXPECT_THAT(names, testing::ElementsAre("rms_norm", "linear", "linear", "linear",  // q, k, v
                                            "linear", "scale", "linear", "add",        // of q
                                            "linear", "scale", "linear", "add"));      // of v
}

TEST(Rewrite, HasNoScaleWhereItIsOne) {
    const GoldenBase base("llama");
    const ModelSpec model =
        with_adapter(base.model, {.kind = "lora", .rank = 4, .scale = 1}, weights_named(base.model, {"q_proj"}));
    EXPECT_THAT(op_names(*model.blocks[1].program), testing::Not(testing::Contains("scale")));
}

// The norms are of the same weights as the product, which stays whole with its bias; the frozen ones have no gradient.
TEST(Rewrite, MagnitudesFollowTheSum) {
    const GoldenBase base("qwen2");
    AdapterSettings dora = kLoraOf4;
    dora.has_magnitudes = true;
    const ModelSpec model = with_adapter(base.model, dora, weights_named(base.model, {"q_proj", "o_proj"}));
    const Program& program = *model.blocks[1].program;
    std::vector<const Node*> found;
    for (const Node& node : program.nodes)
        if (node.op == &kMagnitude) found.push_back(&node);
    ASSERT_EQ(found.size(), 2u);
    const auto roles = [&](const Node& node) {
        std::vector<std::string> list;
        for (const int weight : node.weights) list.push_back(program.weights[at(weight)].role);
        return list;
    };
    const std::string q = "self_attn.q_proj.", o = "self_attn.o_proj.";
    EXPECT_THAT(roles(*found[0]), testing::ElementsAre(q + "lora_magnitude_vector", q + "weight", q + "lora_A.weight",
                                                       q + "lora_B.weight", q + "bias"));
    EXPECT_THAT(roles(*found[1]), testing::ElementsAre(o + "lora_magnitude_vector", o + "weight", o + "lora_A.weight",
                                                       o + "lora_B.weight"));
    EXPECT_EQ(found[0]->spec.get<MagnitudeAttrs>().scale, kLoraOf4.scale);
}

TEST(Rewrite, SublayersCarryIt) {
    for (const std::string& name : golden_names()) {
        const GoldenBase base(name);
        AdapterSettings settings = kLoraOf4;
        settings.has_magnitudes = name == "gpt2" || name == "qwen2";
        const ModelSpec whole =
            settings.has_magnitudes
                ? base.with(settings)
                : with_adapter(base.model, settings, adaptable_layers(base.model, find_adapter("lora")));
        const ModelSpec parts = in_sublayers(whole);
        EXPECT_EQ(layer_count(parts), layer_count(in_sublayers(base.model))) << name;
        EXPECT_EQ(global_offsets(parts), global_offsets(whole)) << name;
        std::multiset<int> in_whole, in_parts;
        for (const Block& block : whole.blocks) in_whole.insert(block.params.begin(), block.params.end());
        for (const Block& block : parts.blocks) in_parts.insert(block.params.begin(), block.params.end());
        EXPECT_EQ(in_whole, in_parts) << name;
        ParamValues values = read_all(whole, first_weights(const_cast<ModelFolder&>(base.folder), whole, 7));
        spread_added(whole, values);
        EXPECT_EQ(ModelRunner(parts, values, {}).logits(base.batch()),
                  ModelRunner(whole, values, {}).logits(base.batch()))
            << name;
    }
}

TEST(Rewrite, FewerLayersCarryIt) {
    const GoldenBase base("llama");
    const AdapterKind& lora = find_adapter("lora");
    const ModelSpec first = shortened(with_adapter(base.model, kLoraOf4, adaptable_layers(base.model, lora)), 1);
    const ModelSpec short_base = shortened(base.model, 1);
    const ModelSpec want = with_adapter(short_base, kLoraOf4, adaptable_layers(short_base, lora));
    ASSERT_EQ(first.params.size(), want.params.size());
    for (size_t param = 0; param < want.params.size(); ++param) {
        EXPECT_EQ(first.params[param].name, want.params[param].name);
        EXPECT_EQ(first.params[param].block, want.params[param].block);
        EXPECT_EQ(first.params[param].added.has_value(), want.params[param].added.has_value());
    }
    for (size_t block = 0; block < want.blocks.size(); ++block) {
        EXPECT_EQ(first.blocks[block].params, want.blocks[block].params);
        EXPECT_EQ(*first.blocks[block].program, *want.blocks[block].program);
    }
    ASSERT_TRUE(first.adapter);
    EXPECT_EQ(first.adapter->rank, 4);
}

// The embedding's product is added before what scales it; the head's is in the loss, and next to the logits.
TEST(Rewrite, TablesAndTheHeadHavePairsOfTheirOwn) {
    for (const std::string& name : golden_names()) {
        const GoldenBase base(name);
        const ModelSpec model = with_adapter(base.model, kLoraOf4, ends_of(base.model));
        std::vector<std::string> names = op_names(*model.blocks[0].program);
        names.resize(5);
        EXPECT_THAT(names, testing::ElementsAre("embedding", "embedding", "scale", "linear", "add")) << name;
        const Node& loss = model.blocks.back().program->nodes.back();
        EXPECT_EQ(loss.op, &kCrossEntropy) << name;
        EXPECT_EQ(loss.in.size(), 2u) << name;
        std::set<std::string> parts;
        for (const int param : model.blocks.back().params) {
            if (model.params[at(param)].added) parts.insert(model.params[at(param)].name);
        }
        EXPECT_EQ(parts.size(), 2u) << name;
        for (const int param : model.logits.params) parts.erase(model.params[at(param)].name);
        EXPECT_TRUE(parts.empty()) << name << ": loss and logits share their pair";
    }
}

// What a whole model's layers are called stays what all-linear means.
TEST(Rewrite, OtherKindsHaveNoTableAndNoHead) {
    const GoldenBase base("llama");
    EXPECT_EQ(adaptable_layers(base.model, find_adapter("ia3")), linear_layers(base.model));
    EXPECT_EQ(adaptable_layers(base.model, find_adapter("lsp")), linear_layers(base.model));
    EXPECT_EQ(adaptable_layers(base.model, find_adapter("lora")).size(), linear_layers(base.model).size() + 2);
}

// A tied table is one parameter with two ends, of which each may have an adapter.
TEST(Rewrite, EachEndOfATiedTableHasItsName) {
    for (const char* name : {"qwen2", "gpt2", "gemma3"}) {
        const GoldenBase base(name);
        std::vector<std::string> modules;
        for (const int layer : ends_of(base.model)) {
            const ModelSpec one = with_adapter(base.model, kLoraOf4, std::vector{layer});
            EXPECT_EQ(one.params.size(), base.model.params.size() + 2) << name;
            EXPECT_EQ(adapted_layers(one), std::vector{layer}) << name;
            EXPECT_EQ(one.params.back().block, layer == kHeadLayer ? std::ssize(base.model.blocks) - 1 : 0) << name;
            modules.push_back(module_name(base.model, one.params.back().added->layer));
        }
        ASSERT_EQ(modules.size(), 2u) << name;
        EXPECT_EQ(modules[0], "lm_head") << name;
        EXPECT_THAT(modules[1], testing::AnyOf(testing::EndsWith(".embed_tokens"), testing::EndsWith(".wte"))) << name;
    }
}

TEST(Rewrite, NamesModulesAsTransformersDoes) {
    const GoldenBase bare("gpt2", peft_golden_folder("gpt2_bare") + "/model"), whole("gpt2");
    EXPECT_EQ(module_name(bare.model, "h.0.attn.c_attn"), "transformer.h.0.attn.c_attn");
    EXPECT_EQ(module_name(whole.model, "transformer.h.0.attn.c_attn"), "transformer.h.0.attn.c_attn");
    EXPECT_EQ(module_name(bare.model, "wte"), "transformer.wte");
    EXPECT_EQ(module_name(bare.model, "lm_head"), "lm_head");
    EXPECT_EQ(module_name(GoldenBase("gemma3").model, "language_model.lm_head"), "lm_head");
}

class FirstWeights : public testing::Test {
  protected:
    std::vector<float> drawn(uint64_t seed, int64_t first, int64_t count) {
        std::vector<float> numbers(at(count));
        first_weights(base_.folder, model_, seed)(param_, first, numbers);
        return numbers;
    }
    GoldenBase base_{"llama"};
    ModelSpec model_ = base_.with(kLoraOf4);
    int param_ = static_cast<int>(
        std::ranges::find(model_.params, "model.layers.1.mlp.down_proj.lora_A.weight", &ParamSpec::name) -
        model_.params.begin());
};

TEST_F(FirstWeights, AreTheSameInAnyPiece) {
    const std::vector<float> all = drawn(7, 0, 4 * 48);
    for (const int64_t first : {1, 3, 64, 191}) {
        const std::vector<float> piece = drawn(7, first, 192 - first);
        EXPECT_TRUE(std::equal(piece.begin(), piece.end(), all.begin() + first)) << first;
    }
    EXPECT_EQ(drawn(7, 0, 192), all);
}

TEST_F(FirstWeights, AreUniformWithinTheirBound) {
    const std::vector<float> all = drawn(7, 0, 192);
    const float bound = 1 / std::sqrt(48.0f);
    const auto [least, most] = std::ranges::minmax(all);
    EXPECT_GE(least, -bound);
    EXPECT_LE(most, bound);
    // Of 192 uniform numbers the outermost are within 10 % of the ends, but for a chance of 1e-4.
    EXPECT_LT(least, -0.9f * bound);
    EXPECT_GT(most, 0.9f * bound);
    EXPECT_EQ(std::set<float>(all.begin(), all.end()).size(), all.size()) << "counters repeat";
}

TEST_F(FirstWeights, GoByTheSeedAndTheParameter) {
    const std::vector<float> one = drawn(7, 0, 192);
    EXPECT_NE(one, drawn(8, 0, 192));
    param_ -= 2 * 7;  // the same part of the other layer
    EXPECT_NE(model_.params[at(param_)].name, "model.layers.1.mlp.down_proj.lora_A.weight");
    EXPECT_NE(one, drawn(7, 0, std::min<int64_t>(192, model_.params[at(param_)].numel())));
}

// As peft's do, the pair of a table adds nothing at first: what is looked up is zero, and B is of variance 1.
TEST_F(FirstWeights, OfATableAreTurnedAround) {
    model_ = with_adapter(base_.model, kLoraOf4, adaptable_layers(base_.model, find_adapter("lora")));
    const auto place = [&](const char* name) {
        return static_cast<int>(std::ranges::find(model_.params, name, &ParamSpec::name) - model_.params.begin());
    };
    param_ = place("model.embed_tokens.lora_embedding_A");
    EXPECT_EQ(model_.params[at(param_)].shape, (Shape{96, 4}));
    EXPECT_THAT(drawn(7, 0, 96 * 4), testing::Each(0.0f));
    param_ = place("model.embed_tokens.lora_embedding_B");
    double squares = 0;
    for (const float number : drawn(7, 0, 32 * 4)) squares += double{number} * double{number};
    EXPECT_NEAR(squares / 128, 1, 0.25);  // three deviations of the mean of 128 squares of uniform numbers
}

// Rows of W, or its columns where it is stored [in, out]; of what is kept of it.
TEST(FirstMagnitudes, AreTheNormsOfTheWeights) {
    for (const char* const name : {"llama", "gpt2"}) {
        const GoldenBase base(name);
        AdapterSettings dora = kLoraOf4;
        dora.has_magnitudes = true;
        const ModelSpec model = base.with(dora);
        const ReadMasters first = first_weights(base.folder, model, 7);
        const ReadMasters doubled =
            first_weights(base.folder, model, 7, nullptr, [&](int param, int64_t begin, std::span<float> numbers) {
                const int64_t end = begin + std::ssize(numbers);
                EXPECT_TRUE(begin % 64 == 0 && (end % 64 == 0 || end == model.params[at(param)].numel()));
                for (float& number : numbers) number *= 2;
            });
        const int weight = linear_layers_of_layers(model)[1];
        const LinearLayer layer = linear_layer(model, weight);
        const std::string part = fmt::format("{}.lora_magnitude_vector", layer_of(model.params[at(weight)]));
        const auto param =
            static_cast<int>(std::ranges::find(model.params, part, &ParamSpec::name) - model.params.begin());
        std::vector<float> w(at(model.params[at(weight)].numel())), all(at(layer.out_cols)), twice = all;
        first(weight, 0, w);
        first(param, 0, all);
        doubled(param, 0, twice);
        for (int64_t output = 0; output < layer.out_cols; ++output) {
            double squares = 0;
            for (int64_t input = 0; input < layer.in_cols; ++input)
                squares +=
                    std::pow(w[at(layer.in_out ? input * layer.out_cols + output : output * layer.in_cols + input)], 2);
            EXPECT_EQ(all[at(output)], static_cast<float>(std::sqrt(squares))) << name << " " << output;
            EXPECT_EQ(twice[at(output)], 2 * all[at(output)]);
        }
        std::vector<float> piece(5);
        doubled(param, 3, piece);
        EXPECT_TRUE(std::equal(piece.begin(), piece.end(), twice.begin() + 3));
    }
}

TEST_F(FirstWeights, OfWhatIsAddedToTheOutputAreNothing) {
    for (const ParamSpec& param : model_.params) {
        if (!param.added) continue;
        EXPECT_EQ(param.added->first.bound == 0, param.added->part == "lora_B.weight") << param.name;
    }
    param_ += 1;
    ASSERT_EQ(model_.params[at(param_)].added->part, "lora_B.weight");
    EXPECT_THAT(drawn(7, 0, 32 * 4), testing::Each(0.0f));
}

}  // namespace
}  // namespace windlass
