// The device that is late keeps the promises of streams, and none that they do not give.
#include "tests/unit/device/fake_async.h"

#include <gtest/gtest.h>

#include <set>
#include <stdexcept>
#include <vector>

#include "device/cpu/cpu_stream.h"

namespace windlass {
namespace {

TEST(FakeAsync, AStreamDoesItsWorkInOrderAndLate) {
    FakeAsync device({.seed = 1});
    const std::unique_ptr<Stream> stream = device.make_stream(2);
    EXPECT_TRUE(stream->runs_ahead());
    std::vector<int> done;
    std::atomic<bool> may_begin{false};
    stream->launch([&](const Launch& launch) {
        may_begin.wait(false);
        EXPECT_EQ(cpu_team(launch.stream()).size(), 2);
    });
    for (int i = 0; i < 100; ++i) stream->launch([&done, i](const Launch&) { done.push_back(i); });
    EXPECT_EQ(device.ran_ahead(), 100) << "all are launched, and none has begun";
    may_begin.store(true);
    may_begin.notify_all();
    stream->synchronize();
    ASSERT_EQ(done.size(), 100u);
    EXPECT_TRUE(std::is_sorted(done.begin(), done.end()));
}

// What two streams do, in the order in which it was done.
std::vector<int> interleaved(uint64_t seed) {
    FakeAsync device({.seed = seed});
    std::mutex mutex;
    std::vector<int> order;
    const std::unique_ptr<Stream> a = device.make_stream(1), b = device.make_stream(1);
    for (int i = 0; i < 20; ++i) {
        for (Stream* stream : {a.get(), b.get()})
            stream->launch([&, which = stream == b.get() ? 1 : 0](const Launch&) {
                const std::lock_guard lock(mutex);
                order.push_back(which);
            });
    }
    a->synchronize();
    b->synchronize();
    return order;
}

TEST(FakeAsync, StreamsOvertakeEachOther) {
    std::set<std::vector<int>> orders;
    for (uint64_t seed = 0; seed < 5; ++seed) orders.insert(interleaved(seed));
    EXPECT_GT(orders.size(), 1u);
}

TEST(FakeAsync, AStreamWaitsForAnothersEvent) {
    FakeAsync device({.seed = 2});
    const std::unique_ptr<Stream> first = device.make_stream(1), second = device.make_stream(1);
    const std::unique_ptr<Event> event = first->make_event();
    int value = 0;  // without a lock: the event is what orders them
    for (int i = 1; i <= 50; ++i) {
        first->launch([&value, i](const Launch&) { value = i; });
        first->record(*event);
        second->wait_for(*event);
        second->launch([&value, i](const Launch&) { EXPECT_EQ(value, i); });
        second->synchronize();
    }
    EXPECT_EQ(device.waits(), 50);
    event->wait();
    EXPECT_GT(event->time_ns(), 0);
}

TEST(FakeAsync, AForgottenWaitIsForgotten) {
    FakeAsync device({.forgotten_wait = 1});
    const std::unique_ptr<Stream> first = device.make_stream(1), second = device.make_stream(1);
    const std::unique_ptr<Event> event = first->make_event();
    std::atomic<bool> may_end{false};
    first->launch([&](const Launch&) { may_end.wait(false); });
    first->record(*event);
    second->wait_for(*event);
    second->launch([&](const Launch&) {
        may_end.store(true);
        may_end.notify_all();
    });
    second->synchronize();  // before the first is complete
    first->synchronize();
}

TEST(FakeAsync, AFailureIsToldByEventsAndStopsItsStream) {
    FakeAsync device({});
    const std::unique_ptr<Stream> stream = device.make_stream(1);
    const std::unique_ptr<Event> event = stream->make_event();
    bool done = false;
    stream->launch([](const Launch&) { throw std::runtime_error("bad kernel"); });
    stream->launch([&](const Launch&) { done = true; });
    stream->record(*event);
    EXPECT_THROW(event->wait(), std::runtime_error);
    EXPECT_THROW(stream->synchronize(), std::runtime_error);
    EXPECT_FALSE(done);
}

TEST(FakeAsync, TheHostReachesItsMemoryByCopies) {
    FakeAsync device({});
    const std::unique_ptr<Stream> stream = device.make_stream(1);
    const std::unique_ptr<Memory> memory = device.allocate(5000, MemoryKind::device);
    const std::vector<std::byte> written(10, std::byte{7});
    memory->write(4990, written);
    stream->launch([&](const Launch& launch) { memory->address(launch)[4999] = std::byte{9}; });
    stream->synchronize();
    std::vector<std::byte> read(10);
    memory->read(4990, read);
    EXPECT_EQ(read.front(), std::byte{7});
    EXPECT_EQ(read.back(), std::byte{9});
    const std::unique_ptr<Memory> host = device.allocate(5000, MemoryKind::host);
    EXPECT_EQ(host->address()[4999], std::byte{0});
}

TEST(FakeAsyncDeathTest, FaultsWhereTheHostTouchesItsMemory) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    FakeAsync device({});
    const std::unique_ptr<Memory> memory = device.allocate(5000, MemoryKind::device);
    volatile std::byte* const address = memory->address();
    EXPECT_DEATH(address[4999] = std::byte{1}, "");
    EXPECT_DEATH(static_cast<void>(address[0]), "");
    const std::unique_ptr<Stream> stream = device.make_stream(1);
    EXPECT_DEATH(
        {
            stream->launch([address](const Launch&) { address[0] = std::byte{1}; });
            stream->synchronize();
        },
        "");
}

}  // namespace
}  // namespace windlass
