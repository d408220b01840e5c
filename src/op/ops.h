// ops.h: the ops' names and attributes: all that a family needs to write a block.
//
// Dimensions: T tokens, C columns, H heads, K key/value heads, D head size, F inner width, V vocabulary.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "op/op.h"
#include "op/preference_attrs.h"
#include "op/sparse_positions.h"

namespace windlass {

// out[t] = table[id(t)]. No inputs. weights: table [V, C].
struct EmbeddingAttrs {
    enum class Index : uint8_t { token, position } index = Index::token;
    int64_t offset = 0;  // added to the index: OPT's position table has two rows in front
    bool operator==(const EmbeddingAttrs&) const = default;
};
extern const OpRecord kEmbedding;

// out = in W^T + b, or in W + b. in [T, C]; weights: W [F, C] ("out_in"), or [C, F] ("in_out", GPT-2's files), and
// optionally b [F].
struct LinearAttrs {
    bool in_out = false;
    bool operator==(const LinearAttrs&) const = default;
};
extern const OpRecord kLinear;

// out = in * rsqrt(mean(in^2) + eps) * w, over groups of D = C / groups columns; weights: w [D]. unit_offset: times
// 1 + w, added in f32.
// groups = 1: the residual stream's norm; groups = H: qk-norm, each head by itself.
struct RmsNormAttrs {
    double eps = 1e-6;
    int64_t groups = 1;
    bool unit_offset = false;
    bool operator==(const RmsNormAttrs&) const = default;
};
extern const OpRecord kRmsNorm;

// out = (in - mean) * rsqrt(var + eps) * w + b; weights: w [C], b [C].
struct LayerNormAttrs {
    double eps = 1e-5;
    bool operator==(const LayerNormAttrs&) const = default;
};
extern const OpRecord kLayerNorm;

// Rotates pairs (i, i + P) of each head by position * frequency[i] (the "half" layout of Hugging Face), with P
// frequencies, and multiplies them by `scale`. in [T, H * (2P + still) + passed].
struct RopeAttrs {
    int64_t heads = 0;
    std::vector<double> frequencies;  // [P], scaling (linear, llama3, yarn) already applied
    int64_t still = 0;                // columns of each head, after those that turn, which stay as they are
    int64_t passed = 0;               // columns after the heads, which do too: the values of packed queries and keys
    double scale = 1;
    // Documents of more than short_length tokens turn by these instead; empty: none do.
    std::vector<double> long_frequencies = {};
    int64_t short_length = 0;
    bool operator==(const RopeAttrs&) const = default;
};
extern const OpRecord kRope;

// Causal softmax(scale * q k^T) v within a document, streaming over keys: no T x T matrix. With a softcap c, scores s
// become c tanh(s / c) before they are masked.
// in: q [T, H*D], k [T, K*D], v [T, K*D]; or one packed [T, (H + 2K) * D]. out [T, H*D]; saves log-sum-exp [T, H].
struct AttentionAttrs {
    int64_t heads = 0;
    int64_t key_heads = 0;
    int64_t head_size = 0;
    double scale = 0;
    int64_t window = 0;  // 0: none; else a token sees itself and the window - 1 tokens before it
    double softcap = 0;  // 0: none
    bool operator==(const AttentionAttrs&) const = default;
};
extern const OpRecord kAttention;

// out = f(gate) * up, with f = silu or gelu (its tanh form). in: gate [T, F], up [T, F]; or both side by side, packed
// [T, 2F]. out [T, F].
struct SwigluAttrs {
    enum class Kind : uint8_t { silu, gelu_tanh } kind = Kind::silu;
    bool packed = false;
    bool operator==(const SwigluAttrs&) const = default;
};
extern const OpRecord kSwiglu;

struct GeluAttrs {
    enum class Kind : uint8_t { exact, tanh } kind = Kind::tanh;
    bool operator==(const GeluAttrs&) const = default;
};
extern const OpRecord kGelu;
extern const OpRecord kRelu;
extern const OpRecord kTanh;

// out = a + b.
extern const OpRecord kAdd;

// out = (factor * w) * in. weights: w [C], or none: w = 1. The factor, as f32, multiplies before anything else does, in
// f32: grad_in = (factor * w) * grad_out; the weight's gradient sums (factor * grad_out) * in; the tangent is
// (factor * w) * tangent_in + (factor * direction) * in.
// rounds_factor: the factor is a number of the computation's type, as of a table that is multiplied in its own type.
struct ScaleAttrs {
    double factor = 1;
    bool rounds_factor = false;
    bool operator==(const ScaleAttrs&) const = default;
};
extern const OpRecord kScale;

// out_j = c_j (in_j - b_j) + b_j with c_j = m_j / ||W_j + s B_j A||: each output's numbers get the norm m_j, where `in`
// is the product with W + s B A, plus b. weights: m [F], W [F, C], or [C, F] ("in_out"), A [r, C], B [F, r], and
// optionally b [F]. in [T, F]. Norms are of the weights as they are computed with, summed in f64 and rounded to the
// computation's type, as m is: out is `in`, bit for bit, where they are equal. A norm of 0 gives c = 0. All weights but
// m are constants here: neither backward nor a tangent sees how a norm changes (Liu et al., "DoRA: Weight-Decomposed
// Low-Rank Adaptation", ICML 2024, arXiv 2402.09353, section 4.3). Both agree: what a tangent adds up to is backward's
// gradient.
struct MagnitudeAttrs {
    bool in_out = false;
    double scale = 1;  // s
    bool operator==(const MagnitudeAttrs&) const = default;
};
extern const OpRecord kMagnitude;

// out = in A, project: [T, n] -> [T, d]; or in A^T, expand: [T, d] -> [T, n]. A is sparse: [n, d] with r numbers in
// each row, which are the weight [n, r]; their positions follow from a seed (sparse_positions.h). Sums are in f32, in
// the order of the positions' lists. Backward of one direction is the other's forward. The weight is never trained.
struct SparseAttrs {
    enum class Direction : uint8_t { project, expand };
    std::shared_ptr<const SparsePositions> positions;
    Direction direction = Direction::project;
    bool operator==(const SparseAttrs& other) const {
        return *positions == *other.positions && direction == other.direction;
    }
};
extern const OpRecord kSparse;

// The head fused with the loss: out[t] = -log softmax(z)[target(t)], 0 where the target is ignored; f32 [T, 1].
// z = scale * (in W^T), or c tanh(z / c) of that where there is a softcap c; in [T, C]; weights: W [V, C]. With a
// second input u [T, r] and a second weight B [V, r], z = scale * (in W^T + u B^T): the second product is added to the
// first in the tile. Logits exist for `tile` tokens at a time. backward is that of sum(grad_out * out); without a
// grad_out it is the gradient of loss_scale * sum(out), and it computes out as well. HeadParams::result asks forward
// for something else of the tokens that have a target. miss: 1 where another id than the target is likelier, or as
// likely and of a lower number, else 0. likeliest: the likeliest id below HeadParams::id_count, the lowest of equals,
// as a number; NaN if a logit is NaN.
struct CrossEntropyAttrs {
    double scale = 1;
    double softcap = 0;  // 0: none
    bool operator==(const CrossEntropyAttrs&) const = default;
};
extern const OpRecord kCrossEntropy;

// Losses of tokens [T, 1], f32, become losses of pairs: rows 2i and 2i + 1 of the batch are the answer that is
// preferred and the other one, their tokens those that have a target. The sum of out over a pair is its loss, which
// is at the first token; after it rewards, which add nothing (preference_loss.h has the formulas, and
// Batch::references what dpo compares with). backward takes no grad_out: it is the gradient of loss_scale * sum(out),
// and it computes out as well. A forward pass whose HeadParams::result is not the loss hands on what it is given.
extern const OpRecord kPreference;

// Tokens per tile of cross_entropy: a function of the vocabulary alone, so that bits do not depend on budgets.
int64_t cross_entropy_tile(int64_t vocab);

}  // namespace windlass
