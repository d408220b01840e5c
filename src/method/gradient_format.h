// gradient_format.h: what a step's gradients are rounded to before the update reads them: part of the numerics, since
// it decides bits.
//
// Gradients are summed in f32. After a block's last micro-batch each sum is rounded once, and the norm and the update
// see the rounded value, wherever they are computed. Gradients that are kept or that cross a link have the narrow
// form.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace windlass {

// f32: as they were summed. bf16: 2 bytes, randomly rounded. i8: whole multiples, -127 to 127, of a scale for every 256
// numbers. i4: -7 to 7, of one for every 64. A scale is the largest magnitude over 127, or 7, in bf16, rounded up;
// multiples are randomly rounded, so that on the average a gradient is what it was.
enum class GradientFormat : uint8_t { f32, bf16, i8, i4 };
inline constexpr GradientFormat kGradientFormats[] = {GradientFormat::f32, GradientFormat::bf16, GradientFormat::i8,
                                                      GradientFormat::i4};

// Numbers that have a scale in common, where they have one; else 1.
int64_t gradient_block(GradientFormat format);
// The offset in bytes of the scales of `count` numbers, and the bytes of numbers and scales together.
int64_t gradient_scales_offset(GradientFormat format, int64_t count);
int64_t gradient_bytes(GradientFormat format, int64_t count);

// "f32", as in configuration.
std::string_view gradient_format_name(GradientFormat format);
std::optional<GradientFormat> gradient_format_from_name(std::string_view name);

}  // namespace windlass
