// reasoning_keys.h: the names under which messages carry reasoning.
#pragma once

#include <array>
#include <span>
#include <string_view>

namespace windlass {

inline constexpr std::array<std::string_view, 7> kReasoningKeys = {
    "reasoning_content", "thinking", "reasoning", "thought", "thinking_content", "reasoning_text", "reasoning_details"};

// Those that transformers hands on to templates under each other's names, in its order.
inline constexpr std::span<const std::string_view> kSharedReasoningKeys = std::span(kReasoningKeys).first(3);

}  // namespace windlass
