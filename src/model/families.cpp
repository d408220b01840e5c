#include "model/families.h"
#include "base/printable.h"

#include <fmt/ranges.h>

namespace windlass {

namespace {

// One line for all keys that transformers does not read either, one for those that the user asks to ignore.
std::vector<std::string> config_notes(const HfConfig& config) {
    std::vector<std::string> notes;
    const auto note = [&](const auto& keys, std::string_view of_one, std::string_view of_many, std::string_view type) {
        if (!keys.empty())
            notes.push_back(fmt::format("{}: \"{}\" {}{}", config.where(), fmt::join(keys, "\", \""),
                                        keys.size() == 1 ? of_one : of_many, type));
    };
    note(config.unread(), "has no effect: transformers does not read it for ",
         "have no effect: transformers does not read them for ", config.model_type());
    note(config.ignored(), "is ignored, as ignore_config_keys says", "are ignored, as ignore_config_keys says", "");
    return notes;
}

}  // namespace

const Family* find_family(std::string_view model_type) {
    const auto all = all_families();
    const auto found =
        std::ranges::find_if(all, [&](const Family* family) { return family->model_type == model_type; });
    return found == all.end() ? nullptr : *found;
}

ModelSpec build_model(HfConfig& config, std::span<const TensorPlace> tensors) {
    const std::string type = config.model_type();
    std::vector<std::string_view> known;
    for (const Family* family : all_families()) {
        known.push_back(family->model_type);
        if (family->model_type != type) continue;
        ModelSpec model = family->build(config, tensors);
        config.finish();
        model.config_notes = config_notes(config);
        model.notes.insert(model.notes.end(), model.config_notes.begin(), model.config_notes.end());
        model.ignored_config_keys = config.ignored();
        return model;
    }
    throw UserError(ExitCode::model, config.where(), "\"model_type\" is \"{}\": this family is not implemented",
                    excerpt(type))
        .hint(fmt::format("a model of type {}", fmt::join(known, ", ")));
}

}  // namespace windlass
