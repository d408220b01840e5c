// team.h: a fixed team of worker threads that share loops.
//
// parallel_for hands out indices in rising order, one at a time, to whichever worker is free; what an index computes
// may not depend on the worker, so results do not depend on the team's size. One caller at a time. Between loops
// workers spin briefly where that has paid, then sleep: other processes get the cores.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

namespace windlass {

// A wait that spins before it sleeps. After several waits in a row that spinning did not end, the next few sleep at
// once: with more threads than processors, spinning takes time from the thread that it waits for.
class Spinner {
  public:
    template <typename Done>
    void spin_until(Done done);

  private:
    int in_vain_ = 0;  // the last spins
    int sleeps_ = 0;   // waits to come that do not spin
};

class Team {
  public:
    // The caller of parallel_for is one of the `threads` workers.
    explicit Team(int threads);
    ~Team();
    Team(const Team&) = delete;
    Team& operator=(const Team&) = delete;

    int size() const { return static_cast<int>(threads_.size()) + 1; }
    // Runs body(index, worker) for every index in [0, count); returns when all are done. A body may not throw.
    void parallel_for(int64_t count, const std::function<void(int64_t index, int worker)>& body);

  private:
    void work(int worker);
    void drain(int worker);

    // Words of the caller, the shared counter and words of workers are on lines of their own: a thread that polls one
    // of them would otherwise slow down the writers of the others.
    static constexpr size_t kLine = 64;

    std::vector<std::thread> threads_;
    Spinner caller_;
    alignas(kLine) std::atomic<uint32_t> round_{0};  // bumped to start a loop
    const std::function<void(int64_t, int)>* body_ = nullptr;
    int64_t count_ = 0;
    std::atomic<bool> stop_{false};
    alignas(kLine) std::atomic<int64_t> next_{0};
    alignas(kLine) std::atomic<int> busy_{0};  // workers still in the loop
};

// Rounding to nearest, denormals on, exceptions masked: the floating-point mode every worker computes in.
void set_float_mode();

}  // namespace windlass
