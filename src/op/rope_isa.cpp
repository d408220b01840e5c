#include "op/rope.h"

#include "op/contraction.h"
#include "op/rope_angle.h"

namespace windlass {
namespace WINDLASS_ISA {
namespace {

void angles(int32_t position, const float* frequencies, float* cos, float* sin, int64_t n) {
    const float at = static_cast<float>(position);
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) {
        const Angle angle = cos_sin(static_cast<double>(at * frequencies[i]));
        cos[i] = static_cast<float>(angle.cos);
        sin[i] = static_cast<float>(angle.sin);
    }
}

void rotate(const float* x, const float* cos, const float* sin, float* y, int64_t heads, int64_t n) {
    for (int64_t head = 0; head < heads; ++head) {
        const float *a = x + head * 2 * n, *b = a + n;
        float *ya = y + head * 2 * n, *yb = ya + n;
#pragma omp simd
        for (int64_t i = 0; i < n; ++i) {
            ya[i] = a[i] * cos[i] - b[i] * sin[i];
            yb[i] = b[i] * cos[i] + a[i] * sin[i];
        }
    }
}

}  // namespace

extern const RopeLoops kRopeLoops = {angles, rotate};

}  // namespace WINDLASS_ISA
}  // namespace windlass
