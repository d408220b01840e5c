#include "base/rng.h"

#include <Random123/philox.h>

#include <cmath>
#include <numbers>

#include "base/error.h"

namespace windlass {

std::array<uint32_t, 4> philox(uint64_t key, const RandomCounter& counter) {
    WINDLASS_CHECK(counter.block < (uint64_t{1} << 48), "block {} needs more than 48 bits", counter.block);
    const r123::Philox4x32 generator;
    const r123::Philox4x32::ctr_type words = {{
        static_cast<uint32_t>(counter.block),
        static_cast<uint32_t>(counter.block >> 32) | (static_cast<uint32_t>(counter.stream) << 16),
        counter.step,
        counter.direction,
    }};
    const r123::Philox4x32::key_type keys = {{static_cast<uint32_t>(key), static_cast<uint32_t>(key >> 32)}};
    const auto out = generator(words, keys);
    return {out[0], out[1], out[2], out[3]};
}

uint32_t Random::next() {
    if (left_ == 0) {
        words_ = philox(key_, counter_);
        ++counter_.block;
        left_ = 4;
    }
    return words_[static_cast<size_t>(4 - left_--)];
}

float Random::normal() {
    const double u = (static_cast<double>(next()) + 0.5) * 0x1p-32;
    const double v = static_cast<double>(next()) * 0x1p-32;
    return static_cast<float>(std::sqrt(-2.0 * std::log(u)) * std::cos(2.0 * std::numbers::pi * v));
}

uint64_t Random::below(uint64_t bound) {
    WINDLASS_CHECK(bound > 0, "an empty range has no members");
    const uint64_t limit = UINT64_MAX - UINT64_MAX % bound;
    for (;;) {
        const uint64_t high = next();
        const uint64_t value = (high << 32) | next();
        if (value < limit) return value % bound;
    }
}

}  // namespace windlass
