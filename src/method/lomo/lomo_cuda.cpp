#include "method/lomo/lomo_cuda.h"

#include "device/cuda/cuda_stream.h"
#include "method/lomo/lomo_call.h"
#include "method/lomo/lomo_kernel_cuda.h"

namespace windlass {
namespace lomo_cells {

void update_lomo(const ParamCall& call, Stream& stream) {
    WINDLASS_CHECK(call.element % kLomoBlock == 0, "element {} begins inside a block", call.element);
    launch_lomo({.step = lomo_step_of(call),
                 .noise = lomo_noise(call, 0),
                 .count = call.count,
                 .weights = lomo_weights(call, 0),
                 .gradient = call.gradient},
                cuda_handle(stream));
}

// What a device updates has no store: its low halves are one array.
void update_adalomo(const ParamCall& call, Stream& stream) {
    WINDLASS_CHECK(call.element % kLomoBlock == 0, "element {} begins inside a block", call.element);
    for (size_t piece = 0; call.lo != nullptr && piece < call.lows.size(); ++piece)
        WINDLASS_CHECK(call.lows[piece] == call.lo + static_cast<int64_t>(piece) * call.low_elements,
                       "{}: low halves in pieces", call.param.spec.name);
    const LomoShape shape(call.param.spec);
    const AdalomoNumbers numbers(call);
    const AdalomoWork work(shape, call.work);
    launch_adalomo({.noise = lomo_noise(call, 0),
                    .rows = shape.rows,
                    .cols = shape.cols,
                    .band_rows = shape.band_rows(),
                    .bands = shape.bands(),
                    .is_matrix = shape.is_matrix,
                    .clip = call.step->clip_scale,
                    .kept = numbers.kept,
                    .added = numbers.added,
                    .rate = numbers.rate,
                    .decay = numbers.decay,
                    .weights = lomo_weights(call, 0),
                    .gradient = call.gradient,
                    .row_moments = reinterpret_cast<float*>(call.state[0]),
                    .column_moments = reinterpret_cast<float*>(call.state[1]),
                    .column_sums = work.column_sums,
                    .row_sums = work.row_sums,
                    .step_sums = work.step_sums,
                    .weight_sums = work.weight_sums,
                    .row_gains = work.row_gains,
                    .column_gains = work.column_gains,
                    .decay_factor = work.decay_factor},
                   cuda_handle(stream));
}

}  // namespace lomo_cells

constinit const ParamCell kLomoCuda = lomo_cells::update_lomo;
constinit const ParamCell kAdalomoCuda = lomo_cells::update_adalomo;

}  // namespace windlass
