// Parameters of a model that train whole next to an adapter.
#include "model/adapters/whole.h"

#include "tests/unit/model/adapters/adapter_fixtures.h"

namespace windlass {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr const char* kOwnTable = "model.embed_tokens.weight";
constexpr const char* kOwnHead = "lm_head.weight";

AdapterSettings pair_and(std::vector<std::string> whole, bool keeps_ties = false) {
    return {.kind = "lora", .rank = 2, .whole = std::move(whole), .keeps_ties = keeps_ties};
}

std::vector<std::string> trained_whole(const ModelSpec& model) {
    std::vector<std::string> names;
    for (const ParamSpec& param : model.params)
        if (param.is_whole || (param.added && !param.added->copy_of.empty())) names.push_back(param.name);
    return names;
}

const ParamSpec& table_in(const ModelSpec& model, const Block& block, size_t weight = 0) {
    return model.params[at(block.params[weight])];
}

TEST(WholeModules, AreNamedByTheEndsOfTheirNames) {
    const std::vector<std::string> ends = {"lm_head", "norm"};
    EXPECT_TRUE(is_in_modules("lm_head.weight", ends));
    EXPECT_TRUE(is_in_modules("model.norm.weight", ends));
    EXPECT_TRUE(is_in_modules("model.layers.1.input_layernorm.weight", ends))
        << "as peft reads names: no dot is needed";
    EXPECT_FALSE(is_in_modules("model.layers.1.self_attn.q_proj.weight", ends));
    EXPECT_TRUE(is_in_modules("model.layers.1.mlp.up_proj.weight", std::vector<std::string>{"mlp"}))
        << "a module in it";
    const GoldenBase llama("llama"), qwen("qwen2");
    EXPECT_THAT(params_of_modules(llama.model, std::vector<std::string>{"lm_head", "embed_tokens"}),
                testing::UnorderedElementsAre(kOwnHead, kOwnTable));
    EXPECT_THAT(params_of_modules(qwen.model, std::vector<std::string>{"lm_head"}), ElementsAre(kOwnHead));
}

TEST(WholeModules, OfTransformersTreeHaveTheHeadAtTheTop) {
    const GoldenBase gpt2("gpt2"), gemma("gemma3");
    EXPECT_EQ(tree_name(gpt2.model, "lm_head.weight"), "lm_head.weight");
    EXPECT_EQ(tree_name(gemma.model, gemma.model.file_prefix + "norm.weight"), gemma.model.tree_prefix + "norm.weight");
    EXPECT_EQ(tree_name(gemma.model, "language_model.lm_head.weight"), "lm_head.weight");
}

TEST(WholeModules, AreTheModelsOwnParametersWhereNothingIsTied) {
    const GoldenBase base("llama");
    const ModelSpec model = base.with(pair_and({kOwnHead, "model.norm.weight"}));
    EXPECT_THAT(trained_whole(model), ElementsAre(kOwnHead, "model.norm.weight"));
    EXPECT_FALSE(has_copies(model));
}

// One end of a tied table trains apart from the other, which stays the base's.
TEST(WholeModules, OfATiedTableGetItsEndApart) {
    const GoldenBase base("qwen2");
    const ModelSpec head = base.with(pair_and({kOwnHead}));
    EXPECT_THAT(trained_whole(head), ElementsAre("lm_head.modules_to_save.weight"));
    EXPECT_EQ(table_in(head, head.blocks.front()).name, kOwnTable);
    for (const Block* const block : {&head.blocks.back(), &head.logits}) {
        std::vector<std::string> names;
        for (const int param : block->params) names.push_back(head.params[at(param)].name);
        EXPECT_THAT(names, testing::Contains("lm_head.modules_to_save.weight")) << block->name;
        EXPECT_THAT(names, testing::Not(testing::Contains(kOwnTable))) << block->name;
    }
    const ModelSpec table = base.with(pair_and({kOwnTable}));
    EXPECT_THAT(trained_whole(table), ElementsAre("model.embed_tokens.modules_to_save.weight"));
    EXPECT_EQ(table_in(table, table.blocks.front()).name, "model.embed_tokens.modules_to_save.weight");
    const auto own = std::ranges::find(table.params, kOwnTable, &ParamSpec::name);
    EXPECT_EQ(own->block, static_cast<int>(table.blocks.size()) - 1) << "the first block that still uses it";
    const ModelSpec both = base.with(pair_and({kOwnTable, kOwnHead}));
    EXPECT_THAT(trained_whole(both), ElementsAre(kOwnTable, "lm_head.modules_to_save.weight"));
    EXPECT_THAT(trained_whole(base.with(pair_and({kOwnTable}, /*keeps_ties=*/true))), ElementsAre(kOwnTable));
}

TEST(WholeModules, BeginWithTheNumbersOfTheBase) {
    const GoldenBase base("qwen2");
    const ModelSpec model = base.with(pair_and({kOwnTable, kOwnHead}));
    const ParamValues first = read_all(model, first_weights(base.folder, model, 0));
    const auto index = [&](std::string_view name) {
        return at(std::ranges::find(model.params, name, &ParamSpec::name) - model.params.begin());
    };
    EXPECT_EQ(first[index("lm_head.modules_to_save.weight")], first[index(kOwnTable)]);
    EXPECT_NE(first[index(kOwnTable)], std::vector<float>(first[index(kOwnTable)].size()));
}

// What a folder holds of it has a name for either end.
TEST(WholeModules, OfATiedTableAreTwoTablesOfAFolder) {
    const GoldenBase base("qwen2");
    for (const bool is_head : {true, false}) {
        const ModelSpec model = base.with(pair_and({is_head ? kOwnHead : kOwnTable}));
        const UntiedModel plain = untied(model);
        EXPECT_EQ(plain.model.params.size(), base.model.params.size() + 1);
        for (size_t param = 0; param < plain.from.size(); ++param) {
            const ParamSpec& was = model.params[at(plain.from[param])];
            const std::string& is = plain.model.params[param].name;
            if (is == kOwnHead) {
                EXPECT_EQ(was.name, is_head ? "lm_head.modules_to_save.weight" : kOwnTable);
            }
            if (is == kOwnTable) {
                EXPECT_EQ(was.name, is_head ? kOwnTable : "model.embed_tokens.modules_to_save.weight");
            }
            EXPECT_TRUE(plain.model.params[param].tied_name.empty());
        }
    }
}

TEST(WholeModules, AreReadBackAsTheyWereWritten) {
    for (const bool keeps_ties : {false, true}) {
        const GoldenBase base("qwen2");
        const ModelSpec model = base.with(pair_and({kOwnTable}, keeps_ties));
        ParamValues values = read_all(model, first_weights(base.folder, model, 3));
        for (size_t param = 0; param < values.size(); ++param)
            if (model.params[param].learns_with_adapter())
                for (float& number : values[param]) number += 0.5f;
        const TempFolder temp;
        save_peft(real_files(), temp / "adapter", model, {.base_name = "some/base"}, masters_of(values));
        const AdapterFolder folder = AdapterFolder::open(real_files(), temp / "adapter");
        EXPECT_EQ(folder.config()["modules_to_save"], Json::array({"model.embed_tokens"}));
        EXPECT_EQ(folder.find("base_model.model.lm_head.weight") != nullptr, keeps_ties) << "peft asks for both ends";
        const AdapterSettings settings = peft_settings(folder, base.model);
        EXPECT_EQ(settings.keeps_ties, keeps_ties);
        const ModelSpec again = with_adapter(base.model, settings, peft_layers(folder, settings, base.model));
        EXPECT_EQ(read_all(again, first_weights(base.folder, again, 0, &folder)), values);
        EXPECT_EQ(trained_whole(again), trained_whole(model));
    }
}

// Merged, they are what the adapter computes.
TEST(WholeModules, AreMergedAsTheyAre) {
    const GoldenBase base("llama");
    const ModelSpec model = base.with(pair_and({kOwnHead}));
    const std::vector<uint8_t> without = without_adapter(model);
    const auto head = std::ranges::find(model.params, kOwnHead, &ParamSpec::name) - model.params.begin();
    const auto table = std::ranges::find(model.params, kOwnTable, &ParamSpec::name) - model.params.begin();
    EXPECT_EQ(without[at(head)], 0);
    EXPECT_EQ(without[at(table)], 1);
}

class WholeModulesOfFiles : public testing::Test {
  protected:
    std::string refusal(const std::function<void(Json&)>& edit, const std::string& name = "llama_whole") {
        const std::string from = peft_golden_folder(name) + "/adapter";
        Json config = Json::parse(read_text(real_files(), from + "/adapter_config.json", 1 << 20));
        edit(config);
        const AdapterFolder was = AdapterFolder::open(real_files(), from);
        std::vector<TestTensor> tensors;
        for (const TensorEntry& tensor : was.tensors()) {
            std::vector<std::byte> bytes(at(tensor.bytes));
            was.read(tensor, 0, bytes);
            if (left_out_.empty() || tensor.name.find(left_out_) == std::string::npos)
                tensors.push_back({{tensor.name, *tensor.dtype, tensor.shape}, bytes});
        }
        const std::string path = temp_ / fmt::format("{}", ++written_);
        write_adapter(path, config.dump(), tensors);
        const AdapterFolder folder = AdapterFolder::open(real_files(), path);
        return complaint([&] {
            const AdapterSettings settings = peft_settings(folder, base_.model);
            peft_layers(folder, settings, base_.model);
        });
    }

    GoldenBase base_{"llama"};
    TempFolder temp_;
    std::string left_out_;  // of names with this in them
    int written_ = 0;
};

TEST_F(WholeModulesOfFiles, AreRefusedWhereTheFileHoldsOtherOnes) {
    EXPECT_THAT(
        refusal([](Json& config) { config["modules_to_save"] = nullptr; }),
        HasSubstr("layers.0.input_layernorm.weight: it is no part of an adapter, and \"modules_to_save\" names no "
                  "module that has it"));
    EXPECT_THAT(refusal([](Json& config) { config["modules_to_save"] = 7; }),
                HasSubstr("\"modules_to_save\" is 7, expected a list of names. Try: "));
    EXPECT_THAT(refusal([](Json& config) { config["ensure_weight_tying"] = "perhaps"; }),
                HasSubstr("\"ensure_weight_tying\" is \"perhaps\", expected true or false"));
    left_out_ = "base_model.model.lm_head.weight";
    EXPECT_THAT(refusal([](Json&) {}), HasSubstr("has no base_model.model.lm_head.weight, whose module "
                                                 "\"modules_to_save\" names. Try: the file is incomplete"));
    left_out_ = ".lora_";
    EXPECT_THAT(refusal([](Json&) {}), HasSubstr("holds no LORA of a layer, only whole tensors. Try: "));
}

// Both ends of a table that stays tied are the same; peft itself takes the last that it reads.
TEST(WholeModules, OfATableThatStaysTiedAreEqual) {
    const std::string from = peft_golden_folder("qwen2_whole_tied") + "/adapter";
    const AdapterFolder was = AdapterFolder::open(real_files(), from);
    std::vector<TestTensor> tensors;
    for (const TensorEntry& tensor : was.tensors()) {
        std::vector<std::byte> bytes(at(tensor.bytes));
        was.read(tensor, 0, bytes);
        if (tensor.name.ends_with("lm_head.weight")) bytes[3] ^= std::byte{1};
        tensors.push_back({{tensor.name, *tensor.dtype, tensor.shape}, bytes});
    }
    const TempFolder temp;
    write_adapter(temp / "adapter", read_text(real_files(), from + "/adapter_config.json", 1 << 20), tensors);
    const AdapterFolder folder = AdapterFolder::open(real_files(), temp / "adapter");
    const GoldenBase base("qwen2");
    EXPECT_THAT(
        complaint([&] { check_peft_tables(folder, peft_settings(folder, base.model), base.folder, base.model); }),
        HasSubstr("lm_head.weight, which is tied to it, is "));
}

// peft ties embed_tokens and lm_head, by their names: GPT-2's wte alone is trained apart, whatever the flag says.
TEST(WholeModules, StayTiedWherePeftTiesThem) {
    const GoldenBase gpt2("gpt2"), qwen("qwen2");
    const auto keeps = [&](const GoldenBase& base, const char* module, const char* param) {
        const TempFolder temp;
        write_adapter(
            temp / "adapter",
            Json({{"peft_type", "LORA"}, {"modules_to_save", {module}}, {"ensure_weight_tying", true}}).dump(),
            {f32_tensor(std::string("base_model.model.") + param, {96, 32})});
        return peft_settings(AdapterFolder::open(real_files(), temp / "adapter"), base.model).keeps_ties;
    };
    EXPECT_FALSE(keeps(gpt2, "wte", "transformer.wte.weight"));
    EXPECT_TRUE(keeps(gpt2, "lm_head", "lm_head.weight"));
    EXPECT_TRUE(keeps(qwen, "embed_tokens", "model.embed_tokens.weight"));
}

}  // namespace
}  // namespace windlass
