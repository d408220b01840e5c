#include "model/families.h"

#include <fmt/ranges.h>

namespace windlass {

ModelSpec build_model(HfConfig& config, std::span<const TensorPlace> tensors) {
    const std::string type = config.model_type();
    std::vector<std::string_view> known;
    for (const Family* family : all_families()) {
        known.push_back(family->model_type);
        if (family->model_type != type) continue;
        ModelSpec model = family->build(config, tensors);
        config.finish();
        return model;
    }
    throw UserError(ExitCode::model, config.where(), "\"model_type\" is \"{}\": this family is not implemented", type)
        .hint(fmt::format("a model of type {}", fmt::join(known, ", ")));
}

}  // namespace windlass
