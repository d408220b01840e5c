// schedule.h: a step as data: a flat list of tasks in topological order. execute does it, simulate predicts it.
//
// The order of the list is itself a valid sequential execution. Lanes work first-in first-out; a task also waits for
// the tasks of other lanes named in `after`, which check derives from what tasks read and write and from which
// buffers share addresses. Every edge points backward in the list, so there is no deadlock by construction.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "method/gradient_format.h"
#include "model/adapters/adapter.h"
#include "model/segment.h"
#include "schedule/numerics.h"
#include "schedule/plan.h"
#include "schedule/waits.h"

namespace windlass {

// Who works: compute is the device, host the processor's share of the update, up and down the link between host and
// device. Of a kind there may be several, told apart by the index of their device or drive.
enum class LaneKind : uint8_t { compute, host, up, down, disk_read, disk_write };
inline constexpr int kLaneKinds = 6;
struct LaneId {
    LaneKind kind = LaneKind::compute;
    int index = 0;
    LaneId() = default;
    LaneId(LaneKind kind_in, int index_in = 0) : kind(kind_in), index(index_in) {}
    bool operator==(const LaneId&) const = default;
};
// Position of a kind in sums by kind, for reports.
inline size_t slot(LaneKind lane) {
    return static_cast<size_t>(lane);
}
std::string_view lane_name(LaneKind lane);
// One lane of each kind, in the order of the kinds: those of a device of this index, and of the machine that it is in.
std::vector<LaneId> lanes_beside(int device);
// The first lane of this kind: an index into `lanes`.
int find_lane(std::span<const LaneId> lanes, LaneKind kind);

// Whose memory a buffer is in. Where the device has none of its own, everything is in `device`.
enum class TierKind : uint8_t { device, host };
inline constexpr int kTierKinds = 2;
struct TierId {
    TierKind kind = TierKind::device;
    int index = 0;
    TierId() = default;
    TierId(TierKind kind_in, int index_in = 0) : kind(kind_in), index(index_in) {}
    bool operator==(const TierId&) const = default;
};
inline size_t slot(TierKind tier) {
    return static_cast<size_t>(tier);
}
std::string_view tier_name(TierKind tier);
// The memory of a device of this index, and the host's.
std::vector<TierId> tiers_beside(int device);
int find_tier(std::span<const TierId> tiers, TierKind kind);

// Named owners: every byte of the arena belongs to one, and the plan prints them.
enum class MemoryTag : uint8_t {
    weights,
    probes,  // what is computed with instead of weights: perturbed, converted, directions
    low_halves,
    state,
    gradients,
    kept,  // what speculative updates overwrote, where no store has it
    activations,
    block_inputs,
    workspace,
    cache,
    staging
};
inline constexpr int kMemoryTags = 11;
std::string_view memory_tag_name(MemoryTag tag);

struct BufferSpec {
    std::string name;  // says what it holds: "work"; short, since planning makes millions
    MemoryTag tag = MemoryTag::workspace;
    int64_t bytes = 0;
    int tier = 0;    // index into ScheduleSet::tiers
    int block = -1;  // that it belongs to; -1: no single one
    int micro = -1;  // the same of a micro-batch
    // Filled by check:
    int64_t offset = -1;  // in its tier's arena
    int first = -1;       // first and last task that touch it; persistent buffers live always
    int last = -1;
};

// For messages: "work of block 3, micro-batch 0".
std::string buffer_text(const BufferSpec& buffer);

// Buffers [0, persistent count) of a ScheduleSet outlive a schedule; each schedule has its own from there on.
using BufferId = int;
inline constexpr BufferId kNoBuffer = -1;

struct BufferSlice {
    BufferId buffer = kNoBuffer;
    int64_t offset = 0;
};

// round: gradients whose sums are complete become what the norm and the update see of them (Numerics::gradient_format).
// materialize: makes what runs read of a block's weights that are kept otherwise (Recipe::materialize).
// input: a micro-batch's tokens go to where its runs read them.
// mark: the update that the step before deferred is whole, in memory and on disk: that step may be committed.
// refresh: what a projected layer has learnt is written into its weight, and its projectors are fitted to its gradient.
enum class Verb : uint8_t { run, move, update, round, reduce, materialize, input, mark, refresh };

// Where a run reads one of its program's weights, and what it finds there.
struct WeightUse {
    BufferSlice data;
    BufferSlice low;           // low halves that are joined to `data`; kNoBuffer: none
    DType type = DType::bf16;  // of `data`
};

// run: a segment on one block and micro-batch.
struct RunTask {
    int segment = -1;  // index into Schedule::segments
    int block = 0;     // ModelSpec::blocks.size() means ModelSpec::logits
    int micro = 0;
    int probe_index = 0;     // of a forward-only step: which of the perturbed forwards, counted over all passes
    int last_token_of = -1;  // decoding: of the region `input` it reads the last token of this row, and nothing else
    BufferSlice tokens;      // InputTask::to
    std::array<BufferSlice, kRegions> regions{};
    std::vector<WeightUse> weights;        // by the program's weights
    std::vector<BufferSlice> gradients;    // by the program's weights; kNoBuffer: not trained
    std::vector<uint8_t> first_gradient;   // the buffer holds nothing yet
    BufferSlice cache_keys, cache_values;  // decoding
    // Tangent: by the program's weights, k of each in the type that is computed with, or their factors; kNoBuffer: of
    // one that is frozen.
    std::vector<BufferSlice> directions;
};

// move: pieces of one kind between the disk and a buffer, or between a buffer of the host and one of the device.
enum class MoveKind : uint8_t { disk_read, disk_write, up, down };
LaneKind lane_of(MoveKind kind);
enum class DiskPlace : uint8_t { weight, low, state, gradient, activation };
inline constexpr int kDiskPlaces = 5;
struct MovePiece {
    int param = -1;      // of weights, low halves, state and gradients
    int64_t first = 0;   // disk: element of the parameter, a multiple of kChunkElements; activation: byte in the file
    int64_t count = 0;   // disk: elements
    int64_t offset = 0;  // bytes, in `buffer`
    int64_t source = 0;  // up, down: bytes, in `source`
    int64_t bytes = 0;   // in memory
};
struct MoveTask {
    MoveKind kind = MoveKind::disk_read;
    DiskPlace place = DiskPlace::weight;
    BufferId buffer = kNoBuffer;  // up, down: the one that is written
    BufferId source = kNoBuffer;  // up, down: the one that is read
    bool committed = false;       // disk_read: the version that is committed, even where there is a newer one
    std::vector<MovePiece> pieces;
};

// update: a group of chunks.
struct UpdateChunk {
    int param = 0;
    int64_t first = 0;
    int64_t count = 0;
    BufferSlice hi, lo, gradient;
    GradientFormat gradient_format = GradientFormat::f32;  // that `gradient` has
    std::vector<BufferSlice> state;
    BufferSlice block;  // low halves and state as the store has them, where they lie so
    // Weights, low halves and state as they were before a guess (kept_bytes in layout.h): a speculative update first
    // copies them here. kNoBuffer: the store has them, or nothing is speculative.
    BufferSlice kept;
};
struct UpdateTask {
    std::vector<UpdateChunk> chunks;  // of Recipe::whole_parameters all of each parameter, in order
    BufferSlice work;                 // Recipe::update_work
    BufferSlice wide;                 // f32, where narrow gradients are widened, one chunk after the other
    bool keeps_only = false;          // copies to `kept` what another task is to overwrite, and updates nothing
    bool speculative = false;         // the norm is not known yet: as if nothing were clipped and everything finite
    bool restores = false;            // first takes what `kept` has, even where the step is not applied
};

// refresh: the chunks of one projected layer: of `inner`, with its state, then those of the weight and of both
// projectors.
struct RefreshTask {
    ProjectedLayer layer;
    int iterations = 0;  // of learning, at most
    std::vector<UpdateChunk> chunks;
    BufferSlice fit, judge;  // the weight's gradients, f32, of different rows
    BufferSlice work;        // refresh_work_bytes
};

// round: chunks of gradients, in f32 in place; and in the form in which they wait or leave, where `narrow` is given.
struct RoundPart {
    int param = -1;
    int64_t first = 0;
    int64_t count = 0;
    BufferSlice sum, narrow;
};
struct RoundTask {
    std::vector<RoundPart> parts;
};

// reduce: sums of squares of gradients, of each parameter its own (ParamPlace::squares); or, of none, what the host
// decides by all of them: the norm, clip and apply flags; or by the losses of a forward-only step. Where gradients are
// used at once: by the losses whether anything is applied (of_losses), and in the end by the norm whether that was
// well.
struct ReducePart {
    int param = -1;
    BufferSlice gradient;
};
struct ReduceTask {
    std::vector<ReducePart> parts;
    bool of_losses = false;
    bool decides() const { return parts.empty(); }
};

// input: the vectors of a Batch (op/batch.h), [T] i32 each, one after the other.
struct InputTask {
    int micro = 0;
    int probe_index = 0;  // RunTask::probe_index, where answers are written
    BufferSlice to;
};
inline constexpr int64_t kInputBytesPerToken = 4 * sizeof(int32_t);

// Which updates of past steps a materialize task applies to a parameter. last: that of the step before, since the
// weights are updated where they live. deferred: all since they were last written back.
enum class Applies : uint8_t { none, last, deferred };
struct MaterializeParam {
    int param = 0;
    bool updates = false;  // and stores them: its home is this block, which is materialized for the first time
    // In a step that writes back, and in the others.
    Applies writing_back = Applies::none, between = Applies::none;
    BufferSlice weights, plain, probes;
};
// materialize: the parameters of one block.
struct MaterializeTask {
    int block = 0;
    int pass = -1;   // index into Recipe::passes; -1: nothing is probed
    int point = -1;  // of the pass's points the only one that is made; -1: all of them
    std::vector<MaterializeParam> params;
};

// Bytes [begin, end) of a buffer; end < 0: all of it.
struct BufferUse {
    BufferId buffer = kNoBuffer;
    bool write = false;
    int64_t begin = 0;
    int64_t end = -1;
};

struct Demand {
    double flops = 0;
    double model_flops = 0;
    double noise = 0;  // random numbers drawn
    int64_t memory_bytes = 0;
    int64_t up_bytes = 0;
    int64_t down_bytes = 0;
    int64_t disk_read_bytes = 0;
    int64_t disk_write_bytes = 0;

    Demand& operator-=(const Demand& part);
    Demand operator-(const Demand& part) const { return Demand(*this) -= part; }
};

// deferred: part of an update that the step before deferred; skipped where there is none. write_back: the same, and
// skipped too in steps that write nothing back (Schedule::writeback_steps).
enum class When : uint8_t { always, deferred, write_back };

struct Task {
    Verb verb = Verb::run;
    int lane = 0;      // index into Schedule::lanes
    int payload = -1;  // index into the list of its verb
    When when = When::always;
    int first_use = 0, use_count = 0;  // Schedule::uses_of
    Demand demand;
    Waits after;  // filled by check
};

// Where the list of tasks comes to a block in one of a step's passes. What was read early for it is before that.
struct Arrival {
    int block = 0;
    int task = 0;  // the first one that the list has from there
};

struct Schedule {
    std::string name;  // "train/512", "eval/512", "decode/1", "refresh/512", "redo", "flush"
    OpSize size;       // of a micro-batch
    int micro_batches = 1;
    int host_threads = 0;  // of the host lane; size.threads are those of the compute lane
    // Forward-only: updated weights are written back every writeback_steps (Plan::writeback_steps). In between,
    // moves of deferred updates are skipped.
    int writeback_steps = 1;
    std::vector<LaneId> lanes = lanes_beside(0);
    std::vector<Segment> segments;
    std::vector<BufferSpec> buffers;  // ids continue after the set's persistent ones
    std::vector<RunTask> runs;
    std::vector<MoveTask> moves;
    std::vector<UpdateTask> updates;
    std::string update_key;  // of them (kernel_rate.h)
    std::vector<RoundTask> rounds;
    std::vector<RefreshTask> refreshes;
    std::vector<ReduceTask> reduces;
    std::vector<MaterializeTask> materializations;
    std::vector<InputTask> inputs;
    bool writes_answers = false;  // each point of a forward-only step reads rows of its own, with what it has written
    std::vector<Task> tasks;
    std::vector<Arrival> arrivals;  // pass by pass
    std::vector<BufferUse> uses;    // of all tasks, one after the other
    // Where execute finds results: the loss of each token [T, 1], f32; or the logits of each row's last token,
    // [1, V], one after the other in equal parts of their buffer. By micro-batch; where weights
    // are probed by what Recipe::conclude needs to know, and for each of those by micro-batch.
    bool gives_logits = false;
    std::vector<BufferSlice> outputs;
    int64_t activation_file_bytes = 0;     // disk that spilled activations take
    std::vector<int64_t> transient_bytes;  // by tier; filled by check

    std::span<const BufferUse> uses_of(const Task& task) const {
        return std::span(uses).subspan(static_cast<size_t>(task.first_use), static_cast<size_t>(task.use_count));
    }
    std::span<BufferUse> uses_of(const Task& task) {
        return std::span(uses).subspan(static_cast<size_t>(task.first_use), static_cast<size_t>(task.use_count));
    }
};

// Where a parameter is in the persistent buffers; kNoBuffer if the plan keeps it on disk or no task needs it.
struct ParamPlace {
    BufferSlice weights, low, gradient;
    // On the device, of weights that stay there while their state is elsewhere: what runs read. `weights` and `low` are
    // then where the update changes them, and each update's outcome is copied here.
    BufferSlice resident, resident_low;
    // The form that gradients have between the step that finds them and the update. Chunks of it lie one after the
    // other: in `gradient` those that are updated where the state is, in `visiting_gradient`, on the device, those
    // whose state comes there to be updated (Plan::device_groups), which `visits` names by chunk; empty: none.
    GradientFormat gradient_format = GradientFormat::f32;
    BufferSlice visiting_gradient;
    std::vector<uint8_t> visits;
    std::vector<BufferSlice> state;  // one per Recipe::state
    BufferSlice chunks;              // instead of low and state: chunk by chunk as a working store has them
    BufferSlice kept;                // chunk by chunk, where updates are speculative without a store
    BufferSlice squares;             // sums over each kNormChunkElements of the gradient, f64, where the norm is needed
};
// Where a block's keys and values of earlier tokens wait for the next ones: keys, and as many bytes of values after
// them.
struct CachePlace {
    int64_t bytes = 0;         // of both; 0: the block caches nothing
    BufferSlice memory;        // kNoBuffer: on disk, at
    int64_t file_offset = -1;  // of the file that activations spill to
};
struct PersistentIds {
    std::vector<ParamPlace> params;
    BufferId staging = kNoBuffer;
    BufferId squares = kNoBuffer;    // of all parameters
    std::vector<CachePlace> caches;  // by block; empty: nothing is decoded
    int64_t cache_rows = 0;          // rows * capacity
    int64_t cache_file_bytes = 0;
};

struct ScheduleSet {
    std::vector<TierId> tiers = tiers_beside(0);
    bool own_memory = false;  // the device's: lanes of the host and of drives reach the host's alone
    std::vector<BufferSpec> persistent;
    PersistentIds ids;
    std::vector<Schedule> schedules;
    // Filled by check, by tier: all of the memory a run uses after start-up.
    std::vector<int64_t> persistent_bytes;
    std::vector<int64_t> arena_bytes;

    const BufferSpec& buffer(const Schedule& schedule, BufferId id) const;
    int64_t memory_bytes() const;  // of all tiers
    // One of the lists by tier, added up by kind.
    std::array<int64_t, kTierKinds> by_kind(const std::vector<int64_t>& bytes) const;
    int64_t activation_file_bytes() const;
    const Schedule* find(std::string_view name) const;
};

// When a task ran, or would: seconds since the step began.
struct TaskSpan {
    double start_s = 0;
    double end_s = 0;
};

// Sum of demands: of a step on the average, where not every step's updates are written back.
Demand total_demand(const Schedule& schedule);
// Of some of its tasks.
Demand total_demand(std::span<const Task> tasks, int writeback_steps);
// Of a forward-only step that runs its schedule `rounds` times: updates are written back in the first alone.
Demand in_rounds(Demand demand, int64_t rounds);

}  // namespace windlass
