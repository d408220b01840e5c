#include <algorithm>
#include <charconv>
#include <optional>
#include <string>

#include "base/error.h"
#include "base/json.h"
#include "model/adapters/peft.h"

namespace windlass {
namespace {

constexpr const char* kLayerChoice = "layers_to_transform";

// The last part of a module's name that is a number: "model.layers.3.mlp" is of layer 3. Nothing for the ends.
std::optional<int64_t> number_of_layer(std::string_view module) {
    std::optional<int64_t> number;
    for (size_t begin = 0; begin < module.size();) {
        const size_t end = std::min(module.find('.', begin), module.size());
        int64_t value = 0;
        const auto [stop, error] = std::from_chars(module.data() + begin, module.data() + end, value);
        if (error == std::errc() && stop == module.data() + end) number = value;
        begin = end + 1;
    }
    return number;
}

}  // namespace

void check_layer_choice(const AdapterFolder& folder, const ModelSpec& base, const std::vector<int>& layers) {
    const Json said = folder.config().value(kLayerChoice, Json());
    const bool is_nothing = said.is_null() || (said.is_array() && said.empty());
    if (is_nothing) return;
    const auto is_layer = [](const Json& one) { return one.is_number_integer(); };
    if (!is_layer(said) && !(said.is_array() && std::ranges::all_of(said, is_layer)))
        throw UserError(ExitCode::model, folder.config_path(), "\"{}\" is no list of numbers of layers", kLayerChoice)
            .hint("an adapter that peft has saved");
    const Json list = said.is_array() ? said : Json::array({said});
    for (const int layer : layers) {
        const std::string module = module_name(base, layer_name(base, layer));
        const std::optional<int64_t> number = number_of_layer(module);
        if (number && std::ranges::find(list, Json(*number)) != list.end()) continue;
        throw UserError(
            ExitCode::model, folder.config_path(),
            "\"{}\" does not name the layer of {}, whose tensors the adapter has: peft would leave them out",
            kLayerChoice, module)
            .hint(fmt::format("\"{}\": null, if all tensors belong to the adapter", kLayerChoice));
    }
}

}  // namespace windlass
