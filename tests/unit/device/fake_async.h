// fake_async.h: a device whose work is late: it computes with the CPU's kernels, and is in all else what a GPU is.
//
// Each stream has a thread of its own. Work is done in the order of its stream, begins late by a time that the seed
// draws, and so in another order between streams each time; nothing but events tells that it is complete.
//
// Its memory is mapped twice, apart: where work that is launched finds it, and a mirror that nobody may touch, which is
// the address that the host knows. So whoever follows that address outside a launch faults at once, in any thread and
// on any processor. Protection keys would do it with one mapping, but not every processor has them, and threads that
// were there before have no access.
//
// Threads: as Device and Stream say. Outlives its streams and memory.
#pragma once

#include <atomic>

#include "device/device.h"

namespace windlass {

class FakeAsync : public Device {
  public:
    struct Options {
        uint64_t seed = 0;
        int64_t late_ns = 100'000;   // at most; of four pieces of work one is as late as four times that
        int64_t forgotten_wait = 0;  // a fault: the n-th wait of a stream for an event, from 1, is passed over
    };
    explicit FakeAsync(const Options& options) : options_(options) {}
    std::unique_ptr<Stream> make_stream(int threads) override;
    std::unique_ptr<Memory> allocate(int64_t bytes, MemoryKind kind) override;

    // Of streams for events, so far.
    int64_t waits() const { return waits_.load(); }
    // Work that was launched before the work launched earlier was complete, so far.
    int64_t ran_ahead() const { return ran_ahead_.load(); }

  private:
    friend class LateStream;
    const Options options_;
    uint32_t streams_ = 0;
    std::atomic<int64_t> waits_{0}, ran_ahead_{0};
};

}  // namespace windlass
