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

using HeadInputs = std::array<Tensor, kHeadProductsMax>;  // or weights: one for each product

// Tokens [begin, begin + count) and their logits, which exist for one tile at a time.
struct Tile {
    int64_t begin, count;
    HeadInputs x;   // [count, C]
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
          shape_(logit_shape(*call.spec)) {
        for (size_t i = 0; i < products(); ++i) weights_[i] = read_matrix(call.weights[i], *call.size, scratch_, team);
        logits_ = tile_space();
    }

    Team& team() { return team_; }
    size_t products() const { return call_.spec->in.size(); }
    const Tensor& weight(size_t product) const { return weights_[product]; }
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
            Tile tile{begin, count, {}, logits_.slice_rows(0, count), call_.batch->targets + begin};
            for (size_t i = 0; i < products(); ++i) tile.x[i] = call_.in[i].slice_rows(begin, count);
            body(tile);
        }
    }
    void compute_logits(const Tile& tile) {
        for (size_t i = 0; i < products(); ++i)
            gemm({.a = tile.x[i], .b = weights_[i], .c = tile.logits, .transpose_b = true, .accumulate = i > 0}, team_);
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
    std::optional<HeadFactors> factors(size_t product) {
        const Weight& weight = call_.weights[product];
        if (weight.left.empty()) return std::nullopt;
        return HeadFactors{InnerProducts(weight.right, tile_, *call_.size, scratch_, team_), weight.left.as<float>()};
    }

  private:
    const OpCall& call_;
    Team& team_;
    Scratch scratch_;
    int64_t vocab_, tile_;
    LogitShape shape_;
    HeadInputs weights_;  // [V, C] in the type of the computation
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

// dX = G W and dW (+)= G^T X of each product; `first`: no tile before this one had a target.
void add_gradients(const OpCall& call, const Tile& tile, const Tensor& gradient, bool first, Head& head) {
    for (size_t i = 0; i < head.products(); ++i) {
        const Output grad_in = grad_output(call, i);
        if (!grad_in.value.empty())
            gemm({.a = gradient,
                  .b = head.weight(i),
                  .c = grad_in.value.slice_rows(tile.begin, tile.count),
                  .accumulate = grad_in.add},
                 head.team());
        const GradientSink& sink = call.sinks[i];
        if (!sink.wanted()) continue;
        gemm({.a = gradient,
              .b = tile.x[i],
              .c = sink.target,
              .transpose_a = true,
              .accumulate = !(first && sink.first)},
             head.team());
    }
}

// What a tile without a target gives.
void write_nothing(const OpCall& call, const Tile& tile, Team& team) {
    if (!call.out.empty() && !call.out[0].empty()) write_zeros(call.out[0].slice_rows(tile.begin, tile.count), team);
    for (size_t i = 0; i < call.grad_in.size(); ++i) {
        const Output grad_in = grad_output(call, i);
        if (!grad_in.value.empty() && !grad_in.add) write_zeros(grad_in.value.slice_rows(tile.begin, tile.count), team);
    }
}

// Of direction j: change = dx W^T + x dW^T, where either may be missing, of each product; false when all are.
bool change_logits(const OpCall& call, const Tile& tile, int j, const Tensor& change, Head& head) {
    bool moves = false;
    const auto add = [&](const Tensor& a, const Tensor& b) {
        gemm({.a = a, .b = b, .c = change, .transpose_b = true, .accumulate = moves}, head.team());
        moves = true;
    };
    for (size_t i = 0; i < head.products(); ++i) {
        const Tensor &dx = call.tangent_in[i], direction = direction_of(call.weights[i], j);
        if (!dx.empty()) add(dx.slice_rows(j * call.size->tokens() + tile.begin, tile.count), head.weight(i));
        if (!direction.empty()) add(tile.x[i], direction);
    }
    return moves;
}

// What all directions need of a tile that has targets.
struct TangentTile {
    Tensor change;    // f32 [tile, V]: of one direction's logits
    float* log_sums;  // [tile]
    std::array<std::optional<HeadFactors>, kHeadProductsMax> factors;

    explicit TangentTile(Head& head) : change(head.tile_space()), log_sums(head.row_space()) {
        for (size_t i = 0; i < head.products(); ++i) factors[i] = head.factors(i);
    }
    bool has_factors() const {
        return std::ranges::any_of(factors, [](const auto& each) { return each.has_value(); });
    }
    void prepare(const Tile& tile, Head& head) {
        head.compute_logits(tile);
        for_row_chunks(tile.count, kRowsPerPiece, head.team(), [&](int64_t begin, int64_t end, int) {
            for (int64_t row = begin; row < end; ++row)
                log_sums[row] =
                    static_cast<float>(kCrossEntropyLoops.pick()->log_sum_exp(row_of(tile.logits, row), head.vocab()));
        });
        for (size_t i = 0; i < head.products(); ++i)
            if (factors[i]) factors[i]->products.compute(tile.x[i], head.team());
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
                for (const auto& factors : shared.factors)
                    if (factors) factors->add_to(dl, row, j, head.vocab());
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
    bool first = true;
    head.for_tiles([&](const Tile& tile) {
        if (!tile.has_target()) return write_nothing(call, tile, head.team());
        head.compute_logits(tile);
        add_gradients(call, tile, differentiate(tile, call, head), first, head);
        first = false;
    });
    for (const GradientSink& sink : call.sinks)
        if (first && sink.wanted() && sink.first) write_zeros(sink.target, head.team());
}

// dloss = sum_v p_v dl_v - dl_target  with  dl = dz/dl * (dx W^T + x dW^T), summed over products
void cross_entropy_tangent_cpu(const OpCall& call, Stream& stream) {
    Head head(call, cpu_team(stream));
    TangentTile shared(head);
    head.for_tiles([&](const Tile& tile) {
        const bool has_target = tile.has_target();
        if (has_target) shared.prepare(tile, head);
        for (int j = 0; j < call.size->k; ++j) {
            const int64_t row = j * call.size->tokens() + tile.begin;
            const Tensor out = call.tangent_out[0].slice_rows(row, tile.count);
            const Tensor change = shared.change.slice_rows(0, tile.count);
            bool moves = has_target && change_logits(call, tile, j, change, head);
            if (has_target && !moves && shared.has_factors()) {
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
