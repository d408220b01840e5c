// The part of the loop that lets the model continue prompts.
#include "base/full_disk.h"
#include "base/log.h"
#include "infer/generate.h"
#include "train/loop.h"

namespace windlass {
namespace {

// For a line of the log.
std::string shortened(std::string_view text) {
    constexpr size_t kBytesMax = 160;
    if (text.size() <= kBytesMax) return std::string(text);
    size_t end = kBytesMax;
    while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;  // within a character of UTF-8
    return std::string(text.substr(0, end)) + "...";
}

}  // namespace

bool TrainLoop::samples_now() const {
    if (!samples_) return false;
    const int64_t step = state_.progress.step;
    return step % session_.samples.every == 0 || step == session_.total_steps();
}

// Greedily: the same weights write the same. Decoding reads weights, and writes into buffers of its own.
void TrainLoop::sample() {
    settle();
    const Tokenizer& tokenizer = *session_.tokenizer;
    const GenerateOptions options{.max_new_tokens = session_.samples.max_new_tokens,
                                  .stop_ids = session_.samples.stop_ids,
                                  .vocab = std::min<int64_t>(tokenizer.vocab_size(), session_.model.vocab)};
    std::vector<Continuation> samples;
    for (const SamplePrompt& prompt : session_.samples.prompts) {
        StreamDecoder decoder(tokenizer, true);
        std::string text;
        generate(engine_, prompt.ids, options, [&](int32_t id) {
            text += decoder.push(id);
            return true;
        });
        text += decoder.finish();
        log_.clear_bar();
        log_info("sample after step {}: \"{}\" -> \"{}\"", state_.progress.step, shortened(prompt.text),
                 shortened(text));
        samples.push_back({prompt.text, std::move(text)});
    }
    write_unless_full([&] { samples_->write(state_.progress.step, samples); });
}

// That a kill took from the step that the run resumes after.
void TrainLoop::make_up_samples() {
    if (state_.progress.step > 0 && samples_now() && samples_->last_step() < state_.progress.step) sample();
}

}  // namespace windlass
