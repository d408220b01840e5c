// Adapters that are damaged, or of another kind or another base, each in one way: one error that names the file, what
// is wrong there and what would help.
#include <filesystem>

#include "tests/unit/format/safetensors_bytes.h"
#include "tests/unit/model/adapters/adapter_fixtures.h"

namespace windlass {
namespace {

using testing::HasSubstr;

constexpr const char* kRoot = "base_model.model.model.layers.";
constexpr const char* kQ = "base_model.model.model.layers.0.self_attn.q_proj.";

// An adapter of peft's for the golden llama, r = 2 on one module; each test changes one thing.
class PeftLoad : public testing::Test {
  protected:
    PeftLoad() {
        config_ = {{"peft_type", "LORA"}, {"base_model_name_or_path", "base"}, {"r", 2},
                   {"lora_alpha", 4},     {"target_modules", {"q_proj"}},      {"bias", "none"}};
        tensors_ = {f32_tensor(fmt::format("{}lora_A.weight", kQ), {2, 32}),
                    f32_tensor(fmt::format("{}lora_B.weight", kQ), {32, 2})};
    }
    void set(const char* field, Json value) { config_[field] = std::move(value); }
    void replace(const std::string& name, Shape shape) {
        const auto tensor = std::ranges::find(tensors_, name, [](const TestTensor& each) { return each.spec.name; });
        ASSERT_NE(tensor, tensors_.end());
        *tensor = f32_tensor(name, shape);
    }
    void add(const std::string& name, Shape shape) { tensors_.push_back(f32_tensor(name, shape)); }

    // Opens it as a run does, all but its first numbers.
    void open() { open_text(config_.dump()); }
    void open_text(const std::string& config) {
        const std::string path = temp_ / fmt::format("{}", ++opened_);
        write_adapter(path, config, tensors_);
        const AdapterFolder folder = AdapterFolder::open(real_files(), path);
        settings_ = peft_settings(folder, base_.model);
        layers_ = peft_layers(folder, settings_, base_.model);
        check_peft_numbers(folder);
    }
    std::string of_config() { return refusal(kAdapterConfigName); }
    std::string of_tensors() { return refusal(kAdapterWeightsName); }
    std::string refusal(const std::string& file) {
        const std::string message = complaint([&] { open(); });
        EXPECT_THAT(message, HasSubstr(file + ": "));
        EXPECT_THAT(message, HasSubstr("Try: "));
        return message;
    }

    GoldenBase base_{"llama"};
    TempFolder temp_;
    int opened_ = 0;
    Json config_;
    std::vector<TestTensor> tensors_;
    AdapterSettings settings_;
    std::vector<int> layers_;
};

TEST_F(PeftLoad, TakesTheSoundOne) {
    open();
    EXPECT_EQ(settings_.rank, 2);
    EXPECT_EQ(settings_.scale, 2.0);
    EXPECT_THAT(layers_, testing::ElementsAre(weight_of_module(base_.model, "model.layers.0.self_attn.q_proj")));
}

TEST_F(PeftLoad, TakesFieldsThatSayNothing) {
    for (const char* field : {"modules_to_save", "lora_bias", "rank_pattern", "layer_replication", "a_field_of_2030"}) {
        for (const Json& nothing : {Json(), Json(false), Json::object(), Json::array(), Json("")}) {
            set(field, nothing);
            EXPECT_NO_THROW(open()) << field << " " << nothing.dump();
        }
    }
    set("lora_dropout", 0.1);
    set("exclude_modules", {"k_proj"});
    set("layers_to_transform", {0});
    for (const char* first : {"gaussian", "eva", "orthogonal"}) {
        set("init_lora_weights", first);
        EXPECT_NO_THROW(open()) << first;
    }
}

// peft would make the adapter on the layers that are named, and leave the tensors of others out.
TEST_F(PeftLoad, RefusesLayersThatContradictTheTensors) {
    const std::vector<Json> without = {1, Json::array({1}), Json::array({1'000'000'000}), Json::array({-1})};
    for (const Json& layers : without) {
        set("layers_to_transform", layers);
        EXPECT_THAT(of_config(), HasSubstr("\"layers_to_transform\" does not name the layer of "
                                           "model.layers.0.self_attn.q_proj"))
            << layers.dump();
    }
    const std::vector<Json> others = {"0", Json::array({"0"}), Json::array({0.5}), Json::object({{"a", 0}}), true};
    for (const Json& layers : others) {
        set("layers_to_transform", layers);
        EXPECT_THAT(of_config(), HasSubstr("is no list of numbers of layers")) << layers.dump();
    }
    const std::vector<Json> with = {0, Json::array({0}), Json::array({1, 0}), Json::array()};
    for (const Json& layers : with) {
        set("layers_to_transform", layers);
        EXPECT_NO_THROW(open()) << layers.dump();
    }
    add(fmt::format("{}1.self_attn.q_proj.lora_A.weight", kRoot), {2, 32});
    add(fmt::format("{}1.self_attn.q_proj.lora_B.weight", kRoot), {32, 2});
    set("layers_to_transform", {0});
    EXPECT_THAT(of_config(), HasSubstr("the layer of model.layers.1.self_attn.q_proj"));
}

TEST_F(PeftLoad, ScalesByTheRootWhereItIsSaid) {
    set("use_rslora", true);
    open();
    EXPECT_DOUBLE_EQ(settings_.scale, 4 / std::sqrt(2.0));
}

// r and lora_alpha are 8 where peft's file does not say them.
TEST_F(PeftLoad, HasPeftsDefaults) {
    config_.erase("r");
    config_.erase("lora_alpha");
    tensors_ = {f32_tensor(fmt::format("{}lora_A.weight", kQ), {8, 32}),
                f32_tensor(fmt::format("{}lora_B.weight", kQ), {32, 8})};
    open();
    EXPECT_EQ(settings_.rank, 8);
    EXPECT_EQ(settings_.scale, 1.0);
}

TEST_F(PeftLoad, RefusesAnotherBase) {
    replace(fmt::format("{}lora_A.weight", kQ), {2, 40});
    EXPECT_THAT(of_tensors(), HasSubstr("q_proj.lora_A.weight: is [2, 40], expected [2, 32]"));
}

TEST_F(PeftLoad, RefusesHalfAPair) {
    tensors_.pop_back();
    EXPECT_THAT(of_tensors(),
                HasSubstr("has lora_A.weight of model.layers.0.self_attn.q_proj, but not its lora_B.weight"));
}

TEST_F(PeftLoad, RefusesRanksThatDiffer) {
    add(fmt::format("{}1.self_attn.q_proj.lora_A.weight", kRoot), {3, 32});
    add(fmt::format("{}1.self_attn.q_proj.lora_B.weight", kRoot), {32, 3});
    EXPECT_THAT(of_tensors(), HasSubstr("layers.1.self_attn.q_proj.lora_A.weight: is [3, 32], expected [2, 32]"));
}

TEST_F(PeftLoad, RefusesARankThatIsNotTheTensors) {
    set("r", 3);
    EXPECT_THAT(of_tensors(), HasSubstr("is [2, 32], expected [3, 32]"));
}

TEST_F(PeftLoad, RefusesRanksThatAreNone) {
    const std::vector<Json> ranks = {0, -1, int64_t{1} << 40, 2.5, "8", true, 1e300, Json::array({2})};
    for (const Json& r : ranks) {
        set("r", r);
        EXPECT_THAT(of_config(), HasSubstr(fmt::format("\"r\" is {}, expected an integer from 1 to 65536", r.dump())));
    }
}

TEST_F(PeftLoad, TakesARankAboveASide) {
    set("r", 33);
    replace(fmt::format("{}lora_A.weight", kQ), {33, 32});
    replace(fmt::format("{}lora_B.weight", kQ), {32, 33});
    EXPECT_NO_THROW(open());
    EXPECT_EQ(settings_.rank, 33);
}

TEST_F(PeftLoad, GivesModulesRanksAndScalesByTheFirstPatternThatFits) {
    const auto own = [&] { return settings_.of_layer("model.layers.0.self_attn.q_proj"); };
    set("alpha_pattern", {{"k_proj", 3}, {"0.self_attn.q_proj", 6}, {"q_proj", 9}});
    open();
    EXPECT_EQ(own().scale, 3.0);
    EXPECT_EQ(settings_.scale, 2.0);
    set("alpha_pattern", {{"proj", 6}, {"layers.1.*", 6}});
    open();
    EXPECT_EQ(own().scale, 2.0) << "a pattern fits from a dot on";
    set("rank_pattern", {{"q_.*", 5}});
    EXPECT_THAT(of_tensors(), HasSubstr("is [2, 32], expected [5, 32]"));
    replace(fmt::format("{}lora_A.weight", kQ), {5, 32});
    replace(fmt::format("{}lora_B.weight", kQ), {32, 5});
    open();
    EXPECT_EQ(own().rank, 5);
    EXPECT_EQ(own().scale, 4.0 / 5);
    for (const Json& rank : {Json(0), Json("5"), Json(1 << 20)}) {
        set("rank_pattern", {{"q_proj", rank}});
        EXPECT_THAT(of_config(), HasSubstr(fmt::format("\"r\" is {}", rank.dump())));
    }
    set("rank_pattern", 7);
    EXPECT_THAT(of_config(), HasSubstr("\"rank_pattern\" is 7, expected names of modules"));
}

TEST_F(PeftLoad, RefusesScalesThatAreNone) {
    for (const Json& alpha : {Json("7"), Json(true), Json::array()}) {
        set("lora_alpha", alpha);
        EXPECT_THAT(of_config(), HasSubstr(fmt::format("\"lora_alpha\" is {}, expected a", alpha.dump())));
    }
    // A finite number whose scale f32 does not hold gives what is not finite.
    set("lora_alpha", 1e300);
    EXPECT_THAT(of_config(), HasSubstr("\"lora_alpha\" is 1e+300"));
    // What is no number in JSON: Python writes these.
    for (const char* number : {"NaN", "Infinity", "1e999"}) {
        const std::string text = fmt::format(R"({{"peft_type": "LORA", "r": 2, "lora_alpha": {}}})", number);
        EXPECT_THAT(complaint([&] { open_text(text); }), HasSubstr("adapter_config.json: ")) << number;
    }
}

TEST_F(PeftLoad, RefusesFlagsThatAreNone) {
    for (const char* const flag : {"use_rslora", "use_dora"}) {
        set(flag, "yes");
        EXPECT_THAT(of_config(), HasSubstr(fmt::format("\"{}\" is \"yes\", expected true or false", flag)));
        set(flag, false);
    }
}

TEST_F(PeftLoad, WantsTheMagnitudesOfDora) {
    set("use_dora", true);
    EXPECT_THAT(of_tensors(), HasSubstr("model.layers.0.self_attn.q_proj, but not its lora_magnitude_vector"));
    const std::string name = fmt::format("{}0.self_attn.q_proj.lora_magnitude_vector", kRoot);
    add(name, {31});
    EXPECT_THAT(of_tensors(), HasSubstr("is [31], expected [32]"));
    tensors_.pop_back();
    add(name, {32});
    open();
    EXPECT_TRUE(settings_.has_magnitudes);
}

TEST_F(PeftLoad, RefusesTensorsOfNoLayer) {
    const std::pair<const char*, const char*> cases[] = {
        {"base_model.model.model.layers.9.self_attn.q_proj.lora_A.weight", "it belongs to no layer of this model"},
        {"base_model.model.model.layers.0.self_attn.q_proj.lora_C.weight", "it belongs to no layer of this model"},
        {"model.layers.0.self_attn.q_proj.lora_A.weight", "it belongs to no layer of this model"},
        {"base_model.model.lora_A.weight", "it belongs to no layer of this model"},
        {"base_model.model..lora_A.weight", "it belongs to no layer of this model"},
        {"base_model.model.model.norm.lora_A.weight", "it belongs to no layer of this model"},
        {"base_model.model.model.norm.lora_embedding_A", "it belongs to no layer of this model"},
        {"base_model.model.model.embed_tokens.lora_A.weight", "its layer has lora_embedding_A and lora_embedding_B"},
        {"base_model.model.lm_head.lora_embedding_B", "its layer has lora_A.weight and lora_B.weight"},
        {"base_model.model.model.layers.0.self_attn.q_proj.base_layer.weight", "it is no part of an adapter"},
        {"base_model.model.model.layers.0.self_attn.q_proj.lora_magnitude_vector",
         "it is DoRA's, but \"use_dora\" in adapter_config.json is not true"},
        {"base_model.model.lm_head.weight", "is [2, 32], the base's table is [96, 32]"},
        {"base_model.model.model.layers.0.self_attn.q_proj.base_layer.bias", "it is no part of an adapter"},
    };
    for (const auto& [name, reason] : cases) {
        add(name, {2, 32});
        EXPECT_THAT(of_tensors(), HasSubstr(fmt::format("tensor {}: {}", name, reason)));
        tensors_.pop_back();
    }
}

TEST_F(PeftLoad, RefusesTablesOfKindsThatHaveNone) {
    config_ = {{"peft_type", "IA3"}, {"target_modules", {"lm_head"}}};
    tensors_ = {f32_tensor("base_model.model.lm_head.ia3_l", {96, 1})};
    EXPECT_THAT(of_tensors(), HasSubstr("lm_head.ia3_l: it belongs to no linear layer of this model"));
}

TEST_F(PeftLoad, RefusesFieldsThatChangeTheMathematics) {
    const std::pair<const char*, Json> cases[] = {
        {"layer_replication", Json::array({Json::array({0, 2})})},
        {"target_parameters", {"experts.down_proj"}},
        {"lora_bias", true},
        {"alora_invocation_tokens", {1}},
        {"a_field_of_2030", 1},
    };
    for (const auto& [field, value] : cases) {
        set(field, value);
        EXPECT_THAT(of_config(), HasSubstr(fmt::format("\"{}\" is {}, which may change the mathematics and is not "
                                                       "implemented",
                                                       field, value.dump())));
        config_.erase(field);
    }
    set("bias", "all");
    EXPECT_THAT(of_config(), HasSubstr("\"bias\" is \"all\", expected \"none\""));
    set("bias", "none");
    for (const char* first : {"pissa", "pissa_niter_16", "olora", "corda", "loftq", "lora_ga"}) {
        set("init_lora_weights", first);
        EXPECT_THAT(of_config(), HasSubstr(fmt::format("\"init_lora_weights\" is \"{}\": such an adapter belongs to a "
                                                       "base that was changed",
                                                       first)));
    }
}

TEST_F(PeftLoad, RefusesOtherKinds) {
    set("peft_type", "PREFIX_TUNING");
    EXPECT_THAT(of_config(), HasSubstr("\"peft_type\" is \"PREFIX_TUNING\", implemented are LORA, IA3"));
    for (const Json& type : {Json(), Json(7), Json("lora")}) {
        set("peft_type", type);
        EXPECT_THAT(of_config(), HasSubstr("\"peft_type\"")) << type.dump();
    }
}

TEST_F(PeftLoad, TakesIa3ThatScalesInputs) {
    config_ = {{"peft_type", "IA3"}, {"target_modules", {"up_proj"}}, {"feedforward_modules", {"up_proj"}}};
    tensors_ = {f32_tensor(fmt::format("{}0.mlp.up_proj.ia3_l", kRoot), {48, 1})};
    EXPECT_THAT(of_tensors(), HasSubstr("is [48, 1], expected [1, 32]"));
    replace(fmt::format("{}0.mlp.up_proj.ia3_l", kRoot), {1, 32});
    for (const Json& names : {Json({"up_proj"}), Json("model.layers.*up_proj")}) {
        set("feedforward_modules", names);
        EXPECT_NO_THROW(open()) << names.dump();
    }
    set("feedforward_modules", Json::array({3}));
    EXPECT_THAT(of_config(), HasSubstr("\"feedforward_modules\" is [3], expected names of modules"));
    set("feedforward_modules", Json::array());
    EXPECT_THAT(of_tensors(), HasSubstr("is [1, 32], expected [48, 1]"));
    replace(fmt::format("{}0.mlp.up_proj.ia3_l", kRoot), {48, 1});
    EXPECT_NO_THROW(open());
}

TEST_F(PeftLoad, RefusesTargetsThatAreNone) {
    set("target_modules", 7);
    EXPECT_THAT(of_config(), HasSubstr("\"target_modules\" is number, expected a list of names or an expression"));
    set("target_modules", {"q_proj", 7});
    EXPECT_THAT(of_config(), HasSubstr("\"target_modules\" holds number, expected names of modules"));
    set("target_modules", std::string(5000, 'x'));
    EXPECT_THAT(of_config(), HasSubstr("\"target_modules\" holds string"));
}

TEST_F(PeftLoad, RefusesNumbersThatAreNotFinite) {
    const float bad[] = {std::nanf(""), INFINITY, -INFINITY};
    for (const float number : bad) {
        std::memcpy(tensors_[1].bytes.data() + 17 * sizeof(float), &number, sizeof number);
        EXPECT_THAT(of_tensors(), HasSubstr(fmt::format("tensor {}lora_B.weight is {} at element 17", kQ, number)));
    }
}

TEST_F(PeftLoad, RefusesTypesThatAreNoNumbers) {
    for (const char* type : {"F8_E4M3", "F8_E5M2", "I64", "U8", "BOOL", "F64"}) {
        const int64_t width = type == std::string("I64") || type == std::string("F64") ? 8 : 1;
        const std::string header = fmt::format(
            R"({{"{0}lora_A.weight":{{"dtype":"{1}","shape":[2,32],"data_offsets":[0,{2}]}}}})", kQ, type, 64 * width);
        write_adapter(temp_ / type, config_.dump(), tensors_);
        std::filesystem::remove(temp_ / type + "/" + kAdapterWeightsName);
        write_bytes(temp_ / type + "/" + kAdapterWeightsName,
                    safetensors_bytes(header, std::string(at(64 * width), '\0')));
        const AdapterFolder folder = AdapterFolder::open(real_files(), temp_ / type);
        EXPECT_THAT(complaint([&] { peft_layers(folder, read_peft_config(folder).settings, base_.model); }),
                    HasSubstr(fmt::format("lora_A.weight: holds {}, expected F32, BF16 or F16. Try: ", type)));
    }
}

TEST_F(PeftLoad, ReadsHalves) {
    for (const DType type : {DType::bf16, DType::f16}) {
        for (TestTensor& tensor : tensors_) {
            tensor.spec.dtype = type;
            tensor.bytes.assign(at(tensor.spec.shape.numel() * 2), std::byte{0});
        }
        const float one = 1;
        encode_numbers(type, {&one, 1}, std::span(tensors_[1].bytes).subspan(10, 2));
        open();
        const AdapterFolder folder = AdapterFolder::open(real_files(), temp_ / fmt::format("{}", opened_));
        const ModelSpec model = with_adapter(base_.model, settings_, layers_);
        std::vector<float> numbers(3);
        load_peft_elements(folder, model, model.params.back(), 4, numbers);
        EXPECT_THAT(numbers, testing::ElementsAre(0, 1, 0));
    }
}

// A bare base has two names for each of its layers.
TEST_F(PeftLoad, RefusesTwoNamesForOnePart) {
    const GoldenBase bare("gpt2", peft_golden_folder("gpt2_bare") + "/model");
    tensors_.clear();
    for (const char* module : {"h.0.attn.c_attn", "transformer.h.0.attn.c_attn"}) {
        add(fmt::format("base_model.model.{}.lora_A.weight", module), {2, 32});
        add(fmt::format("base_model.model.{}.lora_B.weight", module), {96, 2});
    }
    write_adapter(temp_ / "two", config_.dump(), tensors_);
    const AdapterFolder folder = AdapterFolder::open(real_files(), temp_ / "two");
    EXPECT_THAT(complaint([&] { peft_layers(folder, read_peft_config(folder).settings, bare.model); }),
                HasSubstr("its layer has this part under two names"));
}

TEST(PeftNames, AreWholeWordsAtTheEnd) {
    const std::string module = "model.layers.0.self_attn.q_proj";
    EXPECT_TRUE(is_named_by(module, {"k_proj", "q_proj"}));
    EXPECT_TRUE(is_named_by(module, {"self_attn.q_proj"}));
    EXPECT_TRUE(is_named_by(module, {module}));
    for (const char* other : {"proj", "_proj", "attn.q_proj", "k_proj", "", ".q_proj", "self_attn"})
        EXPECT_FALSE(is_named_by(module, {other})) << other;
}

}  // namespace
}  // namespace windlass
