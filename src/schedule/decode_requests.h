// decode_requests.h: the schedules that text is continued with, and how a prompt is read in.
#pragma once

#include <cstdint>
#include <vector>

#include "schedule/lower.h"

namespace windlass {

// How many tokens each pass over a prompt takes: 256 while there are as many, then the rest. Products of other numbers
// of tokens may round differently: the cut follows from the prompt alone, so the text does, too.
std::vector<int64_t> prefill_chunks(int64_t tokens);

// The decode schedules that prompts of up to this many tokens need, with a cache for `capacity` tokens.
std::vector<ScheduleRequest> decode_requests(int64_t prompt_tokens, int64_t capacity);

}  // namespace windlass
