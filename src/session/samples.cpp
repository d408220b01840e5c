#include "session/samples.h"

#include "base/error.h"
#include "rows/prompt_ids.h"
#include "schedule/decode_requests.h"

namespace windlass {

namespace {

int64_t longest_prompt(const Samples& samples) {
    int64_t longest = 0;
    for (const SamplePrompt& prompt : samples.prompts) longest = std::max(longest, std::ssize(prompt.ids));
    return longest;
}

}  // namespace

Samples samples_of(const Config& config, const Tokenizer& tokenizer, const ModelSpec& model,
                   const std::optional<ChatFormat>& chats) {
    constexpr const char* kWhere = "sample_prompts";
    Samples samples{.stop_ids = chats ? chats->turn_ends() : tokenizer.eos_ids()};
    for (const std::string& text : config.sample_prompts)
        samples.prompts.push_back({text, chats ? question_ids(*chats, text) : prompt_ids(tokenizer, text, kWhere)});
    if (samples.prompts.empty()) return samples;
    const int64_t longest = longest_prompt(samples), room = model.context_length - longest;
    if (room < 1)
        throw UserError(ExitCode::usage, kWhere, "a text has {} tokens, the model was made for {}", longest,
                        model.context_length)
            .hint("a shorter one");
    samples.every = config.sample_steps ? *config.sample_steps : *config.eval_steps;
    samples.max_new_tokens = std::min(config.sample_max_new_tokens, room);
    return samples;
}

std::vector<ScheduleRequest> sample_requests(const Samples& samples) {
    if (samples.prompts.empty()) return {};
    const int64_t longest = longest_prompt(samples);
    return decode_requests(longest, longest + samples.max_new_tokens);
}

}  // namespace windlass
