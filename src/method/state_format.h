// state_format.h: how AdamW's moments are kept: part of the numerics, since it decides bits.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace windlass {

// fp32: f32, nothing is lost. bf16: bf16, randomly rounded. int8: 8 bits in blocks of 256, randomly rounded. The
// formulas are in adamw/README.md.
enum class StateFormat : uint8_t { fp32, bf16, int8 };
inline constexpr StateFormat kStateFormats[] = {StateFormat::fp32, StateFormat::bf16, StateFormat::int8};

// "fp32", as in configuration.
std::string_view state_format_name(StateFormat format);
std::optional<StateFormat> state_format_from_name(std::string_view name);

}  // namespace windlass
