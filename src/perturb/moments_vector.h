// moments_vector.h: two moments of what steps found, a register of elements at a time.
//
// For sources compiled per instruction set only (*_isa.cpp), after gaussian_vector.h: everything has internal linkage
// in their namespace. Only + * / sqrt, each rounded once. Arrays begin at a register's alignment; whole registers are
// taken, so there is room for one after `end`, and what lies there is of no account.
#pragma once

#include <cstdint>

#include "perturb/gaussian_vector.h"
#include "perturb/noise_kernel.h"

namespace windlass {
namespace WINDLASS_ISA {
namespace {

// m <- m + b_1 u, v <- v + b_2 (u u), elements [begin, end) (Adam: Kingma and Ba, 2015, algorithm 1, its sums written
// out over a window as AdaMeZO does).
[[gnu::always_inline]] inline void add_to_moments(const NoiseMoment& moment, int64_t begin, int64_t end, const float* u,
                                                  float* first, float* second) {
    const Floats one = Floats{} + moment.first, two = Floats{} + moment.second;
    for (int64_t i = begin / kLanes * kLanes; i < end; i += kLanes) {
        const Floats found = *reinterpret_cast<const Floats*>(u + i);
        *reinterpret_cast<Floats*>(first + i) += one * found;
        *reinterpret_cast<Floats*>(second + i) += two * (found * found);
    }
}

// S = m / (sqrt(v) + epsilon)
[[gnu::always_inline]] inline void divide_moments(float epsilon, int64_t begin, int64_t end, const float* first,
                                                  const float* second, float* sums) {
    const Floats least = Floats{} + epsilon;
    for (int64_t i = begin / kLanes * kLanes; i < end; i += kLanes) {
        const Floats root = root_of(*reinterpret_cast<const Floats*>(second + i));
        *reinterpret_cast<Floats*>(sums + i) = *reinterpret_cast<const Floats*>(first + i) / (root + least);
    }
}

}  // namespace
}  // namespace WINDLASS_ISA
}  // namespace windlass
