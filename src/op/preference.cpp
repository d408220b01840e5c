#include "op/preference.h"

#include "op/cuda_kernels.h"
#include "op/loops_cpu.h"
#include "op/ops.h"

namespace windlass {
namespace preference_op {

constexpr BackwardReads kReads{.in = true};

void infer(OpSpec& spec) {
    WINDLASS_CHECK(spec.in.size() == 1 && spec.weights.empty() && spec.in[0] == (ValueSpec{1, ValueType::f32}),
                   "preference needs the losses of tokens");
    spec.out = {spec.in[0]};
}

Cost cost(const OpSpec& spec, const OpSize& size, DiffMode mode) {
    return streaming_cost(spec, size, mode, {2, 3, 4}, kReads);
}

std::vector<OpCase> cases() {
    using Kind = PreferenceAttrs::Kind;
    std::vector<OpCase> cases;
    for (const auto& [name, kind] : {std::pair("dpo", Kind::dpo), std::pair("orpo", Kind::orpo)}) {
        cases.push_back({.name = name,
                         .spec = {.attrs = PreferenceAttrs{kind, 0.3}, .in = {{1, ValueType::f32}}},
                         .rows = 4,
                         .sequence_length = 19,
                         .positive = true});
        cases.push_back({.name = std::string(name) + ", one pair",
                         .spec = {.attrs = PreferenceAttrs{kind, 0.1}, .in = {{1, ValueType::f32}}},
                         .rows = 2,
                         .sequence_length = 300,
                         .positive = true});
    }
    cases.push_back({.name = "orpo, with prompts",
                     .spec = {.attrs = PreferenceAttrs{Kind::orpo, 0.3, true}, .in = {{1, ValueType::f32}}},
                     .rows = 4,
                     .sequence_length = 19,
                     .positive = true,
                     .prompts = true});
    return cases;
}

constexpr OpKernels kCpu{
    .forward = preference_forward_cpu, .vjp = preference_backward_cpu, .jvp = preference_tangent_cpu};

}  // namespace preference_op

constinit const OpRecord kPreference = {
    .name = "preference",
    .infer = preference_op::infer,
    .describe =
        [](const OpSpec& spec) {
            const auto& attrs = spec.get<PreferenceAttrs>();
            return fmt::format("{} beta={}{}", attrs.kind == PreferenceAttrs::Kind::dpo ? "dpo" : "orpo", attrs.beta,
                               attrs.with_prompt ? " prompt" : "");
        },
    .same_attributes = equal_attributes<PreferenceAttrs>,
    .reads = preference_op::kReads,
    .backward_computes_out = true,
    .cases = preference_op::cases,
    .cells = cells_of({.cost = preference_op::cost, .kernels = &preference_op::kCpu},
                      {.cost = preference_op::cost, .kernels = &kPreferenceCuda}),
};

}  // namespace windlass
