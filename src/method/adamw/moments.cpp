#include "method/adamw/moments.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "base/index.h"
#include "base/rng.h"
#include "method/adamw/adamw_call.h"

namespace windlass {
namespace {

// The formats are README.md's; as there, a word of random bits serves both moments of an element: the lower bits the
// first one, the upper ones the second.
class Words {
  public:
    explicit Words(const ParamCall& call)
        : key_(call.step->seed),
          counter_{0, RandomStream::refresh, static_cast<uint32_t>(call.step->step), 0},
          element_(static_cast<uint64_t>(call.element)) {}
    uint32_t at(size_t i) {
        const uint64_t element = element_ + i;
        if (i == 0 || element % 4 == 0) {
            counter_.block = element / 4;
            words_ = philox(key_, counter_);
        }
        return words_[element % 4];
    }

  private:
    uint64_t key_;
    RandomCounter counter_;
    uint64_t element_;
    std::array<uint32_t, 4> words_{};
};

void read_f32(std::span<std::byte* const> state, std::span<float> first, std::span<float> second) {
    std::memcpy(first.data(), state[0], first.size_bytes());
    std::memcpy(second.data(), state[1], second.size_bytes());
}
void write_f32(const ParamCall& call, std::span<const float> first, std::span<const float> second) {
    std::memcpy(call.state[0], first.data(), first.size_bytes());
    std::memcpy(call.state[1], second.data(), second.size_bytes());
}

void read_bf16(std::span<std::byte* const> state, std::span<float> first, std::span<float> second) {
    const AdamwBf16 kept = adamw_bf16_at(state, 0);
    for (size_t i = 0; i < first.size(); ++i) {
        first[i] = std::bit_cast<float>(uint32_t{kept.m[i]} << 16);
        second[i] = std::bit_cast<float>(uint32_t{kept.v[i]} << 16);
    }
}
void write_bf16(const ParamCall& call, std::span<const float> first, std::span<const float> second) {
    const AdamwBf16 kept = adamw_bf16_at(call.state, 0);
    Words words(call);
    for (size_t i = 0; i < first.size(); ++i) {
        const uint32_t word = words.at(i);
        kept.m[i] = static_cast<uint16_t>((std::bit_cast<uint32_t>(first[i]) + (word & 0xffffu)) >> 16);
        kept.v[i] = static_cast<uint16_t>((std::bit_cast<uint32_t>(second[i]) + (word >> 16)) >> 16);
    }
}

// Codes of 8 bits, of one moment: kLargest is the last code, of magnitudes.
constexpr int kCut = 20;
template <uint32_t kOctaves, uint32_t kLargest>
struct Codes {
    uint32_t floor;

    explicit Codes(float scale) {
        const auto bits = std::bit_cast<uint32_t>(scale);
        floor = (bits >> 23 > kOctaves ? bits : (kOctaves + 1) << 23) - (kOctaves << 23);
    }
    // The smallest power of two for which `largest` is at most 15/16 of it, within what is a normal number; 0 of 0.
    static float scale_of(float largest) {
        if (largest == 0) return 0;
        const uint32_t exponent = ((std::bit_cast<uint32_t>(largest) + 0xfffffu) >> 23) + 1;
        return std::bit_cast<float>(std::clamp(exponent, kOctaves + 1, 253u) << 23);
    }
    float decode(uint32_t code) const {
        return std::bit_cast<float>((code << kCut) + floor) - std::bit_cast<float>(floor);
    }
    uint32_t encode(float size, uint32_t random) const {
        const float sum = size + std::bit_cast<float>(floor);
        return std::min(((std::bit_cast<uint32_t>(sum) + random) >> kCut) - (floor >> kCut), kLargest);
    }
};
using FirstCodes = Codes<16, 0x7f>;
using SecondCodes = Codes<32, 0xff>;

void read_blocks(std::span<std::byte* const> state, std::span<float> first, std::span<float> second) {
    const AdamwBlocks kept = adamw_blocks_at(state, 0);
    for (size_t i = 0; i < first.size(); ++i) {
        const size_t block = i / kAdamwBlock;
        const float size = FirstCodes(kept.m_scale[block]).decode(kept.m[i] & 0x7fu);
        first[i] = (kept.m[i] & 0x80u) != 0 ? -size : size;
        second[i] = SecondCodes(kept.v_scale[block]).decode(kept.v[i]);
    }
}
// A second moment that is not zero stays so.
void write_blocks(const ParamCall& call, std::span<const float> first, std::span<const float> second) {
    const AdamwBlocks kept = adamw_blocks_at(call.state, 0);
    Words words(call);
    for (size_t begin = 0; begin < first.size(); begin += kAdamwBlock) {
        const size_t end = std::min<size_t>(first.size(), begin + kAdamwBlock), block = begin / kAdamwBlock;
        float m_largest = 0, v_largest = 0;
        for (size_t i = begin; i < end; ++i) {
            m_largest = std::max(m_largest, std::abs(first[i]));
            v_largest = std::max(v_largest, second[i]);
        }
        kept.m_scale[block] = FirstCodes::scale_of(m_largest);
        kept.v_scale[block] = SecondCodes::scale_of(v_largest);
        const FirstCodes m(kept.m_scale[block]);
        const SecondCodes v(kept.v_scale[block]);
        constexpr uint32_t kLow = (1u << kCut) - 1;
        for (size_t i = begin; i < end; ++i) {
            const uint32_t word = words.at(i);
            const uint32_t size = m_largest == 0 ? 0 : m.encode(std::abs(first[i]), word & kLow);
            kept.m[i] = static_cast<uint8_t>(size | (std::signbit(first[i]) ? 0x80u : 0u));
            const uint32_t code = v_largest == 0 ? 0 : v.encode(second[i], word >> (32 - kCut));
            kept.v[i] = static_cast<uint8_t>(std::max(code, second[i] > 0 ? 1u : 0u));
        }
    }
}

}  // namespace

const std::array<Moments, 3> kAdamwMoments = {
    Moments{read_f32, write_f32}, {read_bf16, write_bf16}, {read_blocks, write_blocks}};

}  // namespace windlass
