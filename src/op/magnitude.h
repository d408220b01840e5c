// magnitude.h: the CPU kernels of magnitude and their loops; what they compute: ops.h.
#pragma once

#include "op/loops.h"

namespace windlass {

class Stream;
struct OpCall;
struct OpSize;
struct OpSpec;
enum class DiffMode : uint8_t;

int64_t magnitude_scratch_bytes_cpu(const OpSpec& spec, const OpSize& size, DiffMode mode);
void magnitude_forward_cpu(const OpCall& call, Stream& stream);
void magnitude_backward_cpu(const OpCall& call, Stream& stream);
void magnitude_tangent_cpu(const OpCall& call, Stream& stream);

// The places of the weights: m, W, A, B, and perhaps b.
enum MagnitudeWeight : uint8_t { kMagnitudeM, kMagnitudeW, kMagnitudeA, kMagnitudeB, kMagnitudeBias };

// Numbers of a row that backward sees at a time; columns that are summed together of a W that is stored [in, out].
inline constexpr int64_t kMagnitudeBlock = 512, kMagnitudeColumns = 64;

struct MagnitudeLoops {
    double (*squares)(const float* x, int64_t n);                  // their sum
    void (*add_squares)(const float* x, double* sums, int64_t n);  // sums[i] += x[i]^2
    PointwiseLoop* forward;                                        // in: c, b, x; out: c x + (1 - c) b
    PointwiseLoop* backward;                                       // in: c, dy; out: c dy
    PointwiseLoop* tangent;                                        // in: c, e, b, x, x'; out: c x' + e (x - b)
    // grad_m[i] += dy[i] (x[i] - b[i]) inverse[i]; b null: zeros
    void (*add_gradient)(const float* grad_y, const float* x, const float* b, const float* inverse, float* grad_m,
                         int64_t n);
};

namespace baseline {
extern const MagnitudeLoops kMagnitudeLoops;
}
namespace avx2 {
extern const MagnitudeLoops kMagnitudeLoops;
}
namespace avx512 {
extern const MagnitudeLoops kMagnitudeLoops;
}

}  // namespace windlass
