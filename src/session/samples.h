// samples.h: the prompts that a run's model continues while it trains, as tokens, and the room that this takes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "config/config.h"
#include "model/spec.h"
#include "rows/chat_format.h"
#include "schedule/lower.h"
#include "tokenizer/tokenizer.h"

namespace windlass {

struct SamplePrompt {
    std::string text;
    std::vector<int32_t> ids;
};

struct Samples {
    std::vector<SamplePrompt> prompts;  // none: nothing is continued
    std::vector<int32_t> stop_ids;
    int64_t every = 0;           // steps
    int64_t max_new_tokens = 0;  // that the model's positions have room for after each of them
};

// Of a run on chats, whose rows `chats` writes, prompts are questions: answers to them are sampled. UserError(usage)
// for a prompt of no token, and for one that leaves no room.
Samples samples_of(const Config& config, const Tokenizer& tokenizer, const ModelSpec& model,
                   const std::optional<ChatFormat>& chats);

// The schedules for it: none without prompts.
std::vector<ScheduleRequest> sample_requests(const Samples& samples);

}  // namespace windlass
