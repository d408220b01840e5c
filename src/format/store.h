// store.h: the working store, the durable home of training state. Grammar and crash argument: docs/format/store.md.
//
// A step writes the version of each chunk that is not current, then commit() makes all of them current at once.
// Whatever happens before commit() returns, the store opens as it was before or as it is after, never as a mix.
// Errors: MachineError from the file system; UserError(storage) for a file that is not a whole store of this version.
//
// Threads: one at a time. One process at a time opens a store for writing: the caller holds the lock on its folder.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/file.h"
#include "format/store_commit.h"
#include "format/store_map.h"

namespace windlass {

struct ChunkUpdate {
    int64_t chunk = 0;
    ChunkSums sums;  // of the bytes written to next_version(chunk)
};

// A chunk that does not match its sums.
struct DamagedChunk {
    std::string param;
    int64_t first = 0;         // element of the parameter
    int64_t count = 0;         // elements
    std::string part;          // "weights", or "state (lo, m, v)"
    std::string text() const;  // "model.norm.weight elements [0, 64): weights"
};

class Store {
  public:
    // Makes the file, which must not exist, with all its blocks reserved: ENOSPC now, with what is needed and free.
    // Nothing is committed yet (committed_step() is -1): every chunk is to be written to version 0 and committed.
    static Store create(FileSystem& files, const std::string& path, StoreLayout layout);
    // Verifies everything but the chunks, and takes the newest valid record; a store without one is refused.
    // `mode` is update, or read for a store that is only to be read.
    static Store open(FileSystem& files, const std::string& path, OpenMode mode = OpenMode::update);
    // The length of a store's file: what the planner counts.
    static int64_t file_bytes(const StoreLayout& layout);

    const StoreLayout& layout() const { return map_.layout(); }
    const StoreMap& map() const { return map_; }
    int64_t chunk_count() const { return map_.chunk_count(); }
    int64_t first_chunk(int64_t param) const { return map_.first_chunk(param); }
    ChunkRef chunk(int64_t index) const { return map_.chunk(index); }
    // Chunks of one parameter, and parameters in their order, are neighbours in a version's weights.
    Extent weight_extent(int64_t chunk, int version) const { return map_.weight_extent(chunk, version); }
    Extent state_extent(int64_t chunk, int version) const { return map_.state_extent(chunk, version); }
    int64_t section_offset(int64_t chunk, int64_t section) const { return map_.section_offset(chunk, section); }

    // The file, opened for direct transfers where the file system allows them: offsets, sizes and buffers aligned.
    File& file() { return *file_; }
    int current_version(int64_t chunk) const { return committed_.versions[static_cast<size_t>(chunk)]; }
    int next_version(int64_t chunk) const;
    ChunkSums sums(int64_t chunk) const { return committed_.sums[static_cast<size_t>(chunk)]; }

    // Makes `written` current: every transfer to the file was reaped before. The first commit names every chunk; a
    // snapshot has no second. When it throws, the store may be in either state: it takes no further commit, and is
    // to be opened again.
    void commit(int64_t step, const std::string& run_state, std::span<const ChunkUpdate> written);
    int64_t committed_step() const { return committed_.step; }
    const std::string& committed_run_state() const { return committed_.run_state; }

    // The other record is not empty and not valid: a commit was cut off, or the newest record is damaged. Only
    // verify_all() can tell whether the chunks are still those of this record.
    bool must_verify() const { return must_verify_; }
    // Reads the current version of a chunk. `scratch` grows to what a chunk needs.
    std::optional<DamagedChunk> verify_chunk(int64_t chunk, HugeBuffer& scratch);
    std::vector<DamagedChunk> verify_all();

  private:
    Store(std::unique_ptr<File> file, StoreMap map, uint64_t binding);
    std::optional<CommitRecord> read_slot(int64_t slot);
    bool slot_is_empty(int64_t slot);
    CommitRecord successor(int64_t step, const std::string& run_state, std::span<const ChunkUpdate> written) const;
    uint64_t sum_of(Extent extent, HugeBuffer& scratch);

    std::unique_ptr<File> file_;
    StoreMap map_;
    uint64_t binding_;        // the header's checksum
    CommitRecord committed_;  // what the current slot holds
    int64_t current_slot_ = 1;
    HugeBuffer record_buffer_;
    bool must_verify_ = false;
    bool commit_failed_ = false;
};

}  // namespace windlass
