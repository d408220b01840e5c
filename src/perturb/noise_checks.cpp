#include "perturb/noise_checks.h"

#include "base/error.h"

namespace windlass {

bool is_drawn(const NoiseRun& run, const NoiseTerm& term) {
    return run.kind == NoiseKind::low_rank && term.u == nullptr;
}

bool is_drawn(const NoiseRun& run, const NoisePass& pass) {
    if (pass.probe != nullptr) return is_drawn(run, *pass.probe);
    for (int64_t s = 0; s < pass.step_count; ++s) {
        if (pass.steps[s].term_count > 0) return is_drawn(run, pass.steps[s].terms[0]);
    }
    return false;
}

namespace {

void check_run(const NoiseRun& run) {
    constexpr int64_t kIndices = int64_t{1} << (kNoiseKindShift + 2);  // four elements a counter
    WINDLASS_CHECK(run.element >= 0 && run.count >= 0 && run.element <= kIndices - run.count,
                   "elements from {} on, {} of them, have no counters", run.element, run.count);
    if (run.kind == NoiseKind::low_rank)
        WINDLASS_CHECK(run.rank > 0 && run.cols > 0 && run.first >= 0 && run.first + run.count <= run.rows * run.cols,
                       "{} elements from {} on are not in a matrix of {} x {}", run.count, run.first, run.rows,
                       run.cols);
}

void check_term(const NoiseRun& run, const NoiseTerm& term) {
    WINDLASS_CHECK(run.kind != NoiseKind::low_rank || (term.u == nullptr) == (term.v == nullptr),
                   "a direction of rank {} has one of its factors", run.rank);
}

void check_pass(const NoiseRun& run, const NoisePass& pass) {
    WINDLASS_CHECK(pass.step_count <= 1 || pass.updated != nullptr, "{} steps have nowhere to go", pass.step_count);
    WINDLASS_CHECK(pass.type == WeightType::nf4 ? pass.updated == nullptr : pass.skip == 0,
                   "weights of nf4 are only read, and only they are counted from a block");
    WINDLASS_CHECK((pass.probe == nullptr && pass.plain == nullptr) || pass.probe_type == WeightType::f32 ||
                       pass.probe_type == WeightType::bf16,
                   "probed weights are f32 or bf16");
    const auto check_one = [&](const NoiseTerm& term) {
        check_term(run, term);
        WINDLASS_CHECK(is_drawn(run, term) == is_drawn(run, pass), "some factors of a pass are given, others are not");
    };
    for (int64_t s = 0; s < pass.step_count; ++s) {
        const NoiseStep& step = pass.steps[s];
        for (int64_t d = 0; d < step.term_count; ++d) check_one(step.terms[d]);
    }
    if (pass.probe != nullptr) check_one(*pass.probe);
}

}  // namespace

void check_call(const NoiseRun& run, const NoisePass& pass) {
    check_run(run);
    check_pass(run, pass);
}

}  // namespace windlass
