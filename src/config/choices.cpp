#include "config/choices.h"

#include <array>

namespace windlass {
namespace {

constexpr std::array<std::string_view, 4> kKeptNames = {"as_file", "f8", "nf4", "split"};

}  // namespace

bool is_open(std::string_view word) {
    return word == "auto";
}

KeptAs kept_as(std::string_view weight_storage) {
    for (size_t kept = 0; kept < kKeptNames.size(); ++kept) {
        if (kKeptNames[kept] == weight_storage) return static_cast<KeptAs>(kept);
    }
    return KeptAs::as_file;
}

std::optional<std::string> policy_of(const Config& config) {
    return is_open(config.policy) ? std::nullopt : std::optional(config.policy);
}

std::optional<DType> compute_type_of(const Config& config) {
    if (is_open(config.dtype)) return std::nullopt;
    return config.dtype == "bf16" ? DType::bf16 : DType::f32;
}

std::optional<StateFormat> state_format_of(const Config& config) {
    for (const StateFormat format : kStateFormats) {
        if (config.state_format == state_format_name(format)) return format;
    }
    return std::nullopt;
}

std::optional<bool> recompute_of(const Config& config) {
    if (is_open(config.gradient_checkpointing)) return std::nullopt;
    return config.gradient_checkpointing == "true";
}

std::optional<UpdateTime> update_time_of(const Config& config) {
    if (config.update_time == "after_backward") return UpdateTime::after_backward;
    if (config.update_time == "in_backward") return UpdateTime::in_backward;
    if (config.update_time == "next_forward") return UpdateTime::next_forward;
    return std::nullopt;
}

std::optional<Truncation> truncation_of(const Config& config) {
    if (config.truncation == "drop") return Truncation::drop;
    if (config.truncation == "left") return Truncation::left;
    if (config.truncation == "right") return Truncation::right;
    if (config.truncation == "split") return Truncation::split;
    if (config.truncation == "error") return Truncation::error;
    return std::nullopt;
}

GradientFormat gradient_format_of(const Config& config) {
    return *gradient_format_from_name(config.gradient_format);
}

Objective objective_of(const Config& config) {
    return *objective_from_name(config.objective);
}

TrainTurns train_turns_of(const Config& config) {
    if (config.train_turns == "all") return TrainTurns::all;
    return config.train_turns == "last" ? TrainTurns::last : TrainTurns::assistant;
}

const Method& method_of(const Config& config) {
    return find_method(config.method);
}

}  // namespace windlass
