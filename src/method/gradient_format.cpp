#include "method/gradient_format.h"

#include "base/math.h"
#include "method/round_gradient_kernel.h"

namespace windlass {
namespace {

constexpr int64_t kScalesAlignment = 64;

int64_t code_bytes(GradientFormat format, int64_t count) {
    switch (format) {
        case GradientFormat::f32:
            return 4 * count;
        case GradientFormat::bf16:
            return 2 * count;
        case GradientFormat::i8:
            return count;
        case GradientFormat::i4:
            return div_up(count, int64_t{2});
    }
    return 0;
}

}  // namespace

int64_t gradient_block(GradientFormat format) {
    return format == GradientFormat::i8 ? kEightBitGradients : format == GradientFormat::i4 ? kFourBitGradients : 1;
}

int64_t gradient_scales_offset(GradientFormat format, int64_t count) {
    return round_up(code_bytes(format, count), kScalesAlignment);
}

int64_t gradient_bytes(GradientFormat format, int64_t count) {
    if (gradient_block(format) == 1) return code_bytes(format, count);
    return gradient_scales_offset(format, count) + 2 * div_up(count, gradient_block(format));
}

std::string_view gradient_format_name(GradientFormat format) {
    switch (format) {
        case GradientFormat::f32:
            return "f32";
        case GradientFormat::bf16:
            return "bf16";
        case GradientFormat::i8:
            return "i8";
        case GradientFormat::i4:
            return "i4";
    }
    return "?";
}

std::optional<GradientFormat> gradient_format_from_name(std::string_view name) {
    for (const GradientFormat format : kGradientFormats) {
        if (gradient_format_name(format) == name) return format;
    }
    return std::nullopt;
}

}  // namespace windlass
