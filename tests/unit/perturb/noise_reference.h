// noise_reference.h: the noise kernels' formulas again, one element at a time, and what their tests share.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <numbers>
#include <vector>

#include "base/rng.h"
#include "perturb/noise.h"

namespace windlass {

inline constexpr std::array kFileTypes = {WeightType::f32, WeightType::bf16, WeightType::f16};
inline constexpr std::array kStoredTypes = {WeightType::f32, WeightType::bf16, WeightType::f16, WeightType::f8};
inline constexpr std::array kDirectionKinds = {NoiseKind::gaussian, NoiseKind::rademacher, NoiseKind::low_rank};

// Box and Muller in double precision; u is the f32 number nearest to its word's.
inline double gaussian_reference(uint64_t seed, uint32_t step, uint32_t direction, int64_t element, uint64_t kind = 0) {
    const auto words =
        philox(seed, {kind << 46 | static_cast<uint64_t>(element / 4), RandomStream::noise, step, direction});
    const size_t pair = static_cast<size_t>(element % 4 / 2 * 2);
    const double u = static_cast<double>(static_cast<float>(words[pair] >> 1 | 1u)) * 0x1p-31;
    const uint32_t angle = words[pair + 1];
    const double x = static_cast<int32_t>(angle << 2) * 0x1p-31 * std::numbers::pi / 4;
    const double along = (angle >> 30 & 1) != 0 ? -std::cos(x) : std::cos(x);
    const bool swapped = angle >> 31 != 0;
    return std::sqrt(-2 * std::log(u)) * ((element % 2 == 0) == swapped ? std::sin(x) : along);
}

inline double sign_reference(uint64_t seed, uint32_t step, uint32_t direction, int64_t element) {
    const auto words =
        philox(seed, {uint64_t{1} << 46 | static_cast<uint64_t>(element / 128), RandomStream::noise, step, direction});
    return (words[static_cast<size_t>(element % 128 / 32)] >> (element % 32) & 1u) != 0 ? -1 : 1;
}

inline uint32_t rounding_reference(uint64_t seed, uint32_t step, int64_t element) {
    const auto words =
        philox(seed, {uint64_t{1} << 46 | static_cast<uint64_t>(element / 8), RandomStream::rounding, step, 0});
    return words[static_cast<size_t>(element % 8 / 2)] >> (element % 2 * 16) & 0xffffu;
}

// The values of the numbers of e4m3, by their definition.
inline const std::array<float, 256>& e4m3_values() {
    static const std::array<float, 256> values = [] {
        std::array<float, 256> made{};
        for (uint32_t bits = 0; bits < 256; ++bits) {
            const int exponent = static_cast<int>(bits >> 3 & 0xf), mantissa = static_cast<int>(bits & 7);
            const double magnitude = exponent == 0 ? std::ldexp(mantissa, -9) : std::ldexp(8 + mantissa, exponent - 10);
            made[bits] = static_cast<float>(bits < 128 ? magnitude : -magnitude);
            if ((bits & 0x7f) == 0x7f) made[bits] = std::nanf("");
        }
        return made;
    }();
    return values;
}
// The nearest one, of the lower of two equally near.
inline uint32_t nearest_e4m3(float x) {
    const float* const values = e4m3_values().data();
    const float magnitude = std::min(std::abs(x), values[0x7e]);
    const float* const above = std::lower_bound(values, values + 0x7e, magnitude);
    const bool down = above != values && magnitude - above[-1] <= *above - magnitude;
    const auto bits = static_cast<uint32_t>(above - values) - (down ? 1u : 0u);
    return std::signbit(x) ? bits | 0x80u : bits;
}

// An array of weights as they are stored.
class Stored {
  public:
    static constexpr int kScaleExponent = -11;  // of f8: for weights of 0.02
    static constexpr float kScale = 0x1p-11f;
    Stored(WeightType type, int64_t count) : type_(type), bytes_(static_cast<size_t>(count) * size()) {}
    WeightType type() const { return type_; }
    int64_t count() const { return static_cast<int64_t>(bytes_.size() / size()); }
    void* at(int64_t i) { return bytes_.data() + static_cast<size_t>(i) * size(); }
    uint32_t bits(int64_t i) const {
        uint32_t bits = 0;
        std::memcpy(&bits, bytes_.data() + static_cast<size_t>(i) * size(), size());
        return bits;
    }
    void set_bits(int64_t i, uint32_t bits) { std::memcpy(at(i), &bits, size()); }
    float operator[](int64_t i) const {
        if (type_ == WeightType::f32) return std::bit_cast<float>(bits(i));
        if (type_ == WeightType::f8) return e4m3_values()[bits(i)] * kScale;
        const auto half = static_cast<uint16_t>(bits(i));
        return type_ == WeightType::bf16 ? to_float(bf16{half}) : half_to_float(half);
    }
    // To the nearest.
    void set(int64_t i, float x) {
        if (type_ == WeightType::f32) return set_bits(i, std::bit_cast<uint32_t>(x));
        if (type_ == WeightType::f8) return set_bits(i, nearest_e4m3(x / kScale));
        set_bits(i, type_ == WeightType::bf16 ? to_bf16(x).bits : float_to_half(x));
    }
    bool operator==(const Stored& other) const { return bytes_ == other.bytes_; }

  private:
    size_t size() const { return type_ == WeightType::f32 ? 4 : type_ == WeightType::f8 ? 1 : 2; }
    WeightType type_;
    std::vector<std::byte> bytes_;
};

inline float nearest_reference(WeightType type, float x) {
    Stored one(type, 1);
    one.set(0, x);
    return one[0];
}

// Of f8: the part that is cut off has twenty bits, the random bits are the upper sixteen, in the middle of what they
// stand for. Below 2^-6 numbers are 2^-9 apart.
inline float rounded_f8_reference(float x, uint32_t random16) {
    const double magnitude = std::abs(std::ldexp(static_cast<double>(x), -Stored::kScaleExponent));
    int exponent = 0;
    std::frexp(magnitude, &exponent);
    const double spacing = magnitude >= 0x1p-6 ? std::ldexp(1.0, exponent - 4) : 0x1p-9;
    const double parts = std::nearbyint(magnitude / spacing * 0x1p20), whole = std::floor(parts * 0x1p-20);
    const bool up = parts - whole * 0x1p20 + random16 * 16.0 + 8 >= 0x1p20;
    const double rounded = std::min((whole + (up ? 1 : 0)) * spacing, 448.0);
    return static_cast<float>(std::copysign(std::ldexp(rounded, Stored::kScaleExponent), static_cast<double>(x)));
}

// To one of the type's two neighbours of x, up where the part that is cut off and the random bits carry.
inline float rounded_reference(WeightType type, float x, uint32_t random16) {
    if (type == WeightType::f32) return x;
    if (type == WeightType::f8) return rounded_f8_reference(x, random16);
    if (type == WeightType::bf16) return std::bit_cast<float>((std::bit_cast<uint32_t>(x) + random16) & 0xffff0000u);
    // Below 2^-14, where numbers are 2^-24 apart, the part that is cut off is first rounded to thirteen bits.
    int exponent = 0;
    std::frexp(x, &exponent);
    const bool normal = std::abs(x) >= 0x1p-14f;
    const double spacing = normal ? std::ldexp(1.0, exponent - 11) : 0x1p-24;
    const double parts = std::nearbyint(std::abs(x) / spacing * 8192), whole = std::floor(parts / 8192);
    const bool up = parts - whole * 8192 + random16 % 8192 >= 8192;
    const double magnitude = (whole + (up ? 1 : 0)) * spacing;
    if (magnitude >= 65536) return std::copysign(INFINITY, x);
    return static_cast<float>(std::copysign(magnitude, static_cast<double>(x)));
}

// Weights of the size that models have; every 97th awkward: zeros, numbers below the normal ones, large ones.
inline Stored weights_of(WeightType type, int64_t count, uint64_t seed = 5) {
    constexpr float kAwkward[] = {0.0f, -0.0f, 3e-6f, -7e-8f, 6e-5f, 1.0f, -1.0f, 60000.0f, 1e-40f, -0.25f};
    Stored weights(type, count);
    Random random(seed, RandomStream::test);
    for (int64_t i = 0; i < count; ++i)
        weights.set(i, i % 97 == 0 ? kAwkward[static_cast<size_t>(i / 97 % 10)] : 0.02f * random.normal());
    return weights;
}

// Directions of one kind over a run; those of factors lie in a matrix of 300 columns.
struct Directions {
    static constexpr int64_t kRows = 97, kCols = 300, kRank = 3;
    NoiseRun run;
    std::vector<float> u, v;

    explicit Directions(NoiseKind kind, int64_t element = 4 * 1237, int64_t count = 20'011, int64_t first = 551)
        : run{.seed = 77, .kind = kind, .element = element, .count = count} {
        if (kind != NoiseKind::low_rank) return;
        run.first = first;
        run.rows = kRows;
        run.cols = kCols;
        run.rank = kRank;
        Random random(3, RandomStream::test);
        for (int64_t i = 0; i < kRank * kRows; ++i) u.push_back(random.normal());
        for (int64_t i = 0; i < kRank * kCols; ++i) v.push_back(random.normal());
    }
    NoiseTerm term(uint32_t step, uint32_t direction, double c) const {
        const bool factors = run.kind == NoiseKind::low_rank;
        return {step, direction, factors ? low_rank_coefficient(c, kRank) : static_cast<float>(c), u.data(), v.data()};
    }
    // z of the run's element i in double precision.
    double reference(const NoiseTerm& term, int64_t i) const {
        const int64_t element = run.element + i;
        if (run.kind == NoiseKind::gaussian) return gaussian_reference(run.seed, term.step, term.direction, element);
        if (run.kind == NoiseKind::rademacher) return sign_reference(run.seed, term.step, term.direction, element);
        const int64_t row = (run.first + i) / kCols, col = (run.first + i) % kCols;
        double sum = 0;
        for (int64_t k = 0; k < kRank; ++k)
            sum +=
                static_cast<double>(u[static_cast<size_t>(k * kRows + row)]) * v[static_cast<size_t>(k * kCols + col)];
        return sum / std::sqrt(static_cast<double>(kRank));
    }
    // The run's elements [begin, end).
    NoiseRun part(int64_t begin, int64_t end) const {
        NoiseRun part = run;
        part.element += begin;
        part.first += begin;
        part.count = end - begin;
        return part;
    }
};

}  // namespace windlass
