// Directions of low rank: a block of threads takes a tile of the matrix, and draws the factors of one term after the
// other into shared memory (factors.cpp does so on the stack of a thread).
#include "perturb/low_rank_kernel_cuda.h"
#include "perturb/noise_element_cuda.h"

namespace windlass {
namespace low_rank_kernels {
namespace {  // as the type of Part's elements is

using namespace cuda_device;

constexpr uint64_t kGaussianKind = 0, kLeftKind = 2, kRightKind = 3;
constexpr int kWarps = 8, kThreads = kWarps * static_cast<int>(kWarp);
// A warp takes a row, its lanes eight elements each. Rows may begin anywhere between numbers that eight divides, so
// that a lane's eight are a column's less than all.
constexpr int kTileCols = (static_cast<int>(kWarp) - 1) * kEightCount;
// v has a margin of eight numbers on each side, which lanes read of columns that are not theirs, and a number after
// each eight, so that lanes read from different banks.
constexpr int kMargin = kEightCount, kRightRow = (kTileCols + 2 * kMargin) / kEightCount * (kEightCount + 1);
static_assert((kTileCols + 2 * kMargin) % kEightCount == 0);
constexpr int64_t kSharedMax = int64_t{99} << 10;  // bytes that a block may have on every architecture

__device__ int place_of(int col) {
    return col + kMargin + (col + kMargin) / kEightCount;
}

// The tile's part of the matrix, and where its factors are.
struct Tile {
    int64_t row, col;
    int rows, cols;
    int64_t base;   // the model's number of the matrix's first element
    float* scales;  // [rank]
    float* left;    // [rank, rows of a tile]: c u
    float* right;   // [rank, kRightRow]: v
};

__device__ GaussianFour factor_four(const NoiseRun& run, uint64_t kind, int64_t block, uint32_t step,
                                    uint32_t direction) {
    GaussianFour four = gaussian_four(run.seed, noise_block(kind, block), step, direction);
    WINDLASS_UNROLL
    for (int e = 0; e < 4; ++e) four.z[e] = 0.0f + four.z[e];  // as a direction is a sum from +0
    return four;
}

// Calls body(k, i, block, e): number i of rank k, of `count`, is number e of the block's four. The ranks' first numbers
// are `apart` apart, that of rank 0 is `first`.
template <typename Body>
__device__ void for_fours(int64_t rank, int64_t first, int64_t apart, int count, Body body) {
    const int each = count / 4 + 2;
    for (int64_t at = threadIdx.x; at < rank * each; at += kThreads) {
        const int64_t k = at / each, begin = first + k * apart, block = begin / 4 + at % each;
        body(k, block, block * 4 - begin);
    }
}

// The numbers that scale u's ranks, of a term whose u is kept.
template <typename Args>
__device__ void draw_scales(const Args& args, const NoiseTermWords& term, const Tile& tile) {
    for (int k = static_cast<int>(threadIdx.x); k < args.call.run.rank; k += kThreads) {
        if (term.scales != kScalesDrawn) {
            tile.scales[k] = __uint_as_float(args.list[term.scales + static_cast<uint32_t>(k)]);
        } else {
            const int64_t element = tile.base + k;
            tile.scales[k] = one_of(factor_four(args.call.run, kGaussianKind, element / 4, term.step, term.direction).z,
                                    element % 4);
        }
    }
}

// The factors of a term; of terms of one direction and one v, from `index` on, u is the sum of theirs, each times its
// coefficient. `at_once`: how many they are; 0: `term` itself.
template <int kRows, typename Args>
__device__ void draw_left(const Args& args, const NoiseTermWords& term, uint32_t index, uint32_t at_once,
                          const Tile& tile) {
    const NoiseRun& run = args.call.run;
    const uint32_t step = run.keeps_left ? term.kept_step : term.step;
    for_fours(run.rank, tile.base + tile.row, run.rows, tile.rows, [&](int64_t k, int64_t block, int64_t i) {
        float u[4] = {};
        if (at_once == 0) {
            const GaussianFour drawn = factor_four(run, kLeftKind, block, step, term.direction);
            WINDLASS_UNROLL
            for (int e = 0; e < 4; ++e)
                u[e] = term.coefficient * (run.keeps_left ? tile.scales[k] * drawn.z[e] : drawn.z[e]);
        }
        for (uint32_t t = 0; t < at_once; ++t) {
            const NoiseTermWords added = args.term(index + t);
            const GaussianFour drawn = factor_four(run, kLeftKind, block, added.step, added.direction);
            WINDLASS_UNROLL
            for (int e = 0; e < 4; ++e) u[e] += added.coefficient * drawn.z[e];
        }
        WINDLASS_UNROLL
        for (int e = 0; e < 4; ++e)
            if (i + e >= 0 && i + e < tile.rows) tile.left[k * kRows + i + e] = u[e];
    });
}

__device__ void draw_right(const NoiseRun& run, const NoiseTermWords& term, const Tile& tile) {
    for_fours(run.rank, tile.base + tile.col, run.cols, tile.cols, [&](int64_t k, int64_t block, int64_t i) {
        const GaussianFour drawn = factor_four(run, kRightKind, block, term.kept_step, term.direction);
        WINDLASS_UNROLL
        for (int e = 0; e < 4; ++e)
            if (i + e >= 0 && i + e < tile.cols)
                tile.right[k * kRightRow + place_of(static_cast<int>(i) + e)] = drawn.z[e];
    });
}

// What a thread works on: in each row of its warp the lane's eight.
template <int kEach>
struct Part {
    Eight eights[kEach];
    int cols[kEach];  // of the first of the eight, from the tile's first column; may be below 0
};

template <int kEach>
__device__ Part<kEach> part_of(const NoiseRun& run, const Tile& tile) {
    Part<kEach> part;
    const int lane = static_cast<int>(threadIdx.x % kWarp), warp = static_cast<int>(threadIdx.x / kWarp);
    WINDLASS_UNROLL
    for (int j = 0; j < kEach; ++j) {
        const int row = warp + kWarps * j;
        const int64_t begin = tile.base + (tile.row + row) * run.cols + tile.col, end = begin + tile.cols;
        const int64_t element = begin / kEightCount * kEightCount + lane * kEightCount;
        const int64_t from = begin > run.element ? begin : run.element;
        const int64_t to = end < run.element + run.count ? end : run.element + run.count;
        part.eights[j] = eight_at(element, from, row < tile.rows && to > from ? to : from);
        part.cols[j] = static_cast<int>(element - begin);
    }
    return part;
}

// Rank by rank. What lies next to the tile is of no account.
template <int kEach>
__device__ void add_product(const NoiseRun& run, const Tile& tile, const Part<kEach>& part,
                            float (&sums)[kEach][kEightCount]) {
    const int warp = static_cast<int>(threadIdx.x / kWarp);
    for (int k = 0; k < run.rank; ++k) {
        const float* const right = tile.right + k * kRightRow;
        WINDLASS_UNROLL
        for (int j = 0; j < kEach; ++j) {
            const float c = tile.left[k * kEach * kWarps + warp + kWarps * j];
            WINDLASS_UNROLL
            for (int e = 0; e < kEightCount; ++e) {
                const int col = part.cols[j] + e;
                sums[j][e] += c * right[place_of(col < tile.cols ? col : tile.cols)];
            }
        }
    }
}

// Adds the product of the factors of `at_once` terms from `index` on, or of `term`.
template <int kEach, typename Args>
__device__ void add_term(const Args& args, const NoiseTermWords& term, uint32_t index, uint32_t at_once,
                         const Tile& tile, const Part<kEach>& part, float (&sums)[kEach][kEightCount]) {
    __syncthreads();  // all threads have read the factors of the term before
    if (args.call.run.keeps_left) {
        draw_scales(args, term, tile);
        __syncthreads();
    }
    draw_left<kEach * kWarps>(args, term, index, at_once, tile);
    draw_right(args.call.run, term, tile);
    __syncthreads();
    add_product<kEach>(args.call.run, tile, part, sums);
}

template <int kEach>
__device__ void clear_all(float (&sums)[kEach][kEightCount]) {
    WINDLASS_UNROLL
    for (int j = 0; j < kEach; ++j) clear(sums[j]);
}

template <int kEach, typename Args>
__device__ void sum_terms(const Args& args, const Tile& tile, const Part<kEach>& part,
                          float (&sums)[kEach][kEightCount]) {
    clear_all<kEach>(sums);
    for (uint32_t t = 0; t < args.call.term_count;) {
        const NoiseTermWords term = args.term(t);
        uint32_t count = 1;
        while (args.call.adds_left && t + count < args.call.term_count) {
            const NoiseTermWords next = args.term(t + count);
            if (next.direction != term.direction || next.kept_step != term.kept_step) break;
            ++count;
        }
        add_term<kEach>(args, term, t, args.call.adds_left ? count : 0, tile, part, sums);
        t += count;
    }
}

template <int kEach, typename Args>
__device__ void sum_moments(const Args& args, const Tile& tile, const Part<kEach>& part,
                            float (&sums)[kEach][kEightCount]) {
    float first[kEach][kEightCount], second[kEach][kEightCount];
    clear_all<kEach>(first);
    clear_all<kEach>(second);
    uint32_t term = 0;
    for (uint32_t index = 0; index < args.call.moment_count; ++index) {
        const NoiseMomentWords moment = args.moment(index);
        clear_all<kEach>(sums);
        for (uint32_t t = 0; t < moment.term_count; ++t)
            add_term<kEach>(args, args.term(term++), 0, 0, tile, part, sums);
        WINDLASS_UNROLL
        for (int j = 0; j < kEach; ++j) add_to_moments(moment, sums[j], first[j], second[j]);
    }
    WINDLASS_UNROLL
    for (int j = 0; j < kEach; ++j) divide_moments(args.call.epsilon, first[j], second[j], sums[j]);
}

template <int kRows>
__device__ Tile tile_of(const NoiseCallArgs& call) {
    const NoiseRun& run = call.run;
    const int64_t across = (run.cols + kTileCols - 1) / kTileCols;
    const int64_t row = call.first_row + blockIdx.x / across * kRows, col = blockIdx.x % across * kTileCols;
    const int64_t rows = run.rows - row, cols = run.cols - col;
    float* const room = shared_memory<float>();
    return {.row = row,
            .col = col,
            .rows = static_cast<int>(rows < kRows ? rows : kRows),
            .cols = static_cast<int>(cols < kTileCols ? cols : kTileCols),
            .base = run.element - run.first,
            .scales = room,
            .left = room + run.rank,
            .right = room + run.rank * (1 + kRows)};
}

// kEach rows a warp: with moments fewer, since each element has two more sums.
template <int kEach, bool kMoments, uint32_t kWords>
__global__ void __launch_bounds__(kThreads, 1) low_rank_kernel(const __grid_constant__ NoiseArgs<kWords> args) {
    const NoiseCallArgs& call = args.call;
    const Tile tile = tile_of<kEach * kWarps>(call);
    const Part<kEach> part = part_of<kEach>(call.run, tile);
    float x[kEach][kEightCount], sums[kEach][kEightCount];
    uint32_t moving[kEach] = {};
    if (call.has_step) {
        if (kMoments)
            sum_moments<kEach>(args, tile, part, sums);
        else
            sum_terms<kEach>(args, tile, part, sums);
    }
    WINDLASS_UNROLL
    for (int j = 0; j < kEach; ++j) {
        read_eight(call, part.eights[j], x[j]);
        if (call.has_step) moving[j] = step_eight(call, part.eights[j], sums[j], x[j]);
        write_eight(call, part.eights[j], x[j]);
    }
    if (!call.has_probe) return;
    clear_all<kEach>(sums);
    add_term<kEach>(args, call.probe, 0, 0, tile, part, sums);
    WINDLASS_UNROLL
    for (int j = 0; j < kEach; ++j) probe_eight(call, part.eights[j], x[j], sums[j], moving[j]);
}

template <int kEach, bool kMoments>
void launch_tiles(const NoiseCallArgs& call, const uint32_t* list, uint32_t words, CudaStreamHandle stream) {
    constexpr int kRows = kEach * kWarps;
    const NoiseRun& run = call.run;
    const int64_t last_row = (run.first + run.count - 1) / run.cols;
    const int64_t blocks = ((last_row - call.first_row) / kRows + 1) * ((run.cols + kTileCols - 1) / kTileCols);
    constexpr int64_t kOfRank = (1 + kRows + kRightRow) * static_cast<int64_t>(sizeof(float));
    static_assert(kLowRankMax * kOfRank <= kSharedMax);
    const int64_t shared = run.rank * kOfRank;
    with_list(call, list, words, [&]<uint32_t kWords>(const NoiseArgs<kWords>& args) {
        launch(stream, {.blocks = blocks, .threads = kThreads, .shared_bytes = static_cast<unsigned>(shared)},
               low_rank_kernel<kEach, kMoments, kWords>, args, "perturb weights along factors");
    });
}

// A thread an element of the left factor, then of the right one.
__global__ void factor_kernel(FactorArgs args) {
    const NoiseRun& run = args.run;
    const int64_t base = run.element - run.first, left = run.rank * run.rows, all = left + run.rank * run.cols;
    const int64_t step = static_cast<int64_t>(gridDim.x) * kThreads;
    const NoiseTermWords& term = args.term;
    for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < all; i += step) {
        const bool is_left = i < left;
        const int64_t element = base + (is_left ? i : i - left);
        float u = one_of(factor_four(run, is_left ? kLeftKind : kRightKind, element / 4,
                                     is_left && !run.keeps_left ? term.step : term.kept_step, term.direction)
                             .z,
                         element % 4);
        if (!is_left) {
            args.right[i - left] = u;
            continue;
        }
        if (run.keeps_left) {
            const int64_t scale = base + i / run.rows;
            u = one_of(factor_four(run, kGaussianKind, scale / 4, term.step, term.direction).z, scale % 4) * u;
        }
        args.left[i] = term.coefficient * u;
    }
}

}  // namespace
}  // namespace low_rank_kernels

void launch_low_rank(const NoiseCallArgs& call, const uint32_t* list, uint32_t list_words, CudaStreamHandle stream) {
    if (call.moment_count > 0) return low_rank_kernels::launch_tiles<2, true>(call, list, list_words, stream);
    low_rank_kernels::launch_tiles<4, false>(call, list, list_words, stream);
}

void launch_factors(const FactorArgs& args, CudaStreamHandle stream) {
    constexpr int64_t kBlocksMax = 4096;
    const int64_t blocks =
        (args.run.rank * (args.run.rows + args.run.cols) + low_rank_kernels::kThreads - 1) / low_rank_kernels::kThreads;
    launch(stream, {.blocks = blocks < kBlocksMax ? blocks : kBlocksMax, .threads = low_rank_kernels::kThreads},
           low_rank_kernels::factor_kernel, args, "factors of directions");
}

}  // namespace windlass
