// generate.h: text from a model, token by token, through decode schedules; works under every plan.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/rng.h"
#include "plan/planner.h"
#include "run/engine.h"
#include "schedule/decode_requests.h"

namespace windlass {

struct SamplingOptions {
    double temperature = 0;  // 0: the most likely token
    int64_t top_k = 0;       // 0: all
    double top_p = 1;        // 1: all
};

// One token from logits. Ties go to the lower id; ids from `vocab` on are padding of the table and never chosen.
int32_t sample_token(std::span<const float> logits, int64_t vocab, const SamplingOptions& options, Random& random);

struct GenerateOptions {
    int64_t max_new_tokens = 128;
    SamplingOptions sampling;
    std::vector<int32_t> stop_ids;  // end of text; they are not part of the result
    int64_t vocab = 0;              // of the tokenizer
    uint64_t seed = 0;
};

struct GenerateResult {
    std::vector<int32_t> ids;  // without the prompt
    bool stopped = false;      // at a stop id, not for length
    double prefill_seconds = 0;
    double decode_seconds = 0;
};

// One text that grows, with the keys and values of its tokens kept in the engine. Where a text that has become longer
// turns by another table (longrope), what is kept is of no use, and all of it is computed again, once: logits are those
// of a pass over the whole text.
//
// The engine was made with decode_requests of at least the longest prompt and a capacity that holds the whole text; it
// decodes for one Conversation at a time.
class Conversation {
  public:
    explicit Conversation(Engine& engine) : engine_(engine) {}

    // Continues a text. Keys and values of the beginning that it shares with the text before (an answer and the next
    // question after it; less if turns were taken back) are not computed again. on_token is called with each new token
    // as it comes; false ends the generation. capacity >= prompt.size() + max_new_tokens.
    GenerateResult reply(std::span<const int32_t> prompt, const GenerateOptions& options,
                         const std::function<bool(int32_t)>& on_token);
    // Tokens of the last prompt that were not computed again.
    int64_t reused() const { return reused_; }

  private:
    // Logits of the token after a text, which begins with the kept tokens.
    std::vector<float> extend(std::span<const int32_t> text);
    // The same of a text that ends later, after these tokens of it, which come after those that are kept.
    std::vector<float> feed(std::span<const int32_t> tokens, int64_t text_tokens);
    // Forgets what a text of `text_tokens` cannot use.
    void turn_for(int64_t text_tokens);

    Engine& engine_;
    std::vector<int32_t> kept_;  // tokens whose keys and values the engine has
    bool turned_long_ = false;   // these, by the second table
    int64_t reused_ = 0;
    int64_t prompt_tokens_ = 0;  // of the last reply
};

// A Conversation of one reply.
GenerateResult generate(Engine& engine, std::span<const int32_t> prompt, const GenerateOptions& options,
                        const std::function<bool(int32_t)>& on_token);

}  // namespace windlass
