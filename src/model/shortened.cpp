#include "model/shortened.h"

#include <algorithm>
#include <span>

#include "base/index.h"

namespace windlass {

int layer_count(const ModelSpec& model) {
    return static_cast<int>(model.blocks.size()) - 2;
}

int layer_period(const ModelSpec& model) {
    constexpr int kPeriodMax = 8;
    const int layers = layer_count(model);
    if (layers < 2) return 1;
    for (int period = 1; period <= std::min(kPeriodMax, layers / 2); ++period) {
        bool repeats = true;
        for (int layer = 1; repeats && layer + period <= layers; ++layer)
            repeats = model.blocks[at(layer)].program == model.blocks[at(layer + period)].program;
        if (repeats) return period;
    }
    return 0;
}

namespace {

std::vector<Block> first_blocks(const ModelSpec& model, int layers) {
    WINDLASS_CHECK(layers >= 0 && layers <= layer_count(model), "{} of {} layers", layers, layer_count(model));
    std::vector<Block> blocks(model.blocks.begin(), model.blocks.begin() + 1 + layers);
    blocks.push_back(model.blocks.back());
    return blocks;
}

// By parameter, the first of these blocks that uses it; -1: none does.
std::vector<int> homes_in(std::span<const Block> blocks, size_t params) {
    std::vector<int> home(params, -1);
    for (size_t block = blocks.size(); block-- > 0;) {
        for (const int param : blocks[block].params) home[at(param)] = static_cast<int>(block);
    }
    return home;
}

}  // namespace

std::vector<int> params_of_first(const ModelSpec& model, int layers) {
    const std::vector<int> home = homes_in(first_blocks(model, layers), model.params.size());
    std::vector<int> used;
    for (size_t param = 0; param < home.size(); ++param) {
        if (home[param] >= 0) used.push_back(static_cast<int>(param));
    }
    return used;
}

ModelSpec shortened(const ModelSpec& model, int layers) {
    ModelSpec result = model;
    result.blocks = first_blocks(model, layers);
    result.params.clear();
    const std::vector<int> home = homes_in(result.blocks, model.params.size());
    std::vector<int> index(model.params.size(), -1);
    for (const int param : params_of_first(model, layers)) {
        index[at(param)] = static_cast<int>(result.params.size());
        result.params.push_back(model.params[at(param)]);
        result.params.back().block = home[at(param)];
    }
    for (Block& block : result.blocks) {
        for (int& param : block.params) param = index[at(param)];
    }
    for (int& param : result.logits.params) param = index[at(param)];
    return result;
}

}  // namespace windlass
