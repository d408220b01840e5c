#include "config/module_pattern.h"

#include <charconv>
#include <cmath>

#include "base/error.h"
#include "base/printable.h"
#include "model/adapters/config_fields.h"

namespace windlass {
namespace {

constexpr double kAlphaMax = 1e6;  // as lora_alpha

}  // namespace

std::string read_module_pattern(std::string_view text, double most, ModulePattern& into) {
    const size_t equals = text.rfind('=');
    if (equals == text.npos || equals == 0)
        return fmt::format("\"{}\" is no pattern with a number. Try: \"q_proj=8\"", excerpt(text));
    const std::string_view number = text.substr(equals + 1);
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), into.number);
    if (error != std::errc() || end != number.data() + number.size() || !(into.number > 0 && into.number <= most))
        return fmt::format("\"{}\" has \"{}\" after the pattern, expected a number above 0, at most {}", excerpt(text),
                           excerpt(number), most);
    into.pattern = text.substr(0, equals);
    return "";
}

std::vector<ModulePattern> module_patterns_of(const std::vector<std::string>& texts) {
    std::vector<ModulePattern> patterns;
    for (const std::string& text : texts) {
        const std::string problem = read_module_pattern(text, INFINITY, patterns.emplace_back());
        WINDLASS_CHECK(problem.empty(), "{}", problem);
    }
    return patterns;
}

std::string read_module_token(std::string_view text, ModuleToken& into) {
    const size_t equals = text.rfind('=');
    into.module = equals == text.npos ? "" : text.substr(0, equals);
    const std::string_view number = equals == text.npos ? text : text.substr(equals + 1);
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), into.token);
    const bool is_id = error == std::errc() && end == number.data() + number.size() && into.token >= 0;
    if (is_id && equals != 0) return "";
    return fmt::format("\"{}\" is no id of a token. Try: 5, or for one module \"lm_head=5\"", excerpt(text));
}

void check_module_patterns(const Config& config, std::vector<std::string>& problems) {
    const auto check = [&](const char* key, const std::vector<std::string>& texts, double most, bool is_whole) {
        for (const std::string& text : texts) {
            ModulePattern pattern;
            std::string problem = read_module_pattern(text, most, pattern);
            if (problem.empty() && is_whole && pattern.number != std::floor(pattern.number))
                problem = fmt::format("\"{}\": a rank is a whole number", excerpt(text));
            if (!problem.empty()) problems.push_back(fmt::format("{}: {}", key, problem));
        }
    };
    for (const std::string& text : config.trainable_token_indices) {
        ModuleToken token;
        if (const std::string problem = read_module_token(text, token); !problem.empty())
            problems.push_back(fmt::format("trainable_token_indices: {}", problem));
    }
    check("rank_pattern", config.rank_pattern, static_cast<double>(kAdapterRankMax), /*is_whole=*/true);
    check("alpha_pattern", config.alpha_pattern, kAlphaMax, /*is_whole=*/false);
}

}  // namespace windlass
