#include "method/trained_model.h"

#include <gtest/gtest.h>

#include <map>

#include "model/families.h"

namespace windlass {
namespace {

constexpr const char* kLlamaOf5 = R"({"model_type": "llama", "hidden_size": 64, "intermediate_size": 96,
    "num_hidden_layers": 5, "num_attention_heads": 4, "vocab_size": 100, "max_position_embeddings": 64})";

TEST(KeptWeights, AreReadFromAnyElementOn) {
    std::vector<float> values(200);
    for (size_t i = 0; i < values.size(); ++i) values[i] = 0.25f * static_cast<float>(i % 8) - 1.0f;
    for (const DType type : {DType::f32, DType::bf16, DType::f16, DType::f8_e4m3, DType::nf4}) {
        const LoneParam param{.spec = {.name = "w", .shape = {4, 50}},
                              .storage = {.store = StoreType::as_file, .dtype = type}};
        std::vector<std::byte> bytes(static_cast<size_t>(stored_bytes(type, 200)));
        encode_kept(param, values, bytes);
        std::vector<float> all(200), some(77);
        decode_kept(param.storage, bytes, 0, all);
        decode_kept(param.storage, bytes, 51, some);
        EXPECT_TRUE(std::equal(some.begin(), some.end(), all.begin() + 51)) << dtype_name(type);
        EXPECT_EQ(all == values, type != DType::nf4) << dtype_name(type);
        EXPECT_DEATH(decode_kept(param.storage, std::span(bytes).first(bytes.size() - 1), 123, some), "");
    }
}

// A model with fewer layers, or cut otherwise, has for each parameter what the whole has for it.
TEST(TrainedModel, TablesFollowTheirParameters) {
    HfConfig config = HfConfig::parse(kLlamaOf5, "config.json");
    TrainedModel model(build_model(config, {}));
    std::map<std::string, double> scales;
    for (int index = 0; index < model.param_size(); ++index) {
        model.training[static_cast<size_t>(index)].learning_rate_scale = index;
        model.storage[static_cast<size_t>(index)].scale_exponent = index;
        model.perturb[static_cast<size_t>(index)].magnitude_limit = static_cast<float>(index);
        scales[model.params[static_cast<size_t>(index)].name] = index;
    }
    for (const TrainedModel& other : {shortened(model, 2), in_sublayers(model)}) {
        EXPECT_EQ(other.training.size(), other.params.size());
        for (const Param param : other.all_params()) {
            const double scale = scales.at(param.spec.name);
            EXPECT_EQ(param.training.learning_rate_scale, scale);
            EXPECT_EQ(param.storage.scale_exponent, scale);
            EXPECT_EQ(param.perturb.magnitude_limit, scale);
        }
    }
    EXPECT_LT(shortened(model, 2).params.size(), model.params.size());
}

TEST(TrainedModel, MatricesAndTablesDecay) {
    HfConfig config = HfConfig::parse(kLlamaOf5, "config.json");
    const TrainedModel model(build_model(config, {}));
    for (const Param param : model.all_params())
        EXPECT_EQ(param.training.decays, param.spec.shape.rank() == 2) << param.spec.name;
}

// A base of mixed types, under matrices of f32 that are trained beside it.
TrainedModel frozen_base() {
    HfConfig config = HfConfig::parse(kLlamaOf5, "config.json");
    TrainedModel model(build_model(config, {}));
    constexpr DType kTypes[] = {DType::bf16, DType::f16, DType::f32};
    for (int index = 0; index < model.param_size(); ++index) {
        const bool trains = model.params[static_cast<size_t>(index)].name.find("q_proj") != std::string::npos;
        model.training[static_cast<size_t>(index)].trains = trains;
        model.params[static_cast<size_t>(index)].file_dtype = trains ? DType::f32 : kTypes[index % 3];
    }
    return model;
}

TEST(FrozenStorage, IsNoWiderThanWhatIsComputedWithNorThanItsFile) {
    for (const StoreType store : {StoreType::split, StoreType::as_file}) {
        for (const DType computed : {DType::bf16, DType::f32}) {
            TrainedModel model = frozen_base();
            set_store(model, store);
            keep_frozen_as(model, computed);
            for (const Param param : model.all_params()) {
                if (param.trains()) continue;
                EXPECT_EQ(param.storage.store, StoreType::as_file);
                EXPECT_EQ(param.storage.dtype, computed == DType::bf16 ? DType::bf16 : param.spec.file_dtype);
            }
        }
    }
}

// Both ways: the wide ones keep all their digits, and widen no other.
TEST(FrozenStorage, LeavesTheTypeOfWhatIsTrainedToTheirOwnFiles) {
    TrainedModel model = frozen_base();
    set_store(model, StoreType::as_file);
    keep_frozen_as(model, DType::bf16);
    EXPECT_EQ(common_type(model), DType::f32);
    for (ParamSpec& param : model.params) {
        if (param.file_dtype == DType::f32) param.file_dtype = DType::bf16;
    }
    set_store(model, StoreType::as_file);
    keep_frozen_as(model, DType::bf16);
    EXPECT_EQ(common_type(model), DType::bf16) << "a base in f16 is no reason to widen";
    for (const Param param : model.all_params()) EXPECT_EQ(param.storage.dtype, DType::bf16) << param.spec.name;
}

}  // namespace
}  // namespace windlass
