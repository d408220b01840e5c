// Directions whose numbers are drawn one by one: a thread takes eight elements.
#include "perturb/low_rank_kernel_cuda.h"
#include "perturb/noise_element_cuda.h"

namespace windlass {
namespace noise_kernels {

using namespace cuda_device;

constexpr int64_t kThreads = 256;
constexpr uint64_t kGaussianKind = 0, kSignKind = 1;

__device__ void add_gaussian(const NoiseRun& run, const NoiseTermWords& term, const Eight& eight,
                             float (&sums)[kEightCount]) {
    WINDLASS_UNROLL
    for (int half = 0; half < 2; ++half) {
        const GaussianFour drawn =
            gaussian_four(run.seed, noise_block(kGaussianKind, eight.element / 4 + half), term.step, term.direction);
        WINDLASS_UNROLL
        for (int e = 0; e < 4; ++e) sums[4 * half + e] += term.coefficient * drawn.z[e];
    }
}

// Bit b of word w, counted through the counters, is the sign of element 32 w + b.
__device__ void add_signs(const NoiseRun& run, const NoiseTermWords& term, const Eight& eight,
                          float (&sums)[kEightCount]) {
    const PhiloxWords found =
        philox_words(run.seed, noise_block(kSignKind, eight.element / 128), kNoiseStream, term.step, term.direction);
    const uint32_t bits = one_of(found.words, eight.element % 128 / 32) >> eight.element % 32;
    WINDLASS_UNROLL
    for (int e = 0; e < kEightCount; ++e) sums[e] += (bits >> e & 1u) != 0 ? -term.coefficient : term.coefficient;
}

template <bool kSigns>
__device__ void add_term(const NoiseRun& run, const NoiseTermWords& term, const Eight& eight,
                         float (&sums)[kEightCount]) {
    if (kSigns)
        add_signs(run, term, eight, sums);
    else
        add_gaussian(run, term, eight, sums);
}

template <bool kSigns, typename Args>
__device__ void sum_step(const Args& args, const Eight& eight, float (&sums)[kEightCount]) {
    const NoiseCallArgs& call = args.call;
    clear(sums);
    if (call.moment_count == 0) {
        for (uint32_t t = 0; t < call.term_count; ++t) add_term<kSigns>(call.run, args.term(t), eight, sums);
        return;
    }
    float first[kEightCount], second[kEightCount];
    clear(first);
    clear(second);
    uint32_t term = 0;
    for (uint32_t index = 0; index < call.moment_count; ++index) {
        const NoiseMomentWords moment = args.moment(index);
        clear(sums);
        for (uint32_t t = 0; t < moment.term_count; ++t) add_term<kSigns>(call.run, args.term(term++), eight, sums);
        add_to_moments(moment, sums, first, second);
    }
    divide_moments(call.epsilon, first, second, sums);
}

template <bool kSigns, uint32_t kWords>
__global__ void __launch_bounds__(kThreads) noise_kernel(const __grid_constant__ NoiseArgs<kWords> args) {
    const NoiseCallArgs& call = args.call;
    const int64_t begin = call.run.element, end = begin + call.run.count;
    const int64_t step = static_cast<int64_t>(gridDim.x) * kThreads;
    for (int64_t i = begin / kEightCount + static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
         i * kEightCount < end; i += step) {
        const Eight eight = eight_at(i * kEightCount, begin, end);
        float x[kEightCount], sums[kEightCount];
        read_eight(call, eight, x);
        uint32_t moving = 0;
        if (call.has_step) {
            sum_step<kSigns>(args, eight, sums);
            moving = step_eight(call, eight, sums, x);
        }
        write_eight(call, eight, x);
        if (!call.has_probe) continue;
        clear(sums);
        add_term<kSigns>(call.run, call.probe, eight, sums);
        probe_eight(call, eight, x, sums, moving);
    }
}

template <bool kSigns>
void launch_each(const NoiseCallArgs& call, const uint32_t* list, uint32_t words, CudaStreamHandle stream) {
    constexpr int64_t kBlocksMax = 8192;
    const int64_t blocks = (call.run.count / kEightCount + kThreads) / kThreads + 1;
    with_list(call, list, words, [&]<uint32_t kWords>(const NoiseArgs<kWords>& args) {
        launch(stream, {.blocks = blocks < kBlocksMax ? blocks : kBlocksMax, .threads = kThreads},
               noise_kernel<kSigns, kWords>, args, "perturb weights");
    });
}

}  // namespace noise_kernels

void launch_noise(const NoiseCallArgs& call, const uint32_t* list, uint32_t list_words, CudaStreamHandle stream) {
    if (call.run.kind == NoiseKind::low_rank) return launch_low_rank(call, list, list_words, stream);
    if (call.run.kind == NoiseKind::rademacher) return noise_kernels::launch_each<true>(call, list, list_words, stream);
    noise_kernels::launch_each<false>(call, list, list_words, stream);
}

}  // namespace windlass
