// pool.h: the arena of one tier: every byte a run touches after start-up, and leases on parts of it.
//
// Allocated and touched once, then frozen; a run has one for each tier. A Lease is the only way to touch pooled memory;
// while one is held for writing nobody else may hold the same bytes. The schedule promises that this never happens; the
// pool checks it.
// Threads: leases may be taken and dropped from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "base/file.h"

namespace windlass {

class Pool;

class Lease {
  public:
    Lease() = default;
    Lease(Lease&& other) noexcept;
    Lease& operator=(Lease&& other) noexcept;
    ~Lease();
    std::byte* data() const { return span_.data(); }
    std::span<std::byte> span() const { return span_; }

  private:
    friend class Pool;
    Lease(Pool* pool, uint64_t id, std::span<std::byte> span) : pool_(pool), id_(id), span_(span) {}
    Pool* pool_ = nullptr;
    uint64_t id_ = 0;
    std::span<std::byte> span_;
};

class Pool {
  public:
    // Reserves and touches `bytes`. Throws UserError(no_fit) where the system refuses.
    Pool(std::string name, int64_t bytes);
    Pool(const Pool&) = delete;
    Pool& operator=(const Pool&) = delete;

    // Bytes [offset, offset + bytes). Aborts outside the arena, or where a lease that writes would share bytes.
    Lease lease(int64_t offset, int64_t bytes, bool write);
    const std::string& name() const { return name_; }
    int64_t bytes() const { return memory_.size(); }
    int64_t high_water() const { return high_water_; }  // end of the highest byte ever leased

  private:
    friend class Lease;
    struct Held {
        uint64_t id;
        int64_t begin, end;
        bool write;
    };
    void release(uint64_t id) noexcept;

    std::string name_;
    HugeBuffer memory_;
    std::mutex mutex_;
    std::vector<Held> held_;
    uint64_t next_id_ = 1;
    int64_t high_water_ = 0;
};

}  // namespace windlass
