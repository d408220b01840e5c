#include "op/pointwise/cells.h"
#include "op/sample.h"

namespace windlass {
namespace tanh_op {

struct Traits {
    using View = WholeCall;
    static constexpr BackwardReads kReads{.out = true};
    static Pointwise formula(const OpSpec&) { return Pointwise::tanh; }
};

void infer(OpSpec& spec) {
    WINDLASS_CHECK(spec.in.size() == 1 && spec.weights.empty(), "tanh needs one input and no weights");
    spec.out = {spec.in[0]};
}

// An exponential and a division count ten.
Cost cost(const OpSpec& spec, const OpSize& size, DiffMode mode) {
    return streaming_cost(spec, size, mode, {24, 3, 27}, Traits::kReads);
}

std::vector<OpCase> cases() {
    return {{.name = "narrow", .spec = {.in = {{48}}}},
            {.name = "ragged", .spec = {.in = {{1037}}}},
            {.name = "wide", .spec = {.in = {{64}}}, .weight_scale = 8.0}};
}

}  // namespace tanh_op

constinit const OpRecord kTanh = {
    .name = "tanh",
    .infer = tanh_op::infer,
    .sample = sample_rows,
    .reads = tanh_op::Traits::kReads,
    .cases = tanh_op::cases,
    .cells = pointwise_cells<tanh_op::Traits>(tanh_op::cost),
};

}  // namespace windlass
