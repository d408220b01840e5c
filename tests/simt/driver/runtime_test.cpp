// What the door to NVIDIA's runtime asks of it.
#include <gmock/gmock.h>

#include <thread>

#include "base/error.h"
#include "device/cuda/cuda_stream.h"
#include "tests/simt/driver/driver_cuda.h"

namespace windlass {
namespace {

using driver::Attribute;
using driver::Driver;
using driver::driver;
using driver::set_driver;
using testing::ElementsAre;
using testing::HasSubstr;

// Devices that calls of a thread use which has chosen none.
template <typename Calls>
std::set<int> used_by(Calls calls) {
    set_driver({});
    std::thread(calls).join();
    return driver().contexts;
}

TEST(NvidiaRuntime, PinsAndAllocatesByTheDeviceItIsGiven) {
    CudaRuntime& runtime = cuda_runtime();
    std::byte page[64];
    EXPECT_THAT(used_by([&] {
                    EXPECT_TRUE(runtime.pin(1, page));
                    runtime.unpin(page);
                }),
                ElementsAre(1));
    EXPECT_THAT(used_by([&] { runtime.release_shared(runtime.allocate_shared(1, 8)); }), ElementsAre(1));
    EXPECT_THAT(used_by([&] { runtime.release(1, runtime.allocate(1, 8)); }), ElementsAre(1));
    EXPECT_THAT(used_by([&] { make_cuda_device(1)->allocate(100, MemoryKind::host); }), ElementsAre(1));
}

TEST(NvidiaRuntime, RefusesACardWithoutKernelsWhenItIsOpened) {
    // What runtimes say of a card for which a program has nothing.
    for (const cudaError_t code : {cudaErrorNoKernelImageForDevice, cudaErrorInvalidDeviceFunction}) {
        set_driver({.of_kernel = code});
        try {
            make_cuda_device(0);
            ADD_FAILURE() << "it was opened";
        } catch (const UserError& error) {
            EXPECT_EQ(error.code(), ExitCode::gpu);
            EXPECT_THAT(error.what(), HasSubstr("cuda:0 is of compute capability 7.5, and this windlass has kernels"));
        }
        EXPECT_EQ(driver().allocations, 0);
    }
    set_driver({.of_kernel = cudaErrorECCUncorrectable});
    EXPECT_THROW(make_cuda_device(0), DeviceError) << "for another reason";
    set_driver({});
    EXPECT_NO_THROW(make_cuda_device(0));
}

// Streams launch one kernel with different sizes at once: each must find enough.
TEST(NvidiaRuntime, AsksOnceForSharedMemoryAndNeverForLess) {
    set_driver({});
    CudaRuntime& runtime = cuda_runtime();
    const int kernels[2] = {};
    const auto launch = [&](int device, const int& kernel, unsigned kib) {
        const CudaStream stream(runtime, device);
        CudaKernelCall call{.name = "a kernel", .kernel = &kernel};
        call.grid.shared_bytes = kib << 10;
        launch_kernel(stream.handle(), call);
    };
    for (const unsigned kib : {48u, 60u, 50u, 60u, 99u}) launch(0, kernels[0], kib);
    launch(1, kernels[0], 50);
    launch(0, kernels[1], 50);
    EXPECT_EQ(driver().launches, 7);
    EXPECT_THAT(driver().shared_bytes,
                ElementsAre(Attribute{0, &kernels[0], 60 << 10}, Attribute{0, &kernels[0], 99 << 10},
                            Attribute{1, &kernels[0], 50 << 10}, Attribute{0, &kernels[1], 50 << 10}));
}

}  // namespace
}  // namespace windlass
