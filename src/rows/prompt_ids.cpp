#include "rows/prompt_ids.h"

#include "base/error.h"
#include "base/json.h"

namespace windlass {

std::vector<int32_t> prompt_ids(const Tokenizer& tokenizer, const std::string& text, std::string_view where) {
    std::vector<int32_t> ids(tokenizer.prefix().begin(), tokenizer.prefix().end());
    const std::vector<int32_t> own = tokenizer.encode(text, false);
    ids.insert(ids.end(), own.begin(), own.end());
    if (ids.empty() && tokenizer.bos()) ids.push_back(*tokenizer.bos());
    if (ids.empty() && tokenizer.eos()) ids.push_back(*tokenizer.eos());
    if (ids.empty()) throw UserError(ExitCode::usage, where, "is empty, and the tokenizer has no token to begin with");
    tokenizer.require_rows(ids, where);
    return ids;
}

std::vector<int32_t> chat_prompt_ids(const ChatFormat& format, const Json& messages) {
    const std::string text = format.render({.messages = &messages, .add_generation_prompt = true}, "conversation").text;
    std::vector<int32_t> ids = format.tokenizer().encode(text, false);
    if (ids.empty())
        throw UserError(ExitCode::model, format.place(), "the template writes nothing before an answer")
            .hint("a template with add_generation_prompt, in chat_template: FILE");
    format.tokenizer().require_rows(ids, "conversation");
    return ids;
}

std::vector<int32_t> question_ids(const ChatFormat& format, const std::string& question) {
    return chat_prompt_ids(format, Json::array({{{"role", "user"}, {"content", question}}}));
}

}  // namespace windlass
