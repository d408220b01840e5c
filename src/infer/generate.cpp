#include "infer/generate.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/clock.h"
#include "base/error.h"
#include "base/index.h"
#include "model/rope_table.h"

namespace windlass {
namespace {

// Candidates by falling logit, ids rising among equals, cut to the k best.
std::vector<int32_t> ranked(std::span<const float> logits, int64_t vocab, int64_t top_k) {
    std::vector<int32_t> ids(at(vocab));
    std::iota(ids.begin(), ids.end(), 0);
    const auto better = [&](int32_t a, int32_t b) {
        const float x = logits[at(a)], y = logits[at(b)];
        return x != y ? x > y : a < b;
    };
    const int64_t keep = top_k > 0 ? std::min(top_k, vocab) : vocab;
    std::partial_sort(ids.begin(), ids.begin() + keep, ids.end(), better);
    ids.resize(at(keep));
    return ids;
}

// The shortest schedule that holds `tokens`.
const Schedule& schedule_for(const ScheduleSet& set, int64_t tokens) {
    const Schedule* found = nullptr;
    for (const Schedule& each : set.schedules) {
        const bool holds = each.gives_logits && each.size.sequence_length >= tokens;
        if (holds && (found == nullptr || each.size.sequence_length < found->size.sequence_length)) found = &each;
    }
    WINDLASS_CHECK(found != nullptr, "there is no schedule that decodes {} tokens", tokens);
    return *found;
}

}  // namespace

int32_t sample_token(std::span<const float> logits, int64_t vocab, const SamplingOptions& options, Random& random) {
    WINDLASS_CHECK(vocab > 0 && vocab <= std::ssize(logits), "{} ids, {} logits", vocab, logits.size());
    if (options.temperature <= 0)
        return static_cast<int32_t>(std::max_element(logits.begin(), logits.begin() + vocab) - logits.begin());
    std::vector<int32_t> ids = ranked(logits, vocab, options.top_k);
    std::vector<double> weights;
    double total = 0;
    for (const int32_t id : ids) {
        weights.push_back(std::exp((static_cast<double>(logits[at(id)]) - logits[at(ids[0])]) / options.temperature));
        total += weights.back();
    }
    // The smallest set of best tokens that holds top_p of the probability.
    double kept = 0;
    size_t count = 0;
    while (count < weights.size() && (count == 0 || kept < options.top_p * total)) kept += weights[count++];
    double draw = static_cast<double>(random.next()) * 0x1p-32 * kept;
    for (size_t i = 0; i < count; ++i) {
        draw -= weights[i];
        if (draw < 0) return ids[i];
    }
    return ids[count - 1];
}

void Conversation::turn_for(int64_t text_tokens) {
    const bool turns_long = turns_by_long_table(engine_.setup().model, text_tokens);
    if (turns_long != turned_long_) kept_.clear();
    turned_long_ = turns_long;
}

std::vector<float> Conversation::feed(std::span<const int32_t> tokens, int64_t text_tokens) {
    std::vector<int32_t> positions(tokens.size()), doc_start(tokens.size(), 0), targets(tokens.size(), kIgnored);
    std::iota(positions.begin(), positions.end(), static_cast<int32_t>(kept_.size()));
    const Batch batch{.rows = 1,
                      .sequence_length = std::ssize(tokens),
                      .tokens = tokens.data(),
                      .positions = positions.data(),
                      .doc_start = doc_start.data(),
                      .targets = targets.data(),
                      .cached = std::ssize(kept_),
                      .length_at_least = text_tokens};
    const Schedule& schedule = schedule_for(engine_.setup().schedules, std::ssize(tokens));
    StepReport report = engine_.decode(schedule, {.micro = {batch}});
    kept_.insert(kept_.end(), tokens.begin(), tokens.end());
    return std::move(report.logits);
}

// In chunks that follow from the prompt alone (decode_requests.h).
std::vector<float> Conversation::extend(std::span<const int32_t> text) {
    turn_for(std::ssize(text));
    const int64_t most = prefill_chunks(prompt_tokens_).front();
    std::vector<float> logits;
    while (kept_.size() < text.size()) {
        const auto rest = text.subspan(kept_.size());
        logits = feed(rest.first(at(std::min(most, std::ssize(rest)))), std::ssize(text));
    }
    return logits;
}

GenerateResult Conversation::reply(std::span<const int32_t> prompt, const GenerateOptions& options,
                                   const std::function<bool(int32_t)>& on_token) {
    WINDLASS_CHECK(!prompt.empty(), "generation starts from at least one token");
    GenerateResult result;
    Random random(options.seed, RandomStream::sampling);
    int64_t start = now_ns();
    prompt_tokens_ = std::ssize(prompt);
    const int64_t room = engine_.setup().model.context_length - prompt_tokens_;
    const int64_t most = std::min(options.max_new_tokens, std::max<int64_t>(room, 1));
    turn_for(prompt_tokens_);
    // The last token is computed in any case: its logits are the first new token's.
    reused_ = std::min(std::ranges::mismatch(kept_, prompt).in1 - kept_.begin(), prompt_tokens_ - 1);
    kept_.resize(at(reused_));
    std::vector<int32_t> text(prompt.begin(), prompt.end());
    std::vector<float> logits = extend(text);
    result.prefill_seconds = seconds_since(start);
    start = now_ns();
    while (std::ssize(result.ids) < most) {
        const int32_t id = sample_token(logits, options.vocab, options.sampling, random);
        result.stopped = std::count(options.stop_ids.begin(), options.stop_ids.end(), id) > 0;
        if (result.stopped) break;
        result.ids.push_back(id);
        if (!on_token(id) || std::ssize(result.ids) == most) break;
        text.push_back(id);
        logits = extend(text);
    }
    result.decode_seconds = seconds_since(start);
    return result;
}

GenerateResult generate(Engine& engine, std::span<const int32_t> prompt, const GenerateOptions& options,
                        const std::function<bool(int32_t)>& on_token) {
    return Conversation(engine).reply(prompt, options, on_token);
}

}  // namespace windlass
