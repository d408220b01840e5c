#include "device/device.h"

#include <gtest/gtest.h>

#include "device/cpu/cpu_stream.h"

namespace windlass {
namespace {

TEST(Device, StreamsKnowTheirDevice) {
    for (const DeviceKind kind : {DeviceKind::cpu, DeviceKind::fake}) {
        const std::unique_ptr<Stream> stream = make_stream(kind, 2);
        EXPECT_EQ(stream->device(), kind);
        stream->synchronize();
    }
    EXPECT_EQ(device_kind_name(DeviceKind::cpu), "cpu");
    EXPECT_EQ(device_kind_name(DeviceKind::fake), "fake");
}

TEST(Device, TheCpusStreamHasATeam) {
    const std::unique_ptr<Stream> stream = make_stream(DeviceKind::cpu, 2);
    EXPECT_EQ(cpu_team(*stream).size(), 2);
}

TEST(DeviceDeathTest, OtherStreamsHaveNone) {
    const std::unique_ptr<Stream> stream = make_stream(DeviceKind::fake, 2);
    EXPECT_DEATH(cpu_team(*stream), "launched on another device");
}

TEST(Device, IdsAreOrdered) {
    EXPECT_LT((DeviceId{DeviceKind::cpu, 0}), (DeviceId{DeviceKind::cpu, 1}));
    EXPECT_EQ((DeviceId{DeviceKind::fake, 2}), (DeviceId{DeviceKind::fake, 2}));
}

}  // namespace
}  // namespace windlass
