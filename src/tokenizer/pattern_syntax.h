// pattern_syntax.h: from Oniguruma's syntax, as tokenizer.json files use it, to PCRE2's.
#pragma once

#include <string>
#include <string_view>

namespace windlass {

// The same language in PCRE2's syntax (with UTF, UCP and MULTILINE). Throws UserError(model) at constructs that we
// cannot render exactly.
std::string to_pcre2_syntax(std::string_view expression, std::string_view where);

}  // namespace windlass
