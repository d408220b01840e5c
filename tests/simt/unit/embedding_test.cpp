// The gradient of a table takes work in proportion to the tokens, however often each id occurs.
#include <gtest/gtest.h>

#include <atomic>
#include <vector>

#include "device/cuda/cuda_stream.h"
#include "op/embedding_cuda.h"
#include "tests/simt/emulated.h"

namespace windlass {

void counted_embedding_backward(bool is_bf16, const EmbeddingArgs& args, CudaStreamHandle stream);

namespace {

std::atomic<int64_t> pieces{0};

constexpr int64_t kTableRows = 50'000, kTableCols = 3;

// Pieces of straight code that the kernels run for ids of so many tokens; the gradient is right.
int64_t work_of(const std::vector<int32_t>& ids) {
    simt::emulate({});
    const auto tokens = static_cast<int64_t>(ids.size());
    std::vector<float> grad_out(ids.size() * kTableCols), gradient(kTableRows * kTableCols), wanted(gradient.size());
    for (size_t i = 0; i < grad_out.size(); ++i) {
        grad_out[i] = static_cast<float>(i % 7) - 2;
        wanted[static_cast<size_t>(ids[i / kTableCols]) * kTableCols + i % kTableCols] += grad_out[i];
    }
    std::vector<int32_t> sorted(2 * ids.size());
    CudaStream stream(cuda_runtime(), 0);
    pieces = 0;
    counted_embedding_backward(/*is_bf16=*/false,
                               {.ids = ids.data(),
                                .tokens = tokens,
                                .cols = kTableCols,
                                .out = {grad_out.data(), kTableCols},
                                .gradient = gradient.data(),
                                .sorted = sorted.data(),
                                .rows = kTableRows},
                               stream.handle());
    stream.synchronize();
    EXPECT_EQ(gradient, wanted);
    return pieces;
}

template <typename Id>
void expect_linear(Id id) {
    const auto work = [&](int32_t tokens) {
        std::vector<int32_t> ids;
        for (int32_t token = 0; token < tokens; ++token) ids.push_back(id(token));
        return work_of(ids);
    };
    const int64_t some = work(4096), four_times = work(4 * 4096);
    EXPECT_GT(some, 4096) << "nothing was counted";
    EXPECT_LT(four_times, 5 * some);
}

TEST(EmbeddingBackward, IsLinearInTokens) {
    expect_linear([](int32_t token) { return token * 3 % 49'999; });  // each another
    expect_linear([](int32_t) { return 7; });                         // one, as of padding
    expect_linear([](int32_t token) { return token % 2 == 0 ? 0 : token; });
}

}  // namespace
}  // namespace windlass

extern "C" void __sanitizer_cov_trace_pc() {
    ++windlass::pieces;
}
