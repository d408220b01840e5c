// store_commit.h: the record that makes a step of a store current. Grammar: docs/format/store.md, `record`.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace windlass {

// XXH3-64 of the exact bytes of a chunk's weights and of its state (all sections with their filling).
struct ChunkSums {
    uint64_t weight = 0;
    uint64_t state = 0;
    bool operator==(const ChunkSums&) const = default;
};

struct CommitRecord {
    uint64_t sequence = 0;        // 1 for the first; 0: nothing is committed
    int64_t step = -1;            // optimizer steps that the state includes
    std::vector<ChunkSums> sums;  // one per chunk, of the version that is current
    std::vector<uint8_t> versions;
    std::string run_state;
};

// Of a record with its filling: a multiple of 4096.
int64_t commit_record_bytes(int64_t chunk_count, int64_t run_state_bytes);

// Writes the record to the front of `into` and returns its bytes. `binding` ties it to one header.
int64_t encode_commit(const CommitRecord& record, uint64_t binding, std::span<std::byte> into);

// How many bytes a record says it has, from its first 4096 bytes; nothing when no record of this store starts there.
std::optional<int64_t> peek_commit(std::span<const std::byte> front, uint64_t binding, int64_t chunk_count,
                                   int64_t slot_bytes);
// The record in exactly these bytes; nothing when any of them is wrong.
std::optional<CommitRecord> decode_commit(std::span<const std::byte> bytes, uint64_t binding, int64_t chunk_count,
                                          int versions);

}  // namespace windlass
