// schedule.h: a step as data: a flat list of tasks in topological order. execute does it, simulate predicts it.
//
// The order of the list is itself a valid sequential execution. Lanes work first-in first-out; a task also waits for
// the tasks of other lanes named in `after`, which check derives from what tasks read and write and from which
// buffers share addresses. Every edge points backward in the list, so there is no deadlock by construction.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "model/segment.h"
#include "schedule/numerics.h"
#include "schedule/plan.h"

namespace windlass {

enum class LaneKind : uint8_t { compute, disk_read, disk_write };
inline constexpr int kLaneKinds = 3;

// Named owners: every byte of the arena belongs to one, and the plan prints them.
enum class Owner : uint8_t {
    weights,
    low_halves,
    state,
    gradients,
    activations,
    boundaries,
    workspace,
    cache,
    staging
};
inline constexpr int kOwners = 9;
std::string_view owner_name(Owner owner);

struct BufferSpec {
    std::string name;
    Owner owner = Owner::workspace;
    int64_t bytes = 0;
    // Filled by check:
    int64_t offset = -1;  // in the arena
    int first = -1;       // first and last task that touch it; persistent buffers live always
    int last = -1;
};

// Buffers [0, persistent count) of a ScheduleSet outlive a schedule; each schedule has its own from there on.
using BufferId = int;
inline constexpr BufferId kNoBuffer = -1;

struct BufferSlice {
    BufferId buffer = kNoBuffer;
    int64_t offset = 0;
};

enum class Verb : uint8_t { run, move, update, reduce };

// run: a segment on one block and micro-batch.
struct RunTask {
    int segment = -1;  // index into Schedule::segments
    int block = 0;     // ModelSpec::blocks.size() means ModelSpec::logits
    int micro = 0;
    std::array<BufferSlice, kRegions> regions{};
    std::vector<BufferSlice> hi, lo;       // by the program's weights; lo empty in bf16
    std::vector<BufferSlice> gradients;    // by the program's weights; kNoBuffer: not trained
    std::vector<uint8_t> first_gradient;   // the buffer holds nothing yet
    BufferSlice cache_keys, cache_values;  // decoding
};

// move: chunks of one kind between the disk and a buffer.
enum class DiskPlace : uint8_t { weight, low, state, gradient };
struct MovePiece {
    int param = 0;
    int64_t first = 0;  // element of the parameter: a multiple of kChunkElements
    int64_t count = 0;
    int64_t offset = 0;  // in the buffer, bytes
};
struct MoveTask {
    bool to_disk = false;
    DiskPlace place = DiskPlace::weight;
    BufferId buffer = kNoBuffer;
    std::vector<MovePiece> pieces;
};

// update: one chunk of one parameter.
struct UpdateTask {
    int param = 0;
    int64_t first = 0;
    int64_t count = 0;
    BufferSlice hi, lo, gradient;
    std::vector<BufferSlice> state;
};

// reduce: partial sums of squares of one parameter's gradient; or, with param < 0, the norm, clip and apply flags.
struct ReduceTask {
    int param = -1;
    BufferSlice gradient;
};

struct BufferUse {
    BufferId buffer = kNoBuffer;
    bool write = false;
};

struct Demand {
    double flops = 0;
    double model_flops = 0;
    int64_t memory_bytes = 0;
    int64_t disk_read_bytes = 0;
    int64_t disk_write_bytes = 0;
};

struct Task {
    Verb verb = Verb::run;
    LaneKind lane = LaneKind::compute;
    int payload = -1;  // index into the list of its verb
    std::vector<BufferUse> uses;
    Demand demand;
    // Filled by check: how many tasks of each lane must be done before this one starts.
    std::array<int, kLaneKinds> after{};
};

struct Schedule {
    std::string name;  // "train/512", "eval/512", "decode/1"
    OpSize size;       // of a micro-batch
    int micro_count = 1;
    std::vector<Segment> segments;
    std::vector<BufferSpec> buffers;  // ids continue behind the set's persistent ones
    std::vector<RunTask> runs;
    std::vector<MoveTask> moves;
    std::vector<UpdateTask> updates;
    std::vector<ReduceTask> reduces;
    std::vector<Task> tasks;
    // Where execute finds results, by micro-batch: the loss of each token [T, 1], f32; or logits [T, V].
    bool gives_logits = false;
    std::vector<BufferSlice> outputs;
    int64_t transient_bytes = 0;  // filled by check
};

// Persistent buffers, by what they hold; kNoBuffer where the plan keeps that on disk or nobody wants it.
struct PersistentIds {
    BufferId weights = kNoBuffer;
    BufferId low = kNoBuffer;
    BufferId gradients = kNoBuffer;
    std::vector<BufferId> state;  // one per Recipe::state
    BufferId cache = kNoBuffer;
    BufferId staging = kNoBuffer;
    std::vector<int64_t> weight_offsets;  // by parameter; low halves share them
    std::vector<int64_t> word_offsets;    // by parameter: offsets where elements take four bytes
    std::vector<int64_t> cache_offsets;   // by block: keys, with values right behind
    int64_t cache_rows = 0;               // rows * capacity
};

struct ScheduleSet {
    std::vector<BufferSpec> persistent;
    PersistentIds ids;
    std::vector<Schedule> schedules;
    int64_t persistent_bytes = 0;  // filled by check
    int64_t arena_bytes = 0;       // filled by check: all of the memory a run uses after start-up

    const BufferSpec& buffer(const Schedule& schedule, BufferId id) const;
    const Schedule* find(std::string_view name) const;
};

// Sum of demands.
Demand total_demand(const Schedule& schedule);

}  // namespace windlass
