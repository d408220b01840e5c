#include "tier/pool.h"

#include "base/error.h"

namespace windlass {

Lease::Lease(Lease&& other) noexcept : pool_(std::exchange(other.pool_, nullptr)), id_(other.id_), span_(other.span_) {}

Lease& Lease::operator=(Lease&& other) noexcept {
    std::swap(pool_, other.pool_);
    std::swap(id_, other.id_);
    std::swap(span_, other.span_);
    return *this;
}

Lease::~Lease() {
    if (pool_ != nullptr) pool_->release(id_);
}

std::byte* Lease::data(const Launch& launch) const {
    return pool_->memory_->address(launch) + (span_.data() - pool_->memory_->address());
}

Pool::Pool(std::string name, std::unique_ptr<Memory> memory) : name_(std::move(name)), memory_(std::move(memory)) {}

Lease Pool::lease(int64_t offset, int64_t bytes, bool write, const LeaseOrder& order) {
    WINDLASS_CHECK(offset >= 0 && bytes >= 0 && offset + bytes <= memory_->bytes(), "{}: bytes {}+{} of {}", name_,
                   offset, bytes, memory_->bytes());
    const std::lock_guard lock(mutex_);
    for (const Held& other : held_) {
        const bool apart = other.end <= offset || offset + bytes <= other.begin;
        WINDLASS_CHECK(apart || (!write && !other.write) || order.is_behind(other.order),
                       "{}: bytes {}+{} are leased already", name_, offset, bytes);
    }
    held_.push_back({next_id_, offset, offset + bytes, write, order});
    return {this, next_id_++, {memory_->address() + offset, static_cast<size_t>(bytes)}};
}

void Pool::read(int64_t offset, std::span<std::byte> to) {
    const Lease lease = this->lease(offset, static_cast<int64_t>(to.size()), false);
    memory_->read(offset, to);
}

void Pool::write(int64_t offset, std::span<const std::byte> from) {
    const Lease lease = this->lease(offset, static_cast<int64_t>(from.size()), true);
    memory_->write(offset, from);
}

void Pool::release(uint64_t id) noexcept {
    const std::lock_guard lock(mutex_);
    std::erase_if(held_, [id](const Held& held) { return held.id == id; });
}

}  // namespace windlass
