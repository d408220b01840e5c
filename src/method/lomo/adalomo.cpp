#include <cmath>

#include "device/cpu/cpu_stream.h"
#include "device/cpu/isa.h"
#include "method/lomo/lomo_call.h"
#include "method/lomo/lomo_cuda.h"
#include "method/methods.h"

namespace windlass {
namespace {

// Elements, or columns, that a worker takes at a time.
constexpr int64_t kAdalomoPiece = int64_t{1} << 16, kColumnsPiece = 2048;

// Over kLomoLanes running sums, whose halves are added until one is left.
template <typename Value>
double lane_sum(int64_t count, Value value) {
    std::array<double, kLomoLanes> lanes{};
    for (int64_t i = 0; i < count; ++i) lanes[static_cast<size_t>(i % kLomoLanes)] += value(i);
    for (size_t half = kLomoLanes / 2; half > 0; half /= 2) {
        for (size_t lane = 0; lane < half; ++lane) lanes[lane] += lanes[lane + half];
    }
    return lanes[0];
}

// One update of one parameter, which reads its gradient three times: for second moments of rows and columns; for the
// lengths of the step that they give and of the weights; for the step.
class AdalomoUpdate {
  public:
    AdalomoUpdate(const ParamCall& call, Team& team)
        : call_(call),
          team_(team),
          shape_(call.param.spec),
          numbers_(call),
          work_(shape_, call.work),
          clip_(static_cast<float>(call.step->clip_scale)),
          row_moments_(reinterpret_cast<float*>(call.state[0])),
          column_moments_(reinterpret_cast<float*>(call.state[1])) {}

    void run() {
        find_squares();
        set_column_gains();
        set_row_gains();
        find_norms();
        step();
    }

  private:
    void for_bands(const std::function<void(int64_t)>& body) {
        team_.parallel_for(shape_.bands(), [&](int64_t band, int) { body(band); });
    }
    float next(float moment, double mean) const {
        return static_cast<float>(numbers_.kept * moment + numbers_.added * (mean + kAdalomoLeastSquare));
    }

    void find_squares() {
        static constexpr IsaKernel<SquaresLoop> kLoop = {baseline::adalomo_squares, avx2::adalomo_squares,
                                                         avx512::adalomo_squares};
        SquaresLoop* const loop = kLoop.pick();
        for_bands([&](int64_t band) {
            const int64_t row = shape_.band_begin(band);
            loop(clip_, shape_.band_end(band) - row, shape_.cols, call_.gradient + row * shape_.cols,
                 work_.row_sums + row, work_.column_sums + band * shape_.cols);
        });
    }

    // A vector has moments of its elements, which are the rows of its state.
    void set_column_gains() {
        float* const moments = shape_.is_matrix ? column_moments_ : row_moments_;
        team_.parallel_for(div_up(shape_.cols, kColumnsPiece), [&](int64_t piece, int) {
            const int64_t end = std::min(shape_.cols, (piece + 1) * kColumnsPiece);
            for (int64_t col = piece * kColumnsPiece; col < end; ++col) {
                double sum = 0;
                for (int64_t band = 0; band < shape_.bands(); ++band)
                    sum += work_.column_sums[band * shape_.cols + col];
                moments[col] = next(moments[col], sum / static_cast<double>(shape_.rows));
                work_.column_gains[col] = static_cast<float>(1.0 / std::sqrt(static_cast<double>(moments[col])));
            }
        });
    }

    void set_row_gains() {
        if (!shape_.is_matrix) {
            work_.row_gains[0] = clip_;
            return;
        }
        const auto cols = static_cast<double>(shape_.cols);
        for (int64_t row = 0; row < shape_.rows; ++row)
            row_moments_[row] = next(row_moments_[row], work_.row_sums[row] / cols);
        const double sum = lane_sum(shape_.rows, [&](int64_t row) { return static_cast<double>(row_moments_[row]); });
        const double mean = sum / static_cast<double>(shape_.rows);
        for (int64_t row = 0; row < shape_.rows; ++row)
            work_.row_gains[row] =
                static_cast<float>(call_.step->clip_scale * std::sqrt(mean / static_cast<double>(row_moments_[row])));
    }

    void find_norms() {
        static constexpr IsaKernel<NormsLoop> kLoop = {baseline::adalomo_norms, avx2::adalomo_norms,
                                                       avx512::adalomo_norms};
        NormsLoop* const loop = kLoop.pick();
        for_bands([&](int64_t band) {
            for (int64_t row = shape_.band_begin(band); row < shape_.band_end(band); ++row) {
                std::array<double, kLomoLanes> steps{}, sizes{};
                for_pieces(row * shape_.cols, shape_.cols, [&](int64_t first, int64_t count) {
                    const int64_t col = first - row * shape_.cols;
                    loop(work_.row_gains[row], work_.column_gains + col, col % kLomoLanes, count,
                         lomo_weights(call_, first), call_.gradient + first, steps.data(), sizes.data());
                });
                work_.step_sums[row] =
                    lane_sum(kLomoLanes, [&](int64_t lane) { return steps[static_cast<size_t>(lane)]; });
                work_.weight_sums[row] =
                    lane_sum(kLomoLanes, [&](int64_t lane) { return sizes[static_cast<size_t>(lane)]; });
            }
        });
    }

    // A row's low halves may lie in several pieces.
    template <typename Body>
    void for_pieces(int64_t first, int64_t count, Body body) const {
        const int64_t end = first + count;
        while (first < end) {
            const int64_t stop = call_.lows.empty() ? end : std::min(end, round_up(first + 1, call_.low_elements));
            body(first, stop - first);
            first = stop;
        }
    }

    void step() {
        static constexpr IsaKernel<AdalomoLoop> kLoop = {baseline::adalomo_step, avx2::adalomo_step,
                                                         avx512::adalomo_step};
        const double steps = lane_sum(shape_.rows, [&](int64_t row) { return work_.step_sums[row]; });
        const double sizes = lane_sum(shape_.rows, [&](int64_t row) { return work_.weight_sums[row]; });
        const auto elements = static_cast<double>(call_.count);
        const double rate = numbers_.rate * std::max(kAdalomoLeastSize, std::sqrt(sizes / elements));
        const double size = rate / std::max(kAdalomoLongestStep, std::sqrt(steps / elements));
        for (int64_t row = 0; row < shape_.rows; ++row)
            work_.row_gains[row] = static_cast<float>(static_cast<double>(work_.row_gains[row]) * size);
        AdalomoLoop* const loop = kLoop.pick();
        const auto decay = static_cast<float>(1.0 - rate * numbers_.decay);
        team_.parallel_for(div_up(call_.count, kAdalomoPiece), [&](int64_t piece, int) {
            const int64_t begin = piece * kAdalomoPiece;
            loop({.decay = decay,
                  .cols = shape_.cols,
                  .first = begin,
                  .row_gains = work_.row_gains,
                  .column_gains = work_.column_gains},
                 lomo_noise(call_, begin), std::min(kAdalomoPiece, call_.count - begin), lomo_weights(call_, begin),
                 call_.gradient + begin);
        });
    }

    const ParamCall& call_;
    Team& team_;
    const LomoShape shape_;
    const AdalomoNumbers numbers_;
    const AdalomoWork work_;
    const float clip_;
    float *row_moments_, *column_moments_;
};

void update_adalomo(const ParamCall& call, Stream& stream) {
    WINDLASS_CHECK(call.first == 0 && call.count == call.param.numel(), "{} of {} elements of {}", call.count,
                   call.param.numel(), call.param.spec.name);
    WINDLASS_CHECK(call.element % kLomoBlock == 0, "element {} begins inside a block", call.element);
    WINDLASS_CHECK(call.low_elements % kAdalomoPiece == 0 || call.lows.size() < 2, "pieces of {} low halves",
                   call.low_elements);
    AdalomoUpdate(call, cpu_team(stream)).run();
}

int64_t work_bytes(const ParamWork& work) {
    return AdalomoWork::bytes(LomoShape(work.params[0].spec));
}

ParamKernel kernel_of(int bytes_per_element) {
    std::vector<SlotUse> uses = lomo_uses();
    uses.push_back({ParamSlot::state, Access::update});
    return {.name = "update",
            .uses = std::move(uses),
            .grain = Grain::parameter,
            .is_update = true,
            .has_update_rate = true,
            .bytes_per_element = bytes_per_element,
            .work_bytes = work_bytes,
            .cells = {update_adalomo, nullptr, kAdalomoCuda}};
}

// The gradient is read three times, weights twice, and they are written once.
Recipe adalomo_recipe(const MethodOptions& options) {
    static const ParamKernel kAsFile = kernel_of(18), kSplit = kernel_of(24);
    Recipe made = lomo_recipe(options, "adalomo", options.split_masters ? kSplit : kAsFile);
    made.state = {{.name = "row", .of = StatePer::row}, {.name = "column", .of = StatePer::column}};
    return made;
}

}  // namespace

// The rate of arXiv 2310.10195.
const Method kAdalomo = {.name = "adalomo", .recipe = adalomo_recipe, .usual_rate = 5e-4};

}  // namespace windlass
