#include "text/prompt_ids.h"

#include "base/error.h"

namespace windlass {

std::vector<int32_t> prompt_ids(const Tokenizer& tokenizer, const std::string& text, std::string_view where) {
    std::vector<int32_t> ids(tokenizer.prefix().begin(), tokenizer.prefix().end());
    const std::vector<int32_t> own = tokenizer.encode(text, false);
    ids.insert(ids.end(), own.begin(), own.end());
    if (ids.empty() && tokenizer.bos()) ids.push_back(*tokenizer.bos());
    if (ids.empty() && tokenizer.eos()) ids.push_back(*tokenizer.eos());
    if (ids.empty()) throw UserError(ExitCode::usage, where, "is empty, and the tokenizer has no token to begin with");
    return ids;
}

}  // namespace windlass
