#include "tests/file_image.h"

#include <algorithm>

#include "base/math.h"

namespace windlass {

PowerCut::Fate PowerCut::draw() {
    if (seed_ <= 1) return seed_ == 0 ? Fate::lost : Fate::kept;
    return static_cast<Fate>(random_.below(3));
}

void FileImage::apply(const Change& change, std::vector<std::byte>& bytes) {
    const auto at = static_cast<size_t>(change.offset);
    if (!change.is_write) return bytes.resize(at);
    bytes.resize(std::max(bytes.size(), at + change.bytes.size()));
    std::copy(change.bytes.begin(), change.bytes.end(), bytes.begin() + change.offset);
}

void FileImage::write(std::span<const std::byte> from, int64_t offset) {
    pending_.push_back({.offset = offset, .bytes = {from.begin(), from.end()}, .is_write = true});
    apply(pending_.back(), now_);
}

void FileImage::resize(int64_t bytes) {
    pending_.push_back({.offset = bytes});
    apply(pending_.back(), now_);
}

void FileImage::sync() {
    for (const Change& change : pending_) apply(change, durable_);
    pending_.clear();
}

std::vector<std::byte> FileImage::after(PowerCut& cut) const {
    std::vector<std::byte> left = durable_;
    for (const Change& change : pending_) {
        PowerCut::Fate fate = cut.draw();
        if (fate == PowerCut::Fate::torn && !change.is_write) fate = PowerCut::Fate::kept;
        if (fate == PowerCut::Fate::lost) continue;
        if (fate == PowerCut::Fate::kept) {
            apply(change, left);
            continue;
        }
        const auto end = change.offset + static_cast<int64_t>(change.bytes.size());
        for (int64_t at = change.offset; at < end;) {
            const int64_t next = std::min(end, round_down(at, kSectorBytes) + kSectorBytes);
            const auto first = change.bytes.begin() + (at - change.offset);
            if (cut.draw_sector()) apply({.offset = at, .bytes = {first, first + (next - at)}, .is_write = true}, left);
            at = next;
        }
    }
    return left;
}

}  // namespace windlass
