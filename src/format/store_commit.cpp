#include "format/store_commit.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/error.h"
#include "base/math.h"
#include "format/checksum.h"
#include "format/store_map.h"

namespace windlass {
namespace {

static_assert(std::endian::native == std::endian::little, "files of ours are little-endian, and so are the machines");
static_assert(sizeof(ChunkSums) == 16);

constexpr std::array<char, 8> kCommitMagic = {'W', 'N', 'D', 'L', 'C', 'O', 'M', 'M'};

struct CommitHead {
    uint64_t checksum = 0;  // of all bytes of the record after it
    std::array<char, 8> magic = kCommitMagic;
    uint64_t sequence = 0;
    int64_t step = 0;
    int64_t run_state_bytes = 0;
    uint64_t binding = 0;
    int64_t chunk_count = 0;
    int64_t record_bytes = 0;
};
static_assert(sizeof(CommitHead) == 64);

CommitHead commit_head_of(std::span<const std::byte> bytes) {
    CommitHead head;
    std::memcpy(&head, bytes.data(), sizeof(head));
    return head;
}

uint64_t checksum_of(std::span<const std::byte> record) {
    return xxh3_64(record.subspan(sizeof(uint64_t)));
}

}  // namespace

int64_t commit_record_bytes(int64_t chunk_count, int64_t run_state_bytes) {
    const auto per_chunk = static_cast<int64_t>(sizeof(ChunkSums)) + 1;
    return round_up(static_cast<int64_t>(sizeof(CommitHead)) + chunk_count * per_chunk + run_state_bytes,
                    StoreMap::kAlignment);
}

int64_t encode_commit(const CommitRecord& record, uint64_t binding, std::span<std::byte> into) {
    CommitHead head{.sequence = record.sequence,
                    .step = record.step,
                    .run_state_bytes = std::ssize(record.run_state),
                    .binding = binding,
                    .chunk_count = std::ssize(record.sums),
                    .record_bytes = commit_record_bytes(std::ssize(record.sums), std::ssize(record.run_state))};
    WINDLASS_CHECK(head.record_bytes <= std::ssize(into), "a record of {} bytes in a slot of {}", head.record_bytes,
                   into.size());
    std::byte* at = into.data();
    const auto put = [&at](const void* from, size_t bytes) {
        std::memcpy(at, from, bytes);
        at += bytes;
    };
    put(&head, sizeof(head));
    put(record.sums.data(), record.sums.size() * sizeof(ChunkSums));
    put(record.versions.data(), record.versions.size());
    put(record.run_state.data(), record.run_state.size());
    const auto whole = into.first(static_cast<size_t>(head.record_bytes));
    std::fill(at, whole.data() + whole.size(), std::byte{0});
    head.checksum = checksum_of(whole);
    std::memcpy(into.data(), &head.checksum, sizeof(head.checksum));
    return head.record_bytes;
}

std::optional<int64_t> peek_commit(std::span<const std::byte> front, uint64_t binding, int64_t chunk_count,
                                   int64_t slot_bytes) {
    const CommitHead head = commit_head_of(front);
    const bool ours = head.magic == kCommitMagic && head.binding == binding && head.chunk_count == chunk_count;
    if (!ours || head.run_state_bytes < 0 || head.run_state_bytes > slot_bytes) return std::nullopt;
    if (head.record_bytes != commit_record_bytes(chunk_count, head.run_state_bytes)) return std::nullopt;
    if (head.record_bytes > slot_bytes) return std::nullopt;
    return head.record_bytes;
}

std::optional<CommitRecord> decode_commit(std::span<const std::byte> bytes, uint64_t binding, int64_t chunk_count,
                                          int versions) {
    if (peek_commit(bytes, binding, chunk_count, std::ssize(bytes)) != std::ssize(bytes)) return std::nullopt;
    const CommitHead head = commit_head_of(bytes);
    if (head.checksum != checksum_of(bytes) || head.sequence == 0) return std::nullopt;
    CommitRecord record{.sequence = head.sequence, .step = head.step};
    const std::byte* at = bytes.data() + sizeof(head);
    const auto take = [&at](void* into, size_t count) {
        std::memcpy(into, at, count);
        at += count;
    };
    record.sums.resize(static_cast<size_t>(chunk_count));
    record.versions.resize(static_cast<size_t>(chunk_count));
    record.run_state.resize(static_cast<size_t>(head.run_state_bytes));
    take(record.sums.data(), record.sums.size() * sizeof(ChunkSums));
    take(record.versions.data(), record.versions.size());
    take(record.run_state.data(), record.run_state.size());
    if (std::ranges::any_of(record.versions, [&](int version) { return version >= versions; })) return std::nullopt;
    return record;
}

}  // namespace windlass
