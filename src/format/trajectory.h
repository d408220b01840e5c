// trajectory.h: the log of a forward-only run. Base weights and this log restore the weights of any of its steps.
// Grammar, and why power may fail at any point: docs/format/trajectory.md.
//
// A step costs 32 bytes and 4 for each direction: the directions follow from the header and the step. Each record
// carries a sum over its predecessor's sum and itself, so the sum after a step identifies the whole history.
// Errors: MachineError from the file system; UserError(storage) for a log that is damaged, with step and byte.
//
// Threads: one at a time. One process at a time writes a log: the caller holds the lock on its folder.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "format/trajectory_header.h"

namespace windlass {

struct TrajectoryRecord {
    uint32_t step = 0;
    double learning_rate = 0;    // of this step, as it was used
    double decay = 1;            // what this step multiplies decayed weights with: 1 - learning rate * weight decay
    bool applied = true;         // false: a scalar was not finite, and the step left the weights as they were
    std::vector<float> scalars;  // [directions], the gradient projected onto each, in the order of their indices
    bool operator==(const TrajectoryRecord&) const = default;
};

// What a reader does about records that were synced and are now damaged or gone.
enum class OnDamage {
    refuse,  // throws, naming the first bad step
    stop,    // reads up to the step before it: to save what there is
};

class TrajectoryReader {
  public:
    // Reads the file through once and verifies every record; what is appended later is not seen.
    static TrajectoryReader open(FileSystem& files, const std::string& path, OnDamage on_damage = OnDamage::refuse);

    const TrajectoryHeader& header() const { return front_.header; }
    int64_t count() const { return count_; }
    int64_t first_step() const { return header().first_step; }
    int64_t last_step() const { return first_step() + count_ - 1; }  // first_step() - 1 when there is none
    // Empty, or what lies after the last whole record and is not read: an append that was never synced, or damage.
    const std::string& tail() const { return tail_; }

    // The records of these steps, both included, verified once more. Steps that the log does not hold are a
    // UserError(usage) that says which it does.
    std::vector<TrajectoryRecord> read(int64_t first_step, int64_t last_step);
    TrajectoryRecord read(int64_t step) { return read(step, step).front(); }
    // The sum of all that happened up to and with this step, from first_step() - 1 on: equal sums, equal histories.
    uint64_t history_sum(int64_t step);

  private:
    friend class TrajectoryWriter;
    TrajectoryReader(std::unique_ptr<File> file, TrajectoryFront front);
    void scan(int64_t file_bytes);
    std::string damage(int64_t file_bytes) const;
    UserError damaged(std::string_view what) const;
    std::vector<std::byte> load(int64_t index, int64_t count);
    void require_step(int64_t step, int64_t least) const;
    int64_t offset_of(int64_t index) const { return front_.bytes + index * record_bytes_; }
    int64_t step_of(int64_t index) const { return first_step() + index; }
    int64_t piece_records() const;  // as many as are read at once

    std::unique_ptr<File> file_;
    TrajectoryFront front_;
    int64_t record_bytes_ = 0;
    int64_t count_ = 0;
    uint64_t last_sum_ = 0;  // in the last whole record
    std::string tail_;
};

class TrajectoryWriter {
  public:
    // Makes the log, durable and without records. UserError(storage) when the file exists or a reader would refuse
    // the header.
    static TrajectoryWriter create(FileSystem& files, const std::string& path, const TrajectoryHeader& header);
    // Verifies the log, cuts off an append that was never whole (a warning says what), and syncs what is left.
    static TrajectoryWriter open(FileSystem& files, const std::string& path);
    // Makes `path`, durable, with the header and the records of `from` up to and with `last_step`, and opens it.
    // `from` is left alone, and may be damaged after that step.
    static TrajectoryWriter fork(FileSystem& files, const std::string& from, int64_t last_step,
                                 const std::string& path);

    const TrajectoryHeader& header() const { return header_; }
    int64_t next_step() const { return int64_t{header_.first_step} + count_; }
    // Of all that was appended so far, as TrajectoryReader::history_sum.
    uint64_t history_sum() const { return last_sum_; }

    // One write of a record with the step next_step(); not durable before sync(). When it throws, the log is as it
    // was, and the record may be appended again.
    void append(const TrajectoryRecord& record);
    // Every record appended so far is on stable storage when it returns.
    void sync();
    // Undo: forgets the steps after `last_step`, durably. From header().first_step - 1, which leaves none, on.
    void truncate_after(int64_t last_step);

  private:
    TrajectoryWriter(std::unique_ptr<File> file, TrajectoryReader& found);
    void require_usable() const;
    void write_mark(int64_t synced);

    std::unique_ptr<File> file_;
    TrajectoryHeader header_;
    uint64_t header_sum_ = 0;
    int64_t records_offset_ = 0;
    int64_t record_bytes_ = 0;
    int64_t count_ = 0;
    int64_t synced_ = 0;  // records, as the mark says
    uint64_t last_sum_ = 0;
    std::vector<std::byte> buffer_;  // one record
    bool failed_ = false;            // what the file holds is unknown: it is to be opened again
};

}  // namespace windlass
