#include "method/projector/refresh.h"

#include <algorithm>
#include <bit>

#include "base/index.h"
#include "base/math.h"

namespace windlass {
namespace {

// The numbers of one layer as f32, one after the other, each array aligned to 64 bytes.
class LayerNumbers {
  public:
    LayerNumbers(const ProjectedLayer& layer, std::byte* base) : base_(base) {
        const int64_t left = layer.left_shape.rows * layer.left_shape.nonzeros,
                      right = layer.right_shape.rows * layer.right_shape.nonzeros,
                      inner = layer.left_shape.cols * layer.right_shape.cols;
        for (ProjectorValues* each : {&values, &changed}) {
            each->left = take(left);
            each->right = take(right);
        }
        for (std::span<float>* each : {&s, &first, &second, &other}) *each = take(inner);
    }

    ProjectorValues values, changed;
    std::span<float> s, first, second;
    std::span<float> other;  // one of them, transposed
    int64_t bytes() const { return end_; }

  private:
    std::span<float> take(int64_t count) {
        float* const at_end = base_ == nullptr ? nullptr : reinterpret_cast<float*>(base_ + end_);
        end_ += round_up(count * 4, int64_t{64});
        return {at_end, at(count)};
    }
    std::byte* base_;
    int64_t end_ = 0;
};

void turn(std::span<const float> from, int64_t rows, int64_t cols, std::span<float> to) {
    for (int64_t row = 0; row < rows; ++row)
        for (int64_t col = 0; col < cols; ++col) to[at(col * rows + row)] = from[at(row * cols + col)];
}

class LayerRefresh {
  public:
    LayerRefresh(const RefreshCall& call, Team& team)
        : call_(call),
          left_(sparse_positions(call.layer.left_shape)),
          right_(sparse_positions(call.layer.right_shape)),
          shape_{left_.get(), right_.get()},
          numbers_(call.layer, call.work.data()),
          context_{shape_, call.work.subspan(at(numbers_.bytes())), team} {}

    ProjectorRefit run() {
        decode_kept(call_.left.storage, {call_.left_values, at(weight_bytes(call_.left))}, 0, numbers_.values.left);
        decode_kept(call_.right.storage, {call_.right_values, at(weight_bytes(call_.right))}, 0, numbers_.values.right);
        const auto weights = at(call_.weight.numel());
        const ProjectorRefit refit =
            refit_projector(context_, {{call_.fit, weights}, {call_.judge, weights}}, {.iterations = call_.iterations},
                            numbers_.values, numbers_.changed);
        if (!refit.accepted) return refit;
        read_inner();
        write_back(
            context_, numbers_.values, numbers_.s,
            {.key = call_.step.seed, .step = static_cast<uint32_t>(call_.step.step), .first = call_.weight_element},
            call_.weight.storage.dtype, {call_.weights, at(weight_bytes(call_.weight))});
        carry_moments(context_, numbers_.values, numbers_.changed, {numbers_.first, numbers_.second});
        write_inner();
        encode_kept(call_.left, numbers_.changed.left, {call_.left_values, at(weight_bytes(call_.left))});
        encode_kept(call_.right, numbers_.changed.right, {call_.right_values, at(weight_bytes(call_.right))});
        return refit;
    }

  private:
    static int64_t weight_bytes(const Param& param) { return stored_bytes(param.storage.dtype, param.numel()); }

    // S and its moments, of W as it is stored.
    void read_inner() {
        for (const RefreshChunk& chunk : call_.chunks) {
            const auto first = at(chunk.first), count = at(chunk.count);
            for (size_t i = 0; i < count; ++i)
                numbers_.s[first + i] = std::bit_cast<float>(join_master({call_.inner_hi[first + i], chunk.lo[i]}));
            call_.moments.read(chunk.state, numbers_.first.subspan(first, count),
                               numbers_.second.subspan(first, count));
        }
        for (const std::span<float> each : {numbers_.s, numbers_.first, numbers_.second})
            turn_inner(each, shape_.right_cols(), shape_.left_cols());
    }
    void turn_inner(std::span<float> numbers, int64_t rows, int64_t cols) {
        if (!call_.layer.inner_is_turned) return;
        turn(numbers, rows, cols, numbers_.other);
        std::ranges::copy(numbers_.other, numbers.begin());
    }
    // S is zero now, in both of its halves.
    void write_inner() {
        for (const std::span<float> each : {numbers_.first, numbers_.second})
            turn_inner(each, shape_.left_cols(), shape_.right_cols());
        for (const RefreshChunk& chunk : call_.chunks) {
            const auto first = at(chunk.first), count = at(chunk.count);
            std::fill_n(call_.inner_hi + first, count, uint16_t{0});
            std::fill_n(chunk.lo, count, int16_t{0});
            call_.moments.write({.param = call_.inner,
                                 .first = chunk.first,
                                 .element = call_.inner_element + chunk.first,
                                 .count = chunk.count,
                                 .state = chunk.state,
                                 .step = &call_.step},
                                numbers_.first.subspan(first, count), numbers_.second.subspan(first, count));
        }
    }

    const RefreshCall& call_;
    std::shared_ptr<const SparsePositions> left_, right_;
    ProjectorShape shape_;
    LayerNumbers numbers_;
    ProjectorContext context_;
};

}  // namespace

// Bytes follow from shapes alone: planners ask for them often, and positions take a while to make.
int64_t refresh_work_bytes(const ProjectedLayer& layer, int threads) {
    const SparsePositions left{.shape = layer.left_shape}, right{.shape = layer.right_shape};
    return LayerNumbers(layer, nullptr).bytes() + projector_scratch_bytes({&left, &right}, threads);
}

// Each product of a sparse matrix with something as large as G reads `nonzeros` numbers for each of its own, most of
// them from a cache: counted as half of memory's traffic, which is near the 15 ms an iteration of 2048 x 2048 with 8 of
// them that refresh_bench found on two cores.
int64_t refresh_traffic(const ProjectedLayer& layer, int iterations) {
    constexpr int64_t kProducts = 5, kMeasured = 3;  // an iteration; biases of both halves, and of the scale
    const int64_t products = kProducts * iterations + 2 * kMeasured;
    return products * 4 * layer.left_shape.rows * layer.right_shape.rows * layer.left_shape.nonzeros / 2;
}

ProjectorRefit refresh_layer(const RefreshCall& call, Team& team) {
    return LayerRefresh(call, team).run();
}

}  // namespace windlass
