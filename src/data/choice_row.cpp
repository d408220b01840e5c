#include "data/choice_row.h"

#include "base/error.h"

namespace windlass {

Sample completion_sample(const Tokenizer& tokenizer, const std::string& prompt, const std::string& completion,
                         int64_t max_length, std::string_view where) {
    Sample sample;
    sample.ids.assign(tokenizer.prefix().begin(), tokenizer.prefix().end());
    std::vector<int32_t> question = tokenizer.encode(prompt, false);
    const std::vector<int32_t> whole = tokenizer.encode(prompt + completion, false);
    const bool is_prefix =
        whole.size() > question.size() && std::equal(question.begin(), question.end(), whole.begin());
    std::vector<int32_t> answer = is_prefix ? std::vector<int32_t>(whole.begin() + std::ssize(question), whole.end())
                                            : tokenizer.encode(completion, false);
    const int64_t room = max_length - std::ssize(sample.ids) - std::ssize(answer);
    if (room < 1)
        throw UserError(ExitCode::data, where, "\"{}\" does not fit {} tokens", completion, max_length)
            .hint("a greater max_length");
    if (std::ssize(question) > room) question.erase(question.begin(), question.end() - room);  // the end says most
    sample.ids.insert(sample.ids.end(), question.begin(), question.end());
    sample.trained.assign(sample.ids.size(), 0);
    sample.ids.insert(sample.ids.end(), answer.begin(), answer.end());
    sample.trained.resize(sample.ids.size(), 1);
    tokenizer.require_rows(sample.ids, where);
    return sample;
}

}  // namespace windlass
