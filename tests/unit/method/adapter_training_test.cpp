// How a model with an adapter is trained and stored: the adapter alone, and at the width it was made.
#include <gmock/gmock.h>

#include "base/index.h"
#include "base/json.h"
#include "method/param_groups.h"
#include "method/trained_model.h"
#include "model/adapters/adapter.h"
#include "tests/unit/model/model_fixtures.h"

namespace windlass {
namespace {

using testing::HasSubstr;

TrainedModel adapted_llama(const Json& changes = Json::object()) {
    const ModelSpec base = build_text(golden_config("llama", changes));
    return TrainedModel(with_adapter(base, {.kind = "lora", .rank = 4, .scale = 2}, linear_layers_of_layers(base)));
}

std::string adapter_refusal(const std::vector<ParamGroup>& groups) {
    TrainedModel model = adapted_llama();
    try {
        apply_param_groups(groups, "param_groups", model);
    } catch (const UserError& error) {
        EXPECT_EQ(error.code(), ExitCode::usage);
        return error.what();
    }
    return "";
}

TEST(AdapterTraining, TrainsTheAdapterAlone) {
    const TrainedModel model = adapted_llama();
    int64_t added = 0;
    for (const Param param : model.all_params()) {
        EXPECT_EQ(param.trains(), param.spec.added.has_value()) << param.spec.name;
        added += param.spec.added ? param.numel() : 0;
    }
    EXPECT_EQ(trained_count(model), added);
}

// A forward-only method keeps what it trains in the type of its files: an adapter in f32 is no reason to keep its base
// so.
TEST(AdapterTraining, AWideAdapterWidensNoBase) {
    TrainedModel model = adapted_llama({{"torch_dtype", "bfloat16"}});
    set_store(model, StoreType::as_file);
    keep_frozen_as(model, DType::bf16);
    for (const Param param : model.all_params())
        EXPECT_EQ(param.storage.dtype, param.spec.added ? DType::f32 : DType::bf16) << param.spec.name;
    EXPECT_EQ(files_type(model), DType::bf16);
}

TEST(AdapterTraining, GroupsFreezeItsParts) {
    TrainedModel model = adapted_llama();
    apply_param_groups(std::vector<ParamGroup>{{.match = "*lora_A*", .train = false},
                                               {.match = "*lora_B*", .learning_rate_scale = 16}},
                       "param_groups", model);
    for (const Param param : model.all_params()) {
        const bool is_b = param.spec.added && param.spec.added->part == "lora_B.weight";
        EXPECT_EQ(param.trains(), is_b) << param.spec.name;
        EXPECT_EQ(param.training.learning_rate_scale, is_b ? 16 : 1) << param.spec.name;
    }
    EXPECT_EQ(model.blocks[1].program, model.blocks[2].program);
}

TEST(AdapterTraining, GroupsOfOneLayerGiveItAProgramOfItsOwn) {
    TrainedModel model = adapted_llama();
    apply_param_groups(std::vector<ParamGroup>{{.match = "*.layers.0.*", .train = false}}, "param_groups", model);
    EXPECT_NE(model.blocks[1].program, model.blocks[2].program);
    for (const Param param : model.all_params()) {
        const bool trains = param.spec.added && param.spec.layer == 1;
        EXPECT_EQ(param.trains(), trains) << param.spec.name;
    }
}

// Globs over everything are of the adapter: the base is in no group.
TEST(AdapterTraining, GroupsNeverTrainTheBase) {
    TrainedModel model = adapted_llama();
    apply_param_groups(std::vector<ParamGroup>{{.match = "*", .learning_rate_scale = 2}}, "param_groups", model);
    for (const Param param : model.all_params()) {
        EXPECT_EQ(param.trains(), param.spec.added.has_value());
        EXPECT_EQ(param.training.learning_rate_scale, param.spec.added ? 2 : 1);
    }
}

TEST(AdapterTraining, GroupsThatNameTheBaseAloneAreRefused) {
    for (const char* match : {"*norm*", "*q_proj.weight", "lm_head.weight"})
        EXPECT_THAT(adapter_refusal({{.match = match}}),
                    HasSubstr(fmt::format("param_groups: \"{}\" matches none of the adapter's 28 parameters, which "
                                          "alone are trained. Try: ",
                                          match)));
    EXPECT_THAT(adapter_refusal({{.match = "*", .train = false}}), HasSubstr("no parameter is left to train"));
}

// bf16 and f16 files, or a base in few bits: what the adapter has learnt is f32.
TEST(AdapterStorage, NeverNarrowsTheAdapter) {
    for (const char* type : {"float32", "bfloat16", "float16"}) {
        for (void (*const narrow)(TrainedModel&) : {+[](TrainedModel&) {}, &keep_in_8_bits, &keep_in_4_bits}) {
            TrainedModel model = adapted_llama({{"torch_dtype", type}});
            set_store(model, StoreType::as_file);
            narrow(model);
            for (const Param param : model.all_params()) {
                if (!param.spec.added) continue;
                EXPECT_EQ(param.storage.dtype, DType::f32) << param.spec.name;
            }
        }
    }
}

TEST(AdapterStorage, NarrowsTheMatricesOfTheBase) {
    TrainedModel in_4 = adapted_llama(), in_8 = adapted_llama();
    set_store(in_4, StoreType::as_file);
    set_store(in_8, StoreType::as_file);
    keep_in_4_bits(in_4);
    keep_in_8_bits(in_8);
    for (int index = 0; index < in_4.param_size(); ++index) {
        const ParamSpec& spec = in_4.params[at(index)];
        const bool is_own_matrix = !spec.added && spec.shape.rank() == 2;
        EXPECT_EQ(in_4.storage[at(index)].dtype == DType::nf4, is_own_matrix && spec.layer >= 0) << spec.name;
        EXPECT_EQ(in_8.storage[at(index)].dtype == DType::f8_e4m3, is_own_matrix) << spec.name;
    }
}

}  // namespace
}  // namespace windlass
