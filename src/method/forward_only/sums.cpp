#include "method/forward_only/sums.h"

#include "method/forward_only/step_numbers.h"

namespace windlass {
namespace {

// scales <- (1 - d) scales + c s, each operation rounded once; without decay there is no product.
void add_step(const NoiseRun& run, const StepParams& step, double rate, double decay, LowRankSum& sum) {
    const int count = step.perturb().directions;
    std::array<float, kDirectionRankMax> drawn;
    const auto left = static_cast<float>(1.0 - decay);
    for (int j = 0; j < count; ++j) {
        const NoiseTerm term =
            noise_term(sum.noise, run, step.step, j, rate / count * step.perturb().scalars[static_cast<size_t>(j)]);
        draw_scales(run, term, drawn.data());
        float* const scales = sum.scales.data() + j * sum.rank;
        for (int64_t k = 0; k < sum.rank; ++k) {
            const float more = term.coefficient * drawn[static_cast<size_t>(k)];
            scales[k] = (decay == 0 ? scales[k] : left * scales[k]) + more;
        }
    }
    sum.kept *= 1.0 - decay;
}

}  // namespace

LowRankSums::LowRankSums(const TrainedModel& model) : model_(model), by_param_(model.params.size(), nullptr) {
    const std::vector<int64_t> elements = global_offsets(model);
    for (size_t param = 0; param < model.params.size(); ++param) {
        if (!model.training[param].trains || model.perturb[param].merge != Merge::never) continue;
        entries_.push_back({static_cast<int>(param), elements[param], {}});
    }
    for (const Entry& each : entries_) by_param_[static_cast<size_t>(each.param)] = &each.sum;
}

void LowRankSums::add(const StepParams& step) {
    for (Entry& each : entries_) {
        const Param param = model_.param(each.param);
        if (!moves(param, step)) continue;
        const NoiseRun run = noise_run(step.perturb().noise, step.seed, param.spec, each.element, 0, param.numel());
        LowRankSum& sum = each.sum;
        if (sum.scales.empty()) {
            WINDLASS_CHECK(run.kind == NoiseKind::low_rank && run.keeps_left && step.perturb().noise.window == 0,
                           "{}: its directions do not stay in one space", param.spec.name);
            sum.seed = step.seed;
            sum.noise = step.perturb().noise;
            sum.rank = run.rank;
            sum.scales.assign(static_cast<size_t>(step.perturb().directions * run.rank), 0.0f);
        }
        add_step(run, step, rate_of(param.training, step), shrinkage(param.training, step), sum);
    }
}

void LowRankSums::clear() {
    for (Entry& each : entries_) each.sum = {};
}

}  // namespace windlass
