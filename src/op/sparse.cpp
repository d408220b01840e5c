#include "op/sparse.h"

#include "op/cuda_kernels.h"
#include "op/loops_cpu.h"
#include "op/ops.h"
#include "op/sample.h"

namespace windlass {
namespace sparse_op {

using Direction = SparseAttrs::Direction;

const SparseShape& shape_of(const OpSpec& spec) {
    return spec.get<SparseAttrs>().positions->shape;
}

bool projects(const OpSpec& spec) {
    return spec.get<SparseAttrs>().direction == Direction::project;
}

void infer(OpSpec& spec) {
    WINDLASS_CHECK(spec.in.size() == 1 && spec.weights.size() == 1, "sparse has {} inputs and {} weights",
                   spec.in.size(), spec.weights.size());
    WINDLASS_CHECK(spec.get<SparseAttrs>().positions != nullptr, "sparse without positions");
    const SparseShape& shape = shape_of(spec);
    WINDLASS_CHECK(spec.weights[0] == Shape({shape.rows, shape.nonzeros}), "a sparse matrix of {} rows by a weight {}",
                   shape.rows, spec.weights[0].to_string());
    const int64_t from = projects(spec) ? shape.rows : shape.cols;
    WINDLASS_CHECK(spec.in[0].cols == from, "sparse of {} columns, expected {}", spec.in[0].cols, from);
    spec.out = {{projects(spec) ? shape.cols : shape.rows}};
}

// A multiply-add for each number of the matrix and each token, in every direction.
Cost cost(const OpSpec& spec, const OpSize& size, DiffMode mode) {
    Cost cost = streaming_cost(spec, size, mode, {0, 0, 0}, {});
    const int64_t numbers = spec.weights[0].numel();
    cost.flops = 2.0 * static_cast<double>(numbers * size.tokens() * (mode == DiffMode::jvp ? size.k : 1));
    cost.model_flops = cost.flops;
    cost.bytes += numbers * dtype_bytes(size.compute);
    return cost;
}

// The matrix's numbers, by row and by column; of each worker its tokens' columns and two blocks of them.
int64_t scratch_bytes(const OpSpec& spec, const OpSize& size, DiffMode mode) {
    const SparseShape& shape = shape_of(spec);
    const bool project = projects(spec) != (mode == DiffMode::vjp);
    const int64_t from = project ? shape.rows : shape.cols;
    return 2 * float_bytes(spec.weights[0].numel()) + WorkerRows::bytes(size, from * kSparseTokens) +
           2 * WorkerRows::bytes(size, kSparseTokens * kSparseBlock);
}

std::string describe(const OpSpec& spec) {
    const SparseShape& shape = shape_of(spec);
    return fmt::format("{} {}x{} r={} seed={}", projects(spec) ? "project" : "expand", shape.rows, shape.cols,
                       shape.nonzeros, shape.seed);
}

// The rate follows the matrix as much as the tokens.
OpSample sample(const OpSpec& spec, const OpSize& size) {
    OpSample sample = sample_rows(spec, size);
    sample.shape = fmt::format("{}x{}x{}", spec.in[0].cols, spec.out[0].cols, shape_of(spec).nonzeros);
    return sample;
}

OpCase sparse_case(std::string name, Direction direction, const SparseShape& shape) {
    const int64_t from = direction == Direction::project ? shape.rows : shape.cols;
    return {.name = std::move(name),
            .spec = {.attrs = SparseAttrs{sparse_positions(shape), direction},
                     .in = {{from}},
                     .weights = {{shape.rows, shape.nonzeros}}}};
}

std::vector<OpCase> cases() {
    std::vector<OpCase> cases;
    for (const Direction direction : {Direction::project, Direction::expand}) {
        const auto add = [&](const char* name, const SparseShape& shape) {
            const char* const prefix = direction == Direction::project ? "project" : "expand";
            cases.push_back(sparse_case(fmt::format("{}_{}", prefix, name), direction, shape));
        };
        add("column", {.rows = 1, .cols = 1, .nonzeros = 1, .seed = 3});
        add("identity", {.rows = 24, .cols = 24, .nonzeros = 1, .seed = 0});
        add("half", {.rows = 96, .cols = 48, .nonzeros = 8, .seed = 5});
        add("ragged", {.rows = 301, .cols = 37, .nonzeros = 4, .seed = 7});
        add("meeting",
            {.rows = 40, .cols = 3, .nonzeros = 6, .seed = 9});  // two lanes of each row, at least, in a column
        cases.back().sequence_length = 21;                       // two tiles and a rest
    }
    return cases;
}

constexpr OpKernels kCpu{.forward = sparse_forward_cpu, .vjp = sparse_backward_cpu, .jvp = sparse_tangent_cpu};

}  // namespace sparse_op

constinit const OpRecord kSparse = {
    .name = "sparse",
    .infer = sparse_op::infer,
    .sample = sparse_op::sample,
    .describe = sparse_op::describe,
    .same_attributes = equal_attributes<SparseAttrs>,
    .first_constant_weight = 0,
    .cases = sparse_op::cases,
    .cells = cells_of({.cost = sparse_op::cost, .scratch_bytes = sparse_op::scratch_bytes, .kernels = &sparse_op::kCpu},
                      {.cost = sparse_op::cost, .kernels = &kSparseCuda}),
};

}  // namespace windlass
