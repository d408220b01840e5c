#include <algorithm>

#include "base/index.h"
#include "base/math.h"
#include "op/loops_cpu.h"
#include "op/ops.h"
#include "op/sparse.h"

namespace windlass {
namespace {

constexpr IsaKernel<const SparseLoops> kSparseLoops{&baseline::kSparseLoops, &avx2::kSparseLoops,
                                                    &avx512::kSparseLoops};
constexpr int64_t kTile = kSparseTokens * kSparseBlock;  // numbers of one that is turned

bool projects(const SparseAttrs& attrs) {
    return attrs.direction == SparseAttrs::Direction::project;
}

// The matrix's numbers in the order of the list.
const float* values_of(const OpCall& call, const SparseSums& list, Scratch& scratch) {
    const Shape& shape = call.spec->weights[0];
    float* const rows = scratch.floats(shape.numel());
    for (int64_t row = 0; row < shape[0]; ++row)
        read_weight_row(call.weights[0], row, call.size->compute, rows + row * shape[1]);
    if (&list == &call.spec->get<SparseAttrs>().positions->by_row) return rows;
    float* const values = scratch.floats(shape.numel());
    for (size_t e = 0; e < list.value.size(); ++e) values[e] = rows[list.value[e]];
    return values;
}

// What one worker uses: all columns of its tokens, turned, and a block on its way in or out.
struct Room {
    WorkerRows tile, turned, rows;
    Room(Scratch& scratch, const OpSize& size, int64_t cols)
        : tile(scratch, size, cols * kSparseTokens), turned(scratch, size, kTile), rows(scratch, size, kTile) {}
};

class SparseProduct {
  public:
    SparseProduct(const SparseSums& list, const float* values, const Tensor& from, int64_t cols, const Output& to)
        : loops_(*kSparseLoops.pick()), list_(list), values_(values), from_(from), cols_(cols), to_(to) {}

    void run(Room& room, Team& team) const {
        for_row_chunks(to_.value.rows(), kSparseTokens, team, [&](int64_t begin, int64_t end, int worker) {
            read(begin, end, room.rows[worker], room.tile[worker]);
            const int64_t cols = to_.value.cols();
            for (int64_t col = 0; col < cols; col += kSparseBlock) {
                const int64_t count = std::min(kSparseBlock, cols - col);
                loops_.sums(list_.begin.data() + col, list_.source.data(), values_, room.tile[worker],
                            room.turned[worker], count);
                loops_.turn_out(room.turned[worker], room.rows[worker], count);
                write(begin, end, col, count, room.rows[worker]);
            }
        });
    }

  private:
    // Tokens beyond the last are zeros, and their sums are dropped.
    void read(int64_t begin, int64_t end, float* rows, float* tile) const {
        for (int64_t col = 0; col < cols_; col += kSparseBlock) {
            const int64_t count = std::min(kSparseBlock, cols_ - col);
            for (int64_t t = 0; t < kSparseTokens; ++t) {
                float* const row = rows + t * kSparseBlock;
                const Tensor none;
                const bool is_there = begin + t < end;
                const float* const numbers =
                    read_numbers(is_there ? from_ : none, (begin + t) * from_.row_stride + col, count, row);
                if (numbers != row) std::copy_n(numbers, count, row);
            }
            loops_.turn_in(rows, tile + col * kSparseTokens, count);
        }
    }

    void write(int64_t begin, int64_t end, int64_t col, int64_t count, float* rows) const {
        for (int64_t t = 0; begin + t < end; ++t) {
            float* const row = rows + t * kSparseBlock;
            const int64_t offset = (begin + t) * to_.value.row_stride + col;
            float* const numbers = to_.begin(offset, row);
            if (numbers != row) std::copy_n(row, count, numbers);
            to_.end(offset, count, numbers);
        }
    }

    const SparseLoops& loops_;
    const SparseSums& list_;
    const float* values_;
    const Tensor& from_;  // may be empty: zeros
    int64_t cols_;        // of it
    const Output& to_;
};

// in A of `project`, in A^T else.
void multiply(const OpCall& call, bool project, const Tensor& from, const Output& to, Stream& stream) {
    const SparsePositions& positions = *call.spec->get<SparseAttrs>().positions;
    const SparseSums& list = project ? positions.by_column : positions.by_row;
    Scratch scratch(call.scratch);
    const float* const values = values_of(call, list, scratch);
    const int64_t cols = project ? positions.shape.rows : positions.shape.cols;
    Room room(scratch, *call.size, cols);
    SparseProduct(list, values, from, cols, to).run(room, cpu_team(stream));
}

}  // namespace

void sparse_forward_cpu(const OpCall& call, Stream& stream) {
    multiply(call, projects(call.spec->get<SparseAttrs>()), call.in[0], {call.out[0]}, stream);
}

void sparse_backward_cpu(const OpCall& call, Stream& stream) {
    WINDLASS_CHECK(call.sinks.empty() || !call.sinks[0].wanted(), "the numbers of a sparse matrix have no gradient");
    const Output grad_in = grad_output(call, 0);
    if (grad_in.value.empty()) return;
    multiply(call, !projects(call.spec->get<SparseAttrs>()), call.grad_out[0], grad_in, stream);
}

void sparse_tangent_cpu(const OpCall& call, Stream& stream) {
    WINDLASS_CHECK(call.weights[0].direction.empty() && call.weights[0].left.empty(),
                   "the numbers of a sparse matrix do not move");
    const bool project = projects(call.spec->get<SparseAttrs>());
    multiply(call, project, call.tangent_in[0], {call.tangent_out[0]}, stream);
}

}  // namespace windlass
