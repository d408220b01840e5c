#include "run/lane_workers.h"

#include <algorithm>
#include <system_error>

#include "base/error.h"
#include "base/index.h"

namespace windlass {

LaneWorkers::~LaneWorkers() {
    {
        const std::lock_guard lock(mutex_);
        ends_ = true;
    }
    given_.notify_all();
    for (const std::unique_ptr<Worker>& worker : workers_)
        if (worker != nullptr && worker->thread.joinable()) worker->thread.join();
}

void LaneWorkers::run(int own, std::span<const int> lanes, const Work& work) {
    WINDLASS_CHECK(std::ranges::find(lanes, own) == lanes.end(), "lane {} is the caller's own", own);
    // All threads before any work: where one cannot be had, no lane waits for it.
    for (const int lane : lanes) start(lane);
    {
        const std::lock_guard lock(mutex_);
        for (const int lane : lanes) workers_[at(lane)]->work = &work;
    }
    given_.notify_all();
    work(own);
    std::unique_lock lock(mutex_);
    finished_.wait(lock, [&] {
        return std::ranges::all_of(lanes, [&](int lane) { return workers_[at(lane)]->work == nullptr; });
    });
}

void LaneWorkers::start(int lane) {
    if (at(lane) >= workers_.size()) workers_.resize(at(lane) + 1);
    std::unique_ptr<Worker>& worker = workers_[at(lane)];
    if (worker == nullptr) worker = std::make_unique<Worker>();
    if (worker->thread.joinable()) return;
    try {
        worker->thread = std::thread([this, lane, &own = *worker] { serve(lane, own); });
    } catch (const std::system_error& error) {
        throw MachineError("start a thread", fmt::format("lane {}", lane), error.code().value());
    }
}

void LaneWorkers::serve(int lane, Worker& worker) {
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
