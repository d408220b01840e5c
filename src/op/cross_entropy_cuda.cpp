#include <array>

#include "op/cells_cuda.h"
#include "op/cross_entropy.h"
#include "op/cuda_kernels.h"
#include "op/head_kernels_cuda.h"
#include "op/linear.h"
#include "op/ops.h"
#include "op/products_cuda.h"

namespace windlass {
namespace cross_entropy_cells {

using HeadInputs = std::array<Tensor, kHeadProductsMax>;  // or weights: one for each product

// Tokens [begin, begin + count) and their logits, which exist for one tile at a time. All tiles are computed: targets
// are in the device's memory, and the host does not look.
struct Tile {
    int64_t begin, count;
    HeadInputs x;   // [count, C]
    Tensor logits;  // f32 [count, V]
};

class Head {
  public:
    Head(const OpCall& call, Stream& stream)
        : call_(call),
          stream_(stream),
          scratch_(call.scratch),
          vocab_(call.spec->weights[0][0]),
          tile_(std::min(cross_entropy_tile_cuda(vocab_), call.size->tokens())),
          shape_(logit_shape(*call.spec)),
          workspace_(scratch_.take(head_workspace_bytes(*call.spec, *call.size))) {
        for (size_t i = 0; i < products(); ++i)
            weights_[i] = cuda_matrix(call.weights[i], *call.size, scratch_, stream);
        logits_ = tile_space();
    }

    int64_t vocab() const { return vocab_; }
    LogitShape shape() const { return shape_; }
    int64_t tile() const { return tile_; }
    size_t products() const { return call_.spec->in.size(); }
    const Tensor& weight(size_t product) const { return weights_[product]; }
    CudaScratch& scratch() { return scratch_; }
    std::span<std::byte> workspace() const { return workspace_; }
    CudaStreamHandle handle() const { return cuda_handle(stream_); }
    Stream& stream() const { return stream_; }

    // Room for another tile of logits.
    Tensor tile_space() {
        const int64_t stride = cross_entropy_stride_cuda(vocab_);
        return {DType::f32, {tile_, vocab_}, stride, scratch_.floats(tile_ * stride)};
    }
    void product(const GemmArgs& args) const { cuda_product(args, workspace_, stream_); }

    // Calls body for each tile in ascending order, with its logits.
    template <typename Body>
    void for_tiles(Body body) {
        const int64_t tokens = call_.size->tokens();
        for (int64_t begin = 0; begin < tokens; begin += tile_) {
            const int64_t count = std::min(tile_, tokens - begin);
            Tile tile{begin, count, {}, logits_.slice_rows(0, count)};
            for (size_t i = 0; i < products(); ++i) {
                tile.x[i] = call_.in[i].slice_rows(begin, count);
                product({.a = tile.x[i], .b = weights_[i], .c = tile.logits, .transpose_b = true, .accumulate = i > 0});
            }
            if (changes_logits(shape_))
                launch_head_shape(
                    {tile.logits.as<float>(), tile.logits.row_stride, count, vocab_, shape_.scale, shape_.softcap},
                    handle());
            body(tile);
        }
    }

    // `out` [T, 1]; empty: not wanted.
    HeadRowArgs row_args(const Tile& tile, const Tensor& out) const {
        return {.logits = tile.logits.as<float>(),
                .stride = tile.logits.row_stride,
                .rows = tile.count,
                .vocab = vocab_,
                .targets = call_.batch->targets + tile.begin,
                .ignored = kIgnored,
                .out = out.empty() ? nullptr : out.as<float>() + tile.begin * out.row_stride,
                .out_stride = out.row_stride};
    }

  private:
    const OpCall& call_;
    Stream& stream_;
    CudaScratch scratch_;
    int64_t vocab_, tile_;
    LogitShape shape_;
    HeadInputs weights_;  // [V, C] in the type of the computation
    std::span<std::byte> workspace_;
    Tensor logits_;
};

HeadRow row_of(const HeadParams* head) {
    switch (head == nullptr ? HeadResult::loss : head->result) {
        case HeadResult::loss:
        case HeadResult::token_loss:
            return HeadRow::loss;
        case HeadResult::is_wrong:
            return HeadRow::is_wrong;
        case HeadResult::argmax:
            return HeadRow::argmax;
    }
    return HeadRow::loss;
}

void forward(const OpCall& call, Stream& stream) {
    Head head(call, stream);
    const HeadRow what = row_of(call.head);
    const int64_t ids = call.head == nullptr ? 0 : call.head->id_count;
    WINDLASS_CHECK(what != HeadRow::argmax || ids > 0, "the likeliest of no ids");
    head.for_tiles([&](const Tile& tile) {
        HeadRowArgs args = head.row_args(tile, call.out[0]);
        args.id_count = std::min(ids, head.vocab());
        launch_head_rows(what, args, head.handle());
    });
}

// dX = G W and dW (+)= G^T X of each product.
void add_gradients(const OpCall& call, const Tile& tile, const Tensor& gradient, const Head& head) {
    for (size_t i = 0; i < head.products(); ++i) {
        if (!call.grad_in[i].empty())
            head.product({.a = gradient,
                          .b = head.weight(i),
                          .c = call.grad_in[i].slice_rows(tile.begin, tile.count),
                          .accumulate = call.add_to_grad_in[i] != 0});
        const GradientSink& sink = call.sinks[i];
        if (sink.wanted())
            head.product({.a = gradient,
                          .b = tile.x[i],
                          .c = sink.target,
                          .transpose_a = true,
                          .accumulate = !sink.first || tile.begin > 0});
    }
}

// Losses and, in place of the logits, their gradients; then what those give.
void backward(const OpCall& call, Stream& stream) {
    Head head(call, stream);
    const Tensor out = call.out.empty() ? Tensor() : call.out[0];
    const bool narrows = computes_bf16(call);
    head.for_tiles([&](const Tile& tile) {
        HeadRowArgs args = head.row_args(tile, out);
        args.scale = static_cast<float>(call.head->loss_scale);
        if (!call.grad_out.empty() && !call.grad_out[0].empty()) {
            args.scales = call.grad_out[0].as<float>() + tile.begin * call.grad_out[0].row_stride;
            args.scales_stride = call.grad_out[0].row_stride;
        }
        args.narrows = narrows;
        args.logit_scale = head.shape().scale;
        args.softcap = head.shape().softcap;
        launch_head_rows(HeadRow::gradient, args, head.handle());
        const Tensor gradient(call.size->compute, tile.logits.shape, tile.logits.row_stride * (narrows ? 2 : 1),
                              tile.logits.data);
        add_gradients(call, tile, gradient, head);
    });
}

// What all directions of a tile share.
struct TangentTile {
    explicit TangentTile(Head& head) : change(head.tile_space()), log_sums(head.scratch().floats(head.tile())) {}
    Tensor change;  // f32 [tile, V]: of one direction's logits
    float* log_sums;
    HeadInputs products;  // f32 [tile, k * rank], of factors
};

// Of direction j: change = dx W^T + x dW^T, where either may be missing, of each product; false when all are.
bool change_logits(const OpCall& call, const Tile& tile, int j, const Tensor& change, const Head& head) {
    bool moves = false;
    const auto add = [&](const Tensor& a, const Tensor& b) {
        head.product({.a = a, .b = b, .c = change, .transpose_b = true, .accumulate = moves});
        moves = true;
    };
    for (size_t i = 0; i < head.products(); ++i) {
        const Tensor &dx = call.tangent_in[i], direction = direction_of(call.weights[i], j);
        if (!dx.empty()) add(dx.slice_rows(j * call.size->tokens() + tile.begin, tile.count), head.weight(i));
        if (!direction.empty()) add(tile.x[i], direction);
    }
    return moves;
}

void write_tangents(const OpCall& call, const Tile& tile, int j, const TangentTile& shared, const Head& head) {
    const Tensor change = shared.change.slice_rows(0, tile.count), &out = call.tangent_out[0];
    const int64_t row = j * call.size->tokens() + tile.begin;
    const bool moves = change_logits(call, tile, j, change, head);
    HeadTangentArgs args{.logits = tile.logits.as<float>(),
                         .change = moves ? change.as<float>() : nullptr,
                         .log_sums = shared.log_sums,
                         .stride = tile.logits.row_stride,
                         .rows = tile.count,
                         .vocab = head.vocab(),
                         .targets = call.batch->targets + tile.begin,
                         .ignored = kIgnored,
                         .logit_scale = head.shape().scale,
                         .softcap = head.shape().softcap,
                         .out = out.as<float>() + row * out.row_stride,
                         .out_stride = out.row_stride};
    for (size_t i = 0; i < head.products(); ++i) {
        const Tensor& products = shared.products[i];
        if (products.empty()) continue;
        const int64_t rank = products.cols() / call.size->k;
        args.factors[i] = {.products = products.as<float>() + j * rank,
                           .left = call.weights[i].left.as<float>() + j * rank * head.vocab(),
                           .rank = rank,
                           .products_stride = products.row_stride};
    }
    launch_head_tangents(args, head.handle());
}

void tangent(const OpCall& call, Stream& stream) {
    Head head(call, stream);
    TangentTile shared(head);
    const CudaScratch behind = head.scratch();
    head.for_tiles([&](const Tile& tile) {
        HeadRowArgs args = head.row_args(tile, {});
        args.out = shared.log_sums;
        args.out_stride = 1;
        launch_head_rows(HeadRow::log_sum, args, head.handle());
        CudaScratch scratch = behind;
        for (size_t i = 0; i < head.products(); ++i) {
            const Tensor& right = call.weights[i].right;
            if (right.empty()) continue;
            shared.products[i] =
                cuda_inner_products(tile.x[i], right, *call.size, scratch, head.workspace(), head.stream());
        }
        for (int j = 0; j < call.size->k; ++j) write_tangents(call, tile, j, shared, head);
    });
}

}  // namespace cross_entropy_cells

constinit const OpKernels kCrossEntropyCuda{
    .forward = cross_entropy_cells::forward, .vjp = cross_entropy_cells::backward, .jvp = cross_entropy_cells::tangent};

}  // namespace windlass
