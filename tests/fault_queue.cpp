#include <utility>

#include "base/error.h"
#include "base/file_queue.h"
#include "base/rng.h"
#include "tests/fault_files.h"

namespace windlass {
namespace {

class FaultQueue final : public FileQueue {
  public:
    FaultQueue(int depth, uint64_t seed) : depth_(depth), random_(seed, RandomStream::test) {}
    FaultQueue(const FaultQueue&) = delete;
    FaultQueue& operator=(const FaultQueue&) = delete;
    ~FaultQueue() override {
        while (!running_.empty()) advance_one();
    }

    std::string_view name() const override { return "fault"; }
    int depth() const override { return depth_; }
    int in_flight() const override { return static_cast<int>(running_.size() + finished_.size()); }

    void submit(const FileRequest& request) override {
        WINDLASS_CHECK(request.file != nullptr, "a request without an open file");
        while (static_cast<int>(running_.size()) == depth_) advance_one();
        running_.push_back({.request = request});
        while (!running_.empty() && random_.below(2) == 0) advance_one();
    }

    std::vector<FileResult> reap() override {
        while (finished_.empty() && !running_.empty()) advance_one();
        return std::exchange(finished_, {});
    }

  private:
    struct Running {
        FileRequest request;
        int64_t done = 0;  // bytes
    };

    // Moves the next piece of some request: all that is left of it, or a part.
    void advance_one() {
        const size_t index = random_.below(running_.size());
        auto& [request, done] = running_[index];
        const auto bytes = static_cast<int64_t>(request.buffer.size());
        const int64_t unit = request.file->direct() ? kDirectAlignment : 1;
        int64_t end = bytes;
        if (bytes - done > unit && random_.below(2) == 0)
            end = done + unit * (1 + static_cast<int64_t>(random_.below(static_cast<uint64_t>((bytes - done) / unit))));
        FileResult result = transfer(request, done, end);
        if (result.error_number == ENODATA) result = end_of_file_result(request);
        done = end;
        if (result.error_number == 0 && done < bytes) return;
        finished_.push_back(std::move(result));
        std::swap(running_[index], running_.back());
        running_.pop_back();
    }

    const int depth_;
    Random random_;
    std::vector<Running> running_;
    std::vector<FileResult> finished_;  // not reaped yet
};

}  // namespace

std::unique_ptr<FileQueue> make_fault_queue(int depth, uint64_t seed) {
    WINDLASS_CHECK(depth > 0, "a queue of depth {}", depth);
    return std::make_unique<FaultQueue>(depth, seed);
}

}  // namespace windlass
