#include "tier/pool.h"

#include <thread>

#include "base/error.h"

namespace windlass {
namespace {

TEST(Pool, LeasesAreSpansOfOneArena) {
    Pool pool("memory", 10'000);
    EXPECT_EQ(pool.bytes(), 10'000);
    EXPECT_EQ(pool.high_water(), 0);
    const Lease first = pool.lease(0, 4000, true);
    const Lease second = pool.lease(4000, 6000, true);
    EXPECT_EQ(first.data() + 4000, second.data());
    EXPECT_EQ(second.span().size(), 6000u);
    EXPECT_EQ(pool.high_water(), 10'000);
    EXPECT_EQ(first.span()[3999], std::byte{0});
}

TEST(Pool, BytesMayBeLeasedAgainWhenTheLeaseIsGone) {
    Pool pool("memory", 100);
    for (int i = 0; i < 3; ++i) const Lease lease = pool.lease(0, 100, true);
    EXPECT_EQ(pool.high_water(), 100);
}

TEST(Pool, ReadersShare) {
    Pool pool("memory", 100);
    const Lease one = pool.lease(0, 60, false), two = pool.lease(40, 60, false);
    const Lease apart = pool.lease(0, 0, true);  // no bytes: no conflict
    EXPECT_EQ(one.data() + 40, two.data());
}

TEST(Pool, TiersAreArenasApart) {
    Pool device("device", 3000), host("host", 5000);
    const Lease on_device = device.lease(0, 3000, true), on_host = host.lease(0, 5000, true);
    std::ranges::fill(on_device.span(), std::byte{1});
    std::ranges::fill(on_host.span(), std::byte{2});
    EXPECT_EQ(std::ranges::count(on_device.span(), std::byte{1}), 3000);
    EXPECT_EQ(device.high_water(), 3000);
    EXPECT_EQ(host.high_water(), 5000);
    EXPECT_EQ(device.name(), "device");
    EXPECT_EQ(host.name(), "host");
}

TEST(PoolDeath, WritersShareWithNobody) {
    Pool pool("host", 100);
    const Lease held = pool.lease(10, 20, true);
    EXPECT_DEATH(pool.lease(29, 10, false), "host: bytes 29\\+10 are leased already");
    EXPECT_DEATH(pool.lease(0, 11, true), "leased already");
    const Lease below = pool.lease(0, 10, true), above = pool.lease(30, 70, true);
}

TEST(PoolDeath, AWriterWaitsForNoReader) {
    Pool pool("host", 100);
    const Lease held = pool.lease(10, 20, false);
    EXPECT_DEATH(pool.lease(10, 20, true), "leased already");
}

TEST(PoolDeath, NothingLiesOutside) {
    Pool pool("host", 100);
    EXPECT_DEATH(pool.lease(90, 11, false), "bytes 90\\+11 of 100");
    EXPECT_DEATH(pool.lease(-1, 2, false), "bytes -1\\+2 of 100");
    EXPECT_DEATH(pool.lease(0, -1, false), "bytes 0\\+-1 of 100");
}

TEST(Pool, LeasesMove) {
    Pool pool("memory", 100);
    Lease held = pool.lease(0, 100, true);
    std::byte* const data = held.data();
    Lease moved = std::move(held);
    EXPECT_EQ(moved.data(), data);
    moved = Lease();  // what it held is let go with the temporary
    const Lease again = pool.lease(0, 100, true);
    EXPECT_EQ(again.data(), data);
}

TEST(Pool, ManyThreadsLeaseAtOnce) {
    Pool pool("memory", 4000);
    {
        std::vector<std::jthread> threads;
        for (int64_t thread = 0; thread < 4; ++thread) {
            threads.emplace_back([&pool, thread] {
                for (int i = 0; i < 500; ++i) {
                    const Lease lease = pool.lease(thread * 1000, 1000, true);
                    lease.data()[i] = static_cast<std::byte>(thread + 1);
                }
            });
        }
    }
    const Lease all = pool.lease(0, 4000, true);
    for (size_t thread = 0; thread < 4; ++thread) EXPECT_EQ(all.span()[thread * 1000 + 499], std::byte(thread + 1));
}

}  // namespace
}  // namespace windlass
