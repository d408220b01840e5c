#include "tensor/nf4.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "tensor/dtype.h"

namespace windlass {
namespace {

using Codes = std::array<int32_t, kNf4Block>;

// Halfway between two levels, rounded to f32: what lies above is nearer to the upper one.
constexpr std::array<float, 15> kBorders = [] {
    std::array<float, 15> borders{};
    for (size_t i = 0; i < borders.size(); ++i)
        borders[i] = static_cast<float>((double{kNf4Levels[i]} + double{kNf4Levels[i + 1]}) / 2);
    return borders;
}();

// Upward, for numbers of 0 and more.
bf16 bf16_above(float x) {
    return {static_cast<uint16_t>((std::bit_cast<uint32_t>(x) + 0xffffu) >> 16)};
}

bf16 scale_of(std::span<const float> numbers, const Nf4Scales& scales) {
    float largest = 0;
    for (const float number : numbers) largest = std::max(largest, std::fabs(number));
    return largest == 0 ? bf16{} : bf16_above(std::clamp(largest, scales.least, scales.most));
}

// Borders below each number are counted: without branches, in integers as wide as floats, the compiler makes vectors of
// it.
void find_codes(const std::array<float, kNf4Block>& quotients, Codes& codes) {
    for (size_t i = 0; i < codes.size(); ++i) {
        int32_t code = 0;
        for (const float border : kBorders) code += quotients[i] > border ? 1 : 0;
        codes[i] = code;
    }
}

// Up to 64 numbers.
void encode_block(std::span<const float> numbers, const Nf4Scales& scales, std::byte* out) {
    bf16 scale = scale_of(numbers, scales);
    std::array<float, kNf4Block> quotients{};
    if (scale.bits != 0) {
        const float divisor = to_float(scale);
        for (size_t i = 0; i < numbers.size(); ++i) quotients[i] = numbers[i] / divisor;
    }
    Codes codes;
    find_codes(quotients, codes);
    // So small that nothing is left of them: the block is that of zeros.
    if (std::ranges::all_of(codes, [](int32_t code) { return code == kNf4Zero; })) scale = {};
    for (size_t i = 0; i < static_cast<size_t>(kNf4CodeBytes); ++i)
        out[i] = static_cast<std::byte>(codes[2 * i] | codes[2 * i + 1] << 4);
    std::memcpy(out + kNf4CodeBytes, &scale.bits, sizeof scale.bits);
}

}  // namespace

void encode_nf4(std::span<const float> numbers, const Nf4Scales& scales, std::span<std::byte> out) {
    WINDLASS_CHECK(std::ssize(out) == nf4_bytes(std::ssize(numbers)), "{} bytes for {} numbers of nf4", out.size(),
                   numbers.size());
    std::byte* to = out.data();
    for (; !numbers.empty(); to += kNf4BlockBytes) {
        const size_t count = std::min(numbers.size(), static_cast<size_t>(kNf4Block));
        encode_block(numbers.first(count), scales, to);
        numbers = numbers.subspan(count);
    }
}

void decode_nf4(std::span<const std::byte> blocks, int64_t first, std::span<float> out) {
    const int64_t count = std::ssize(out);
    WINDLASS_CHECK(first >= 0 && nf4_bytes(first + count) <= std::ssize(blocks),
                   "numbers {} to {} of nf4 are not in {} bytes", first, first + count, blocks.size());
    for (int64_t done = 0; done < count;) {
        const int64_t begin = (first + done) % kNf4Block, end = std::min(kNf4Block, begin + count - done);
        const std::byte* const block = blocks.data() + (first + done) / kNf4Block * kNf4BlockBytes;
        bf16 scale;
        std::memcpy(&scale.bits, block + kNf4CodeBytes, sizeof scale.bits);
        const float factor = to_float(scale);
        for (int64_t i = begin; i < end; ++i) {
            const auto pair = static_cast<unsigned>(block[i / 2]);
            out[static_cast<size_t>(done + i - begin)] = kNf4Levels[i % 2 == 0 ? pair & 0xfu : pair >> 4] * factor;
        }
        done += end - begin;
    }
}

}  // namespace windlass
