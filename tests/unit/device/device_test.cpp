#include "device/device.h"

#include <gtest/gtest.h>

#include "base/error.h"
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

TEST(Device, NamesAreReadAsTheyAreWritten) {
    for (const std::string name : {"cpu", "cpu:emulate", "fake"}) EXPECT_EQ(device_name(parse_device(name, "")), name);
    EXPECT_EQ(device_name({.kind = DeviceKind::cpu, .index = 2}), "cpu:2");
}

TEST(Device, TheEmulatedOneIsACpuWithMemoryOfItsOwn) {
    const DeviceId cpu = parse_device("cpu", ""), emulated = parse_device("cpu:emulate", "");
    EXPECT_EQ(emulated.kind, DeviceKind::cpu);
    EXPECT_FALSE(cpu.own_memory);
    EXPECT_TRUE(emulated.own_memory);
    EXPECT_NE(cpu, emulated);
    EXPECT_TRUE(parse_device("fake", "").own_memory);
}

TEST(Device, AnUnknownNameIsAnsweredWithTheChoices) {
    for (const std::string_view name : {"", "gpu", "cpu:", "cpu:emulated", "CPU", "cuda:0"}) {
        try {
            parse_device(name, "run.yaml: device");
            FAIL() << name;
        } catch (const UserError& error) {
            EXPECT_EQ(error.code(), ExitCode::usage);
            EXPECT_EQ(error.what(), fmt::format("run.yaml: device: there is no device \"{}\". Try: one of cpu, "
                                                "cpu:emulate, fake",
                                                name));
        }
    }
}

}  // namespace
}  // namespace windlass
