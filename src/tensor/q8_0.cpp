#include "tensor/q8_0.h"

#include <cmath>
#include <cstring>

#include "base/error.h"
#include "tensor/dtype.h"

namespace windlass {

// The product with the inverse, not a quotient: the two differ in the last bit, and with it a byte now and then.
void encode_q8_0(std::span<const float> numbers, std::span<std::byte> out) {
    const size_t blocks = numbers.size() / kQ8Block;
    WINDLASS_CHECK(numbers.size() % kQ8Block == 0 && out.size() == blocks * kQ8BlockBytes, "{} bytes for {} numbers",
                   out.size(), numbers.size());
    for (size_t b = 0; b < blocks; ++b) {
        const std::span<const float> block = numbers.subspan(b * kQ8Block, kQ8Block);
        std::byte* const bytes = out.data() + b * kQ8BlockBytes;
        float largest = 0;
        for (const float number : block) largest = std::max(largest, std::abs(number));
        const float scale = largest / 127.0f;
        const float inverse = scale != 0 ? 1.0f / scale : 0.0f;
        const uint16_t half = float_to_half(scale);
        std::memcpy(bytes, &half, sizeof half);
        for (size_t i = 0; i < block.size(); ++i)
            bytes[2 + i] = static_cast<std::byte>(static_cast<int8_t>(std::round(block[i] * inverse)));
    }
}

}  // namespace windlass
