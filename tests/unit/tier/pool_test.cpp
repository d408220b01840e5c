#include "tier/pool.h"

#include <thread>

#include "base/error.h"
#include "device/host_memory.h"

namespace windlass {
namespace {

std::unique_ptr<Memory> host_memory(int64_t bytes) {
    return std::make_unique<HostMemory>(bytes);
}

TEST(Pool, LeasesAreSpansOfOneArena) {
    Pool pool("memory", host_memory(10'000));
    EXPECT_EQ(pool.bytes(), 10'000);
    const Lease first = pool.lease(0, 4000, true);
    const Lease second = pool.lease(4000, 6000, true);
    EXPECT_EQ(first.data() + 4000, second.data());
    EXPECT_EQ(second.span().size(), 6000u);
    EXPECT_EQ(first.span()[3999], std::byte{0});
}

TEST(Pool, BytesMayBeLeasedAgainWhenTheLeaseIsGone) {
    Pool pool("memory", host_memory(100));
    for (int i = 0; i < 3; ++i) EXPECT_EQ(pool.lease(0, 100, true).span().size(), 100u);
}

TEST(Pool, ReadersShare) {
    Pool pool("memory", host_memory(100));
    const Lease one = pool.lease(0, 60, false), two = pool.lease(40, 60, false);
    const Lease apart = pool.lease(0, 0, true);  // no bytes: no conflict
    EXPECT_EQ(one.data() + 40, two.data());
}

TEST(Pool, TiersAreArenasApart) {
    Pool device("device", host_memory(3000)), host("host", host_memory(5000));
    const Lease on_device = device.lease(0, 3000, true), on_host = host.lease(0, 5000, true);
    std::ranges::fill(on_device.span(), std::byte{1});
    std::ranges::fill(on_host.span(), std::byte{2});
    EXPECT_EQ(std::ranges::count(on_device.span(), std::byte{1}), 3000);
    EXPECT_EQ(device.name(), "device");
    EXPECT_EQ(host.name(), "host");
}

TEST(PoolDeath, WritersShareWithNobody) {
    Pool pool("host", host_memory(100));
    const Lease held = pool.lease(10, 20, true);
    EXPECT_DEATH(pool.lease(29, 10, false), "host: bytes 29\\+10 are leased already");
    EXPECT_DEATH(pool.lease(0, 11, true), "leased already");
    const Lease below = pool.lease(0, 10, true), above = pool.lease(30, 70, true);
}

TEST(PoolDeath, AWriterWaitsForNoReader) {
    Pool pool("host", host_memory(100));
    const Lease held = pool.lease(10, 20, false);
    EXPECT_DEATH(pool.lease(10, 20, true), "leased already");
}

TEST(PoolDeath, NothingLiesOutside) {
    Pool pool("host", host_memory(100));
    EXPECT_DEATH(pool.lease(90, 11, false), "bytes 90\\+11 of 100");
    EXPECT_DEATH(pool.lease(-1, 2, false), "bytes -1\\+2 of 100");
    EXPECT_DEATH(pool.lease(0, -1, false), "bytes 0\\+-1 of 100");
}

// Task 3 of lane 0 holds the bytes. Whoever begins when it is complete may have them, too: the next of its lane, and
// who waits for it.
TEST(PoolDeath, WhoBeginsBehindTheHolderSharesWithIt) {
    Pool pool("host", host_memory(100));
    const int before_holder[] = {2, 0}, next[] = {3, 0}, waits[] = {3, 6}, waits_for_less[] = {2, 6};
    const Lease held = pool.lease(10, 20, true, {.lane = 0, .sequence = 3, .before = before_holder});
    const Lease same_lane = pool.lease(10, 20, true, {.lane = 0, .sequence = 4, .before = next});
    EXPECT_DEATH(pool.lease(10, 20, false, {.lane = 1, .sequence = 7, .before = waits_for_less}), "leased already");
    EXPECT_DEATH(pool.lease(10, 20, false), "leased already") << "nobody that is no task is behind one";
    EXPECT_DEATH(pool.lease(10, 20, true, {.lane = 1, .sequence = 7, .before = waits}), "leased already")
        << "it waits for the first of the two, not for the second";
}

TEST(Pool, WhoWaitsForTheHolderSharesWithIt) {
    Pool pool("host", host_memory(100));
    const int first[] = {2, 0}, waits[] = {3, 6};
    const Lease held = pool.lease(10, 20, true, {.lane = 0, .sequence = 3, .before = first});
    const Lease behind = pool.lease(0, 100, true, {.lane = 1, .sequence = 7, .before = waits});
    EXPECT_EQ(behind.data() + 10, held.data());
}

TEST(PoolDeath, TheHostReadsAndWritesWhatNobodyHolds) {
    Pool pool("host", host_memory(100));
    const std::vector<std::byte> written(10, std::byte{3});
    std::vector<std::byte> read(10);
    pool.write(20, written);
    pool.read(20, read);
    EXPECT_EQ(read, written);
    const Lease held = pool.lease(25, 1, true);
    EXPECT_DEATH(pool.read(20, read), "bytes 20\\+10 are leased already");
    EXPECT_DEATH(pool.write(20, written), "bytes 20\\+10 are leased already");
    EXPECT_DEATH(pool.read(95, read), "bytes 95\\+10 of 100");
}

TEST(Pool, LeasesMove) {
    Pool pool("memory", host_memory(100));
    Lease held = pool.lease(0, 100, true);
    std::byte* const data = held.data();
    Lease moved = std::move(held);
    EXPECT_EQ(moved.data(), data);
    moved = Lease();  // what it held is let go with the temporary
    const Lease again = pool.lease(0, 100, true);
    EXPECT_EQ(again.data(), data);
}

TEST(Pool, ManyThreadsLeaseAtOnce) {
    Pool pool("memory", host_memory(4000));
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
