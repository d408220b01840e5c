#include "tests/unit/device/late_queue.h"

#include "base/clock.h"
#include "device/cpu/team.h"

namespace windlass {

int64_t LateEvent::record() {
    const std::lock_guard lock(mutex_);
    return ++recorded_;
}

int64_t LateEvent::recorded() const {
    const std::lock_guard lock(mutex_);
    return recorded_;
}

int64_t LateEvent::wait() {
    std::unique_lock lock(mutex_);
    wait_for(recorded_, lock);
    if (failure_) std::rethrow_exception(failure_);
    return reached_ns_;
}

void LateEvent::wait_for(int64_t count) const {
    std::unique_lock lock(mutex_);
    wait_for(count, lock);
}

void LateEvent::wait_for(int64_t count, std::unique_lock<std::mutex>& lock) const {
    changed_.wait(lock, [&] { return reached_ >= count; });
}

void LateEvent::reach(int64_t count, std::exception_ptr failure) {
    const std::lock_guard lock(mutex_);  // until all are told: who waits may end the event
    reached_ = count;
    reached_ns_ = now_ns();
    failure_ = std::move(failure);
    changed_.notify_all();
}

LateQueue::LateQueue(uint64_t seed, int64_t late_ns, std::atomic<int64_t>* ran_ahead)
    : random_(seed, RandomStream::test), late_ns_(late_ns), ran_ahead_(ran_ahead), thread_([this] { serve(); }) {}

LateQueue::~LateQueue() {
    {
        const std::lock_guard lock(mutex_);
        ends_ = true;
    }
    changed_.notify_all();
    thread_.join();
}

void LateQueue::work(std::function<void()> step) {
    push([this, step = std::move(step)] {
        be_late();
        if (!failure_) step();
    });
}

void LateQueue::record(LateEvent& event) {
    push([this, &event, count = event.record()] { event.reach(count, failure_); });
}

void LateQueue::wait_for(const LateEvent& event) {
    push([&event, count = event.recorded()] { event.wait_for(count); });
}

void LateQueue::synchronize() {
    LateEvent event;
    record(event);
    event.wait();
}

void LateQueue::push(std::function<void()> step) {
    {
        const std::lock_guard lock(mutex_);
        if (!steps_.empty() && ran_ahead_ != nullptr) ++*ran_ahead_;
        steps_.push_back(std::move(step));
    }
    changed_.notify_all();
}

// A step stays in the list until it is done: synchronize() returns behind the last one.
void LateQueue::serve() {
    set_float_mode();
    std::unique_lock lock(mutex_);
    while (true) {
        changed_.wait(lock, [this] { return ends_ || !steps_.empty(); });
        if (steps_.empty()) return;
        const std::function<void()> step = std::move(steps_.front());
        lock.unlock();
        try {
            step();
        } catch (...) {
            failure_ = std::current_exception();
        }
        lock.lock();
        steps_.pop_front();
    }
}

void LateQueue::be_late() {
    const uint32_t kind = static_cast<uint32_t>(random_.below(4));
    const auto most = static_cast<uint32_t>(late_ns_) * (kind == 3 ? 4 : 1);
    if (kind == 0 || most == 0) return;
    std::this_thread::sleep_for(std::chrono::nanoseconds(random_.below(most)));
}

}  // namespace windlass
