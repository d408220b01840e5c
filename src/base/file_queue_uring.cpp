// The io_uring queue: one ring, one owner thread, at most one entry in the ring for each request in flight.

#include <liburing.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/error.h"
#include "base/file_queue.h"

namespace windlass {
namespace {

class UringQueue final : public FileQueue {
  public:
    UringQueue(const io_uring& ring, int depth) : ring_(ring), slots_(static_cast<size_t>(depth)) {
        for (int slot = depth - 1; slot >= 0; --slot) free_.push_back(slot);
    }
    UringQueue(const UringQueue&) = delete;
    UringQueue& operator=(const UringQueue&) = delete;
    // The kernel writes into callers' buffers until the last completion, so there is no way out but to wait.
    ~UringQueue() override {
        closing_ = true;
        while (running() > 0) wait_for_one();
        io_uring_queue_exit(&ring_);
    }

    std::string_view name() const override { return "io_uring"; }
    int depth() const override { return static_cast<int>(slots_.size()); }
    int in_flight() const override { return running() + static_cast<int>(finished_.size()); }

    void submit(const FileRequest& request) override {
        WINDLASS_CHECK(request.file != nullptr && request.file->descriptor() >= 0, "a request without an open file");
        if (request.buffer.empty()) {
            finished_.push_back({.tag = request.tag});
            return;
        }
        while (free_.empty()) wait_for_one();
        const int slot = free_.back();
        free_.pop_back();
        slots_[static_cast<size_t>(slot)] = {.request = request, .done = 0};
        enter(slot);
    }

    std::vector<FileResult> reap() override {
        take_ready();
        while (finished_.empty() && running() > 0) wait_for_one();
        return std::exchange(finished_, {});
    }

  private:
    int running() const { return depth() - static_cast<int>(free_.size()); }

    struct Slot {
        FileRequest request;
        int64_t done = 0;  // bytes
    };

    // Puts what is left of the slot's request into the ring. The kernel may be short of memory for a moment.
    void enter(int slot) {
        const auto& [request, done] = slots_[static_cast<size_t>(slot)];
        const auto rest = request.buffer.subspan(static_cast<size_t>(done));
        const auto bytes = static_cast<unsigned>(std::min<size_t>(rest.size(), kTransferBytesMax));
        const auto offset = static_cast<uint64_t>(request.offset + done);
        io_uring_sqe* const entry = io_uring_get_sqe(&ring_);
        WINDLASS_CHECK(entry != nullptr, "the ring has room for every slot");
        if (request.verb == FileVerb::read) {
            io_uring_prep_read(entry, request.file->descriptor(), rest.data(), bytes, offset);
        } else {
            io_uring_prep_write(entry, request.file->descriptor(), rest.data(), bytes, offset);
        }
        io_uring_sqe_set_data64(entry, static_cast<uint64_t>(slot));
        for (;;) {
            const int result = io_uring_submit(&ring_);
            if (result >= 0) return;
            const bool passing = result == -EINTR || result == -EAGAIN || result == -EBUSY;
            if (!passing) throw MachineError("io_uring_enter", request.file->path(), -result);
        }
    }

    void wait_for_one() {
        io_uring_cqe* completion = nullptr;
        const int result = io_uring_wait_cqe(&ring_, &completion);
        if (result == -EINTR || result == -EAGAIN) return;
        if (result < 0) throw MachineError("io_uring_enter", "io_uring", -result);
        take_ready();
    }

    // Everything that has completed by now, without a system call.
    void take_ready() {
        io_uring_cqe* completion = nullptr;
        while (io_uring_peek_cqe(&ring_, &completion) == 0) {
            const auto slot = static_cast<int>(io_uring_cqe_get_data64(completion));
            const int result = completion->res;
            io_uring_cqe_seen(&ring_, completion);
            advance(slot, result);
        }
    }

    void advance(int index, int result) {
        Slot& slot = slots_[static_cast<size_t>(index)];
        const FileRequest& request = slot.request;
        const bool read = request.verb == FileVerb::read;
        if (result == -EAGAIN || result == -EINTR) return continue_or_drop(index);
        if (result < 0) return finish(index, failed_result(request, read ? "read" : "write", -result));
        slot.done += result;
        if (slot.done == static_cast<int64_t>(request.buffer.size())) return finish(index, {.tag = request.tag});
        if (read && request.offset + slot.done >= request.file->size())
            return finish(index, end_of_file_result(request));
        if (!read && result == 0) return finish(index, failed_result(request, "write", EIO));
        continue_or_drop(index);
    }

    void continue_or_drop(int slot) {
        if (!closing_) return enter(slot);
        finish(slot, failed_result(slots_[static_cast<size_t>(slot)].request, "transfer", ECANCELED));
    }

    void finish(int slot, FileResult result) {
        finished_.push_back(std::move(result));
        free_.push_back(slot);
    }

    static constexpr size_t kTransferBytesMax = size_t{1} << 30;  // the kernel moves less than 2 GiB at a time

    io_uring ring_;
    std::vector<Slot> slots_;
    std::vector<int> free_;             // slots without a request
    std::vector<FileResult> finished_;  // not reaped yet
    bool closing_ = false;
};

}  // namespace

std::unique_ptr<FileQueue> make_uring_queue(int depth, int& error_number) {
    io_uring ring{};
    const int result = io_uring_queue_init(static_cast<unsigned>(depth), &ring, 0);
    if (result < 0) {
        error_number = -result;
        return nullptr;
    }
    io_uring_probe* const probe = io_uring_get_probe_ring(&ring);
    const bool usable = probe != nullptr && io_uring_opcode_supported(probe, IORING_OP_READ) &&
                        io_uring_opcode_supported(probe, IORING_OP_WRITE);
    io_uring_free_probe(probe);
    if (usable) return std::make_unique<UringQueue>(ring, depth);
    io_uring_queue_exit(&ring);
    error_number = EOPNOTSUPP;
    return nullptr;
}

}  // namespace windlass
