// working_store.h: the run's state on disk, in the schedule's terms: which bytes of which file a move touches.
//
// Wraps the Store (two versions, commit record) and the files that gradients and activations spill to. Reads come from
// the version that is newest, committed or not, and are verified; writes go to the version that is not committed, and
// their checksums are kept for the commit.
// Threads: reads from one, writes and commits from another; the schedule orders those that touch the same chunk.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "format/checksum.h"
#include "format/store.h"
#include "schedule/layout.h"
#include "schedule/schedule.h"
#include "tier/disk_mover.h"

namespace windlass {

// Refuses a store of another model or method, naming the first difference.
void require_layout(const StoreLayout& found, const StoreLayout& expected, const std::string& path);
// Where the power may have failed within a commit, all chunks are those of the record that is left.
// UserError(storage) for damaged ones.
void require_undamaged(Store& store);

// All files of a store: what was begun of it and what spills next to it, too. Those that are not there are skipped.
void remove_store(FileSystem& files, const std::string& store_path);
// What they take of the disk.
int64_t store_file_bytes(FileSystem& files, const std::string& store_path);

inline constexpr const char* kUnfinishedStore = ".new";

// The checksum of each piece of a move, of its exact bytes: padding to whole blocks is left out.
class PieceSums {
  public:
    explicit PieceSums(std::vector<int64_t> exact_bytes) : exact_bytes_(std::move(exact_bytes)) {}
    // The next bytes; pieces come in their order.
    void add(size_t piece, std::span<const std::byte> bytes);
    // Of a piece that has come whole.
    uint64_t sum(size_t piece) const;

  private:
    std::vector<int64_t> exact_bytes_;  // empty: nothing is summed
    std::vector<uint64_t> sums_;        // of the pieces that are whole
    int64_t seen_ = 0;                  // of the one that is not
    std::optional<Xxh3Stream> stream_;
};

class WorkingStore {
  public:
    // `gradients`: gradients spill; `activation_bytes` of activations do.
    struct Spills {
        bool gradients = false;
        int64_t activation_bytes = 0;
    };
    WorkingStore(FileSystem& files, Store store, const TrainedModel& model, const std::string& spill_path,
                 const Spills& spills, GradientFormat gradients);
    ~WorkingStore();

    Store& store() { return store_; }
    // Index in the store of the chunk that starts at this element of a parameter.
    int64_t chunk_index(int param, int64_t first) const;

    std::vector<DiskRange> ranges(const MoveTask& task, std::byte* buffer);
    // The bytes that a move of weights or state carries, summed by `PieceSums::add` during the move.
    PieceSums piece_sums(const MoveTask& task) const;
    // After a read: the bytes are those that were committed. Throws UserError(storage) naming the chunk.
    void verify(const MoveTask& task, const PieceSums& found);
    // After a write: remembers the checksums.
    void note_written(const MoveTask& task, const PieceSums& written);
    // What was written since the last commit becomes current, with this step and run state; durable on return.
    void commit(int64_t step, const std::string& run_state);
    // What was written since the last commit is not to be: the committed version is the newest again.
    void discard_written();

  private:
    int64_t exact_bytes(DiskPlace place, int64_t chunk) const;
    uint64_t wanted_sum(const MoveTask& task, int64_t chunk);  // of what this read brings

    // A spill file, gone with this object.
    struct Spill {
        std::string path;
        std::unique_ptr<File> file;
    };
    Spill make_spill(const std::string& path, int64_t bytes);
    void remove(Spill& spill) noexcept;
    void take_committed();  // for the newest

    FileSystem& files_;
    Store store_;
    const TrainedModel& model_;
    const GradientFormat gradient_format_;
    std::vector<int> store_param_;          // parameter -> index in the store
    std::vector<int64_t> gradient_offset_;  // by parameter, in the spill file
    Spill gradients_, activations_;
    // The newest of one part of a chunk: what reads want, while a commit may be under way in another lane.
    struct Newest {
        std::atomic<int> version{0};
        uint64_t sum = 0;
        bool written = false;  // since the last commit
    };
    std::vector<Newest>& newest(DiskPlace place) { return place == DiskPlace::weight ? weights_ : states_; }

    std::vector<Newest> weights_, states_;  // by chunk
};

}  // namespace windlass
