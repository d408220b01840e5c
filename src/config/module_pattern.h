// module_pattern.h: a number for some modules of a model as people write it: "q_proj=8".
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "config/config.h"

namespace windlass {

// A name of modules, the end of one, or a regular expression; and the number for those that it fits.
struct ModulePattern {
    std::string pattern;
    double number = 0;
};

// The last "=" is in front of the number. Returns what is wrong with it, empty when nothing is: expects more than 0 and
// at most `most`.
std::string read_module_pattern(std::string_view text, double most, ModulePattern& into);
// Of texts that have been checked.
std::vector<ModulePattern> module_patterns_of(const std::vector<std::string>& texts);

// The tokens of one module: "5", or "lm_head=5".
struct ModuleToken {
    std::string module;  // empty: the table of tokens
    int64_t token = 0;
};
std::string read_module_token(std::string_view text, ModuleToken& into);

// Appends what is wrong with rank_pattern, alpha_pattern and trainable_token_indices.
void check_module_patterns(const Config& config, std::vector<std::string>& problems);

}  // namespace windlass
