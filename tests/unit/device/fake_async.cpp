#include "tests/unit/device/fake_async.h"

#include <sys/mman.h>

#include <condition_variable>
#include <cstring>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>

#include "base/error.h"
#include "base/rng.h"
#include "device/cpu/cpu_stream.h"
#include "device/host_memory.h"

namespace windlass {
namespace {

std::byte* map(size_t bytes, int protection) {
    void* const address = ::mmap(nullptr, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    WINDLASS_CHECK(address != MAP_FAILED, "{} bytes cannot be mapped", bytes);
    return static_cast<std::byte*>(address);
}

class MirroredMemory : public Memory {
  public:
    explicit MirroredMemory(int64_t bytes)
        : bytes_(bytes),
          mapped_(static_cast<size_t>(std::max<int64_t>(bytes, 1))),
          inside_(map(mapped_, PROT_READ | PROT_WRITE)),
          mirror_(map(mapped_, PROT_NONE)) {}
    ~MirroredMemory() override {
        ::munmap(inside_, mapped_);
        ::munmap(mirror_, mapped_);
    }
    int64_t bytes() const override { return bytes_; }
    std::byte* address(const Launch&) const override { return inside_; }
    std::byte* address() const override { return mirror_; }
    void read(int64_t offset, std::span<std::byte> to) const override {
        std::memcpy(to.data(), inside_ + offset, to.size());
    }
    void write(int64_t offset, std::span<const std::byte> from) override {
        std::memcpy(inside_ + offset, from.data(), from.size());
    }

  private:
    int64_t bytes_;
    size_t mapped_;
    std::byte *inside_, *mirror_;
};

// Each record is one more; who waits wants as many as there were when he asked.
class LateEvent : public Event {
  public:
    void wait() override {
        std::unique_lock lock(mutex_);
        wait_for(recorded_, lock);
        if (failure_) std::rethrow_exception(failure_);
    }
    int64_t record() {
        const std::lock_guard lock(mutex_);
        return ++recorded_;
    }
    int64_t recorded() const {
        const std::lock_guard lock(mutex_);
        return recorded_;
    }
    void wait_for(int64_t count) const {
        std::unique_lock lock(mutex_);
        wait_for(count, lock);
    }
    void reach(int64_t count, std::exception_ptr failure) {
        const std::lock_guard lock(mutex_);  // until all are told: who waits may end the event
        reached_ = count;
        time_ns_ = now_ns();
        failure_ = std::move(failure);
        changed_.notify_all();
    }

  private:
    void wait_for(int64_t count, std::unique_lock<std::mutex>& lock) const {
        changed_.wait(lock, [&] { return reached_ >= count; });
    }
    mutable std::mutex mutex_;
    mutable std::condition_variable changed_;
    int64_t recorded_ = 0, reached_ = 0;
    std::exception_ptr failure_;
};

}  // namespace

class LateStream : public Stream {
  public:
    LateStream(FakeAsync& device, uint32_t number, int threads)
        : device_(device),
          random_(device.options_.seed + number, RandomStream::test),
          inner_(threads),
          thread_([this] { serve(); }) {}
    ~LateStream() override {
        {
            const std::lock_guard lock(mutex_);
            ends_ = true;
        }
        changed_.notify_all();
        thread_.join();
    }
    DeviceKind device() const override { return inner_.device(); }
    bool runs_ahead() const override { return true; }
    void launch(Work work) override {
        push([this, work = std::move(work)] {
            be_late();
            if (!failure_) work(on(inner_));
        });
    }
    std::unique_ptr<Event> make_event() override { return std::make_unique<LateEvent>(); }
    void record(Event& event) override {
        auto& late = static_cast<LateEvent&>(event);
        push([this, &late, count = late.record()] { late.reach(count, failure_); });
    }
    void wait_for(const Event& event) override {
        if (++device_.waits_ == device_.options_.forgotten_wait) return;
        const auto& late = static_cast<const LateEvent&>(event);
        push([&late, count = late.recorded()] { late.wait_for(count); });
    }
    void synchronize() override {
        LateEvent event;
        record(event);
        event.wait();
    }

  private:
    void push(std::function<void()> step) {
        {
            const std::lock_guard lock(mutex_);
            if (!steps_.empty()) ++device_.ran_ahead_;
            steps_.push_back(std::move(step));
        }
        changed_.notify_all();
    }
    // A step stays in the list until it is done: synchronize() returns behind the last one.
    void serve() {
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
    void be_late() {
        const uint32_t kind = static_cast<uint32_t>(random_.below(4));
        const auto most = static_cast<uint32_t>(device_.options_.late_ns) * (kind == 3 ? 4 : 1);
        if (kind == 0 || most == 0) return;
        std::this_thread::sleep_for(std::chrono::nanoseconds(random_.below(most)));
    }

    FakeAsync& device_;
    Random random_;
    CpuStream inner_;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<std::function<void()>> steps_;
    bool ends_ = false;
    std::exception_ptr failure_;  // of the work; what is launched behind it is not done
    std::thread thread_;          // last: uses what is above
};

std::unique_ptr<Stream> FakeAsync::make_stream(int threads) {
    return std::make_unique<LateStream>(*this, streams_++, threads);
}

std::unique_ptr<Memory> FakeAsync::allocate(int64_t bytes, MemoryKind kind) {
    if (kind == MemoryKind::host) return std::make_unique<HostMemory>(bytes);
    return std::make_unique<MirroredMemory>(bytes);
}

}  // namespace windlass
