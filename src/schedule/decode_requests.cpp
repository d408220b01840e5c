#include "schedule/decode_requests.h"

namespace windlass {
namespace {

constexpr int64_t kChunk = 256;  // long enough that reading weights is a small part of a pass

}  // namespace

std::vector<int64_t> prefill_chunks(int64_t tokens) {
    std::vector<int64_t> chunks(static_cast<size_t>(tokens / kChunk), kChunk);
    if (tokens % kChunk > 0) chunks.push_back(tokens % kChunk);
    return chunks;
}

std::vector<ScheduleRequest> decode_requests(int64_t prompt_tokens, int64_t capacity) {
    std::vector<ScheduleRequest> requests;
    for (const int64_t length : {std::min(prompt_tokens, kChunk), int64_t{1}})
        requests.push_back(
            {.kind = ScheduleRequest::Kind::decode, .sequence_length = length, .cache_capacity = capacity});
    if (requests[0].sequence_length == 1) requests.pop_back();
    return requests;
}

}  // namespace windlass
