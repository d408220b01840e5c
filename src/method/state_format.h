// state_format.h: how AdamW's moments are kept: part of the numerics, since it decides bits.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace windlass {

// s1: f32, nothing is lost. s2: bf16, randomly rounded. s3: 8 bits in blocks of 256, randomly rounded. The formulas are
// in adamw/README.md.
enum class StateFormat : uint8_t { s1, s2, s3 };
inline constexpr StateFormat kStateFormats[] = {StateFormat::s1, StateFormat::s2, StateFormat::s3};

// "s1", as in configuration.
std::string_view state_format_name(StateFormat format);
std::optional<StateFormat> state_format_from_name(std::string_view name);
// "f32 moments", for people.
std::string_view state_format_words(StateFormat format);

}  // namespace windlass
