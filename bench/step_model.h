// step_model.h: the model that step_bench trains: a folder that it is given or makes, or weights from a seed.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <string>

#include "base/file.h"
#include "base/math.h"
#include "device/cpu/team.h"
#include "format/model_folder.h"
#include "model/adapters/adapter.h"
#include "model/families.h"
#include "model/sublayers.h"
#include "run/engine.h"
#include "step_arguments.h"
#include "tools/make_model.h"

namespace windlass {

// What a model of this shape says of itself, and no weights.
inline std::string make_config_folder(const Arguments& a) {
    const std::string folder = fmt::format("{}/step-bench-{}-config", a.store, a.shape);
    real_files().make_folders(folder);
    write_text_atomic(real_files(), folder + "/config.json",
                      make_model::config(make_model::resolved(make_model::named_shape(a.shape))).dump());
    return folder;
}

inline std::string make_model_folder(const Arguments& a, const std::string& program) {
    if (!a.model.empty()) return a.model;
    if (a.seeded) return make_config_folder(a);
    const std::string folder = fmt::format("{}/step-bench-{}", a.store, a.shape);
    if (real_files().exists(folder)) return folder;
    const std::string maker = program.substr(0, program.rfind('/') + 1) + "make_model";
    if (std::system(fmt::format("{} --shape {} --out {} >/dev/null", maker, a.shape, folder).c_str()) != 0)
        throw UserError(ExitCode::internal, maker, "failed to make a {} model", a.shape);
    return folder;
}

inline ModelFolder open_folder(const Arguments& a, const std::string& program) {
    return ModelFolder::open(real_files(), make_model_folder(a, program), {.weights_may_be_absent = a.seeded});
}

// "lsp/2": projectors of half of the model's width.
inline AdapterSettings adapter_of(const Arguments& a, const ModelSpec& spec) {
    if (a.adapter == "ia3") return {.kind = "ia3"};
    if (a.adapter.starts_with("lsp/"))
        return {.kind = "lsp", .rank = spec.hidden / std::stoll(a.adapter.substr(4)), .nonzeros = 8, .seed = 1};
    return {.kind = "lora", .rank = a.rank, .scale = 2.0};
}

// With the adapter that is asked for, over the weights as they are in the files, or in 4 bits.
inline TrainedModel model_of(const Arguments& a, ModelFolder& folder) {
    HfConfig config = folder.config();
    ModelSpec spec = build_model(config, folder.tensors());
    const Recipe recipe = make_recipe(a.method, a.options);
    if (a.seeded && (!a.adapter.empty() || recipe.uses_gradients_at_once())) {
        for (ParamSpec& param : spec.params) param.file_dtype = a.dtype;
    }
    if (!a.adapter.empty()) {
        const std::vector<int> layers = linear_layers_of_layers(spec);
        const AdapterSettings settings = adapter_of(a, spec);
        spec = with_adapter(std::move(spec), settings, layers);
    }
    TrainedModel model(std::move(spec));
    set_store(model, recipe.store);
    if (!a.adapter.empty()) keep_frozen_as(model, a.dtype);
    if (a.adapter == "qlora") keep_in_4_bits(model);
    if (a.refresh_rows > 0) set_refreshed(model);
    return recipe.probes() ? in_sublayers(model) : model;
}

// Matrices of a uniform distribution with a deviation of 0.02, from a hash of the place; vectors that change nothing.
inline void fill_seeded(Engine& engine, int threads) {
    const std::vector<ParamSpec>& params = engine.setup().model.params;
    Team team(threads);
    engine.fill(0, "{}", [&](int param, int64_t first, std::span<float> out) {
        const ParamSpec& spec = params[static_cast<size_t>(param)];
        if (spec.shape.rank() == 1) {
            std::ranges::fill(out, spec.name.ends_with("bias") ? 0.0f : 1.0f);
            return;
        }
        constexpr int64_t kPiece = int64_t{1} << 16;
        team.parallel_for(div_up(std::ssize(out), kPiece), [&](int64_t piece, int) {
            constexpr float kScale = 0.0346f / 2147483648.0f;  // 0.02 x sqrt(3), of a signed word
            const int64_t end = std::min(std::ssize(out), (piece + 1) * kPiece);
            for (int64_t i = piece * kPiece; i < end; ++i) {
                auto x = static_cast<uint64_t>(int64_t{param} << 40) + static_cast<uint64_t>(first + i);
                x = (x ^ x >> 32) * 0x9e3779b97f4a7c15u;
                out[static_cast<size_t>(i)] = kScale * static_cast<float>(static_cast<int32_t>((x ^ x >> 29) >> 16));
            }
        });
    });
}

inline void fill(const Arguments& a, Engine& engine, ModelFolder& folder) {
    if (a.seeded)
        fill_seeded(engine, a.threads);
    else
        engine.load(folder, "{}");
}

// Forward and backward are three; a tangent is two, with one product of its own and one of the weights.
inline double forwards(const Recipe& recipe) {
    if (!recipe.probes()) return 3;
    double count = 0;
    for (const RecipePass& pass : recipe.passes) count += pass.kind == PassKind::tangent ? 1 + 2 * pass.k : pass.k;
    return count;
}

}  // namespace windlass
