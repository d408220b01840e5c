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

Pool::Pool(std::string name, int64_t bytes) : name_(std::move(name)), memory_(bytes, /*touch=*/true) {}

Lease Pool::lease(int64_t offset, int64_t bytes, bool write) {
    WINDLASS_CHECK(offset >= 0 && bytes >= 0 && offset + bytes <= memory_.size(), "{}: bytes {}+{} of {}", name_,
                   offset, bytes, memory_.size());
    const std::lock_guard lock(mutex_);
    for (const Held& other : held_) {
        const bool apart = other.end <= offset || offset + bytes <= other.begin;
        WINDLASS_CHECK(apart || (!write && !other.write), "{}: bytes {}+{} are leased already", name_, offset, bytes);
    }
    held_.push_back({next_id_, offset, offset + bytes, write});
    high_water_ = std::max(high_water_, offset + bytes);
    return {this, next_id_++, memory_.span().subspan(static_cast<size_t>(offset), static_cast<size_t>(bytes))};
}

void Pool::release(uint64_t id) noexcept {
    const std::lock_guard lock(mutex_);
    std::erase_if(held_, [id](const Held& held) { return held.id == id; });
}

}  // namespace windlass
