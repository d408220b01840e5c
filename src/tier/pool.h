// pool.h: the arena of one tier: every byte a run touches after start-up, and leases on parts of it.
//
// Allocated and touched once, then frozen; a run has one for each tier. A Lease is the only way to touch pooled memory;
// while one is held for writing, no other lease may cover its bytes, except one whose task starts after the holder
// completes: a lane that runs ahead takes leases of issued tasks, and drops them when those are complete. The schedule
// promises that; the pool checks it.
// Threads: leases may be taken and dropped from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "device/device.h"

namespace windlass {

class Pool;

// Who takes a lease: a task, by its place in its lane, and how much of each lane is complete before it begins. Without
// a lane: a lease that shares its bytes with no other.
struct LeaseOrder {
    int lane = -1;
    int sequence = 0;  // in its lane, from 1
    std::span<const int> before;

    bool is_behind(const LeaseOrder& other) const {
        return other.lane >= 0 && lane >= 0 && before[static_cast<size_t>(other.lane)] >= other.sequence;
    }
};

class Lease {
  public:
    Lease() = default;
    Lease(Lease&& other) noexcept;
    Lease& operator=(Lease&& other) noexcept;
    ~Lease();
    // Where the host finds the bytes, and where work that is launched does (Memory::address).
    std::byte* data() const { return span_.data(); }
    std::span<std::byte> span() const { return span_; }
    std::byte* data(const Launch& launch) const;

  private:
    friend class Pool;
    Lease(Pool* pool, uint64_t id, std::span<std::byte> span) : pool_(pool), id_(id), span_(span) {}
    Pool* pool_ = nullptr;
    uint64_t id_ = 0;
    std::span<std::byte> span_;
};

class Pool {
  public:
    Pool(std::string name, std::unique_ptr<Memory> memory);
    Pool(const Pool&) = delete;
    Pool& operator=(const Pool&) = delete;

    // Bytes [offset, offset + bytes). Aborts outside the arena, or if a lease that writes would share bytes with
    // one whose task is not ordered after it.
    Lease lease(int64_t offset, int64_t bytes, bool write, const LeaseOrder& order = {});
    // What lies there, for the host; likewise.
    void read(int64_t offset, std::span<std::byte> to);
    void write(int64_t offset, std::span<const std::byte> from);
    const std::string& name() const { return name_; }
    int64_t bytes() const { return memory_->bytes(); }

  private:
    friend class Lease;
    struct Held {
        uint64_t id;
        int64_t begin, end;
        bool write;
        LeaseOrder order;
    };
    void release(uint64_t id) noexcept;

    std::string name_;
    std::unique_ptr<Memory> memory_;
    std::mutex mutex_;
    std::vector<Held> held_;
    uint64_t next_id_ = 1;
};

}  // namespace windlass
