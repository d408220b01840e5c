// Configurations against the tensors of their folder.
#include <filesystem>

#include "base/json.h"
#include "tests/unit/model/model_fixtures.h"

namespace windlass {
namespace {

using testing::HasSubstr;

const ParamSpec& param_named(const ModelSpec& model, const std::string& name) {
    const auto at = std::ranges::find(model.params, name, &ParamSpec::name);
    if (at == model.params.end()) throw UserError(ExitCode::model, name, "is no parameter");
    return *at;
}

TEST(Families, TakeEveryGoldenFolder) {
    for (const std::string& name : golden_names()) {
        const ModelFolder folder = ModelFolder::open(real_files(), golden_folder(name));
        const ModelSpec model = build_folder(folder);
        const auto is_text = [](const TensorPlace& tensor) {
            return !tensor.name.starts_with("vision_tower.") && !tensor.name.starts_with("multi_modal_projector.");
        };
        EXPECT_EQ(static_cast<ptrdiff_t>(model.params.size()), std::ranges::count_if(folder.tensors(), is_text))
            << name;
        for (const ParamSpec& spec : model.params) EXPECT_EQ(spec.file_dtype, DType::f32) << spec.name;
    }
}

class FolderOf : public testing::Test {
  protected:
    ModelSpec build() {
        const std::string folder = temp_ / fmt::format("model-{}", ++builds_);
        write_folder(folder, config_, tensors_);
        return build_folder(ModelFolder::open(real_files(), folder));
    }
    std::string complaint_of_build() {
        return complaint([&] { build(); });
    }
    TestTensor& tensor(const std::string& name) {
        return *std::ranges::find(tensors_, name, [](const TestTensor& t) { return t.spec.name; });
    }
    void use(const std::string& golden, const Json& changes = Json::object()) {
        config_ = golden_config(golden, changes);
        tensors_ = tensors_of(config_);
    }

    TempFolder temp_;
    int builds_ = 0;
    std::string config_;
    std::vector<TestTensor> tensors_;
};

TEST_F(FolderOf, LacksATensor) {
    use("llama");
    tensor("model.norm.weight").spec.name = "model.norm.wait";
    const std::string message = complaint_of_build();
    EXPECT_THAT(message, HasSubstr("model.norm.weight [32]"));
    EXPECT_THAT(message, HasSubstr("missing"));
}

TEST_F(FolderOf, HoldsATensorTooMany) {
    use("llama");
    tensors_.push_back(f32_tensor("model.layers.0.self_attn.sinks", {4}));
    EXPECT_THAT(complaint_of_build(), HasSubstr("model.layers.0.self_attn.sinks"));
}

TEST_F(FolderOf, HasAnotherShape) {
    use("llama");
    tensor("model.norm.weight") = f32_tensor("model.norm.weight", {31});
    const std::string message = complaint_of_build();
    EXPECT_THAT(message, HasSubstr("model.norm.weight is [31]"));
    EXPECT_THAT(message, HasSubstr("[32]"));
}

TEST_F(FolderOf, HoldsIntegersForWeights) {
    use("llama");
    tensor("model.norm.weight").spec.dtype = DType::i32;
    EXPECT_THAT(complaint_of_build(), HasSubstr("model.norm.weight holds I32"));
}

TEST_F(FolderOf, HoldsATiedTableUnderTheHeadsName) {
    use("qwen2");
    tensor("model.embed_tokens.weight").spec.name = "lm_head.weight";
    const ModelSpec model = build();
    EXPECT_EQ(param_named(model, "lm_head.weight").block, 0);
    EXPECT_EQ(param_named(model, "lm_head.weight").alias, "");
    EXPECT_EQ(model.blocks[0].params[0], model.blocks[3].params.back());
}

TEST_F(FolderOf, HoldsATiedTableTwice) {
    use("qwen2");
    tensors_.push_back(tensor("model.embed_tokens.weight"));
    tensors_.back().spec.name = "lm_head.weight";
    const ModelSpec model = build();
    EXPECT_EQ(param_named(model, "model.embed_tokens.weight").alias, "lm_head.weight");
    EXPECT_EQ(model.param_count(), build_text(config_).param_count());
}

TEST_F(FolderOf, LacksThePrefixAndKeepsBuffers) {
    use("gpt2");
    for (TestTensor& tensor : tensors_) tensor.spec.name = tensor.spec.name.substr(std::string("transformer.").size());
    tensors_.push_back(f32_tensor("h.0.attn.bias", {1, 1, 32, 32}));
    tensors_.push_back(f32_tensor("h.1.attn.masked_bias", {}));
    EXPECT_EQ(build().params[0].name, "h.0.attn.c_attn.bias");
}

TEST_F(FolderOf, IsAGemmaThatSeesInEitherLayout) {
    use("gemma3");
    ASSERT_EQ(build().params[0].name, "model.language_model.embed_tokens.weight");
    for (TestTensor& tensor : tensors_)
        tensor.spec.name = "language_model.model" + tensor.spec.name.substr(std::string("model.language_model").size());
    tensors_.push_back(f32_tensor("vision_tower.head.probe", {1, 1, 8}));
    tensors_.push_back(f32_tensor("multi_modal_projector.mm_input_projection_weight", {8, 32}));
    EXPECT_EQ(build().params[0].name, "language_model.model.embed_tokens.weight");
    tensors_.push_back(f32_tensor("audio_tower.probe", {8}));
    EXPECT_THAT(complaint_of_build(), HasSubstr("audio_tower.probe"));
}

TEST_F(FolderOf, IsAnOptWithoutItsHead) {
    use("opt");
    for (TestTensor& tensor : tensors_) tensor.spec.name = tensor.spec.name.substr(std::string("model.").size());
    EXPECT_EQ(build().params[0].name, "decoder.embed_positions.weight");
}

}  // namespace
}  // namespace windlass
