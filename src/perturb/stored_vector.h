// stored_vector.h: many weights of a type at a time.
//
// For sources compiled per instruction set only (*_isa.cpp): everything has internal linkage in their namespace.
#pragma once

#include <immintrin.h>

#include "perturb/noise_kernel.h"
#include "perturb/stored_numbers.h"

namespace windlass {
namespace WINDLASS_ISA {
namespace {

// As many as a processor has instructions for, from the first on; how many that were.
template <typename Type>
int64_t decode_vectors(Type, const typename Type::Element*, int64_t, float*) {
    return 0;
}
template <typename Type>
int64_t encode_vectors(Type, const float*, int64_t, typename Type::Element*) {
    return 0;
}
#if defined(__F16C__)
inline int64_t decode_vectors(F16, const uint16_t* from, int64_t count, float* to) {
    int64_t i = 0;
    for (; i + 8 <= count; i += 8)
        _mm256_storeu_ps(to + i, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i))));
    return i;
}
inline int64_t encode_vectors(F16, const float* from, int64_t count, uint16_t* to) {
    int64_t i = 0;
    for (; i + 8 <= count; i += 8)
        _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i),
                         _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT));
    return i;
}
#endif

// Calls body with an object of a type that has no scale.
template <typename Body>
[[gnu::always_inline]] inline void with_plain_type(WeightType type, Body body) {
    switch (type) {
        case WeightType::f32:
            return body(F32{});
        case WeightType::bf16:
            return body(Bf16{});
        case WeightType::f16:
            return body(F16{});
        case WeightType::f8:
        case WeightType::nf4:
            return;
    }
}

// Calls body with an object of the weights' type.
template <typename Body>
[[gnu::always_inline]] inline void with_type(WeightType type, int scale_exponent, Body body) {
    if (type != WeightType::f8) return with_plain_type(type, body);
    const auto power = [](int exponent) { return float_of(static_cast<uint32_t>(exponent + 127) << 23); };
    body(F8{power(scale_exponent), power(-scale_exponent)});
}

}  // namespace
}  // namespace WINDLASS_ISA
}  // namespace windlass
