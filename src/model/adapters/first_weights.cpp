#include "model/adapters/first_weights.h"

#include <algorithm>

#include "base/error.h"
#include "base/index.h"
#include "base/rng.h"
#include "model/adapters/peft.h"
#include "model/adapters/row_norms.h"
#include "model/load.h"

namespace windlass {
namespace {

constexpr int64_t kWords = 4;  // of one counter

// Each number has a counter of its own, as noise has: any piece of a parameter may be asked for.
void draw(const AddedParam& added, uint64_t seed, int64_t element, std::span<float> out) {
    for (int64_t i = 0; i < std::ssize(out); ++i) {
        const int64_t index = element + i;
        const auto words = philox(seed, {.block = static_cast<uint64_t>(index / kWords), .stream = RandomStream::init});
        const uint32_t word = words[at(index % kWords)];
        const double within = added.is_signed ? (word >> 31 != 0 ? 1.0 : -1.0) : 2.0 * uniform01(word) - 1.0;
        out[at(i)] = static_cast<float>(added.first_mean + added.first_bound * within);
    }
}

// The model's table that this parameter is a copy of.
const ParamSpec& table_of(const ModelSpec& model, const ParamSpec& copy) {
    const auto table = std::ranges::find(model.params, copy.added->copy_of, &ParamSpec::name);
    WINDLASS_CHECK(table != model.params.end(), "{} is a copy of no parameter", copy.name);
    return *table;
}

// The norms of the weight of the layer that has this parameter.
void read_norms(const ModelFolder& base, const ModelSpec& model, const AddedParam& added, const AsKept& as_kept,
                int64_t first, std::span<float> out) {
    const auto weight = std::ranges::find(model.params, added.layer + ".weight", &ParamSpec::name);
    WINDLASS_CHECK(weight != model.params.end(), "{} is the layer of no weight", added.layer);
    const int index = static_cast<int>(weight - model.params.begin());
    const std::vector<double> norms =
        row_norms(linear_layer(model, index), first, std::ssize(out), [&](int64_t element, std::span<float> numbers) {
            load_elements(base, *weight, element, numbers);
            if (as_kept) as_kept(index, element, numbers);
        });
    for (size_t i = 0; i < out.size(); ++i) out[i] = static_cast<float>(norms[i]);
}

}  // namespace

ReadMasters first_weights(const ModelFolder& base, const ModelSpec& model, uint64_t seed, const AdapterFolder* adapter,
                          AsKept as_kept) {
    return [&base, &model, seed, adapter, as_kept = std::move(as_kept), starts = global_offsets(model)](
               int index, int64_t first, std::span<float> out) {
        const ParamSpec& param = model.params[at(index)];
        if (adapter != nullptr && (param.added || param.is_whole))
            return load_peft_elements(*adapter, model, param, first, out);
        if (!param.added) return load_elements(base, param, first, out);
        if (!param.added->copy_of.empty()) return load_elements(base, table_of(model, param), first, out);
        if (param.added->is_row_norm) return read_norms(base, model, *param.added, as_kept, first, out);
        if (param.added->first_bound == 0)
            std::ranges::fill(out, static_cast<float>(param.added->first_mean));
        else
            draw(*param.added, seed, starts[at(index)] + first, out);
    };
}

}  // namespace windlass
