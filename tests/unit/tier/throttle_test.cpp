#include "tier/throttle.h"

#include <thread>

#include "base/units.h"
#include "tests/unit/tier/fake_clock.h"

namespace windlass {
namespace {

constexpr int64_t kMillisecond = 1'000'000;

int64_t link_ns(int64_t bytes, double bytes_per_s) {
    return static_cast<int64_t>(static_cast<double>(bytes) * 1e9 / bytes_per_s);
}

TEST(Throttle, APassageIsDueWhenItsBytesAreAcross) {
    FakeClock clock;
    Throttle link(1e9, clock.throttle_clock());
    clock.pass(17);
    const Throttle::Passage first = link.enter(1000), second = link.enter(500);
    EXPECT_EQ(first.due_ns, 1017);
    EXPECT_EQ(second.due_ns, 1517);
    EXPECT_EQ(clock.now(), 17) << "entering does not wait";
    link.leave(first);
    EXPECT_EQ(clock.now(), 1017);
    link.leave(second);
    EXPECT_EQ(clock.now(), 1517);
    EXPECT_EQ(link.bytes(), 1500);
}

// The last sleep may be too long, but no other: whatever was lost before has been paid back.
TEST(Throttle, TheMeanRateIsExactForPiecesOfAnySize) {
    for (const int64_t oversleep_ns : {int64_t{0}, int64_t{60'000}, 5 * kMillisecond, 20 * kMillisecond}) {
        for (const double rate : {0.05e9, 0.3e9, 2e9, 1.7e9 / 7}) {
            for (int64_t piece = 64 * kKiB; piece <= 64 * kMiB; piece *= 4) {
                FakeClock clock(oversleep_ns);
                Throttle link(rate, clock.throttle_clock());
                const int64_t pieces = std::max<int64_t>(64 * kMiB / piece, 5);
                for (int64_t i = 0; i < pieces; ++i) link.take(piece);
                const int64_t due_ns = link_ns(pieces * piece, rate);
                EXPECT_GE(clock.now(), due_ns - 1);
                EXPECT_LE(clock.now(), due_ns + oversleep_ns + 1) << pieces << " of " << piece << " at " << rate;
            }
        }
    }
}

TEST(Throttle, FractionsOfANanosecondAreNotLost) {
    FakeClock clock;
    Throttle link(3e9, clock.throttle_clock());
    for (int i = 0; i < 300'000; ++i) link.take(1);
    EXPECT_NEAR(static_cast<double>(clock.now()), 1e5, 1);
}

TEST(Throttle, AMoverThatLostTheCoreCatchesUp) {
    FakeClock clock;
    Throttle link(1e9, clock.throttle_clock());
    for (int i = 0; i < 100; ++i) {
        const Throttle::Passage passage = link.enter(kMillisecond);
        clock.pass(i % 10 == 0 ? 8 * kMillisecond : kMillisecond / 10);  // of moving
        link.leave(passage);
    }
    EXPECT_EQ(clock.now(), 100 * kMillisecond);
}

TEST(Throttle, AnIdleLinkSavesNothingUp) {
    FakeClock clock;
    Throttle link(1e9, clock.throttle_clock());
    for (int i = 0; i < 3; ++i) {
        clock.pass(1000 * kMillisecond);
        const int64_t start = clock.now();
        link.take(10 * kMillisecond);
        EXPECT_EQ(clock.now() - start, 10 * kMillisecond);
    }
}

TEST(Throttle, LatenessIsForgottenWhenTheLinkWasIdle) {
    FakeClock clock;
    Throttle link(1e9, clock.throttle_clock());
    const Throttle::Passage passage = link.enter(1000);
    clock.pass(50 * kMillisecond);
    link.leave(passage);
    clock.pass(1000 * kMillisecond);
    EXPECT_EQ(link.enter(1000).due_ns, clock.now() + 1000);
}

// Pauses between passages are forgiven, but many of them add up to no more than one.
TEST(Throttle, ShortPausesDoNotAddUp) {
    FakeClock clock;
    Throttle link(1e9, clock.throttle_clock());
    for (int i = 0; i < 1000; ++i) {
        link.take(1);
        clock.pass(3 * kMillisecond);
    }
    const int64_t start = clock.now();
    link.take(100 * kMillisecond);
    EXPECT_GE(clock.now() - start, 100 * kMillisecond - Throttle::kPauseNs);
}

TEST(Throttle, AMoverSlowerThanTheLinkSavesUpLittle) {
    FakeClock clock;
    Throttle link(1e9, clock.throttle_clock());
    for (int i = 0; i < 1000; ++i) {
        const Throttle::Passage passage = link.enter(kMillisecond);
        clock.pass(2 * kMillisecond);
        link.leave(passage);
    }
    const int64_t start = clock.now();
    link.take(1000 * kMillisecond);
    EXPECT_GE(clock.now() - start, 1000 * kMillisecond - Throttle::kLateNsMax - Throttle::kPauseNs);
}

TEST(Throttle, WithoutARateBytesAreOnlyCounted) {
    FakeClock clock;
    Throttle link(0, clock.throttle_clock());
    for (int i = 0; i < 10; ++i) link.take(int64_t{1} << 50);
    EXPECT_EQ(clock.now(), 0);
    EXPECT_EQ(clock.sleeps(), 0);
    EXPECT_EQ(link.bytes(), 10 * (int64_t{1} << 50));
}

TEST(Throttle, SeveralLanesShareALink) {
    FakeClock clock;
    Throttle link(1e9, clock.throttle_clock());
    {
        std::vector<std::jthread> lanes;
        for (int lane = 0; lane < 4; ++lane) {
            lanes.emplace_back([&link] {
                for (int i = 0; i < 250; ++i) link.take(kMillisecond);
            });
        }
    }
    EXPECT_EQ(link.bytes(), 1000 * kMillisecond);
    EXPECT_EQ(clock.now(), 1000 * kMillisecond);
}

TEST(Throttle, TheRealClockIsNeverEarly) {
    Throttle link(1e9);
    const int64_t start = now_ns();
    for (int i = 0; i < 20; ++i) link.take(kMillisecond / 10);
    EXPECT_GE(now_ns() - start, 2 * kMillisecond);
}

TEST(ThrottleDeath, RatesAreRates) {
    EXPECT_DEATH(Throttle(-1), "a link of -1 bytes/s");
    EXPECT_DEATH(Throttle(std::nan("")), "a link of nan bytes/s");
    EXPECT_DEATH(Throttle(1e9).enter(-1), "-1 bytes enter a link");
}

}  // namespace
}  // namespace windlass
