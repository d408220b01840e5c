// working_store.h: the run's state on disk, in the schedule's terms: which bytes of which file a move touches.
//
// Wraps the Store (two versions, commit record) and the file that gradients spill to. Reads come from the version
// that is current and are verified; writes go to the other version and their checksums are kept for the commit.
// Threads: ranges() and verify() from the lane that reads, note_written() from the lane that writes.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "format/store.h"
#include "method/recipe.h"
#include "schedule/layout.h"
#include "schedule/schedule.h"
#include "tier/disk_mover.h"

namespace windlass {

// How a Store of this model and method is laid out: parameters in store order, sections low halves and state.
StoreLayout store_layout(const ModelSpec& model, const Recipe& recipe, int versions, std::string meta);

// Refuses a store of another model or method, naming the first difference.
void require_layout(const StoreLayout& found, const StoreLayout& expected, const std::string& path);

class WorkingStore {
  public:
    WorkingStore(FileSystem& files, Store store, const ModelSpec& model, const Recipe& recipe, std::string spill_path,
                 bool spills_gradients);
    ~WorkingStore();

    Store& store() { return store_; }
    // Index in the store of the chunk that starts at this element of a parameter.
    int64_t chunk_index(int param, int64_t first) const;

    std::vector<DiskRange> ranges(const MoveTask& task, std::byte* buffer);
    // After a read: the bytes are those that were committed. Throws UserError(storage) naming the chunk.
    void verify(const MoveTask& task, const std::byte* buffer);
    // After a write: remembers the checksums.
    void note_written(const MoveTask& task, const std::byte* buffer);
    // What was written since the last commit, and forgets it.
    std::vector<ChunkUpdate> take_written();

  private:
    int64_t exact_bytes(DiskPlace place, int64_t chunk) const;

    FileSystem& files_;
    Store store_;
    const ModelSpec& model_;
    std::vector<int> store_param_;          // parameter -> index in the store
    std::vector<int64_t> gradient_offset_;  // by parameter, in the spill file
    std::string spill_path_;
    std::unique_ptr<File> spill_;
    std::vector<ChunkSums> sums_;  // by chunk, of what was written
    std::vector<uint8_t> has_weight_, has_state_;
};

}  // namespace windlass
