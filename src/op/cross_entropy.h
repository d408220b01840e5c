// cross_entropy.h: the CPU kernels of cross_entropy and their loops; what they compute: ops.h.
#pragma once

#include <cstddef>
#include <cstdint>

namespace windlass {

class Stream;
struct OpCall;
struct OpSize;
struct OpSpec;

void cross_entropy_forward_cpu(const OpCall& call, Stream& stream);
void cross_entropy_backward_cpu(const OpCall& call, Stream& stream);
void cross_entropy_tangent_cpu(const OpCall& call, Stream& stream);

// Products whose sum the logits are: one for each input, by its own weight.
inline constexpr size_t kHeadProductsMax = 2;

// Elements from one row of a tile of logits to the next: not a multiple of 4096 bytes, which would make rows share
// cache sets.
int64_t cross_entropy_stride(int64_t vocab);

// Of a CUDA device, whose products want many rows; functions of the vocabulary alone, too.
int64_t cross_entropy_tile_cuda(int64_t vocab);
int64_t cross_entropy_stride_cuda(int64_t vocab);
// Of the head's largest product.
int64_t head_workspace_bytes(const OpSpec& spec, const OpSize& size);

// What becomes of a logit x: z = scale x, or with a softcap c > 0: z = c tanh(scale x / c).
struct LogitShape {
    float scale = 1, softcap = 0;
};
LogitShape logit_shape(const OpSpec& spec);
bool changes_logits(LogitShape shape);

struct CrossEntropyLoops {
    // log sum_i exp(x[i]), without overflow.
    double (*log_sum_exp)(const float* x, int64_t n);
    // y[i] = scale * exp(x[i] - log_sum)
    void (*softmax)(const float* x, float* y, int64_t n, float log_sum, float scale);
    // sum_i exp(x[i] - log_sum) * d[i]
    double (*expectation)(const float* x, const float* d, int64_t n, float log_sum);
    // The greatest of x, which holds no NaN.
    float (*greatest)(const float* x, int64_t n);
    // x[i] = z(x[i])
    void (*apply_shape)(LogitShape shape, float* x, int64_t n);
    // d[i] *= dz/dx = scale (1 - (z[i] / c)^2)
    void (*times_slope)(LogitShape shape, const float* z, float* d, int64_t n);
};

namespace baseline {
extern const CrossEntropyLoops kCrossEntropyLoops;
}
namespace avx2 {
extern const CrossEntropyLoops kCrossEntropyLoops;
}
namespace avx512 {
extern const CrossEntropyLoops kCrossEntropyLoops;
}

}  // namespace windlass
