// What products ask of cuBLASLt: all of it is given back, also if a call fails.
#include <gmock/gmock.h>

#include <condition_variable>
#include <thread>

#include "base/error.h"
#include "device/cuda/cuda_stream.h"
#include "op/gemm_cuda.h"
#include "tests/simt/driver/driver_cuda.h"
#include "tests/simt/driver/library/library_cuda.h"

namespace windlass {
namespace {

// y [rows, 8] = x W^T, of numbers that nobody reads.
void multiply_on(int device, int64_t rows) {
    CudaStream stream(cuda_runtime(), device);
    static float numbers[1 << 12];
    gemm_cuda({.a = Tensor(DType::f32, {rows, 16}, numbers),
               .b = Tensor(DType::f32, {8, 16}, numbers),
               .c = Tensor(DType::f32, {rows, 8}, numbers + device),
               .transpose_b = true,
               .bias = Tensor(DType::f32, {8}, numbers)},
              {}, stream);
}

TEST(Products, LeaveNothingBehindWhicheverCallFails) {
    driver::set_driver({});
    products::control({});
    multiply_on(0, 1);
    const int calls = products::calls(), kept = products::live();
    EXPECT_EQ(kept, 4) << "a descriptor and three layouts";
    products::control({});
    multiply_on(0, 1);
    EXPECT_EQ(products::live(), kept) << "of the shape that it knows";
    EXPECT_LT(products::calls(), calls);
    for (int nth = 1; nth < calls; ++nth) {
        products::control({.failing_call = nth});
        EXPECT_THROW(multiply_on(0, 2), DeviceError) << "call " << nth;
        // The last two are of a product that was made: its attribute for this call, and itself.
        if (products::live() == 2 * kept) {
            EXPECT_GE(nth, calls - 2);
            break;
        }
        EXPECT_EQ(products::live(), kept) << "call " << nth;
    }
    products::control({});
    EXPECT_NO_THROW(multiply_on(0, 2));
    EXPECT_EQ(products::live(), 2 * kept);
}

TEST(Products, AreRefusedIfTheHeuristicsChoiceCannotRun) {
    driver::set_driver({});
    products::control({.verdict = CUBLAS_STATUS_NOT_SUPPORTED});
    const int kept = products::live();
    EXPECT_THROW(multiply_on(0, 3), DeviceError);
    EXPECT_EQ(products::multiplied(), 0);
    EXPECT_EQ(products::live(), kept);
    products::control({});
    EXPECT_NO_THROW(multiply_on(0, 3)) << "nothing was kept of the refusal";
}

std::mutex meeting;
std::condition_variable met;
int at_once = 0;
bool both_came = false;

// Returns when two products are here, or after as long as no machine needs.
void meet(void*) {
    std::unique_lock lock(meeting);
    if (++at_once == 2) both_came = true;
    met.notify_all();
    met.wait_for(lock, std::chrono::seconds(30), [] { return both_came; });
    --at_once;
}

TEST(Products, OfTwoDevicesDoNotWaitForEachOther) {
    driver::set_driver({});
    products::control({.during_matmul = meet});
    std::thread other([] { multiply_on(1, 4); });
    multiply_on(0, 4);
    other.join();
    EXPECT_TRUE(both_came);
    products::control({});
}

// Handles are given back on their device: a thread that has chosen none would make a context on device 0.
TEST(Products, AreGivenBackWhenTheProcessEnds) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    EXPECT_EXIT(
        {
            driver::set_driver({});
            products::control({.during_destroy = [] {
                const auto used = driver::driver().contexts;
                std::fprintf(stderr, "of device %d%s", *used.begin(), used.size() == 1 ? "." : ", and another");
            }});
            std::thread([] { multiply_on(1, 5); }).join();
            driver::set_driver({});
            std::exit(0);
        },
        testing::ExitedWithCode(0), "of device 1\\.");
}

}  // namespace
}  // namespace windlass
