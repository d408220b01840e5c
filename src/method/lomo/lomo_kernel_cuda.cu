// The arithmetic of lomo_isa.cpp, adalomo_isa.cpp and adalomo.cpp, operation by operation: only + - * / sqrt, each
// rounded once, and integers. So the bits are the CPU's.
#include "method/lomo/lomo_kernel_cuda.h"

#include "device/cuda/philox.h"
#include "perturb/stored_cuda.h"

namespace windlass {
namespace lomo_kernels {

constexpr int64_t kHalf = kLomoBlock / 2;
constexpr unsigned kThreads = 256;
constexpr int64_t kRowsOfBlock = kThreads / kWarp;
static_assert(kLomoLanes == kWarp);

// Weights as they are kept (lomo_vector.h).
__device__ float read_kept(const LomoWeights& weights, int64_t i) {
    if (weights.lo == nullptr) return cuda_device::stored_numbers(weights.type, 1.0f).read(weights.kept, i);
    return __uint_as_float(join_master({static_cast<const uint16_t*>(weights.kept)[i], weights.lo[i]}));
}
__device__ void write_kept(const LomoWeights& weights, int64_t i, float x, uint32_t random16) {
    if (weights.lo == nullptr) {
        const cuda_device::StoredNumbers numbers = cuda_device::stored_numbers(weights.type, 1.0f);
        return numbers.write(numbers.random(x, random16), weights.kept, i);
    }
    const Split halves = split_master(__float_as_uint(x));
    static_cast<uint16_t*>(weights.kept)[i] = halves.hi;
    weights.lo[i] = halves.lo;
}

// What rounds elements t and t + kHalf of a block: the lower and the upper half of one word.
__device__ uint32_t rounding_word(const LomoNoise& noise, int64_t block, unsigned t) {
    const PhiloxWords found = philox_words(
        noise.seed, noise.block + static_cast<uint64_t>(block) * (kLomoBlock / 4) + t / 4, noise.stream, noise.step, 0);
    const unsigned word = t % 4;
    return word == 0 ? found.words[0] : word == 1 ? found.words[1] : word == 2 ? found.words[2] : found.words[3];
}

__device__ void lomo_element(const LomoArgs& args, int64_t i, uint32_t random16) {
    if (i >= args.count) return;
    const float next = read_kept(args.weights, i) * args.step.decay - args.gradient[i] * args.step.rate;
    write_kept(args.weights, i, next, random16);
}

// A block of threads a block of elements, two each.
__global__ void lomo_kernel(LomoArgs args) {
    const int64_t i = static_cast<int64_t>(blockIdx.x) * kLomoBlock + threadIdx.x;
    const uint32_t word = rounding_word(args.noise, blockIdx.x, threadIdx.x);
    lomo_element(args, i, word & 0xffffu);
    lomo_element(args, i + kHalf, word >> 16);
}

// Halves of a warp are added until one lane is left, in every lane.
__device__ double lanes_sum(double x) {
    for (unsigned apart = kWarp / 2; apart > 0; apart /= 2) x += __shfl_xor_sync(0xffffffffu, x, apart);
    return x;
}

// A warp a row.
__global__ void row_squares_kernel(AdalomoArgs args) {
    const int64_t row = static_cast<int64_t>(blockIdx.x) * kRowsOfBlock + threadIdx.x / kWarp;
    const float clip = static_cast<float>(args.clip);
    double sum = 0;
    for (int64_t col = threadIdx.x % kWarp; row < args.rows && col < args.cols; col += kWarp) {
        const double x = args.gradient[row * args.cols + col] * clip;
        sum += x * x;
    }
    sum = lanes_sum(sum);
    if (row < args.rows && threadIdx.x % kWarp == 0) args.row_sums[row] = sum;
}

// A thread a column of a band; bands along y.
__global__ void column_squares_kernel(AdalomoArgs args) {
    const int64_t col = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x, band = blockIdx.y;
    if (col >= args.cols) return;
    const int64_t begin = band * args.band_rows;
    const int64_t end = begin + args.band_rows < args.rows ? begin + args.band_rows : args.rows;
    const float clip = static_cast<float>(args.clip);
    double sum = 0;
    for (int64_t row = begin; row < end; ++row) {
        const double x = args.gradient[row * args.cols + col] * clip;
        sum += x * x;
    }
    args.column_sums[band * args.cols + col] = sum;
}

__device__ float next_moment(const AdalomoArgs& args, float moment, double mean) {
    return static_cast<float>(args.kept * moment + args.added * (mean + kAdalomoLeastSquare));
}

__global__ void column_gains_kernel(AdalomoArgs args) {
    const int64_t col = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (col >= args.cols) return;
    double sum = 0;
    for (int64_t band = 0; band < args.bands; ++band) sum += args.column_sums[band * args.cols + col];
    float* const moment = (args.is_matrix ? args.column_moments : args.row_moments) + col;
    *moment = next_moment(args, *moment, sum / static_cast<double>(args.rows));
    args.column_gains[col] = static_cast<float>(1.0 / sqrt(static_cast<double>(*moment)));
}

// One warp, for all rows.
__global__ void row_gains_kernel(AdalomoArgs args) {
    if (!args.is_matrix) {
        if (threadIdx.x == 0) args.row_gains[0] = static_cast<float>(args.clip);
        return;
    }
    double sum = 0;
    for (int64_t row = threadIdx.x; row < args.rows; row += kWarp) {
        const float moment =
            next_moment(args, args.row_moments[row], args.row_sums[row] / static_cast<double>(args.cols));
        args.row_moments[row] = moment;
        sum += static_cast<double>(moment);
    }
    const double mean = lanes_sum(sum) / static_cast<double>(args.rows);
    for (int64_t row = threadIdx.x; row < args.rows; row += kWarp)
        args.row_gains[row] = static_cast<float>(args.clip * sqrt(mean / static_cast<double>(args.row_moments[row])));
}

// A warp a row.
__global__ void norms_kernel(AdalomoArgs args) {
    const int64_t row = static_cast<int64_t>(blockIdx.x) * kRowsOfBlock + threadIdx.x / kWarp;
    double steps = 0, sizes = 0;
    for (int64_t col = threadIdx.x % kWarp; row < args.rows && col < args.cols; col += kWarp) {
        const int64_t i = row * args.cols + col;
        const double u = args.gradient[i] * args.row_gains[row] * args.column_gains[col];
        const double w = read_kept(args.weights, i);
        steps += u * u;
        sizes += w * w;
    }
    steps = lanes_sum(steps);
    sizes = lanes_sum(sizes);
    if (row >= args.rows || threadIdx.x % kWarp != 0) return;
    args.step_sums[row] = steps;
    args.weight_sums[row] = sizes;
}

// One warp: the length of the step and of the weights, and from them what steps are multiplied with.
__global__ void sizes_kernel(AdalomoArgs args) {
    double steps = 0, sizes = 0;
    for (int64_t row = threadIdx.x; row < args.rows; row += kWarp) {
        steps += args.step_sums[row];
        sizes += args.weight_sums[row];
    }
    const double elements = static_cast<double>(args.rows * args.cols);
    const double u = sqrt(lanes_sum(steps) / elements), w = sqrt(lanes_sum(sizes) / elements);
    const double rate = args.rate * (kAdalomoLeastSize < w ? w : kAdalomoLeastSize);
    const double size = rate / (kAdalomoLongestStep < u ? u : kAdalomoLongestStep);
    for (int64_t row = threadIdx.x; row < args.rows; row += kWarp)
        args.row_gains[row] = static_cast<float>(static_cast<double>(args.row_gains[row]) * size);
    if (threadIdx.x == 0) *args.decay_factor = static_cast<float>(1.0 - rate * args.decay);
}

__device__ void adalomo_element(const AdalomoArgs& args, int64_t i, uint32_t random16) {
    if (i >= args.rows * args.cols) return;
    const float u = args.gradient[i] * args.row_gains[i / args.cols] * args.column_gains[i % args.cols];
    write_kept(args.weights, i, read_kept(args.weights, i) * *args.decay_factor - u, random16);
}

__global__ void adalomo_kernel(AdalomoArgs args) {
    const int64_t i = static_cast<int64_t>(blockIdx.x) * kLomoBlock + threadIdx.x;
    const uint32_t word = rounding_word(args.noise, blockIdx.x, threadIdx.x);
    adalomo_element(args, i, word & 0xffffu);
    adalomo_element(args, i + kHalf, word >> 16);
}

unsigned blocks_of(int64_t count, int64_t each) {
    return static_cast<unsigned>((count + each - 1) / each);
}

}  // namespace lomo_kernels

void launch_lomo(const LomoArgs& args, CudaStreamHandle stream) {
    launch(stream, {.blocks = lomo_kernels::blocks_of(args.count, kLomoBlock), .threads = lomo_kernels::kHalf},
           lomo_kernels::lomo_kernel, args, "lomo");
}

void launch_adalomo(const AdalomoArgs& args, CudaStreamHandle stream) {
    const CudaGrid rows = {.blocks = lomo_kernels::blocks_of(args.rows, lomo_kernels::kRowsOfBlock),
                           .threads = lomo_kernels::kThreads};
    const CudaGrid warp = {.blocks = 1, .threads = kWarp};
    CudaGrid columns = {.blocks = lomo_kernels::blocks_of(args.cols, lomo_kernels::kThreads),
                        .threads = lomo_kernels::kThreads};
    launch(stream, rows, lomo_kernels::row_squares_kernel, args, "adalomo rows");
    columns.rows = args.bands;
    launch(stream, columns, lomo_kernels::column_squares_kernel, args, "adalomo columns");
    columns.rows = 1;
    launch(stream, columns, lomo_kernels::column_gains_kernel, args, "adalomo column gains");
    launch(stream, warp, lomo_kernels::row_gains_kernel, args, "adalomo row gains");
    launch(stream, rows, lomo_kernels::norms_kernel, args, "adalomo norms");
    launch(stream, warp, lomo_kernels::sizes_kernel, args, "adalomo sizes");
    launch(stream,
           {.blocks = lomo_kernels::blocks_of(args.rows * args.cols, kLomoBlock), .threads = lomo_kernels::kHalf},
           lomo_kernels::adalomo_kernel, args, "adalomo step");
}

}  // namespace windlass
