// ia3.cpp: IA3: a trained scale of each output of a layer, l * (in W^T + b), or of each input of one, (l * in) W^T + b,
// which peft calls a feed-forward module (Liu et al., "Few-Shot Parameter-Efficient
// Fine-Tuning is Better and Cheaper than In-Context Learning", NeurIPS 2022, arXiv 2205.05638, section 3.3).
#include "base/json.h"
#include "model/adapters/config_fields.h"
#include "model/adapters/kinds.h"
#include "op/ops.h"

namespace windlass {
namespace ia3_adapter {

constexpr AdapterKind::ByModule kByModule[] = {{"feedforward_modules", "scales_input"}};

std::vector<AdapterPart> parts(const LinearLayer& layer, const AdapterSettings& settings) {
    if (settings.scales_input)
        return {{.name = "ia3_l", .shape = {layer.in_cols}, .peft_shape = {1, layer.in_cols}, .first = {.mean = 1}}};
    return {{.name = "ia3_l", .shape = {layer.out_cols}, .peft_shape = {layer.out_cols, 1}, .first = {.mean = 1}}};
}

int write(ProgramBuilder& program, const AdapterPlace& place, const AdapterSettings& /*settings*/) {
    return program.apply(kScale, place.layer.role + ".ia3", {place.out}, {place.parts[0]}, ScaleAttrs{});
}

int write_input(ProgramBuilder& program, const AdapterPlace& place) {
    return program.apply(kScale, place.layer.role + ".ia3", {place.in}, {place.parts[0]}, ScaleAttrs{});
}

void fuse(const LinearLayer& layer, const AdapterSettings& settings, std::span<const std::vector<float>> parts,
          const FuseRun& run) {
    if (settings.scales_input && run.is_bias) return;
    const std::vector<float>& scales = parts[0];
    for (size_t i = 0; i < run.numbers.size(); ++i) {
        const int64_t element = run.first + static_cast<int64_t>(i);
        const int64_t cols = layer.in_out ? layer.out_cols : layer.in_cols;
        const bool by_column = layer.in_out != settings.scales_input;
        const int64_t scale = run.is_bias ? element : by_column ? element % cols : element / cols;
        run.numbers[i] *= scales[static_cast<size_t>(scale)];
    }
}

void write_config(const AdapterSettings& settings, Json& config) {
    config["feedforward_modules"] = Json::array();
    config["init_ia3_weights"] = true;
    if (settings.scales_input) config["scales_input"] = true;
}

AdapterSettings read_config(const Json& config, std::string_view where) {
    return {.kind = "ia3", .scales_input = flag_field(config, "scales_input", where)};
}

}  // namespace ia3_adapter

constinit const AdapterKind kIa3 = {
    .name = "ia3",
    .peft_type = "IA3",
    .parts = ia3_adapter::parts,
    .write = ia3_adapter::write,
    .write_input = ia3_adapter::write_input,
    .fuse = ia3_adapter::fuse,
    .write_config = ia3_adapter::write_config,
    .read_config = ia3_adapter::read_config,
    .by_module = ia3_adapter::kByModule,
    .fields = "feedforward_modules init_ia3_weights fan_in_fan_out",
};

}  // namespace windlass
