#include "model/shortened.h"

#include <algorithm>

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

ModelSpec shortened(const ModelSpec& model, int layers) {
    WINDLASS_CHECK(layers >= 0 && layers <= layer_count(model), "{} of {} layers", layers, layer_count(model));
    ModelSpec result = model;
    result.params.clear();
    result.blocks.resize(1 + at(layers));
    result.blocks.push_back(model.blocks.back());
    std::vector<int> home(model.params.size(), -1);
    for (size_t block = result.blocks.size(); block-- > 0;) {
        for (const int param : result.blocks[block].params) home[at(param)] = static_cast<int>(block);
    }
    std::vector<int> index(model.params.size(), -1);
    for (size_t param = 0; param < model.params.size(); ++param) {
        if (home[param] < 0) continue;
        index[param] = static_cast<int>(result.params.size());
        result.params.push_back(model.params[param]);
        result.params.back().block = home[param];
    }
    for (Block& block : result.blocks) {
        for (int& param : block.params) param = index[at(param)];
    }
    for (int& param : result.logits.params) param = index[at(param)];
    return result;
}

}  // namespace windlass
