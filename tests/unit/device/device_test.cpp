#include "device/device.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <stdexcept>
#include <vector>

#include "base/error.h"
#include "device/cpu/cpu_stream.h"

namespace windlass {
namespace {

TEST(Device, StreamsKnowTheirDevice) {
    for (const DeviceKind kind : {DeviceKind::cpu, DeviceKind::fake}) {
        const std::unique_ptr<Stream> stream = make_stream(kind, 2);
        EXPECT_EQ(stream->device(), kind);
    }
    EXPECT_EQ(device_kind_name(DeviceKind::cpu), "cpu");
    EXPECT_EQ(device_kind_name(DeviceKind::fake), "fake");
}

TEST(Device, TodaysStreamsCompleteAtOnce) {
    for (const DeviceKind kind : {DeviceKind::cpu, DeviceKind::fake}) {
        const std::unique_ptr<Stream> stream = make_device({kind})->make_stream(2);
        EXPECT_FALSE(stream->runs_ahead());
        const std::unique_ptr<Event> before = stream->make_event(), behind = stream->make_event();
        stream->record(*before);
        int64_t during_ns = 0;
        stream->launch([&](const Launch& launch) {
            EXPECT_EQ(&launch.stream(), stream.get());
            during_ns = now_ns();
        });
        stream->record(*behind);
        stream->wait_for(*before);
        behind->wait();
        EXPECT_GT(before->time_ns(), 0);
        EXPECT_LE(before->time_ns(), during_ns);
        EXPECT_LE(during_ns, behind->time_ns());
        EXPECT_THROW(stream->launch([](const Launch&) { throw std::runtime_error("bad kernel"); }), std::runtime_error);
    }
}

TEST(Device, TheHostReachesMemoryByCopies) {
    const std::unique_ptr<Device> device = make_device({DeviceKind::cpu});
    for (const MemoryKind kind : {MemoryKind::device, MemoryKind::host}) {
        const std::unique_ptr<Memory> memory = device->allocate(5000, kind);
        EXPECT_EQ(memory->bytes(), 5000);
        const std::vector<std::byte> written(100, std::byte{7});
        std::vector<std::byte> read(102, std::byte{1});
        memory->write(4000, written);
        memory->read(3999, read);
        EXPECT_EQ(read.front(), std::byte{0});
        EXPECT_EQ(std::ranges::count(read, std::byte{7}), 100);
        EXPECT_EQ(read.back(), std::byte{0});
        device->make_stream(1)->launch(
            [&](const Launch& launch) { EXPECT_EQ(memory->address(launch)[4000], std::byte{7}); });
    }
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
    for (const std::string name : {"cpu", "cpu:emulate", "fake", "cuda", "cuda:3"})
        EXPECT_EQ(device_name(parse_device(name, "")), name);
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
    for (const std::string_view name :
         {"", "gpu", "cpu:", "cpu:emulated", "CPU", "cuda:", "cuda:-1", "cuda:0x", "cuda:99999999999"}) {
        try {
            parse_device(name, "run.yaml: device");
            FAIL() << name;
        } catch (const UserError& error) {
            EXPECT_EQ(error.code(), ExitCode::usage);
            EXPECT_EQ(error.what(), fmt::format("run.yaml: device: there is no device \"{}\". Try: one of cpu, "
                                                "cpu:emulate, fake, cuda, cuda:N",
                                                name));
        }
    }
}

}  // namespace
}  // namespace windlass
