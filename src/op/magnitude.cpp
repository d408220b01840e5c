#include "op/magnitude.h"

#include "op/cuda_kernels.h"
#include "op/loops_cpu.h"
#include "op/magnitude_cuda.h"
#include "op/ops.h"
#include "op/sample.h"

namespace windlass {
namespace magnitude_op {

void infer(OpSpec& spec) {
    const size_t count = spec.weights.size();
    WINDLASS_CHECK(spec.in.size() == 1 && (count == kMagnitudeBias || count == kMagnitudeBias + 1),
                   "magnitude has {} inputs and {} weights", spec.in.size(), count);
    const int64_t outputs = spec.in[0].cols;
    const Shape &w = spec.weights[kMagnitudeW], &a = spec.weights[kMagnitudeA], &b = spec.weights[kMagnitudeB];
    const bool in_out = spec.get<MagnitudeAttrs>().in_out;
    WINDLASS_CHECK(w.rank() == 2 && w[in_out ? 1 : 0] == outputs, "magnitude of {} columns by a matrix {}", outputs,
                   w.to_string());
    WINDLASS_CHECK(a.rank() == 2 && a[1] == w[in_out ? 0 : 1] && b == Shape({outputs, a[0]}),
                   "{} and {} add to no matrix {}", a.to_string(), b.to_string(), w.to_string());
    for (size_t i = 0; i < count; ++i) {
        const bool is_vector = i == kMagnitudeM || i == kMagnitudeBias;
        WINDLASS_CHECK(!is_vector || spec.weights[i] == Shape({outputs}), "magnitude of {} columns by a vector {}",
                       outputs, spec.weights[i].to_string());
    }
    spec.out = {spec.in[0]};
}

// Each number of W + s B A: r multiply-adds, and its square.
double norm_flops(const OpSpec& spec) {
    return 2.0 * static_cast<double>(spec.weights[kMagnitudeW].numel()) *
           static_cast<double>(spec.weights[kMagnitudeA][0] + 1);
}

// The gradient of m and its tangents read `in`.
Cost cost(const OpSpec& spec, const OpSize& size, DiffMode mode) {
    const bool is_trained = mode != DiffMode::vjp || size.trains_weights;
    Cost cost = streaming_cost(spec, size, mode, {3, is_trained ? 5.0 : 1.0, 4}, {.in = is_trained});
    int64_t numbers = 0;
    for (const Shape& weight : spec.weights) numbers += weight.numel();
    const double norms = norm_flops(spec);
    cost.flops += norms;
    cost.model_flops += norms;
    cost.bytes += numbers * dtype_bytes(size.compute);
    if (mode == DiffMode::vjp && is_trained) cost.bytes += 2 * 4 * spec.in[0].cols;
    if (mode == DiffMode::jvp) cost.bytes += size.k * spec.in[0].cols * dtype_bytes(size.compute);
    return cost;
}

// Slopes and inverses of all outputs, and the sums of chunks of rows.
int64_t scratch_bytes_cuda(const OpSpec& spec, const OpSize& size, DiffMode mode) {
    const int64_t sums = mode == DiffMode::vjp ? cuda_sum_floats(size.tokens(), spec.in[0].cols) : 0;
    return magnitude_norm_bytes(spec.in[0].cols) + 4 * sums;
}

std::string describe(const OpSpec& spec) {
    const auto& attrs = spec.get<MagnitudeAttrs>();
    return fmt::format("{} scale={}{}", attrs.in_out ? "in_out" : "out_in", attrs.scale,
                       spec.weights.size() > kMagnitudeBias ? " bias" : "");
}

// The rate follows the matrix and the rank as much as the tokens.
OpSample sample(const OpSpec& spec, const OpSize& size) {
    OpSample sample = sample_rows(spec, size);
    const Shape& w = spec.weights[kMagnitudeW];
    sample.shape = fmt::format("{}x{}x{}", w[0], w[1], spec.weights[kMagnitudeA][0]);
    return sample;
}

OpCase make_case(std::string name, const MagnitudeAttrs& attrs, int64_t in, int64_t out, int64_t rank, bool bias) {
    OpCase made{.name = std::move(name)};
    made.spec = {.attrs = attrs,
                 .in = {{out}},
                 .weights = {{out}, attrs.in_out ? Shape{in, out} : Shape{out, in}, {rank, in}, {out, rank}}};
    if (bias) made.spec.weights.push_back({out});
    return made;
}

std::vector<OpCase> cases() {
    std::vector<OpCase> all = {make_case("out_in", {false, 1.75}, 24, 40, 4, false),
                               make_case("out_in_bias", {false, 0.5}, 33, 17, 3, true),
                               make_case("in_out", {true, 2}, 40, 24, 4, false),
                               make_case("in_out_bias", {true, 0.3}, 19, 131, 5, true),
                               make_case("column", {false, 1}, 1, 1, 1, true),
                               make_case("long_rows", {false, 1}, 1037, 9, 2, false),
                               make_case("many_outputs", {false, 1}, 70, 1030, 1, false)};
    all.back().sequence_length = 83;  // several partial gradients
    return all;
}

constexpr OpKernels kCpu{.forward = magnitude_forward_cpu, .vjp = magnitude_backward_cpu, .jvp = magnitude_tangent_cpu};

}  // namespace magnitude_op

constinit const OpRecord kMagnitude = {
    .name = "magnitude",
    .infer = magnitude_op::infer,
    .sample = magnitude_op::sample,
    .describe = magnitude_op::describe,
    .same_attributes = equal_attributes<MagnitudeAttrs>,
    .reads = {.in = true, .out = false, .in_for_weights = true},
    .first_constant_weight = kMagnitudeW,
    .cases = magnitude_op::cases,
    .cells = cells_of(
        {.cost = magnitude_op::cost, .scratch_bytes = magnitude_scratch_bytes_cpu, .kernels = &magnitude_op::kCpu},
        {.cost = magnitude_op::cost, .scratch_bytes = magnitude_op::scratch_bytes_cuda, .kernels = &kMagnitudeCuda}),
};

}  // namespace windlass
