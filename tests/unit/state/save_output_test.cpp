// What a run leaves as a folder: the adapter alone, or the whole model that it makes of its base.
#include "state/save_output.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <limits>

#include "base/error.h"
#include "base/index.h"
#include "format/adapter_folder.h"
#include "model/adapters/adapter.h"
#include "model/families.h"
#include "model/load.h"
#include "tests/place.h"
#include "tests/unit/base/temp_folder.h"

namespace windlass {
namespace {

using testing::HasSubstr;

class SaveOutput : public testing::Test {
  protected:
    static std::string base() { return source_dir() + "/tests/golden/llama/model"; }
    static TrainedModel model(bool with_lora) {
        const ModelFolder folder = ModelFolder::open(real_files(), base());
        HfConfig config = folder.config();
        ModelSpec own = build_model(config, folder.tensors());
        if (!with_lora) return TrainedModel(std::move(own));
        const std::vector<int> layers = linear_layers_of_layers(own);
        return TrainedModel(with_adapter(std::move(own), {.kind = "lora", .rank = 2, .scale = 0.5}, layers));
    }
    // All of an adapter's numbers are this one; of the base nothing is asked for.
    static ReadMasters all(float number) {
        return [number](int, int64_t, std::span<float> out) { std::ranges::fill(out, number); };
    }
    void save(const TrainedModel& model, const OutputOptions& options, float number = 0) {
        save_output(real_files(), {model, base(), "00ff"}, temp_ / "out", options, all(number));
    }
    std::string refusal(const TrainedModel& model, const OutputOptions& options) {
        try {
            save(model, options);
        } catch (const UserError& error) {
            EXPECT_EQ(error.code(), ExitCode::usage);
            return error.what();
        }
        ADD_FAILURE() << "nothing was thrown";
        return "";
    }
    TempFolder temp_;
};

TEST_F(SaveOutput, IsTheAdapterAlone) {
    const TrainedModel adapted = model(true);
    save(adapted, {});
    const AdapterFolder folder = AdapterFolder::open(real_files(), temp_ / "out");
    EXPECT_EQ(folder.base_checksum(), "00ff");
    EXPECT_EQ(std::ssize(folder.tensors()) + std::ssize(model(false).params), std::ssize(adapted.params));
    int64_t bytes = 0;
    for (const ParamSpec& param : adapted.params) bytes += param.added ? 4 * param.numel() : 0;
    EXPECT_EQ(output_bytes(real_files(), temp_ / "out"), bytes);
    EXPECT_EQ(output_bytes(real_files(), base()), ModelFolder::open(real_files(), base()).total_bytes());
}

// Each number of W gains s B A, here 0.5 * 2 * 0.25 * 0.25: the sum over the rank, times the scale.
TEST_F(SaveOutput, IsAWholeModelWhereItIsMerged) {
    save(model(true), {.form = OutputForm::merged}, 0.25f);
    ModelFolder was = ModelFolder::open(real_files(), base()), is = ModelFolder::open(real_files(), temp_ / "out");
    EXPECT_EQ(is.tensors().size(), was.tensors().size());
    for (const ParamSpec& param : model(false).params) {
        std::vector<float> before(at(param.numel())), after(at(param.numel()));
        load_elements(was, param, 0, before);
        load_elements(is, param, 0, after);
        const bool is_adapted = param.layer >= 0 && param.shape.rank() == 2;
        for (float& number : before) number += is_adapted ? 0.0625f : 0.0f;
        EXPECT_THAT(after, testing::Pointwise(testing::FloatEq(), before)) << param.name;
    }
}

// One end of a tied table that trained by itself: a folder has two tables, and a file for llama.cpp has one.
TEST_F(SaveOutput, OfOneEndOfATiedTableIsAFolder) {
    const std::string folder = source_dir() + "/tests/golden/qwen2/model";
    const ModelFolder tied = ModelFolder::open(real_files(), folder);
    HfConfig config = tied.config();
    const ModelSpec own = build_model(config, tied.tensors());
    const std::vector<int> layers = linear_layers_of_layers(own);
    const ModelSpec whole = with_adapter(own, {.kind = "lora", .rank = 2, .whole = {"lm_head.weight"}}, layers),
                    pair = with_adapter(own, {.kind = "lora", .rank = 2}, std::vector{kHeadLayer}),
                    plain = with_adapter(own, {.kind = "lora", .rank = 2}, layers);
    EXPECT_NO_THROW(require_merged(whole, folder, /*as_gguf=*/false));
    EXPECT_THROW(require_merged(whole, folder, /*as_gguf=*/true), UserError);
    EXPECT_THROW(require_merged(pair, folder, /*as_gguf=*/false), UserError);
    EXPECT_NO_THROW(require_merged(plain, folder, /*as_gguf=*/true));
}

// What evaluation saw: the base in 4 bits, and the adapter on it.
TEST_F(SaveOutput, AddsToWhatWasComputedWith) {
    TrainedModel adapted = model(true);
    set_store(adapted, StoreType::as_file);
    keep_in_4_bits(adapted);
    save(adapted, {.form = OutputForm::merged_as_computed}, 0.25f);
    ModelFolder was = ModelFolder::open(real_files(), base()), is = ModelFolder::open(real_files(), temp_ / "out");
    for (int index = 0; index < adapted.param_size(); ++index) {
        const Param param = adapted.param(index);
        if (param.spec.added) continue;
        std::vector<float> before(at(param.numel())), after(at(param.numel()));
        load_elements(was, param.spec, 0, before);
        load_elements(is, param.spec, 0, after);
        if (param.storage.dtype == DType::nf4) {
            std::vector<std::byte> kept(at(stored_bytes(DType::nf4, param.numel())));
            encode_kept(param, before, kept);
            decode_kept(param.storage, kept, 0, before);
            for (float& number : before) number += 0.0625f;
        }
        EXPECT_THAT(after, testing::Pointwise(testing::FloatEq(), before)) << param.spec.name;
    }
}

// A merged model would need a table for each end.
TEST_F(SaveOutput, RefusesToMergeOneEndOfATiedTable) {
    const std::string tied = source_dir() + "/tests/golden/qwen2/model";
    const ModelFolder folder = ModelFolder::open(real_files(), tied);
    for (const char* const module : {"lm_head", "model.embed_tokens"}) {
        HfConfig config = folder.config();
        ModelSpec own = build_model(config, folder.tensors());
        std::vector<int> layers = adaptable_layers(own, find_adapter("lora"));
        std::erase_if(layers, [&](int layer) { return module_name(own, layer_name(own, layer)) != module; });
        const TrainedModel adapted(with_adapter(std::move(own), {.kind = "lora", .rank = 2, .scale = 0.5}, layers));
        for (const OutputForm form : {OutputForm::merged, OutputForm::merged_as_computed})
            EXPECT_THAT(refusal(adapted, {.form = form}),
                        HasSubstr(fmt::format("--merged: the adapter changes {}, one end of a tied table, by itself: "
                                              "merged, there would be two tables. Try: ",
                                              module)));
        EXPECT_FALSE(std::filesystem::exists(temp_ / "out"));
    }
}

TEST_F(SaveOutput, RefusesWhatAnAdapterCannotBe) {
    for (const SaveOptions& save : {SaveOptions{.dtype = DType::bf16}, SaveOptions{.shard_bytes_max = 1 << 20}})
        EXPECT_THAT(refusal(model(true), {.save = save}), HasSubstr("an adapter is one file of f32 numbers. Try: "));
    for (const OutputForm form : {OutputForm::merged, OutputForm::merged_as_computed})
        EXPECT_THAT(refusal(model(false), {.form = form}),
                    HasSubstr("--merged: this run trained no adapter: what it trained is a whole model"));
}

// The reader refuses numbers that are not finite, so they are not written.
TEST_F(SaveOutput, IsNoModelWhoseSumsAreInfinite) {
    const TrainedModel adapted = model(true);
    for (const float number : {1e20f, -1e30f, std::numeric_limits<float>::quiet_NaN()}) {
        for (const OutputForm form : {OutputForm::merged, OutputForm::merged_as_computed}) {
            try {
                save(adapted, {.form = form}, number);
                ADD_FAILURE() << number << " was merged as " << output_form_name(form);
            } catch (const UserError& error) {
                EXPECT_EQ(error.code(), ExitCode::model);
                EXPECT_THAT(error.what(), HasSubstr("once the adapter is added, expected a finite number. Try: "));
            }
            EXPECT_FALSE(std::filesystem::exists(temp_ / "out"));
        }
    }
    save(adapted, {.form = OutputForm::merged}, 1e3f);
    EXPECT_TRUE(std::filesystem::exists(temp_ / "out"));
}

TEST_F(SaveOutput, NeverReplacesItsBase) {
    const TempFolder copy;
    std::filesystem::copy(base(), copy / "base");
    EXPECT_THROW(
        save_output(real_files(), {model(true), copy / "base"}, copy / "base", {.save = {.overwrite = true}}, all(0)),
        UserError);
    EXPECT_TRUE(real_files().exists(copy / "base/config.json"));
}

TEST(OutputForms, HaveNames) {
    for (const OutputForm form : {OutputForm::adapter, OutputForm::merged, OutputForm::merged_as_computed})
        EXPECT_EQ(output_form_from_name(output_form_name(form)), form);
    EXPECT_EQ(output_form_from_name("whole"), std::nullopt);
}

}  // namespace
}  // namespace windlass
