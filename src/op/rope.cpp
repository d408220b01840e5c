#include "op/rope.h"

#include <cmath>
#include <numeric>

#include "op/cuda_kernels.h"
#include "op/loops_cpu.h"
#include "op/ops.h"
#include "op/sample.h"

namespace windlass {
namespace rope_op {

void infer(OpSpec& spec) {
    const auto& attrs = spec.get<RopeAttrs>();
    const int64_t size = 2 * std::ssize(attrs.frequencies) + attrs.still;
    WINDLASS_CHECK(spec.in.size() == 1 && spec.weights.empty() && spec.in[0].cols == attrs.heads * size + attrs.passed,
                   "rope needs {} heads of {} columns, and {} after them", attrs.heads, size, attrs.passed);
    WINDLASS_CHECK(attrs.long_frequencies.empty() ||
                       (attrs.long_frequencies.size() == attrs.frequencies.size() && attrs.short_length > 0),
                   "rope has {} frequencies, and {} of long documents", attrs.frequencies.size(),
                   attrs.long_frequencies.size());
    spec.out = {spec.in[0]};
}

// Three operations a number; angles are about 50 operations a pair and token, shared by the heads.
Cost cost(const OpSpec& spec, const OpSize& size, DiffMode mode) {
    Cost cost = streaming_cost(spec, size, mode, {3, 3, 3}, {});
    const int64_t angles = size.tokens() * std::ssize(spec.get<RopeAttrs>().frequencies);
    const auto flops = static_cast<double>(50 * angles * (mode == DiffMode::jvp ? size.k : 1));
    cost.flops += flops;
    cost.model_flops += flops;
    return cost;
}

// Each worker has a row in, a row out, and the angles of a token; both tables of frequencies are shared.
int64_t scratch_bytes(const OpSpec& spec, const OpSize& size, DiffMode) {
    const auto pairs = static_cast<int64_t>(spec.get<RopeAttrs>().frequencies.size());
    return 2 * WorkerRows::bytes(size, spec.in[0].cols) + WorkerRows::bytes(size, 2 * pairs) + 2 * float_bytes(pairs);
}

// A table of frequencies is printed as its sum.
std::string describe(const OpSpec& spec) {
    const auto& attrs = spec.get<RopeAttrs>();
    const auto sum = [](const std::vector<double>& list) { return std::accumulate(list.begin(), list.end(), 0.0); };
    std::string text = fmt::format("heads={} size={} frequencies={}", attrs.heads, 2 * attrs.frequencies.size(),
                                   sum(attrs.frequencies));
    if (attrs.still > 0) text += fmt::format(" still={}", attrs.still);
    if (attrs.passed > 0) text += fmt::format(" passed={}", attrs.passed);
    if (attrs.scale != 1) text += fmt::format(" scale={:.6g}", attrs.scale);
    if (!attrs.long_frequencies.empty())
        text += fmt::format(" beyond {}: {}", attrs.short_length, sum(attrs.long_frequencies));
    return text;
}

OpCase make_case(std::string name, RopeAttrs attrs, int64_t pairs, double theta) {
    for (int64_t i = 0; i < pairs; ++i)
        attrs.frequencies.push_back(std::pow(theta, -static_cast<double>(i) / static_cast<double>(pairs)));
    const int64_t cols = attrs.heads * (2 * pairs + attrs.still) + attrs.passed;
    return {.name = std::move(name), .spec = {.attrs = std::move(attrs), .in = {{cols}}}};
}

// Documents of the test are of several lengths on both sides of short_length.
OpCase make_two_tables(std::string name, int64_t short_length, bool documents) {
    OpCase made = make_case(std::move(name), {.heads = 2, .still = 2, .short_length = short_length}, 5, 1e3);
    auto& attrs = *std::any_cast<RopeAttrs>(&made.spec.attrs);
    for (const double frequency : attrs.frequencies) attrs.long_frequencies.push_back(frequency / 3);
    made.sequence_length = 40;
    made.documents = documents;
    return made;
}

std::vector<OpCase> cases() {
    OpCase documents = make_case("documents", {.heads = 2}, 8, 1e4);
    documents.documents = true;
    OpCase far = make_case("far", {.heads = 1}, 32, 5e5);
    far.sequence_length = 700;
    return {make_case("heads", {.heads = 3}, 16, 1e4),
            make_case("ragged", {.heads = 2}, 11, 1e4),
            std::move(documents),
            std::move(far),
            make_case("part of a head", {.heads = 3, .still = 6}, 5, 1e4),
            make_case("packed", {.heads = 3, .passed = 37}, 8, 1e4),
            make_case("packed, part, scaled", {.heads = 2, .still = 4, .passed = 12, .scale = 1.25}, 4, 1e4),
            make_two_tables("long rows", 39, false),
            make_two_tables("short rows", 40, false),
            make_two_tables("long and short documents", 9, true)};
}

constexpr OpKernels kCpu{.forward = rope_forward_cpu, .vjp = rope_backward_cpu, .jvp = rope_tangent_cpu};

}  // namespace rope_op

constinit const OpRecord kRope = {
    .name = "rope",
    .infer = rope_op::infer,
    .sample = sample_rows,
    .describe = rope_op::describe,
    .same_attributes = equal_attributes<RopeAttrs>,
    .cases = rope_op::cases,
    .cells = cells_of({.cost = rope_op::cost, .scratch_bytes = rope_op::scratch_bytes, .kernels = &rope_op::kCpu},
                      {.cost = rope_op::cost, .kernels = &kRopeCuda}),
};

}  // namespace windlass
