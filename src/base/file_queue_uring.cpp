// The io_uring queue: one ring, one owner thread, at most one entry in the ring for each request in flight.

#include <liburing.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/error.h"
#include "base/file_queue.h"

namespace windlass {
namespace {

// A moment's shortage in the kernel, or a signal: the same call is repeated.
bool passes(int result) {
    return result == -EINTR || result == -EAGAIN || result == -EBUSY;
}

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
        int result = 0;
        do {
            result = io_uring_submit(&ring_);
        } while (passes(result));
        WINDLASS_CHECK(result >= 0, "io_uring refuses a request (errno {})", -result);
    }

    void wait_for_one() {
        io_uring_cqe* completion = nullptr;
        const int result = io_uring_wait_cqe(&ring_, &completion);
        if (passes(result)) return;
        WINDLASS_CHECK(result == 0, "io_uring refuses to wait (errno {})", -result);
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
        if (passes(result)) return continue_or_drop(index);
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

// Some sandboxes let a ring be made and refuse its use, so it has to carry one entry that does nothing.
int try_ring(io_uring& ring) {
    io_uring_probe* const probe = io_uring_get_probe_ring(&ring);
    const bool complete = probe != nullptr && io_uring_opcode_supported(probe, IORING_OP_READ) &&
                          io_uring_opcode_supported(probe, IORING_OP_WRITE);
    io_uring_free_probe(probe);
    if (!complete) return EOPNOTSUPP;
    io_uring_prep_nop(io_uring_get_sqe(&ring));
    const int submitted = io_uring_submit_and_wait(&ring, 1);
    if (submitted < 0) return -submitted;
    io_uring_cqe* completion = nullptr;
    if (io_uring_wait_cqe(&ring, &completion) != 0) return EIO;
    io_uring_cqe_seen(&ring, completion);
    return 0;
}

}  // namespace

std::unique_ptr<FileQueue> make_uring_queue(int depth, int& error_number) {
    io_uring ring{};
    const int result = io_uring_queue_init(static_cast<unsigned>(depth), &ring, 0);
    error_number = result < 0 ? -result : try_ring(ring);
    if (error_number == 0) return std::make_unique<UringQueue>(ring, depth);
    if (result == 0) io_uring_queue_exit(&ring);
    return nullptr;
}

}  // namespace windlass
