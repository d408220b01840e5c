#include "perturb/noise.h"

#include <algorithm>
#include <cmath>

#include "base/index.h"
#include "base/math.h"
#include "base/rng.h"
#include "device/cpu/cpu_stream.h"
#include "device/cpu/isa.h"
#include "perturb/cuda_kernels.h"
#include "perturb/noise_checks.h"

namespace windlass {
namespace {

static_assert(kNoiseStream == static_cast<uint32_t>(RandomStream::noise));
static_assert(kNoiseRoundingStream == static_cast<uint32_t>(RandomStream::rounding));

// Elements that a worker takes at a time: whole tiles of every kind.
constexpr int64_t kPieceElements = int64_t{1} << 16;

constexpr IsaKernel<NoiseDirection> kDirection = {baseline::noise_direction, avx2::noise_direction,
                                                  avx512::noise_direction};
constexpr IsaKernel<NoisePassLoop> kPass = {baseline::noise_pass, avx2::noise_pass, avx512::noise_pass};

std::span<const NoiseTerm> terms_of(const NoiseStep& step) {
    return {step.terms, at(step.term_count)};
}

int64_t bytes_of(WeightType type) {
    WINDLASS_CHECK(type != WeightType::nf4, "no number of nf4 lies alone");
    return type == WeightType::f32 ? 4 : type == WeightType::f8 ? 1 : 2;
}

void* address_in(void* array, int64_t element, WeightType type) {
    return array == nullptr ? nullptr : static_cast<std::byte*>(array) + element * bytes_of(type);
}
const void* address_in(const void* array, int64_t element, WeightType type) {
    return static_cast<const std::byte*>(array) + element * bytes_of(type);
}

// Calls body(piece of the run, its first element in the run).
template <typename Body>
void for_pieces(const NoiseRun& run, Stream& stream, Body body) {
    const int64_t base = round_down(run.element, kPieceElements), end = run.element + run.count;
    cpu_team(stream).parallel_for(div_up(end - base, kPieceElements), [&](int64_t index, int) {
        const int64_t begin = std::max(run.element, base + index * kPieceElements);
        const int64_t offset = begin - run.element;
        NoiseRun piece = run;
        piece.element = begin;
        piece.count = std::min(end, base + (index + 1) * kPieceElements) - begin;
        piece.first = run.first + offset;
        body(piece, offset);
    });
}

// Calls body(piece of the run, its first element in the run, the term with its factors).
template <typename Body>
void for_pieces_along(const NoiseRun& run, const NoiseTerm& term, Stream& stream, Body body) {
    if (!is_drawn(run, term))
        return for_pieces(run, stream, [&](const NoiseRun& piece, int64_t offset) { body(piece, offset, term); });
    const MatrixCut cut(run, 1);
    cpu_team(stream).parallel_for(cut.count(), [&](int64_t index, int) {
        const MatrixPart part = cut.part(index);
        DrawnFactors factors(run, part);
        const NoiseTerm drawn = factors.draw(term);
        for_part_runs(run, part, [&](const NoiseRun& piece, int64_t offset) { body(piece, offset, drawn); });
    });
}

// The pass from element `offset` of its run on.
NoisePass pass_at(const NoisePass& pass, int64_t offset) {
    NoisePass part = pass;
    if (pass.type == WeightType::nf4) {
        part.skip += offset;
    } else {
        part.weights = address_in(pass.weights, offset, pass.type);
        part.updated = address_in(pass.updated, offset, pass.type);
    }
    part.plus = address_in(pass.plus, offset, pass.probe_type);
    part.minus = address_in(pass.minus, offset, pass.probe_type);
    part.plain = address_in(pass.plain, offset, pass.probe_type);
    return part;
}

// How many terms from the first on share its direction and its v.
int64_t shared_terms(std::span<const NoiseTerm> terms) {
    int64_t count = 0;
    while (count < std::ssize(terms) && terms[at(count)].direction == terms[0].direction &&
           terms[at(count)].kept_step == terms[0].kept_step)
        ++count;
    return count;
}

// Terms that factors are drawn for: of those whose u are added, one for each v, and one at a time to add.
int64_t drawn_terms(const NoiseStep& step) {
    if (!step.adds_left) return step.term_count;
    int64_t count = 1;
    for (std::span<const NoiseTerm> left = terms_of(step); !left.empty(); left = left.subspan(at(shared_terms(left))))
        ++count;
    return count;
}

int64_t drawn_terms(const NoisePass& pass) {
    int64_t count = pass.probe != nullptr ? 1 : 0;
    for (int64_t s = 0; s < pass.step_count; ++s) count += drawn_terms(pass.steps[s]);
    return count;
}

// The step with its factors, its terms from `room` on; returns what is left of the room.
NoiseTerm* draw_step(const NoiseStep& step, DrawnFactors& factors, NoiseTerm* room, NoiseStep& drawn) {
    drawn = step;
    drawn.terms = room;
    for (std::span<const NoiseTerm> left = terms_of(step); !left.empty();) {
        const auto together = left.first(step.adds_left ? at(shared_terms(left)) : 1);
        *room++ = step.adds_left ? factors.draw_sum(together) : factors.draw(together[0]);
        left = left.subspan(together.size());
    }
    drawn.term_count = room - drawn.terms;
    drawn.adds_left = false;
    return room;
}

// The pass over one part of its matrix.
void pass_over_part(const NoiseRun& run, const NoisePass& pass, const MatrixPart& part) {
    DrawnFactors factors(run, part);
    std::array<NoiseTerm, kTermsMax> terms;
    std::array<NoiseStep, kTermsMax> steps;
    NoisePass drawn = pass;
    drawn.steps = steps.data();
    NoiseTerm* next = terms.data();
    for (int64_t s = 0; s < pass.step_count; ++s) next = draw_step(pass.steps[s], factors, next, steps[at(s)]);
    NoiseTerm probe;
    if (pass.probe != nullptr) drawn.probe = &(probe = factors.draw(*pass.probe));
    for_part_runs(run, part, [&, kernel = kPass.pick()](const NoiseRun& piece, int64_t offset) {
        kernel(piece, pass_at(drawn, offset));
    });
}

// As many steps at a time as there is room for their factors: a step's result is stored before the next.
void draw_and_pass(const NoiseRun& run, const NoisePass& pass, Stream& stream) {
    const int64_t at_once = terms_at_once(run.rank);
    int64_t done = 0;
    do {
        NoisePass some = pass;
        some.steps = pass.steps + done;
        some.step_count = std::min<int64_t>(1, pass.step_count - done);
        if (done > 0) some.weights = pass.updated;
        while (done + some.step_count < pass.step_count && some.step_count < kTermsMax &&
               drawn_terms(some) + drawn_terms(some.steps[some.step_count]) <= at_once)
            ++some.step_count;
        done += some.step_count;
        if (done < pass.step_count) some.probe = nullptr;
        const MatrixCut cut(run, drawn_terms(some));
        cpu_team(stream).parallel_for(cut.count(),
                                      [&](int64_t index, int) { pass_over_part(run, some, cut.part(index)); });
    } while (done < pass.step_count);
}

void perturb_cpu(const NoiseRun& run, const NoisePass& pass, Stream& stream) {
    if (is_drawn(run, pass)) return draw_and_pass(run, pass, stream);
    for_pieces(run, stream, [&, kernel = kPass.pick()](const NoiseRun& piece, int64_t offset) {
        kernel(piece, pass_at(pass, offset));
    });
}

void write_direction_cpu(const NoiseRun& run, const NoisePass& pass, Stream& stream) {
    for_pieces_along(run, *pass.probe, stream,
                     [&, kernel = kDirection.pick()](const NoiseRun& piece, int64_t offset, const NoiseTerm& along) {
                         kernel(piece, along, pass.probe_type, address_in(pass.plus, offset, pass.probe_type));
                     });
}

// In units of a Gaussian number, measured with AVX2 (bench/noise_bench). Of one of +1 and -1 reading, rounding and
// writing are left; of low rank its factors take next to nothing, and each rank a product and a sum.
constexpr double kSigns = 0.4, kFactors = 0.25, kRank = 0.05;
// Rounding at random to 8 bits takes longer than to 16.
constexpr double kNarrow = 0.3;

double draws(const WeightWork& work) {
    const double rank = kRank * static_cast<double>(work.noise.rank);
    const bool low_rank = work.noise.kind == NoiseKind::low_rank;
    const double each = low_rank ? kFactors + rank : work.noise.kind == NoiseKind::rademacher ? kSigns : 1.0;
    return work.drawn * each + work.sums * rank + (work.stored == DType::f8_e4m3 ? work.rounds * kNarrow : 0);
}

constexpr Noise kLowRank{.kind = NoiseKind::low_rank, .rank = 3, .window = 4};

std::vector<WeightCase> perturb_cases() {
    const Noise signs{.kind = NoiseKind::rademacher};
    const Noise both{.kind = NoiseKind::low_rank, .rank = 2, .window = 0, .keeps_left = true};
    return {
        {.name = "f32", .stored = {DType::f32}, .steps = 1, .probes = true},
        {.name = "bf16", .compute = DType::bf16, .steps = 2, .probes = true},
        {.name = "f16", .stored = {DType::f16}, .compute = DType::bf16, .noise = signs, .steps = 1, .probes = true},
        {.name = "f8", .stored = {DType::f8_e4m3, -3}, .noise = kLowRank, .steps = 3, .probes = true},
        {.name = "nf4", .stored = {DType::nf4}, .compute = DType::bf16, .noise = both, .probes = true},
        {.name = "moments", .steps = 1, .moments = true, .masks = true},
    };
}

std::vector<WeightCase> direction_cases() {
    return {
        {.name = "gaussian", .probes = true},
        {.name = "signs", .compute = DType::bf16, .noise = {.kind = NoiseKind::rademacher}, .probes = true},
        {.name = "low_rank", .noise = kLowRank, .probes = true},
    };
}

constexpr WeightKernel kPerturbCpu = perturb_cpu, kWriteDirectionCpu = write_direction_cpu;

}  // namespace

std::string_view noise_kind_name(NoiseKind kind) {
    if (kind == NoiseKind::low_rank) return "low_rank";
    return kind == NoiseKind::rademacher ? "rademacher" : "gaussian";
}

std::optional<NoiseKind> noise_kind_from_name(std::string_view name) {
    for (const NoiseKind kind : {NoiseKind::gaussian, NoiseKind::rademacher, NoiseKind::low_rank}) {
        if (noise_kind_name(kind) == name) return kind;
    }
    return std::nullopt;
}

float low_rank_coefficient(double c, int64_t rank) {
    return static_cast<float>(c / std::sqrt(static_cast<double>(rank)));
}

NoiseRun factor_run(const NoiseRun& run, NoiseKind factor) {
    WINDLASS_CHECK(run.kind == NoiseKind::low_rank, "only directions of low rank have factors");
    WINDLASS_CHECK(factor == NoiseKind::left_factor || factor == NoiseKind::right_factor, "no factor is of this kind");
    WINDLASS_CHECK(run.rank > 0 && run.rank <= std::min(run.rows, run.cols), "a matrix of {} x {} has no rank {}",
                   run.rows, run.cols, run.rank);
    return {.seed = run.seed,
            .kind = factor,
            .element = run.element - run.first,
            .count = run.rank * (factor == NoiseKind::left_factor ? run.rows : run.cols)};
}

void update_and_probe(const NoiseRun& run, const NoisePass& pass, Stream& stream) {
    kPerturbWeights(run, pass, stream);
}

void write_direction(const NoiseRun& run, const NoiseTerm& term, WeightType type, void* out, Stream& stream) {
    kWriteDirection(run, {.type = type, .weights = nullptr, .probe = &term, .probe_type = type, .plus = out}, stream);
}

constinit const WeightOp kPerturbWeights = {
    .name = "perturb", .draws = draws, .cases = perturb_cases, .cells = {&kPerturbCpu, nullptr, &kPerturbWeightsCuda}};
constinit const WeightOp kWriteDirection = {.name = "direction",
                                            .draws = draws,
                                            .cases = direction_cases,
                                            .cells = {&kWriteDirectionCpu, nullptr, &kWriteDirectionCuda}};

}  // namespace windlass
