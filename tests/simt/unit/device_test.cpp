// What streams, events and memory of a CUDA device ask of its runtime, on devices that are the CPU.
#include <gmock/gmock.h>

#include <cstring>
#include <thread>

#include "base/error.h"
#include "device/cuda/cuda_stream.h"
#include "tests/simt/emulated.h"

namespace windlass {
namespace {

using testing::HasSubstr;

constexpr int64_t kPinnedPart = int64_t{1} << 20;
constexpr DeviceId kCard = {.kind = DeviceKind::cuda, .own_memory = true};

class CudaDeviceTest : public testing::Test {
  protected:
    ~CudaDeviceTest() override { simt::emulate({}); }
};

// [begin, begin + bytes) of memory of the host to that of a device, and back.
class Roundtrip {
  public:
    Roundtrip(Device& device, int64_t bytes)
        : host_(device.allocate(bytes, MemoryKind::host)),
          device_(device.allocate(bytes, MemoryKind::device)),
          stream_(device.make_stream(1)) {
        for (int64_t i = 0; i < bytes; ++i) host_->address()[i] = static_cast<std::byte>(i / 7);
    }
    void expect_whole(int64_t begin, int64_t bytes) {
        const std::vector<std::byte> wanted(host_->address() + begin, host_->address() + begin + bytes);
        std::byte* const at = host_->address() + begin;
        stream_->launch([&](const Launch& launch) { launch.stream().copy(device_->address(launch), at, bytes); });
        stream_->synchronize();
        std::memset(at, 0, static_cast<size_t>(bytes));
        stream_->launch([&](const Launch& launch) { launch.stream().copy(at, device_->address(launch), bytes); });
        stream_->synchronize();
        EXPECT_EQ(std::memcmp(at, wanted.data(), wanted.size()), 0) << bytes << " bytes from " << begin;
    }

  private:
    std::unique_ptr<Memory> host_, device_;
    std::unique_ptr<Stream> stream_;
};

TEST_F(CudaDeviceTest, CopiesAreCutWhereARegistrationEnds) {
    simt::emulate({.pinned_part_bytes = kPinnedPart});
    const std::unique_ptr<Device> device = make_device(kCard);
    Roundtrip trip(*device, 3 * kPinnedPart + 4096);
    simt::emulate({.pinned_part_bytes = kPinnedPart});
    trip.expect_whole(0, kPinnedPart);
    EXPECT_EQ(simt::copies_made(), 2) << "one each way";
    trip.expect_whole(kPinnedPart - 8, 16);
    EXPECT_EQ(simt::copies_made(), 2 + 4);
    trip.expect_whole(1, 3 * kPinnedPart + 4095);
    EXPECT_EQ(simt::copies_made(), 6 + 8);
}

// What the system refuses is not registered: slower, and no reason for a copy to fail.
TEST_F(CudaDeviceTest, CopiesAreCutWhereTheSystemPinsNoMore) {
    simt::emulate({.pinned_part_bytes = kPinnedPart, .pinned_bytes_max = 2 * kPinnedPart});
    const std::unique_ptr<Device> device = make_device(kCard);
    testing::internal::CaptureStderr();
    Roundtrip trip(*device, 4 * kPinnedPart);
    EXPECT_THAT(testing::internal::GetCapturedStderr(),
                HasSubstr("only 2.00 MiB of 4.00 MiB of host memory be pinned"));
    simt::emulate({.pinned_part_bytes = kPinnedPart});
    trip.expect_whole(2 * kPinnedPart, 2 * kPinnedPart);
    EXPECT_EQ(simt::copies_made(), 2) << "none of it is registered";
    trip.expect_whole(0, 4 * kPinnedPart);
    EXPECT_EQ(simt::copies_made(), 2 + 6);
}

TEST_F(CudaDeviceTest, MemoryOfTheHostIsPinnedByTheDeviceThatAskedForIt) {
    simt::emulate({.devices = 2});
    const std::unique_ptr<Device> device = make_device({DeviceKind::cuda, 1, true});
    std::thread([&] { Roundtrip(*device, 100).expect_whole(0, 100); }).join();
    EXPECT_TRUE(simt::is_used(1));
    EXPECT_FALSE(simt::is_used(0)) << "a context was made on a device that nobody chose";
}

TEST_F(CudaDeviceTest, IsRefusedWithoutKernelsWhenItIsOpened) {
    simt::emulate({.has_kernels = false});
    EXPECT_THROW(make_device(kCard), UserError);
    EXPECT_THROW(kernel_path(kCard), UserError);
    EXPECT_EQ(simt::calls(), 0) << "nothing was allocated";
}

int64_t aged = 0;  // by how much the clocks of this process and of its devices are ahead
int64_t aged_now() {
    return now_ns() + aged;
}
void age(double seconds) {
    aged += static_cast<int64_t>(1e9 * seconds);
    simt::emulate({.ahead_ns = aged});
}

class CudaTimes : public CudaDeviceTest {
  protected:
    CudaTimes() { age(0); }
    CudaRuntime& runtime_ = cuda_runtime();
    CudaStream stream_{runtime_, 0, aged_now};
    CudaEvent begin_{runtime_, 0}, end_{runtime_, 0};

    // Between two records, and what the device says of those two alone.
    void expect_precise(const std::string& when) {
        stream_.record(begin_);
        stream_.clear(&cleared_, 1);
        stream_.record(end_);
        begin_.wait();
        end_.wait();
        const double exact_ns = 1e9 * runtime_.seconds_between(begin_.handle(), end_.handle());
        EXPECT_GT(exact_ns, 0);
        // A float of up to some 2,000 ms twice, and the device's own.
        EXPECT_NEAR(static_cast<double>(end_.time_ns() - begin_.time_ns()), exact_ns, 300 + 1e-6 * exact_ns) << when;
    }

  private:
    char cleared_ = 1;
};

TEST_F(CudaTimes, StayPreciseAsAStreamAges) {
    expect_precise("at once");
    for (int hours = 1; hours <= 1024; hours *= 4) {
        age(3600.0 * hours);
        expect_precise(fmt::format("{} hours later", hours));
        expect_precise("and again");
    }
}

// The clock of the device gains, or loses, a thousandth: a second in a thousand. What is off is the drift of one base.
TEST_F(CudaTimes, FollowTheClockOfTheHost) {
    for (const double drift : {1e-3, -1e-3}) {
        for (int second = 0; second < 1000; ++second) {
            aged += 1'100'000'000;
            simt::emulate({.ahead_ns = aged + static_cast<int64_t>(drift * static_cast<double>(aged))});
            const int64_t before = aged_now();
            stream_.record(begin_);
            begin_.wait();
            constexpr int64_t kTolerance = 100'000'000;
            ASSERT_GT(begin_.time_ns(), before - kTolerance) << "second " << second;
            ASSERT_LT(begin_.time_ns(), aged_now() + kTolerance) << "second " << second;
        }
    }
}

TEST_F(CudaTimes, DoNotFallFromOneEventToTheNext) {
    int64_t latest = 0;
    for (int step = 0; step < 500; ++step) {
        aged += 300'000'000;
        simt::emulate({.ahead_ns = aged + aged / 1000});
        for (CudaEvent* const event : {&begin_, &end_}) {
            stream_.record(*event);
            event->wait();
            ASSERT_GE(event->time_ns(), latest) << "step " << step;
            latest = event->time_ns();
        }
    }
}

}  // namespace
}  // namespace windlass
