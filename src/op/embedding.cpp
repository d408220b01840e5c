#include "op/embedding.h"

#include "op/cuda_kernels.h"
#include "op/loops_cpu.h"
#include "op/ops.h"

namespace windlass {
namespace embedding_op {

void infer(OpSpec& spec) {
    WINDLASS_CHECK(spec.in.empty() && spec.weights.size() == 1 && spec.weights[0].rank() == 2,
                   "embedding needs a table and no inputs");
    spec.get<EmbeddingAttrs>();
    spec.out = {{spec.weights[0][1]}};
}

// Rows of directions are gathered too, or made of their factors.
Cost tangent_cost(const OpSpec& spec, const OpSize& size) {
    const int64_t numbers = size.k * size.tokens() * spec.out[0].cols;
    const double flops = 2.0 * static_cast<double>(numbers * factor_rank(size, spec.weights[0]));
    return {flops, flops, 2 * size.k * value_bytes(spec.out, size)};
}

// Rows of the table are gathered; backward reads and writes the f32 rows of the gradient.
Cost cost(const OpSpec& spec, const OpSize& size, DiffMode mode) {
    const int64_t out = value_bytes(spec.out, size);
    const int64_t numbers = size.tokens() * spec.out[0].cols;
    switch (mode) {
        case DiffMode::forward:
            return {0, 0, 2 * out};
        case DiffMode::vjp:
            return {static_cast<double>(numbers), static_cast<double>(numbers),
                    out + 2 * numbers * static_cast<int64_t>(sizeof(float))};
        case DiffMode::jvp:
            return tangent_cost(spec, size);
    }
    return {};
}

int64_t scratch_bytes(const OpSpec& spec, const OpSize& size, DiffMode) {
    return WorkerRows::bytes(size, spec.out[0].cols);
}

// Two lists of the tokens, which backward sorts.
int64_t scratch_bytes_cuda(const OpSpec&, const OpSize& size, DiffMode mode) {
    return mode == DiffMode::vjp ? 2 * size.tokens() * static_cast<int64_t>(sizeof(int32_t)) : 0;
}

std::string describe(const OpSpec& spec) {
    const auto& attrs = spec.get<EmbeddingAttrs>();
    if (attrs.index == EmbeddingAttrs::Index::token && attrs.offset == 0) return "";
    return fmt::format("{} offset={}", attrs.index == EmbeddingAttrs::Index::token ? "token" : "position",
                       attrs.offset);
}

std::vector<OpCase> cases() {
    using Index = EmbeddingAttrs::Index;
    const auto of = [](std::string name, EmbeddingAttrs attrs, int64_t rows, int64_t cols) {
        return OpCase{.name = std::move(name), .spec = {.attrs = attrs, .weights = {{rows, cols}}}, .documents = true};
    };
    OpCase long_rows = of("long_rows", {}, 3, 5);  // an id is met again many tokens later
    long_rows.sequence_length = 150;
    return {of("token", {}, 50, 24), of("few_ids", {}, 3, 261), of("position", {Index::position, 0}, 32, 24),
            of("position_offset", {Index::position, 2}, 34, 130), std::move(long_rows)};
}

constexpr OpKernels kCpu{.forward = embedding_forward_cpu, .vjp = embedding_backward_cpu, .jvp = embedding_tangent_cpu};

}  // namespace embedding_op

constinit const OpRecord kEmbedding = {
    .name = "embedding",
    .infer = embedding_op::infer,
    .describe = embedding_op::describe,
    .same_attributes = equal_attributes<EmbeddingAttrs>,
    .cases = embedding_op::cases,
    .cells = cells_of(
        {.cost = embedding_op::cost, .scratch_bytes = embedding_op::scratch_bytes, .kernels = &embedding_op::kCpu},
        {.cost = embedding_op::cost, .scratch_bytes = embedding_op::scratch_bytes_cuda, .kernels = &kEmbeddingCuda}),
};

}  // namespace windlass
