// late_queue.h: what a stream of a device that runs ahead is made of, in tests: a thread that does what it is given in
// order, and late by a time that a seed draws; and events, which alone tell that it is done.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

#include "base/rng.h"

namespace windlass {

// Each record is one more; who waits wants as many as there were when he asked.
class LateEvent {
  public:
    int64_t record();
    int64_t recorded() const;
    // For all that were recorded so far. Returns when the last was reached; throws what its queue had failed with.
    int64_t wait();
    void wait_for(int64_t count) const;
    void reach(int64_t count, std::exception_ptr failure);

  private:
    void wait_for(int64_t count, std::unique_lock<std::mutex>& lock) const;
    mutable std::mutex mutex_;
    mutable std::condition_variable changed_;
    int64_t recorded_ = 0, reached_ = 0, reached_ns_ = 0;
    std::exception_ptr failure_;
};

class LateQueue {
  public:
    // late_ns: at most; of four pieces of work one is as late as four times that. ran_ahead: counts work that was
    // given before the work given earlier was complete.
    LateQueue(uint64_t seed, int64_t late_ns, std::atomic<int64_t>* ran_ahead = nullptr);
    LateQueue(const LateQueue&) = delete;
    ~LateQueue();  // does what is left

    // What fails is thrown by events recorded behind it; work behind it is not done.
    void work(std::function<void()> step);
    void record(LateEvent& event);
    void wait_for(const LateEvent& event);
    void synchronize();

  private:
    void push(std::function<void()> step);
    void serve();
    void be_late();

    Random random_;
    const int64_t late_ns_;
    std::atomic<int64_t>* const ran_ahead_;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<std::function<void()>> steps_;
    bool ends_ = false;
    std::exception_ptr failure_;
    std::thread thread_;  // last: uses what is above
};

}  // namespace windlass
