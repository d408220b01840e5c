#include <array>
#include <cmath>
#include <limits>
#include <optional>

#include "op/cross_entropy.h"
#include "op/factors.h"
#include "op/gemm.h"
#include "op/linear.h"
#include "op/ops.h"

namespace windlass {
namespace {

constexpr IsaKernel<const CrossEntropyLoops> kCrossEntropyLoops{&baseline::kCrossEntropyLoops,
                                                                &avx2::kCrossEntropyLoops, &avx512::kCrossEntropyLoops};
constexpr int64_t kRowsPerPiece = 4;  // of logits, of a whole vocabulary each
constexpr int64_t kBlock = 1024;

// Tokens [begin, begin + count) and their logits, which exist for one tile at a time.
struct Tile {
    int64_t begin, count;
    Tensor x;       // [count, C]
    Tensor logits;  // f32 [count, V]
    const int32_t* targets;

    bool has_target() const {
        return std::any_of(targets, targets + count, [](int32_t target) { return target != kIgnored; });
    }
};

// The directions of W as factors: x dW_j^T of a tile's rows is (x right_j^T) left_j.
struct HeadFactors {
    InnerProducts products;
    const float* left;  // [k * rank, V]

    void add_to(float* dl, int64_t row, int64_t direction, int64_t vocab) const {
        const int64_t rank = products.rank();
        factor_loops().add_combination(left + direction * rank * vocab, vocab, products.of(row, direction), rank, dl,
                                       vocab);
    }
};

class Head {
  public:
    Head(const OpCall& call, Team& team)
        : call_(call),
          team_(team),
          scratch_(call.scratch),
          vocab_(call.spec->weights[0][0]),
          tile_(std::min(cross_entropy_tile(vocab_), call.size->tokens())),
          shape_(logit_shape(*call.spec)),
          weight_(read_matrix(call.weights[0], *call.size, scratch_, team)),
          logits_(tile_space()) {}

    Team& team() { return team_; }
    const Tensor& weight() const { return weight_; }
    int64_t vocab() const { return vocab_; }
    LogitShape shape() const { return shape_; }
    // Room for another tile of logits.
    Tensor tile_space() {
        const int64_t stride = cross_entropy_stride(vocab_);
        return {DType::f32, {tile_, vocab_}, stride, scratch_.floats(tile_ * stride)};
    }

    // Calls body for each tile in ascending order, without logits.
    void for_tiles(const std::function<void(const Tile&)>& body) {
        const int64_t tokens = call_.size->tokens();
        for (int64_t begin = 0; begin < tokens; begin += tile_) {
            const int64_t count = std::min(tile_, tokens - begin);
            body({begin, count, call_.in[0].slice_rows(begin, count), logits_.slice_rows(0, count),
                  call_.batch->targets + begin});
        }
    }
    void compute_logits(const Tile& tile) {
        gemm({.a = tile.x, .b = weight_, .c = tile.logits, .transpose_b = true}, team_);
        if (!changes_logits(shape_)) return;
        for_row_chunks(tile.count, kRowsPerPiece, team_, [&](int64_t begin, int64_t end, int) {
            for (int64_t row = begin; row < end; ++row)
                kCrossEntropyLoops.pick()->apply_shape(shape_, tile.logits.as<float>() + row * tile.logits.row_stride,
                                                       vocab_);
        });
    }
    // Room for one number for each row of a tile.
    float* row_space() { return scratch_.floats(tile_); }
    // With room for the products of a tile. Nothing where directions come in full.
    std::optional<HeadFactors> factors() {
        const Weight& weight = call_.weights[0];
        if (weight.left.empty()) return std::nullopt;
        return HeadFactors{InnerProducts(weight.right, tile_, *call_.size, scratch_, team_), weight.left.as<float>()};
    }

  private:
    const OpCall& call_;
    Team& team_;
    Scratch scratch_;
    int64_t vocab_, tile_;
    LogitShape shape_;
    Tensor weight_;  // [V, C] in the type of the computation
    Tensor logits_;
};

float* row_of(const Tensor& logits, int64_t row) {
    return logits.as<float>() + row * logits.row_stride;
}

// -log p(target), of a row with a target.
float loss_of(const float* logits, int32_t target, double log_sum) {
    return static_cast<float>(log_sum - static_cast<double>(logits[target]));
}

// 0 where no id is likelier than the target, and none of a lower number as likely: greedy decoding writes it. Else 1.
float miss_of(const float* logits, int64_t vocab, int32_t target) {
    const float wanted = logits[target];
    if (std::isnan(wanted)) return wanted;
    int64_t better = 0;
    for (int64_t id = 0; id < target; ++id) better += logits[id] >= wanted;
    for (int64_t id = target + 1; id < vocab; ++id) better += logits[id] > wanted;
    return better > 0 ? 1.0f : 0.0f;
}

void write_misses(const Tile& tile, const Tensor& out, Head& head) {
    for_row_chunks(tile.count, kRowsPerPiece, head.team(), [&](int64_t begin, int64_t end, int) {
        for (int64_t row = begin; row < end; ++row) {
            const int32_t target = tile.targets[row];
            out.as<float>()[(tile.begin + row) * out.row_stride] =
                target == kIgnored ? 0 : miss_of(row_of(tile.logits, row), head.vocab(), target);
        }
    });
}

// The likeliest of ids below `count`, the lowest of equals: what greedy decoding writes. Ids are exact in f32
// (kVocabMax).
float likeliest_of(const float* logits, int64_t count) {
    int64_t wrong = 0;
    for (int64_t id = 0; id < count; ++id) wrong += std::isnan(logits[id]) ? 1 : 0;
    if (wrong > 0) return std::numeric_limits<float>::quiet_NaN();
    const float greatest = kCrossEntropyLoops.pick()->greatest(logits, count);
    return static_cast<float>(std::find(logits, logits + count, greatest) - logits);
}

void write_likeliest(const Tile& tile, const Tensor& out, int64_t id_count, Head& head) {
    WINDLASS_CHECK(id_count > 0, "the likeliest of no ids");
    const int64_t count = std::min(id_count, head.vocab());
    for_row_chunks(tile.count, kRowsPerPiece, head.team(), [&](int64_t begin, int64_t end, int) {
        for (int64_t row = begin; row < end; ++row)
            out.as<float>()[(tile.begin + row) * out.row_stride] =
                tile.targets[row] == kIgnored ? 0 : likeliest_of(row_of(tile.logits, row), count);
    });
}

void write_losses(const Tile& tile, const Tensor& out, Head& head) {
    const CrossEntropyLoops& loops = *kCrossEntropyLoops.pick();
    for_row_chunks(tile.count, kRowsPerPiece, head.team(), [&](int64_t begin, int64_t end, int) {
        for (int64_t row = begin; row < end; ++row) {
            const float* const logits = row_of(tile.logits, row);
            const int32_t target = tile.targets[row];
            float* const loss = out.as<float>() + (tile.begin + row) * out.row_stride;
            *loss = target == kIgnored ? 0 : loss_of(logits, target, loops.log_sum_exp(logits, head.vocab()));
        }
    });
}

// The gradient of a tile's logits, in their place: a bf16 row takes the first half of its f32 row.
Tensor gradient_view(const Tile& tile, DType compute) {
    if (compute == DType::f32) return tile.logits;
    return {compute, tile.logits.shape, 2 * tile.logits.row_stride, tile.logits.data};
}

struct GradientRow {
    int32_t target;
    float log_sum;
    float scale;  // of the loss
    LogitShape shape;
};

// scale * (p - one at the target) over a row of logits, times the slope of their shape. Block by block through a
// buffer: a block of the narrow row ends before the blocks of logits that are still to be read.
void gradient_row(float* logits, int64_t n, const GradientRow& row, DType compute) {
    const CrossEntropyLoops& loops = *kCrossEntropyLoops.pick();
    const bool reshaped = changes_logits(row.shape);
    std::array<float, kBlock> block;
    for (int64_t begin = 0; begin < n; begin += kBlock) {
        const int64_t count = std::min(kBlock, n - begin);
        float* const gradient = compute == DType::f32 && !reshaped ? logits + begin : block.data();
        loops.softmax(logits + begin, gradient, count, row.log_sum, row.scale);
        if (row.target >= begin && row.target < begin + count) gradient[row.target - begin] -= row.scale;
        if (reshaped) loops.times_slope(row.shape, logits + begin, gradient, count);
        if (compute == DType::bf16) {
            convert_loops().narrow(gradient, reinterpret_cast<uint16_t*>(logits) + begin, count);
        } else if (reshaped) {
            std::copy_n(gradient, count, logits + begin);
        }
    }
}

// Losses and, in place of the logits, their gradients.
Tensor differentiate(const Tile& tile, const OpCall& call, Head& head) {
    const Tensor gradient = gradient_view(tile, call.size->compute);
    const Tensor by_token = call.grad_out.empty() ? Tensor() : call.grad_out[0];
    const auto scale_of = [&](int64_t row) {
        return by_token.empty() ? static_cast<float>(call.head->loss_scale)
                                : by_token.as<float>()[(tile.begin + row) * by_token.row_stride];
    };
    const Tensor out = call.out.empty() ? Tensor() : call.out[0];
    for_row_chunks(tile.count, kRowsPerPiece, head.team(), [&](int64_t begin, int64_t end, int) {
        for (int64_t row = begin; row < end; ++row) {
            float* const logits = row_of(tile.logits, row);
            const int32_t target = tile.targets[row];
            float loss = 0;
            if (target == kIgnored) {
                std::memset(logits, 0, static_cast<size_t>(head.vocab()) * sizeof(float));
            } else {
                const double log_sum = kCrossEntropyLoops.pick()->log_sum_exp(logits, head.vocab());
                loss = loss_of(logits, target, log_sum);
                gradient_row(logits, head.vocab(), {target, static_cast<float>(log_sum), scale_of(row), head.shape()},
                             gradient.dtype);
            }
            if (!out.empty()) out.as<float>()[(tile.begin + row) * out.row_stride] = loss;
        }
    });
    return gradient;
}

// change = dx W^T + x dW^T, where either may be missing; false when both are.
bool change_logits(const Tile& tile, const Tensor& dx, const Tensor& direction, const Tensor& change, Head& head) {
    if (!dx.empty()) gemm({.a = dx, .b = head.weight(), .c = change, .transpose_b = true}, head.team());
    if (!direction.empty()) {
        gemm({.a = tile.x, .b = direction, .c = change, .transpose_b = true, .accumulate = !dx.empty()}, head.team());
    }
    return !dx.empty() || !direction.empty();
}

// What all directions need of a tile that has targets.
struct TangentTile {
    Tensor change;    // f32 [tile, V]: of one direction's logits
    float* log_sums;  // [tile]
    std::optional<HeadFactors> factors;

    explicit TangentTile(Head& head) : change(head.tile_space()), log_sums(head.row_space()), factors(head.factors()) {}
    void prepare(const Tile& tile, Head& head) {
        head.compute_logits(tile);
        for_row_chunks(tile.count, kRowsPerPiece, head.team(), [&](int64_t begin, int64_t end, int) {
            for (int64_t row = begin; row < end; ++row)
                log_sums[row] =
                    static_cast<float>(kCrossEntropyLoops.pick()->log_sum_exp(row_of(tile.logits, row), head.vocab()));
        });
        if (factors) factors->products.compute(tile.x, head.team());
    }
};

// The change of the logits lacks what factors, if any, say of direction j.
void write_tangents(const Tile& tile, const TangentTile& shared, int64_t j, const Tensor& out, Head& head) {
    for_row_chunks(tile.count, kRowsPerPiece, head.team(), [&](int64_t begin, int64_t end, int) {
        const CrossEntropyLoops& loops = *kCrossEntropyLoops.pick();
        for (int64_t row = begin; row < end; ++row) {
            float* const dl = row_of(shared.change, row);
            const int32_t target = tile.targets[row];
            double tangent = 0;
            if (target != kIgnored) {
                if (shared.factors) shared.factors->add_to(dl, row, j, head.vocab());
                if (changes_logits(head.shape()))
                    loops.times_slope(head.shape(), row_of(tile.logits, row), dl, head.vocab());
                tangent = loops.expectation(row_of(tile.logits, row), dl, head.vocab(), shared.log_sums[row]) -
                          static_cast<double>(dl[target]);
            }
            out.as<float>()[row * out.row_stride] = static_cast<float>(tangent);
        }
    });
}

}  // namespace

void cross_entropy_forward_cpu(const OpCall& call, Stream& stream) {
    Head head(call, cpu_team(stream));
    head.for_tiles([&](const Tile& tile) {
        if (!tile.has_target()) return write_zeros(call.out[0].slice_rows(tile.begin, tile.count), head.team());
        head.compute_logits(tile);
        switch (call.head == nullptr ? HeadResult::loss : call.head->result) {
            case HeadResult::loss:
            case HeadResult::token_loss:
                return write_losses(tile, call.out[0], head);
            case HeadResult::is_wrong:
                return write_misses(tile, call.out[0], head);
            case HeadResult::argmax:
                return write_likeliest(tile, call.out[0], call.head->id_count, head);
        }
    });
}

void cross_entropy_backward_cpu(const OpCall& call, Stream& stream) {
    Head head(call, cpu_team(stream));
    const Output grad_in = grad_output(call, 0);
    const GradientSink& sink = call.sinks[0];
    bool first = sink.first;
    head.for_tiles([&](const Tile& tile) {
        const Tensor dx = grad_in.value.empty() ? Tensor() : grad_in.value.slice_rows(tile.begin, tile.count);
        if (!tile.has_target()) {
            if (!call.out.empty() && !call.out[0].empty()) {
                write_zeros(call.out[0].slice_rows(tile.begin, tile.count), head.team());
            }
            if (!dx.empty() && !grad_in.add) write_zeros(dx, head.team());
            return;
        }
        head.compute_logits(tile);
        const Tensor gradient = differentiate(tile, call, head);
        if (!dx.empty()) gemm({.a = gradient, .b = head.weight(), .c = dx, .accumulate = grad_in.add}, head.team());
        if (!sink.wanted()) return;
        gemm({.a = gradient, .b = tile.x, .c = sink.target, .transpose_a = true, .accumulate = !first}, head.team());
        first = false;
    });
    if (sink.wanted() && first) write_zeros(sink.target, head.team());
}

// dloss = sum_v p_v dl_v - dl_target  with  dl = dz/dl * (dx W^T + x dW^T)
void cross_entropy_tangent_cpu(const OpCall& call, Stream& stream) {
    Head head(call, cpu_team(stream));
    TangentTile shared(head);
    head.for_tiles([&](const Tile& tile) {
        const bool has_target = tile.has_target();
        if (has_target) shared.prepare(tile, head);
        for (int j = 0; j < call.size->k; ++j) {
            const int64_t row = j * call.size->tokens() + tile.begin;
            const Tensor out = call.tangent_out[0].slice_rows(row, tile.count);
            const Tensor dx = call.tangent_in[0].empty() ? Tensor() : call.tangent_in[0].slice_rows(row, tile.count);
            const Tensor change = shared.change.slice_rows(0, tile.count);
            bool moves = has_target && change_logits(tile, dx, direction_of(call.weights[0], j), change, head);
            if (has_target && !moves && shared.factors) {
                write_zeros(change, head.team());
                moves = true;
            }
            if (moves)
                write_tangents(tile, shared, j, out, head);
            else
                write_zeros(out, head.team());
        }
    });
}

}  // namespace windlass
