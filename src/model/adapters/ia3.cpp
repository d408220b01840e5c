// ia3.cpp: IA3: a trained scale of each output of a layer, l * (in W^T + b) (Liu et al., "Few-Shot Parameter-Efficient
// Fine-Tuning is Better and Cheaper than In-Context Learning", NeurIPS 2022, arXiv 2205.05638, section 3.3).
#include "base/error.h"
#include "base/json.h"
#include "model/adapters/config_fields.h"
#include "model/adapters/kinds.h"
#include "op/ops.h"

namespace windlass {
namespace ia3_adapter {

std::vector<AdapterPart> parts(const LinearLayer& layer, const AdapterSettings& /*settings*/) {
    return {{.name = "ia3_l", .shape = {layer.out_cols}, .peft_shape = {layer.out_cols, 1}, .first_mean = 1}};
}

int write(ProgramBuilder& program, const AdapterPlace& place, const AdapterSettings& /*settings*/) {
    return program.apply(kScale, place.layer.role + ".ia3", {place.out}, {place.parts[0]}, ScaleAttrs{});
}

void fuse(const LinearLayer& layer, const AdapterSettings& /*settings*/, std::span<const std::vector<float>> parts,
          const FuseRun& run) {
    const std::vector<float>& scales = parts[0];
    for (size_t i = 0; i < run.numbers.size(); ++i) {
        const int64_t element = run.first + static_cast<int64_t>(i);
        const int64_t out = run.is_bias ? element : layer.in_out ? element % layer.out_cols : element / layer.in_cols;
        run.numbers[i] *= scales[static_cast<size_t>(out)];
    }
}

void write_config(const AdapterSettings& /*settings*/, Json& config) {
    config["feedforward_modules"] = Json::array();
    config["init_ia3_weights"] = true;
}

// peft scales the input of a feed-forward module, not its output.
AdapterSettings read_config(const Json& config, std::string_view where) {
    const auto found = config.find("feedforward_modules");
    const bool is_empty = found == config.end() || found->is_null() || (found->is_array() && found->empty());
    if (!is_empty)
        throw UserError(ExitCode::model, where, "\"feedforward_modules\" is {}: scales of inputs are not implemented",
                        shown(*found))
            .hint("to merge it with peft, and to give the merged model");
    return {.kind = "ia3"};
}

}  // namespace ia3_adapter

constinit const AdapterKind kIa3 = {
    .name = "ia3",
    .peft_type = "IA3",
    .parts = ia3_adapter::parts,
    .write = ia3_adapter::write,
    .fuse = ia3_adapter::fuse,
    .write_config = ia3_adapter::write_config,
    .read_config = ia3_adapter::read_config,
    .fields = "feedforward_modules init_ia3_weights fan_in_fan_out",
};

}  // namespace windlass
