#include "method/trained_model.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/index.h"
#include "base/math.h"
#include "device/cpu/team.h"
#include "model/adapters/tokens.h"
#include "model/shortened.h"
#include "model/sublayers.h"
#include "perturb/stored.h"
#include "tensor/e4m3.h"

namespace windlass {
namespace {

bool is_f8(const ParamStorage& storage) {
    return storage.dtype == DType::f8_e4m3;
}

bool any_is_kept_as(const TrainedModel& model, DType dtype) {
    return std::ranges::any_of(model.storage, [&](const ParamStorage& each) { return each.dtype == dtype; });
}

bool is_common(const TrainedModel& model, int index) {
    return !model.frozen_type || model.training[at(index)].trains;
}

// Of the model's own parameters those that `narrows` says.
template <typename Narrows>
void keep_as(TrainedModel& model, DType dtype, Narrows narrows) {
    for (int index = 0; index < model.param_size(); ++index) {
        const ParamSpec& spec = model.params[at(index)];
        ParamStorage& storage = model.storage[at(index)];
        const bool is_own = !spec.added && !spec.is_whole;
        if (storage.store == StoreType::as_file && is_own && narrows(spec)) storage.dtype = dtype;
    }
}

}  // namespace

TrainedModel::TrainedModel(ModelSpec spec)
    : ModelSpec(std::move(spec)), training(params.size()), storage(params.size()), perturb(params.size()) {
    for (size_t index = 0; index < params.size(); ++index) {
        training[index].decays = params[index].shape.rank() >= 2 && !is_token_rows(*this, params[index]);
        training[index].trains = !adapter || params[index].learns_with_adapter();
    }
}

TrainedModel shortened(const TrainedModel& model, int layers) {
    TrainedModel result(shortened(static_cast<const ModelSpec&>(model), layers));
    result.groups = model.groups;
    result.frozen_type = model.frozen_type;
    const std::vector<int> left = params_of_first(model, layers);
    for (size_t index = 0; index < left.size(); ++index) {
        result.training[index] = model.training[at(left[index])];
        result.storage[index] = model.storage[at(left[index])];
        result.perturb[index] = model.perturb[at(left[index])];
    }
    return result;
}

TrainedModel in_sublayers(TrainedModel model) {
    static_cast<ModelSpec&>(model) = in_sublayers(static_cast<const ModelSpec&>(model));
    return model;
}

int64_t trained_count(const TrainedModel& model) {
    int64_t count = 0;
    for (const Param param : model.all_params()) count += param.trains() ? param.numel() : 0;
    return count;
}

std::vector<uint8_t> frozen_params(const TrainedModel& model) {
    std::vector<uint8_t> frozen;
    for (const Param param : model.all_params()) frozen.push_back(param.changes() ? 0 : 1);
    return frozen;
}

void set_refreshed(TrainedModel& model) {
    const auto trains = [&](int param) { return model.training[at(param)].trains; };
    for (const ProjectedLayer& layer : projected_layers(model)) {
        if (!trains(layer.inner) || trains(layer.weight) || trains(layer.left) || trains(layer.right)) continue;
        for (const int param : {layer.weight, layer.left, layer.right}) model.training[at(param)].is_refreshed = true;
        ParamStorage& storage = model.storage[at(layer.weight)];
        if (storage.dtype == DType::f16) storage.dtype = DType::f32;
    }
}

std::vector<ProjectedLayer> refreshed_layers(const TrainedModel& model) {
    if (std::ranges::none_of(model.training, &ParamTraining::is_refreshed)) return {};
    std::vector<ProjectedLayer> layers = projected_layers(model);
    std::erase_if(layers, [&](const ProjectedLayer& each) { return !model.training[at(each.weight)].is_refreshed; });
    return layers;
}

DType common_type(const TrainedModel& model) {
    std::optional<DType> type;
    for (int index = 0; index < model.param_size(); ++index) {
        const DType own = model.params[at(index)].file_dtype;
        if (is_common(model, index)) type = type.value_or(own) == own ? own : DType::f32;
    }
    return type.value_or(DType::f32);
}

void set_store(TrainedModel& model, StoreType store) {
    model.frozen_type.reset();
    const DType kept = store == StoreType::split ? DType::bf16 : common_type(model);
    for (ParamStorage& storage : model.storage) {
        storage.store = store;
        storage.dtype = kept;
    }
}

void keep_frozen_as(TrainedModel& model, DType computed) {
    model.frozen_type = computed;
    const DType common = common_type(model);
    for (int index = 0; index < model.param_size(); ++index) {
        ParamStorage& storage = model.storage[at(index)];
        const DType own = model.params[at(index)].file_dtype;
        // What of an adapter is not trained is written all the same: as it was drawn or read, not rounded.
        const bool is_narrow = !model.params[at(index)].added && dtype_bytes(computed) <= dtype_bytes(own);
        if (!is_common(model, index))
            storage = {.store = StoreType::as_file, .dtype = is_narrow ? computed : own};
        else if (storage.store == StoreType::as_file)
            storage.dtype = common;
    }
}

std::string_view merge_name(Merge merge) {
    static constexpr std::array<std::string_view, 3> kNames = {"each_step", "per_window", "never"};
    return kNames[static_cast<size_t>(merge)];
}

std::optional<Merge> merge_from_name(std::string_view name) {
    for (const Merge merge : {Merge::each_step, Merge::per_window, Merge::never}) {
        if (merge_name(merge) == name) return merge;
    }
    return std::nullopt;
}

void set_merge(TrainedModel& model, Merge merge) {
    for (size_t index = 0; index < model.params.size(); ++index) {
        const bool each_step = merge == Merge::never && model.params[index].shape.rank() < 2;
        model.perturb[index].merge = each_step ? Merge::each_step : merge;
    }
}

void keep_in_8_bits(TrainedModel& model) {
    keep_as(model, DType::f8_e4m3, [](const ParamSpec& spec) { return spec.shape.rank() >= 2; });
}

bool is_kept_in_8_bits(const TrainedModel& model) {
    return any_is_kept_as(model, DType::f8_e4m3);
}

void keep_in_4_bits(TrainedModel& model) {
    keep_as(model, DType::nf4, [](const ParamSpec& spec) { return spec.shape.rank() == 2 && spec.layer >= 0; });
}

bool is_kept_in_4_bits(const TrainedModel& model) {
    return any_is_kept_as(model, DType::nf4);
}

std::vector<int> scale_exponents(const TrainedModel& model) {
    std::vector<int> exponents;
    exponents.reserve(model.storage.size());
    for (const ParamStorage& storage : model.storage) exponents.push_back(storage.scale_exponent);
    return exponents;
}

void set_scale_exponents(std::span<const int> exponents, std::string_view where, TrainedModel& model) {
    if (exponents.size() != model.params.size())
        throw UserError(ExitCode::storage, where, "has {} scales of weights in 8 bits, the model has {} parameters",
                        exponents.size(), model.params.size())
            .hint("the model folder that this run started from");
    for (size_t index = 0; index < exponents.size(); ++index) {
        ParamStorage& storage = model.storage[index];
        const int least = is_f8(storage) ? kE4m3ScaleMin : 0, most = is_f8(storage) ? kE4m3ScaleMax : 0;
        if (exponents[index] < least || exponents[index] > most)
            throw UserError(ExitCode::storage, where, "the scale of {} is 2^{}, expected an exponent of {} to {}",
                            model.params[index].name, exponents[index], least, most)
                .hint("the model folder that this run started from");
        storage.scale_exponent = exponents[index];
    }
}

void decode_kept(const ParamStorage& storage, std::span<const std::byte> bytes, int64_t first, std::span<float> out) {
    decode_stored({storage.dtype, storage.scale_exponent}, bytes, first, out);
}

void encode_kept(const Param& param, std::span<const float> values, std::span<std::byte> out, Team* team) {
    const StoredType type{param.storage.dtype, param.storage.scale_exponent};
    const DType files = param.spec.file_dtype;
    if (team == nullptr) return encode_stored(type, files, values, out);
    constexpr int64_t kPiece = int64_t{1} << 14;  // whole groups of every type
    const int64_t count = std::ssize(values);
    team->parallel_for(div_up(count, kPiece), [&](int64_t piece, int) {
        const int64_t begin = piece * kPiece, end = std::min(count, begin + kPiece);
        const auto from = at(stored_bytes(type.dtype, begin)), to = at(stored_bytes(type.dtype, end));
        encode_stored(type, files, values.subspan(at(begin), at(end - begin)), out.subspan(from, to - from));
    });
}

}  // namespace windlass
