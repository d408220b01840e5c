// lane_workers.h: a thread for each lane beside compute, started when a schedule first uses that lane and kept as long
// as the engine: a decoded token starts none.
#pragma once

#include <array>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <span>
#include <thread>

#include "schedule/schedule.h"

namespace windlass {

class LaneWorkers {
  public:
    using Work = std::function<void(LaneKind)>;

    LaneWorkers() = default;
    ~LaneWorkers();
    LaneWorkers(const LaneWorkers&) = delete;
    LaneWorkers& operator=(const LaneWorkers&) = delete;

    // Calls work(lane) on the thread of each of these lanes, and work(compute) on the caller's. Returns when all have
    // returned. One call at a time; `lanes` does not hold compute; `work` must not throw. MachineError where the system
    // gives no thread.
    void run(std::span<const LaneKind> lanes, const Work& work);

  private:
    struct Worker {
        std::thread thread;
        const Work* work = nullptr;  // null: nothing to do
    };
    void start(LaneKind lane);
    void serve(LaneKind lane);

    std::mutex mutex_;
    std::condition_variable given_, finished_;
    bool ends_ = false;
    std::array<Worker, kLaneKinds> workers_;
};

}  // namespace windlass
