#include "run/lane_workers.h"

#include <system_error>

#include "base/error.h"

namespace windlass {

LaneWorkers::~LaneWorkers() {
    {
        const std::lock_guard lock(mutex_);
        ends_ = true;
    }
    given_.notify_all();
    for (Worker& worker : workers_)
        if (worker.thread.joinable()) worker.thread.join();
}

void LaneWorkers::run(std::span<const LaneKind> lanes, const Work& work) {
    // All threads before any work: where one cannot be had, no lane waits for it.
    for (const LaneKind lane : lanes) start(lane);
    {
        const std::lock_guard lock(mutex_);
        for (const LaneKind lane : lanes) workers_[slot(lane)].work = &work;
    }
    given_.notify_all();
    work(LaneKind::compute);
    std::unique_lock lock(mutex_);
    finished_.wait(lock, [&] {
        return std::ranges::all_of(lanes, [&](LaneKind lane) { return workers_[slot(lane)].work == nullptr; });
    });
}

void LaneWorkers::start(LaneKind lane) {
    WINDLASS_CHECK(lane != LaneKind::compute, "compute is the caller's own lane");
    std::thread& thread = workers_[slot(lane)].thread;
    if (thread.joinable()) return;
    try {
        thread = std::thread([this, lane] { serve(lane); });
    } catch (const std::system_error& error) {
        throw MachineError("start a thread", lane_name(lane), error.code().value());
    }
}

void LaneWorkers::serve(LaneKind lane) {
    Worker& worker = workers_[slot(lane)];
    std::unique_lock lock(mutex_);
    while (true) {
        given_.wait(lock, [&] { return ends_ || worker.work != nullptr; });
        if (worker.work == nullptr) return;
        const Work& work = *worker.work;
        lock.unlock();
        work(lane);
        lock.lock();
        worker.work = nullptr;
        finished_.notify_all();
    }
}

}  // namespace windlass
