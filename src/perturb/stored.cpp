#include "perturb/stored.h"

#include "base/error.h"
#include "model/load.h"
#include "tensor/e4m3.h"
#include "tensor/nf4.h"

namespace windlass {

void decode_stored(StoredType type, std::span<const std::byte> bytes, int64_t first, std::span<float> out) {
    if (type.dtype == DType::nf4) return decode_nf4(bytes, first, out);
    const auto begin = static_cast<size_t>(stored_bytes(type.dtype, first));
    const auto end = static_cast<size_t>(stored_bytes(type.dtype, first + std::ssize(out)));
    WINDLASS_CHECK(end <= bytes.size(), "{} bytes for {} numbers from {} on", bytes.size(), out.size(), first);
    bytes = bytes.subspan(begin, end - begin);
    if (type.dtype != DType::f8_e4m3) return decode_numbers(type.dtype, bytes, out);
    const float scale = power_of_two(type.scale_exponent);
    for (size_t i = 0; i < out.size(); ++i) out[i] = e4m3_to_float(static_cast<uint8_t>(bytes[i])) * scale;
}

void encode_stored(StoredType type, DType files, std::span<const float> values, std::span<std::byte> out) {
    if (type.dtype == DType::nf4) return encode_nf4(values, files == DType::f16 ? kNf4HalfScales : kNf4Scales, out);
    if (type.dtype != DType::f8_e4m3) return encode_numbers(type.dtype, values, out);
    WINDLASS_CHECK(out.size() == values.size(), "{} bytes for {} numbers", out.size(), values.size());
    const float scale = power_of_two(-type.scale_exponent);
    for (size_t i = 0; i < values.size(); ++i) out[i] = static_cast<std::byte>(float_to_e4m3(values[i] * scale));
}

}  // namespace windlass
