#include "perturb/factors.h"

#include <algorithm>

#include "base/math.h"
#include "device/cpu/isa.h"
#include "perturb/cuda_kernels.h"

namespace windlass {
namespace {

constexpr IsaKernel<NoiseDirection> kFactorDirection = {baseline::noise_direction, avx2::noise_direction,
                                                        avx512::noise_direction};

// Of a part: so wide that a row is worth a call, so high that drawing v for it costs little, so small that it stays in
// the second-level cache while it is gone over.
constexpr int64_t kPartCols = 1024, kPartRows = 128, kPartElements = kPartCols * kPartRows;

uint32_t left_step(const NoiseRun& run, const NoiseTerm& term) {
    return run.keeps_left ? term.kept_step : term.step;
}

// c (t_k u_k), each product rounded: what the kernels multiply v_k with.
void write_factors_cpu(const NoiseRun& run, const NoisePass& pass, Stream& stream) {
    const NoiseTerm& term = *pass.probe;
    float* const left = static_cast<float*>(pass.plus);
    NoiseTerm one{.step = left_step(run, term), .direction = term.direction, .coefficient = 1};
    write_direction(factor_run(run, NoiseKind::left_factor), one, WeightType::f32, left, stream);
    std::array<float, kDirectionRankMax> scales;
    if (run.keeps_left) draw_scales(run, term, scales.data());
    for (int64_t k = 0; k < run.rank; ++k) {
        for (int64_t row = 0; row < run.rows; ++row) {
            float& u = left[k * run.rows + row];
            if (run.keeps_left) u = scales[static_cast<size_t>(k)] * u;
            u = term.coefficient * u;
        }
    }
    one.step = term.kept_step;
    write_direction(factor_run(run, NoiseKind::right_factor), one, WeightType::f32, pass.minus, stream);
}

std::vector<WeightCase> factor_cases() {
    const Noise right{.kind = NoiseKind::low_rank, .rank = 3, .window = 4};
    const Noise both{.kind = NoiseKind::low_rank, .rank = 5, .window = 0, .keeps_left = true};
    return {{.name = "right_kept", .noise = right, .probes = true},
            {.name = "both_kept", .noise = both, .probes = true}};
}

constexpr WeightKernel kWriteFactorsCpu = write_factors_cpu;

}  // namespace

int64_t direction_rank(const Noise& noise, const Shape& shape) {
    return noise.kind == NoiseKind::low_rank && shape.rank() == 2 ? std::min({noise.rank, shape[0], shape[1]}) : 0;
}

int64_t window_start(int64_t step, int64_t window) {
    return window == 0 ? 1 : step - (step - 1) % window;
}

NoiseRun noise_run(const Noise& noise, uint64_t seed, const ParamSpec& param, int64_t param_element, int64_t first,
                   int64_t count) {
    NoiseRun run{.seed = seed, .kind = noise.kind, .element = param_element + first, .count = count};
    if (noise.kind != NoiseKind::low_rank) return run;
    if (param.shape.rank() != 2) {
        run.kind = NoiseKind::gaussian;
        return run;
    }
    run.rank = direction_rank(noise, param.shape);
    WINDLASS_CHECK(run.rank > 0 && run.rank <= kDirectionRankMax, "directions of rank {}", run.rank);
    run.first = first;
    run.rows = param.shape[0];
    run.cols = param.shape[1];
    run.keeps_left = noise.keeps_left;
    return run;
}

NoiseTerm noise_term(const Noise& noise, const NoiseRun& run, int64_t step, int direction, double c) {
    const bool has_factors = run.kind == NoiseKind::low_rank;
    return {.step = static_cast<uint32_t>(step),
            .direction = static_cast<uint32_t>(direction),
            .coefficient = has_factors ? low_rank_coefficient(c, run.rank) : static_cast<float>(c),
            .kept_step = has_factors ? static_cast<uint32_t>(window_start(step, noise.window)) : 0};
}

// From counters that Gaussian directions of the matrix would take, and nothing else does.
void draw_scales(const NoiseRun& matrix, const NoiseTerm& term, float* out) {
    NoiseRun run{.seed = matrix.seed, .kind = NoiseKind::gaussian, .element = matrix.element - matrix.first};
    run.count = matrix.rank;
    kFactorDirection.pick()(run, {.step = term.step, .direction = term.direction, .coefficient = 1}, WeightType::f32,
                            out);
}

void write_factors(const NoiseRun& run, const NoiseTerm& term, float* left, float* right, Stream& stream) {
    kWriteFactors(run,
                  {.type = WeightType::f32,
                   .weights = nullptr,
                   .probe = &term,
                   .probe_type = WeightType::f32,
                   .plus = left,
                   .minus = right},
                  stream);
}

int64_t terms_at_once(int64_t rank) {
    return std::clamp<int64_t>(kFactorRoom / (rank * (kPartRows + kPartCols)), 1, kTermsMax);
}

MatrixCut::MatrixCut(const NoiseRun& run, int64_t terms)
    : row_(run.first / run.cols), row_end_(div_up(run.first + run.count, run.cols)), cols_(run.cols) {
    WINDLASS_CHECK(run.rank > 0 && run.rank <= std::min(run.rows, run.cols), "a matrix of {} x {} has no rank {}",
                   run.rows, run.cols, run.rank);
    const int64_t sides = kFactorRoom / std::max<int64_t>(1, terms * run.rank);  // rows and columns of a part
    WINDLASS_CHECK(terms <= kTermsMax && sides >= 2, "{} terms of rank {} at a time", terms, run.rank);
    cols_each_ = std::min({cols_, kPartCols, sides / 2});
    rows_each_ = std::min(kPartElements / cols_each_, sides - cols_each_);
    row_parts_ = div_up(row_end_ - row_, rows_each_);
    col_parts_ = div_up(cols_, cols_each_);
}

MatrixPart MatrixCut::part(int64_t index) const {
    const int64_t row = row_ + index / col_parts_ * rows_each_, col = index % col_parts_ * cols_each_;
    return {row, std::min(rows_each_, row_end_ - row), col, std::min(cols_each_, cols_ - col)};
}

DrawnFactors::DrawnFactors(const NoiseRun& run, const MatrixPart& part) : run_(run), part_(part) {}

NoiseTerm DrawnFactors::draw(const NoiseTerm& term) {
    NoiseTerm drawn = term;
    drawn.u = left(term);
    drawn.v = right(term);
    return drawn;
}

NoiseTerm DrawnFactors::draw_sum(std::span<const NoiseTerm> terms) {
    WINDLASS_CHECK(!run_.keeps_left, "what is kept is scaled, not added");
    const int64_t count = run_.rank * part_.rows;
    if (added_ == nullptr) added_ = room(count);
    float* const sum = room(count);
    std::fill_n(sum, count, 0.0f);
    for (const NoiseTerm& term : terms) {
        draw_rows(NoiseKind::left_factor, term.step, term.direction, added_);
        for (int64_t i = 0; i < count; ++i) sum[i] += term.coefficient * added_[i];
    }
    NoiseTerm drawn = terms[0];
    drawn.coefficient = 1;
    drawn.u = sum;
    drawn.v = right(drawn);
    return drawn;
}

float* DrawnFactors::room(int64_t count) {
    used_ += count;
    WINDLASS_CHECK(used_ <= kFactorRoom, "factors take {} numbers, there is room for {}", used_, kFactorRoom);
    return room_ + used_ - count;
}

// Of each rank the numbers of the part's rows, or columns.
void DrawnFactors::draw_rows(NoiseKind factor, uint32_t step, uint32_t direction, float* out) {
    const bool is_left = factor == NoiseKind::left_factor;
    const int64_t whole = is_left ? run_.rows : run_.cols, begin = is_left ? part_.row : part_.col;
    NoiseRun run{.seed = run_.seed, .kind = factor, .count = is_left ? part_.rows : part_.cols};
    for (int64_t k = 0; k < run_.rank; ++k) {
        run.element = run_.element - run_.first + k * whole + begin;
        kFactorDirection.pick()(run, {.step = step, .direction = direction, .coefficient = 1}, WeightType::f32,
                                out + k * run.count);
    }
}

const float* DrawnFactors::left(const NoiseTerm& term) {
    float* const out = room(run_.rank * part_.rows);
    draw_rows(NoiseKind::left_factor, left_step(run_, term), term.direction, out);
    if (!run_.keeps_left) return out;
    std::array<float, kDirectionRankMax> own;
    if (term.scales == nullptr) draw_scales(run_, term, own.data());
    const float* const scales = term.scales == nullptr ? own.data() : term.scales;
    for (int64_t i = 0; i < run_.rank * part_.rows; ++i) out[i] = scales[i / part_.rows] * out[i];
    return out;
}

// Steps of one window share theirs.
const float* DrawnFactors::right(const NoiseTerm& term) {
    for (int64_t i = 0; i < right_count_; ++i) {
        const Right& drawn = rights_[static_cast<size_t>(i)];
        if (drawn.step == term.kept_step && drawn.direction == term.direction) return drawn.numbers;
    }
    float* const out = room(run_.rank * part_.cols);
    draw_rows(NoiseKind::right_factor, term.kept_step, term.direction, out);
    rights_[static_cast<size_t>(right_count_++)] = {term.kept_step, term.direction, out};
    return out;
}

// Compared with the matrix its factors are next to nothing: no draws.
constinit const WeightOp kWriteFactors = {.name = "factors",
                                          .draws = [](const WeightWork&) { return 0.0; },
                                          .cases = factor_cases,
                                          .cells = {&kWriteFactorsCpu, nullptr, &kWriteFactorsCuda}};

}  // namespace windlass
