#include "run/update_probe.h"

#include "run/kernel_call.h"
#include "schedule/numerics.h"

namespace windlass {

UpdateProbe::UpdateProbe(const Recipe& recipe, int64_t side, Device& device, Stream& stream)
    : recipe_(recipe),
      kernel_(*recipe.update()),
      device_(device),
      stream_(stream),
      param_{.spec = {.name = "w", .shape = {side, side}}, .training = {}, .storage = {recipe.store}, .perturb = {}} {
    const int64_t count = param_.spec.numel();
    WINDLASS_CHECK(count <= kChunkElements, "{} elements are more than a chunk", count);
    step_.step = 1;
    step_.learning_rate = 1e-3;
    recipe_.prepare({}, step_);
    weights_ = &allocate(4 * count);
    fill_randomly(*weights_, DType::bf16);
    gradient_ = &allocate(4 * count);
    fill_randomly(*gradient_, DType::f32);
    for (const StateSpec& spec : recipe_.state) {
        const int64_t bytes = state_bytes(spec, param_.spec, 0, count);
        state_.push_back(&allocate(bytes));
        state_.back()->write(0, std::vector<std::byte>(static_cast<size_t>(bytes)));
    }
    const Param param = param_;
    if (kernel_.work_bytes != nullptr) work_ = &allocate(kernel_.work_bytes({.params = {&param, 1}}));
}

Memory& UpdateProbe::allocate(int64_t bytes) {
    return *memories_.emplace_back(device_.allocate(bytes, MemoryKind::device));
}

void UpdateProbe::operator()() {
    stream_.launch([&](const Launch& launch) {
        const int64_t count = param_.spec.numel();
        std::vector<std::byte*> state;
        for (const Memory* part : state_) state.push_back(part->address(launch));
        std::byte* const begin = weights_->address(launch);
        int16_t* const low = reinterpret_cast<int16_t*>(begin) + count;
        const ParamCall call{.param = param_,
                             .count = count,
                             .hi = reinterpret_cast<uint16_t*>(begin),
                             .lo = low,
                             .state = state,
                             .gradient = reinterpret_cast<float*>(gradient_->address(launch)),
                             .step = &step_,
                             .lows = {&low, 1},
                             .low_elements = kChunkElements,
                             .work = work_ != nullptr ? work_->address(launch) : nullptr};
        kernel_.cells[static_cast<size_t>(stream_.device())](call, launch.stream());
    });
}

int64_t UpdateProbe::bytes() const {
    return param_.spec.numel() * kernel_.bytes_per_element;
}

}  // namespace windlass
