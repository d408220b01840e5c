#include "op/pointwise/cells.h"

namespace windlass {
namespace add_op {

struct Traits {
    using View = WholeCall;
    static constexpr BackwardReads kReads{};
    static Pointwise formula(const OpSpec&) { return Pointwise::add; }
};

void infer(OpSpec& spec) {
    WINDLASS_CHECK(spec.in.size() == 2 && spec.weights.empty() && spec.in[0] == spec.in[1],
                   "add needs two inputs of one shape");
    spec.out = {spec.in[0]};
}

Cost cost(const OpSpec& spec, const OpSize& size, DiffMode mode) {
    return streaming_cost(spec, size, mode, {1, 0, 1}, {});
}

std::vector<OpCase> cases() {
    return {{.name = "narrow", .spec = {.in = {{48}, {48}}}}, {.name = "ragged", .spec = {.in = {{1037}, {1037}}}}};
}

}  // namespace add_op

constinit const OpRecord kAdd = {
    .name = "add",
    .infer = add_op::infer,
    .passes_gradient = true,
    .cases = add_op::cases,
    .cells = pointwise_cells<add_op::Traits>(add_op::cost),
};

}  // namespace windlass
