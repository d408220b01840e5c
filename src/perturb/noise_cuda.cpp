#include <bit>

#include "base/error.h"
#include "base/index.h"
#include "device/cuda/cuda_stream.h"
#include "op/batch.h"
#include "perturb/cuda_kernels.h"
#include "perturb/low_rank_kernel_cuda.h"
#include "perturb/noise_kernel_cuda.h"
#include "tensor/e4m3.h"

namespace windlass {
namespace noise_cells {

static_assert(kDirectionRankMax <= kLowRankMax);

// A step's list, as kernels read it.
class StepList {
  public:
    StepList(const NoiseRun& run, const NoiseStep& step) {
        const auto terms = std::span(step.terms, at(step.term_count));
        uint32_t scales = static_cast<uint32_t>(step.term_count) * kTermWords +
                          static_cast<uint32_t>(step.moment_count) * kMomentWords;
        for (const NoiseTerm& term : terms) {
            const bool has_scales = term.scales != nullptr && run.keeps_left;
            add_term(term, has_scales ? scales : kScalesDrawn);
            if (has_scales) scales += static_cast<uint32_t>(run.rank);
        }
        for (const NoiseMoment& moment : std::span(step.moments, at(step.moment_count)))
            words_.insert(words_.end(),
                          {static_cast<uint32_t>(moment.term_count), std::bit_cast<uint32_t>(moment.first),
                           std::bit_cast<uint32_t>(moment.second)});
        for (const NoiseTerm& term : terms) {
            if (term.scales == nullptr || !run.keeps_left) continue;
            for (const float scale : std::span(term.scales, at(run.rank)))
                words_.push_back(std::bit_cast<uint32_t>(scale));
        }
        WINDLASS_CHECK(words_.size() <= kListWords, "{} terms in a step", step.term_count);
    }

    const uint32_t* data() const { return words_.data(); }
    uint32_t size() const { return static_cast<uint32_t>(words_.size()); }

  private:
    void add_term(const NoiseTerm& term, uint32_t scales) {
        WINDLASS_CHECK(term.u == nullptr && term.v == nullptr, "kernels of CUDA devices draw factors themselves");
        words_.insert(words_.end(),
                      {term.step, term.direction, term.kept_step, std::bit_cast<uint32_t>(term.coefficient), scales});
    }

    std::vector<uint32_t> words_;
};

NoiseTermWords words_of(const NoiseTerm& term) {
    WINDLASS_CHECK(term.u == nullptr && term.v == nullptr && term.scales == nullptr,
                   "a probe's factors are drawn, and what scales them");
    return {term.step, term.direction, term.kept_step, term.coefficient, kScalesDrawn};
}

NoiseCallArgs call_of(const NoiseRun& run, const NoisePass& pass) {
    return {.run = run,
            .first_row = run.kind == NoiseKind::low_rank ? run.first / run.cols : 0,
            .stored = pass.type,
            .scale = power_of_two(pass.scale_exponent),
            .weights = pass.weights,
            .skip = pass.skip,
            .updated = pass.updated,
            .narrows = pass.probe_type == WeightType::bf16,
            .masks = pass.masks,
            .limit = pass.limit};
}

void set_step(const NoiseStep& step, NoiseCallArgs& call) {
    call.has_step = true;
    call.adds_left = step.adds_left;
    call.step = step.step;
    call.term_count = static_cast<uint32_t>(step.term_count);
    call.moment_count = static_cast<uint32_t>(step.moments == nullptr ? 0 : step.moment_count);
    call.decay = step.decay;
    call.epsilon = step.epsilon;
}

// A launch for each step: its result is stored before the next. Probing or copying comes after the last.
void perturb(const NoiseRun& run, const NoisePass& pass, Stream& stream) {
    if (run.count == 0) return;
    for (int64_t index = 0; index < std::max<int64_t>(1, pass.step_count); ++index) {
        NoiseCallArgs call = call_of(run, pass);
        if (index > 0) call.weights = pass.updated;
        if (index + 1 >= pass.step_count) {
            call.plus = pass.plus;
            call.minus = pass.minus;
            call.plain = pass.plain;
            call.has_probe = pass.probe != nullptr;
            if (call.has_probe) call.probe = words_of(*pass.probe);
        }
        if (pass.step_count == 0) {
            launch_noise(call, nullptr, 0, cuda_handle(stream));
            return;
        }
        set_step(pass.steps[index], call);
        const StepList list(run, pass.steps[index]);
        launch_noise(call, list.data(), list.size(), cuda_handle(stream));
    }
}

// A direction is what a probe adds to zeros.
void write_direction_on(const NoiseRun& run, const NoisePass& pass, Stream& stream) {
    if (run.count == 0) return;
    NoiseCallArgs call = call_of(run, pass);
    call.weights = nullptr;
    call.has_probe = true;
    call.probe = words_of(*pass.probe);
    call.plus = pass.plus;
    launch_noise(call, nullptr, 0, cuda_handle(stream));
}

void write_factors_on(const NoiseRun& run, const NoisePass& pass, Stream& stream) {
    launch_factors({.run = run,
                    .term = words_of(*pass.probe),
                    .left = static_cast<float*>(pass.plus),
                    .right = static_cast<float*>(pass.minus)},
                   cuda_handle(stream));
}

}  // namespace noise_cells

constinit const WeightKernel kPerturbWeightsCuda = noise_cells::perturb;
constinit const WeightKernel kWriteDirectionCuda = noise_cells::write_direction_on;
constinit const WeightKernel kWriteFactorsCuda = noise_cells::write_factors_on;

}  // namespace windlass
