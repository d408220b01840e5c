#include "model/adapters/first_weights.h"

#include <algorithm>

#include "base/error.h"
#include "base/index.h"
#include "base/rng.h"
#include "model/adapters/peft.h"
#include "model/adapters/row_norms.h"
#include "model/adapters/tokens.h"
#include "model/adapters/whole.h"
#include "model/load.h"

namespace windlass {
namespace {

constexpr int64_t kWords = 4;  // of one counter

// Each number has a counter of its own, as noise has: any piece of a parameter may be asked for.
void draw(const FirstRule& rule, uint64_t seed, int64_t element, std::span<float> out) {
    if (rule.bound == 0) {
        std::ranges::fill(out, static_cast<float>(rule.mean));
        return;
    }
    const bool is_sign = rule.kind == FirstValues::signs;

    for (int64_t i = 0; i < std::ssize(out); ++i) {
        const int64_t index = element + i;
        const auto words = philox(seed, {.block = static_cast<uint64_t>(index / kWords), .stream = RandomStream::init});
        const uint32_t word = words[at(index % kWords)];
        const double within = is_sign ? (word >> 31 != 0 ? 1.0 : -1.0) : 2.0 * uniform01(word) - 1.0;
        out[at(i)] = static_cast<float>(rule.mean + rule.bound * within);
    }
}

// What the parameters of a model begin with.
struct First {
    const ModelFolder& base;
    const ModelSpec& model;
    uint64_t seed;
    AsKept as_kept;

    // The model's own, as they are kept.
    void read_kept(int index, int64_t first, std::span<float> out) const {
        load_elements(base, model.params[at(index)], first, out);
        if (as_kept) as_kept(index, first, out);
    }

    // The norms of the weight of the layer that has this parameter.
    void read_norms(const AddedParam& added, int64_t first, std::span<float> out) const {
        const int weight = find_param(model, added.layer + ".weight");
        const std::vector<double> norms =
            row_norms(linear_layer(model, weight), first, std::ssize(out),
                      [&](int64_t element, std::span<float> numbers) { read_kept(weight, element, numbers); });
        for (size_t i = 0; i < out.size(); ++i) out[i] = static_cast<float>(norms[i]);
    }

    void make(const AddedParam& added, int64_t start, int64_t first, std::span<float> out) const {
        if (!added.copy_of.empty())
            return load_elements(base, model.params[at(find_param(model, added.copy_of))], first, out);
        switch (added.first.kind) {
            case FirstValues::row_norms:
                return read_norms(added, first, out);
            case FirstValues::one_hot:
                return one_hot(model.adapter->tokens.at(added.layer), first, out);
            default:
                return draw(added.first, seed, start + first, out);
        }
    }

    void read(const AdapterFolder& adapter, const ParamSpec& param, int64_t first, std::span<float> out) const {
        load_peft_elements(adapter, model, param, first, out);
        if (!is_token_rows(model, param)) return;
        const std::vector<float> own = own_rows(
            model, param, first, std::ssize(out),
            [this](int index, int64_t element, std::span<float> numbers) { read_kept(index, element, numbers); });
        for (size_t i = 0; i < out.size(); ++i) out[i] -= own[i];
    }
};

}  // namespace

ReadMasters first_weights(const ModelFolder& base, const ModelSpec& model, uint64_t seed, const AdapterFolder* adapter,
                          AsKept as_kept) {
    return [of = First{base, model, seed, std::move(as_kept)}, adapter, starts = global_offsets(model)](
               int index, int64_t first, std::span<float> out) {
        const ParamSpec& param = of.model.params[at(index)];
        const bool is_in_files = param.added ? param.added->first.is_in_files() : param.is_whole;
        if (adapter != nullptr && is_in_files) return of.read(*adapter, param, first, out);
        if (param.added) return of.make(*param.added, starts[at(index)], first, out);
        load_elements(of.base, param, first, out);
    };
}

}  // namespace windlass
