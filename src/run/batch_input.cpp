#include "run/batch_input.h"

#include <array>
#include <vector>

#include "schedule/schedule.h"

namespace windlass {
namespace {

constexpr std::array kVectors = {&Batch::tokens, &Batch::positions, &Batch::doc_start, &Batch::targets};
static_assert(kVectors.size() * sizeof(int32_t) == kTokenBytes);

int64_t vector_bytes(const Batch& batch) {
    return batch.count() * static_cast<int64_t>(sizeof(int32_t));
}

}  // namespace

void put_batch(const Batch& batch, std::byte* to, CopyMover& mover, Stream& stream) {
    const auto bytes = static_cast<size_t>(vector_bytes(batch));
    std::vector<CopyRange> ranges;
    for (const auto vector : kVectors) {
        if (batch.*vector != nullptr)
            ranges.push_back(
                {std::as_bytes(std::span(batch.*vector, static_cast<size_t>(batch.count()))), {to, bytes}});
        to += bytes;
    }
    mover.transfer(ranges, stream);
}

Batch batch_at(const Batch& batch, std::byte* there) {
    Batch placed = batch;
    for (const auto vector : kVectors) {
        if (placed.*vector != nullptr) placed.*vector = reinterpret_cast<const int32_t*>(there);
        there += vector_bytes(batch);
    }
    return placed;
}

}  // namespace windlass
