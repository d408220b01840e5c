// Lets the model continue prompts every sample_steps steps, and after the last one: samples.jsonl.
#include "base/full_disk.h"
#include "base/json.h"
#include "base/log_tap.h"
#include "base/printable.h"
#include "infer/generate.h"
#include "train/listeners.h"
#include "train/run_events.h"
#include "train/sample_log.h"

namespace windlass {
namespace {

class Sampler : public StepListener {
  public:
    explicit Sampler(LoopState& loop)
        : loop_(loop),
          samples_(loop.files, loop.folder.file(kSamplesName), loop.first_step,
                   std::ssize(loop.session.samples.prompts)) {}

    // What a kill took from the step that the run resumes after.
    void begin() override {
        const int64_t step = loop_.state.progress.step;
        if (step > 0 && is_due_now() && samples_.last_step() < step) sample();
    }
    void done(const StepDone& /*step*/) override {
        if (is_due_now()) sample();
    }

  private:
    bool is_due_now() const { return loop_.state.progress.step % loop_.session.samples.every == 0 || loop_.is_last(); }

    // Greedily: the same weights write the same. Decoding reads weights, and writes into buffers of its own.
    void sample() {
        loop_.settle();
        const Session& session = loop_.session;
        const Tokenizer& tokenizer = *session.tokenizer;
        const GenerateOptions options{.max_new_tokens = session.samples.max_new_tokens,
                                      .stop_ids = session.samples.stop_ids,
                                      .vocab = std::min<int64_t>(tokenizer.vocab_size(), session.model.vocab)};
        std::vector<Continuation> samples;
        for (const SamplePrompt& prompt : session.samples.prompts) {
            StreamDecoder decoder(tokenizer, true);
            std::string text;
            generate(loop_.engine, prompt.ids, options, [&](int32_t id) {
                text += decoder.push(id);
                return true;
            });
            text += decoder.finish();
            loop_.log.clear_bar();
            log_told("sample after step {}: \"{}\" -> \"{}\"", loop_.state.progress.step, excerpt(prompt.text),
                     excerpt(text));
            samples.push_back({prompt.text, std::move(text)});
        }
        write_unless_full([&] { samples_.write(loop_.state.progress.step, samples); });
        for (const Continuation& each : samples)
            loop_.events.emit(kSampleEvent,
                              {{"step", loop_.state.progress.step}, {"prompt", each.prompt}, {"text", each.text}});
    }

    LoopState& loop_;
    SampleLog samples_;
};

}  // namespace

std::unique_ptr<StepListener> make_sampler(LoopState& loop) {
    return loop.session.samples.prompts.empty() ? nullptr : std::make_unique<Sampler>(loop);
}

}  // namespace windlass
