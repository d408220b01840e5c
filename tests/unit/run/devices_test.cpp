// Lanes and tiers are found by the index of their device: two emulated devices hold, and are sent, bytes of their own.
#include "run/devices.h"

#include <gmock/gmock.h>

#include "base/index.h"
#include "run/arenas.h"
#include "run/lane_streams.h"
#include "run/movers.h"

namespace windlass {
namespace {

constexpr int64_t kBytes = 4096;
constexpr int kFirst = 2, kSecond = 5;  // a machine's devices that a run was given

// What a run on one device has, for both.
struct Pair {
    Pair() {
        for (const int device : {kFirst, kSecond}) {
            made.push_back(make_device({.kind = DeviceKind::cpu, .index = device, .own_memory = true}));
            const std::vector<LaneId> own = lanes_beside(device);
            lanes.insert(lanes.end(), own.begin(), own.begin() + 4);  // compute, host, up, down
            set.tiers.insert(set.tiers.begin(), tier_beside(TierKind::device, device));
        }
        std::erase(set.tiers, tier_beside(TierKind::device, 0));
        lanes.erase(lanes.begin() + 5);  // the host is one
        set.own_memory = true;
        set.arena_bytes.assign(set.tiers.size(), kBytes);
        Schedule schedule{.name = "by hand", .lanes = lanes};
        for (int lane = 0; lane < std::ssize(lanes); ++lane) schedule.tasks.push_back({.lane = lane});
        set.schedules.push_back(std::move(schedule));
    }
    Devices devices() const { return Devices({{kFirst, made[0].get()}, {kSecond, made[1].get()}}); }
    BufferSpec buffer(TierId tier) const { return {.bytes = kBytes, .tier = find_tier(set.tiers, tier), .offset = 0}; }

    std::vector<std::unique_ptr<Device>> made;
    std::vector<LaneId> lanes;
    ScheduleSet set;
};

TEST(Devices, OfARunHaveArenasStreamsAndLinksOfTheirOwn) {
    const Pair pair;
    const Devices devices = pair.devices();
    const Arenas arenas(pair.set, devices);
    const LaneStreams streams(pair.set, devices, 1, 1);
    Movers movers(real_files(), {}, false, pair.lanes);
    const BufferSpec host = pair.buffer(TierKind::host);
    for (const int device : {kFirst, kSecond}) {
        const std::vector<std::byte> written(at(kBytes), std::byte(device));
        arenas.write(host, 0, written);
        const int up = find_lane(pair.lanes, lane_beside(LaneKind::up, device));
        const Lease from = arenas.lease(host, false), to = arenas.lease(pair.buffer({TierKind::device, device}), true);
        Stream& stream = *streams.stream(up);
        stream.launch([&](const Launch& launch) {
            movers.copies(up).transfer(
                std::array{CopyRange{{from.data(launch), at(kBytes)}, {to.data(launch), at(kBytes)}}}, stream);
        });
        stream.synchronize();
    }
    for (const int device : {kFirst, kSecond}) {
        std::vector<std::byte> found(at(kBytes));
        arenas.read(pair.buffer({TierKind::device, device}), 0, std::span(found));
        EXPECT_THAT(found, testing::Each(std::byte(device)));
    }
    EXPECT_NE(streams.stream(find_lane(pair.lanes, {LaneKind::compute, kFirst})),
              streams.stream(find_lane(pair.lanes, {LaneKind::compute, kSecond})));
}

TEST(DevicesDeath, ThatWereNotOpenedAreNamed) {
    const Pair pair;
    EXPECT_DEATH(pair.devices().of(0), "no device 0 was opened");
    EXPECT_DEATH(find_lane(pair.lanes, {LaneKind::up, 0}), "there is no lane up 0");
    EXPECT_DEATH(find_tier(pair.set.tiers, {TierKind::device, 1}), "there is no memory of device 1");
}

}  // namespace
}  // namespace windlass
