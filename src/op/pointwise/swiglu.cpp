#include "op/pointwise/cells.h"
#include "op/pointwise/swiglu_halves.h"
#include "op/sample.h"

namespace windlass {
namespace swiglu_op {

struct Traits {
    using View = SwigluHalves;
    static constexpr BackwardReads kReads{.in = true};
    static Pointwise formula(const OpSpec& spec) {
        const bool is_silu = spec.get<SwigluAttrs>().kind == SwigluAttrs::Kind::silu;
        return is_silu ? Pointwise::silu_gate : Pointwise::gelu_gate;
    }
};

void infer(OpSpec& spec) {
    if (spec.get<SwigluAttrs>().packed) {
        WINDLASS_CHECK(spec.in.size() == 1 && spec.weights.empty() && spec.in[0].cols % 2 == 0,
                       "packed swiglu needs a gate and an up side by side");
        spec.out = {{spec.in[0].cols / 2, spec.in[0].type}};
        return;
    }
    WINDLASS_CHECK(spec.in.size() == 2 && spec.weights.empty() && spec.in[0] == spec.in[1],
                   "swiglu needs a gate and an up of one shape");
    spec.out = {spec.in[0]};
}

// An exponential and a division count ten.
Cost cost(const OpSpec& spec, const OpSize& size, DiffMode mode) {
    return streaming_cost(spec, size, mode, {22, 28, 29}, Traits::kReads);
}

std::string describe(const OpSpec& spec) {
    const auto& [kind, packed] = spec.get<SwigluAttrs>();
    const std::string name = kind == SwigluAttrs::Kind::silu ? "" : "gelu_tanh";
    if (!packed) return name;
    return name.empty() ? "packed" : name + " packed";
}

std::vector<OpCase> cases() {
    using enum SwigluAttrs::Kind;
    const auto of = [](std::string name, int64_t cols, SwigluAttrs::Kind kind) {
        return OpCase{
            .name = std::move(name), .spec = {.attrs = SwigluAttrs{kind}, .in = {{cols}, {cols}}}, .weight_scale = 2.0};
    };
    const auto packed = [](std::string name, int64_t cols, SwigluAttrs::Kind kind) {
        return OpCase{.name = std::move(name),
                      .spec = {.attrs = SwigluAttrs{kind, true}, .in = {{2 * cols}}},
                      .weight_scale = 2.0};
    };
    return {of("one", 1, silu),
            of("narrow", 48, silu),
            of("ragged", 1037, silu),
            of("gelu", 48, gelu_tanh),
            of("gelu, ragged", 307, gelu_tanh),
            packed("packed", 48, silu),
            packed("packed, ragged", 307, silu),
            packed("gelu, packed", 48, gelu_tanh)};
}

}  // namespace swiglu_op

constinit const OpRecord kSwiglu = {
    .name = "swiglu",
    .infer = swiglu_op::infer,
    .sample = sample_rows,
    .describe = swiglu_op::describe,
    .same_attributes = equal_attributes<SwigluAttrs>,
    .reads = swiglu_op::Traits::kReads,
    .cases = swiglu_op::cases,
    .cells = pointwise_cells<swiglu_op::Traits>(swiglu_op::cost),
};

}  // namespace windlass
