#include "method/adamw/adamw_cuda.h"

#include "device/cuda/cuda_stream.h"
#include "method/adamw/adamw_call.h"
#include "method/adamw/adamw_kernel_cuda.h"

namespace windlass {
namespace adamw_cells {

template <typename Moments, Moments (*moments_at)(std::span<std::byte* const>, int64_t)>
void update(const ParamCall& call, Stream& stream) {
    launch_adamw(AdamwArgs<Moments>{.c = adamw_coefficients(call),
                                    .noise = adamw_noise(call, 0),
                                    .count = call.count,
                                    .hi = call.hi,
                                    .lo = call.lo,
                                    .moments = moments_at(call.state, 0),
                                    .gradient = call.gradient},
                 cuda_handle(stream));
}

// Blocks begin where the CPU's do.
template <typename Moments, Moments (*moments_at)(std::span<std::byte* const>, int64_t)>
void update_blocks(const ParamCall& call, Stream& stream) {
    WINDLASS_CHECK(call.element % kAdamwBlock == 0 && call.first % kAdamwBlock == 0, "element {} begins inside a block",
                   call.first);
    update<Moments, moments_at>(call, stream);
}

}  // namespace adamw_cells

constinit const std::array<ParamCell, 3> kAdamwCuda = {adamw_cells::update<AdamwF32, adamw_f32_at>,
                                                       adamw_cells::update_blocks<AdamwBf16, adamw_bf16_at>,
                                                       adamw_cells::update_blocks<AdamwBlocks, adamw_blocks_at>};

}  // namespace windlass
