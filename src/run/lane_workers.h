// lane_workers.h: a thread for each lane but one, started when a schedule first uses that lane and kept as long as the
// engine: a decoded token starts none.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

namespace windlass {

class LaneWorkers {
  public:
    using Work = std::function<void(int lane)>;

    LaneWorkers() = default;
    ~LaneWorkers();
    LaneWorkers(const LaneWorkers&) = delete;
    LaneWorkers& operator=(const LaneWorkers&) = delete;

    // Calls work(lane) on the thread of each of these lanes, numbers from 0, and work(own) on the caller's. Returns
    // when all have returned. One call at a time; `lanes` does not hold `own`; `work` must not throw. MachineError
    // where the system gives no thread.
    void run(int own, std::span<const int> lanes, const Work& work);

  private:
    struct Worker {
        std::thread thread;
        const Work* work = nullptr;  // null: nothing to do
    };
    void start(int lane);
    void serve(int lane, Worker& worker);

    std::mutex mutex_;
    std::condition_variable given_, finished_;
    bool ends_ = false;
    std::vector<std::unique_ptr<Worker>> workers_;  // by lane; null: it was never used
};

}  // namespace windlass
