// lone_model.h: a model of parameters alone, with no block that uses them.
#pragma once

#include <vector>

#include "method/trained_model.h"

namespace windlass {

inline TrainedModel lone_model(const std::vector<LoneParam>& params) {
    TrainedModel model;
    for (const LoneParam& each : params) {
        model.params.push_back(each.spec);
        model.training.push_back(each.training);
        model.storage.push_back(each.storage);
        model.perturb.push_back(each.perturb);
    }
    return model;
}

// As families make them: matrices decay, vectors do not.
inline TrainedModel lone_model(std::vector<ParamSpec> params) {
    ModelSpec spec;
    spec.params = std::move(params);
    return TrainedModel(std::move(spec));
}

}  // namespace windlass
