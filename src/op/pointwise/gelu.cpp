#include "op/pointwise/cells.h"
#include "op/sample.h"

namespace windlass {
namespace gelu_op {

struct Traits {
    using View = WholeCall;
    static constexpr BackwardReads kReads{.in = true};
    static Pointwise formula(const OpSpec& spec) {
        const bool is_exact = spec.get<GeluAttrs>().kind == GeluAttrs::Kind::exact;
        return is_exact ? Pointwise::gelu_exact : Pointwise::gelu_tanh;
    }
};

void infer(OpSpec& spec) {
    WINDLASS_CHECK(spec.in.size() == 1 && spec.weights.empty(), "gelu needs one input and no weights");
    spec.get<GeluAttrs>();
    spec.out = {spec.in[0]};
}

// An exponential and a division count ten.
Cost cost(const OpSpec& spec, const OpSize& size, DiffMode mode) {
    return streaming_cost(spec, size, mode, {26, 34, 34}, Traits::kReads);
}

std::string describe(const OpSpec& spec) {
    return spec.get<GeluAttrs>().kind == GeluAttrs::Kind::exact ? "exact" : "tanh";
}

std::vector<OpCase> cases() {
    const auto of = [](std::string name, GeluAttrs::Kind kind, int64_t cols, double scale) {
        return OpCase{
            .name = std::move(name), .spec = {.attrs = GeluAttrs{kind}, .in = {{cols}}}, .weight_scale = scale};
    };
    return {of("exact", GeluAttrs::Kind::exact, 1037, 2.0), of("exact_wide", GeluAttrs::Kind::exact, 64, 8.0),
            of("tanh", GeluAttrs::Kind::tanh, 1037, 2.0), of("tanh_wide", GeluAttrs::Kind::tanh, 64, 8.0)};
}

}  // namespace gelu_op

constinit const OpRecord kGelu = {
    .name = "gelu",
    .infer = gelu_op::infer,
    .sample = sample_rows,
    .describe = gelu_op::describe,
    .same_attributes = equal_attributes<GeluAttrs>,
    .reads = gelu_op::Traits::kReads,
    .cases = gelu_op::cases,
    .cells = pointwise_cells<gelu_op::Traits>(gelu_op::cost),
};

}  // namespace windlass
