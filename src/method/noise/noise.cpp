#include "method/noise/noise.h"

#include <algorithm>
#include <cmath>

#include "base/math.h"
#include "base/rng.h"
#include "device/cpu/cpu_stream.h"
#include "device/cpu/isa.h"

namespace windlass {
namespace {

static_assert(kNoiseStream == static_cast<uint32_t>(RandomStream::noise));
static_assert(kNoiseRoundingStream == static_cast<uint32_t>(RandomStream::rounding));

// Elements that a worker takes at a time: whole tiles of every kind.
constexpr int64_t kPieceElements = int64_t{1} << 16;

constexpr IsaKernel<NoiseDirection> kDirection = {baseline::noise_direction, avx2::noise_direction,
                                                  avx512::noise_direction};
constexpr IsaKernel<NoisePassLoop> kPass = {baseline::noise_pass, avx2::noise_pass, avx512::noise_pass};
constexpr IsaKernel<NoiseExactProbe> kExactProbe = {baseline::noise_exact_probe, avx2::noise_exact_probe,
                                                    avx512::noise_exact_probe};
constexpr IsaKernel<NoiseExactUpdate> kExactUpdate = {baseline::noise_exact_update, avx2::noise_exact_update,
                                                      avx512::noise_exact_update};

int64_t bytes_of(WeightType type) {
    return type == WeightType::f32 ? 4 : 2;
}

void* at(void* array, int64_t element, WeightType type) {
    return array == nullptr ? nullptr : static_cast<std::byte*>(array) + element * bytes_of(type);
}
const void* at(const void* array, int64_t element, WeightType type) {
    return static_cast<const std::byte*>(array) + element * bytes_of(type);
}

// Calls body(piece of the run, its first element in the run).
template <typename Body>
void for_pieces(const NoiseRun& run, Stream& stream, Body body) {
    constexpr int64_t kIndices = int64_t{1} << (kNoiseKindShift + 2);  // four elements a counter
    WINDLASS_CHECK(run.element >= 0 && run.count >= 0 && run.element <= kIndices - run.count,
                   "elements from {} on, {} of them, have no counters", run.element, run.count);
    if (run.kind == NoiseKind::low_rank)
        WINDLASS_CHECK(run.rank > 0 && run.cols > 0 && run.first >= 0 && run.first + run.count <= run.rows * run.cols,
                       "{} elements from {} on are not in a matrix of {} x {}", run.count, run.first, run.rows,
                       run.cols);
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

void check_term(const NoiseRun& run, const NoiseTerm& term) {
    WINDLASS_CHECK(run.kind != NoiseKind::low_rank || (term.u != nullptr && term.v != nullptr),
                   "a direction of rank {} has no factors", run.rank);
}

void check_pass(const NoiseRun& run, const NoisePass& pass) {
    WINDLASS_CHECK(pass.step_count == 0 || pass.updated != nullptr, "{} steps have nowhere to go", pass.step_count);
    for (int64_t s = 0; s < pass.step_count; ++s) {
        const NoiseStep& step = pass.steps[s];
        for (int64_t d = 0; d < step.term_count; ++d) check_term(run, step.terms[d]);
    }
    if (pass.probe == nullptr) return;
    WINDLASS_CHECK(pass.probe_type != WeightType::f16, "probed weights are f32 or bf16");
    check_term(run, *pass.probe);
}

}  // namespace

std::string_view noise_kind_name(NoiseKind kind) {
    return kind == NoiseKind::rademacher ? "rademacher" : "gaussian";
}

std::optional<NoiseKind> noise_kind_from_name(std::string_view name) {
    for (const NoiseKind kind : {NoiseKind::gaussian, NoiseKind::rademacher}) {
        if (noise_kind_name(kind) == name) return kind;
    }
    return std::nullopt;
}

WeightType weight_type(DType dtype) {
    WINDLASS_CHECK(dtype == DType::f32 || dtype == DType::bf16 || dtype == DType::f16, "weights are not {}",
                   dtype_name(dtype));
    return dtype == DType::f32 ? WeightType::f32 : dtype == DType::bf16 ? WeightType::bf16 : WeightType::f16;
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

void write_direction(const NoiseRun& run, const NoiseTerm& term, WeightType type, void* out, Stream& stream) {
    check_term(run, term);
    for_pieces(run, stream, [&, kernel = kDirection.pick()](const NoiseRun& piece, int64_t offset) {
        kernel(piece, term, type, at(out, offset, type));
    });
}

void update_and_probe(const NoiseRun& run, const NoisePass& pass, Stream& stream) {
    check_pass(run, pass);
    for_pieces(run, stream, [&, kernel = kPass.pick()](const NoiseRun& piece, int64_t offset) {
        NoisePass part = pass;
        part.weights = at(pass.weights, offset, pass.type);
        part.updated = at(pass.updated, offset, pass.type);
        part.plus = at(pass.plus, offset, pass.probe_type);
        part.minus = at(pass.minus, offset, pass.probe_type);
        kernel(piece, part);
    });
}

void exact_probe(const NoiseRun& run, const NoiseTerm& term, double scale, double eps, WeightType type, void* weights,
                 Stream& stream) {
    check_term(run, term);
    for_pieces(run, stream, [&, kernel = kExactProbe.pick()](const NoiseRun& piece, int64_t offset) {
        kernel(piece, term, static_cast<float>(scale), static_cast<float>(eps), type, at(weights, offset, type));
    });
}

void exact_update(const NoiseRun& run, const NoiseTerm& term, const ExactRates& rates, WeightType type, void* weights,
                  Stream& stream) {
    check_term(run, term);
    const ExactUpdate update = {
        .decays = rates.decays,
        .g = static_cast<float>(rates.decays ? rates.g : rates.learning_rate * rates.g),
        .decay = static_cast<float>(rates.decay),
        .rate = static_cast<float>(rates.learning_rate),
    };
    for_pieces(run, stream, [&, kernel = kExactUpdate.pick()](const NoiseRun& piece, int64_t offset) {
        kernel(piece, term, update, type, at(weights, offset, type));
    });
}

}  // namespace windlass
