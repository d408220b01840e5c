#include "device/cuda/kernel.h"
#include "op/preference_cuda.h"
#include "op/preference_loss.h"

namespace windlass {
namespace preference_kernels {

constexpr unsigned kThreads = 128;

// The sum of the block's numbers, by rising thread, in every thread.
__device__ double ordered_sum(double x, double* room) {
    room[threadIdx.x] = x;
    __syncthreads();
    double sum = 0;
    for (unsigned i = 0; i < blockDim.x; ++i) sum += room[i];
    __syncthreads();
    return sum;
}

__device__ double row_sum(const float* values, int64_t stride, int64_t first, int64_t count, double* room) {
    double sum = 0;
    for (int64_t i = threadIdx.x; i < count; i += blockDim.x) sum += values[(first + i) * stride];
    return ordered_sum(sum, room);
}

// Where the answer of a row begins.
__device__ int64_t answer_of(const PreferenceArgs& args, int64_t row) {
    return args.answers[row - 2 * args.first_pair];
}

// Of tokens [begin, end) of a row those that have a target.
__device__ int64_t count_targets(const PreferenceArgs& args, int64_t first, int64_t begin, int64_t end, double* room) {
    double targets = 0;
    for (int64_t i = begin + threadIdx.x; i < end; i += blockDim.x)
        targets += args.targets[first + i] != args.ignored ? 1 : 0;
    return static_cast<int64_t>(ordered_sum(targets, room));
}

__device__ PairRow row_of(const PreferenceArgs& args, int64_t row, double* room) {
    PairRow made;
    const int64_t first = row * args.sequence_length, answer = answer_of(args, row);
    made.loss = row_sum(args.in, args.in_stride, first + answer, args.sequence_length - answer, room);
    made.tokens = count_targets(args, first, answer, args.sequence_length, room);
    if (answer > 0) {
        made.prompt_loss = row_sum(args.in, args.in_stride, first, answer, room);
        made.prompt_tokens = count_targets(args, first, 0, answer, room);
    }
    made.reference = args.references[row - 2 * args.first_pair];
    return made;
}

__device__ void write_gradients(const PreferenceArgs& args, int64_t row, const PairLoss& loss) {
    const int64_t first = row * args.sequence_length, chosen = answer_of(args, row);
    const int64_t rejected = args.sequence_length + answer_of(args, row + 1);
    for (int64_t i = threadIdx.x; i < 2 * args.sequence_length; i += blockDim.x) {
        const double by_row = i < chosen                 ? loss.by_prompt
                              : i < args.sequence_length ? loss.by_chosen
                              : i < rejected             ? 0
                                                         : loss.by_rejected;
        const auto value = static_cast<float>(args.loss_scale * by_row);
        float* const to = args.grad + (first + i) * args.grad_stride;
        *to = args.adds ? *to + value : value;
    }
}

__device__ void write_numbers(const PreferenceArgs& args, int64_t first, double loss, double chosen_reward,
                              double rejected_reward) {
    for (int64_t i = threadIdx.x; i < 2 * args.sequence_length; i += blockDim.x)
        args.out[(first + i) * args.out_stride] =
            pair_number(i, args.sequence_length, loss, chosen_reward, rejected_reward);
}

__global__ void pair_kernel(PreferenceArgs args) {
    double* const room = shared_memory<double>();
    const int64_t row = 2 * (args.first_pair + blockIdx.x), first = row * args.sequence_length;
    const PairRow chosen = row_of(args, row, room), rejected = row_of(args, row + 1, room);
    const PairLoss loss = pair_loss(args.is_orpo, chosen, rejected, args.beta);
    if (args.tangent_in != nullptr) {
        for (int j = 0; j < args.k; ++j) {
            const int64_t begin = j * args.tokens + first, answer = answer_of(args, row);
            const int64_t other = answer_of(args, row + 1);
            const double chosen =
                row_sum(args.tangent_in, args.tangent_stride, begin + answer, args.sequence_length - answer, room);
            const double rejected = row_sum(args.tangent_in, args.tangent_stride, begin + args.sequence_length + other,
                                            args.sequence_length - other, room);
            const double prompt = answer > 0 ? row_sum(args.tangent_in, args.tangent_stride, begin, answer, room) : 0;
            write_numbers(args, begin, loss.by_chosen * chosen + loss.by_rejected * rejected + loss.by_prompt * prompt,
                          loss.reward_by_chosen * chosen, loss.reward_by_rejected * rejected);
        }
        return;
    }
    if (args.out != nullptr) write_numbers(args, first, loss.loss, loss.chosen_reward, loss.rejected_reward);
    if (args.grad != nullptr) write_gradients(args, row, loss);
}

__global__ void copy_kernel(PreferenceArgs args) {
    const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < args.tokens) args.out[i * args.out_stride] = args.in[i * args.in_stride];
}

}  // namespace preference_kernels

void launch_preference(const PreferenceArgs& args, int64_t pairs, CudaStreamHandle stream) {
    const CudaGrid grid{.blocks = pairs,
                        .threads = preference_kernels::kThreads,
                        .shared_bytes = preference_kernels::kThreads * static_cast<unsigned>(sizeof(double))};
    launch(stream, grid, preference_kernels::pair_kernel, args, "preference");
}

void launch_token_losses(const PreferenceArgs& args, CudaStreamHandle stream) {
    const int64_t blocks =
        static_cast<unsigned>((args.tokens + preference_kernels::kThreads - 1) / preference_kernels::kThreads);
    launch(stream, {.blocks = blocks, .threads = preference_kernels::kThreads}, preference_kernels::copy_kernel, args,
           "token losses");
}

}  // namespace windlass
