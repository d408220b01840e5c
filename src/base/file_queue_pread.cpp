// The queue for machines that refuse io_uring: threads that make the plain calls. The same results, more CPU time.

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>

#include "base/error.h"
#include "base/file_queue.h"

namespace windlass {
namespace {

constexpr int kThreadsMax = 16;

class PreadQueue final : public FileQueue {
  public:
    explicit PreadQueue(int depth) : depth_(depth) {
        for (int i = 0; i < std::min(depth, kThreadsMax); ++i) threads_.emplace_back([this] { work(); });
    }
    PreadQueue(const PreadQueue&) = delete;
    PreadQueue& operator=(const PreadQueue&) = delete;
    ~PreadQueue() override {
        {
            const std::lock_guard lock(mutex_);
            closing_ = true;  // the workers leave when nothing is waiting any more
        }
        wake_workers_.notify_all();
        for (std::thread& thread : threads_) thread.join();
    }

    std::string_view name() const override { return "pread"; }
    int depth() const override { return depth_; }
    int in_flight() const override {
        const std::lock_guard lock(mutex_);
        return running_ + static_cast<int>(finished_.size());
    }

    void submit(const FileRequest& request) override {
        WINDLASS_CHECK(request.file != nullptr, "a request without an open file");
        {
            std::unique_lock lock(mutex_);
            wake_owner_.wait(lock, [&] { return running_ < depth_; });
            waiting_.push_back(request);
            ++running_;
        }
        wake_workers_.notify_one();
    }

    std::vector<FileResult> reap() override {
        std::unique_lock lock(mutex_);
        wake_owner_.wait(lock, [&] { return !finished_.empty() || running_ == 0; });
        return std::exchange(finished_, {});
    }

  private:
    void work() {
        std::unique_lock lock(mutex_);
        for (;;) {
            wake_workers_.wait(lock, [&] { return !waiting_.empty() || closing_; });
            if (waiting_.empty()) return;
            const FileRequest request = waiting_.front();
            waiting_.pop_front();
            lock.unlock();
            FileResult result = transfer(request, 0, static_cast<int64_t>(request.buffer.size()));
            lock.lock();
            finished_.push_back(std::move(result));
            --running_;
            wake_owner_.notify_one();
        }
    }

    const int depth_;
    mutable std::mutex mutex_;
    std::condition_variable wake_workers_, wake_owner_;
    std::deque<FileRequest> waiting_;
    std::vector<FileResult> finished_;  // not reaped yet
    int running_ = 0;                   // or waiting for a thread
    bool closing_ = false;
    std::vector<std::thread> threads_;  // last: they use what is above
};

}  // namespace

std::unique_ptr<FileQueue> make_pread_queue(int depth) {
    return std::make_unique<PreadQueue>(depth);
}

}  // namespace windlass
