#include "op/pointwise/cells.h"
#include "op/sample.h"

namespace windlass {
namespace relu_op {

struct Traits {
    using View = WholeCall;
    static constexpr BackwardReads kReads{.out = true};
    static Pointwise formula(const OpSpec&) { return Pointwise::relu; }
};

void infer(OpSpec& spec) {
    WINDLASS_CHECK(spec.in.size() == 1 && spec.weights.empty(), "relu needs one input and no weights");
    spec.out = {spec.in[0]};
}

Cost cost(const OpSpec& spec, const OpSize& size, DiffMode mode) {
    return streaming_cost(spec, size, mode, {1, 1, 1}, Traits::kReads);
}

std::vector<OpCase> cases() {
    return {{.name = "narrow", .spec = {.in = {{48}}}}, {.name = "ragged", .spec = {.in = {{1037}}}}};
}

}  // namespace relu_op

constinit const OpRecord kRelu = {
    .name = "relu",
    .infer = relu_op::infer,
    .sample = sample_rows,
    .reads = relu_op::Traits::kReads,
    .cases = relu_op::cases,
    .cells = pointwise_cells<relu_op::Traits>(relu_op::cost),
};

}  // namespace windlass
