#include "op/rope.h"

#include <cmath>
#include <numeric>

#include "op/cuda_kernels.h"
#include "op/loops_cpu.h"
#include "op/ops.h"
#include "op/sample.h"

namespace windlass {
namespace {

void infer(OpSpec& spec) {
    const auto& attrs = spec.get<RopeAttrs>();
    const auto pairs = static_cast<int64_t>(attrs.frequencies.size());
    WINDLASS_CHECK(spec.in.size() == 1 && spec.weights.empty() && spec.in[0].cols == attrs.heads * 2 * pairs,
                   "rope wants {} heads of {} columns", attrs.heads, 2 * pairs);
    spec.out = {spec.in[0]};
}

// Three operations a number; angles (about 50 operations a pair and token) are shared by the heads.
Cost cost(const OpSpec& spec, const OpSize& size, DiffMode mode) {
    const double angles = 25.0 / static_cast<double>(spec.get<RopeAttrs>().heads);
    return streaming_cost(spec, size, mode, {3 + angles, 3 + angles, 3 + angles}, {});
}

// Each worker has a row in, a row out, and the angles of a token; the frequencies are shared.
int64_t scratch_bytes(const OpSpec& spec, const OpSize& size, DiffMode) {
    const auto pairs = static_cast<int64_t>(spec.get<RopeAttrs>().frequencies.size());
    return 2 * WorkerRows::bytes(size, spec.in[0].cols) + WorkerRows::bytes(size, 2 * pairs) + float_bytes(pairs);
}

// A table of frequencies is printed as its sum.
std::string describe(const OpSpec& spec) {
    const auto& [heads, frequencies] = spec.get<RopeAttrs>();
    return fmt::format("heads={} size={} frequencies={}", heads, 2 * frequencies.size(),
                       std::accumulate(frequencies.begin(), frequencies.end(), 0.0));
}

std::vector<OpCase> cases() {
    const auto of = [](std::string name, int64_t heads, int64_t pairs, double theta) {
        RopeAttrs attrs{.heads = heads};
        for (int64_t i = 0; i < pairs; ++i) {
            attrs.frequencies.push_back(std::pow(theta, -static_cast<double>(i) / static_cast<double>(pairs)));
        }
        return OpCase{.name = std::move(name), .spec = {.attrs = std::move(attrs), .in = {{heads * 2 * pairs}}}};
    };
    OpCase documents = of("documents", 2, 8, 1e4);
    documents.documents = true;
    OpCase far = of("far", 1, 32, 5e5);
    far.sequence_length = 700;
    return {of("heads", 3, 16, 1e4), of("ragged", 2, 11, 1e4), std::move(documents), std::move(far)};
}

constexpr OpKernels kCpu{.forward = rope_forward_cpu, .vjp = rope_backward_cpu, .jvp = rope_tangent_cpu};

}  // namespace

constinit const OpRecord kRope = {
    .name = "rope",
    .infer = infer,
    .sample = sample_rows,
    .describe = describe,
    .same_attributes = equal_attributes<RopeAttrs>,
    .cases = cases,
    .cells = cells_of({.cost = cost, .scratch_bytes = scratch_bytes, .kernels = &kCpu},
                      {.cost = cost, .kernels = &kRopeCuda}),
};

}  // namespace windlass
