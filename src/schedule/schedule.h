// schedule.h: a step as data: a flat list of tasks in topological order. execute does it, simulate predicts it.
//
// The order of the list is itself a valid sequential execution. Lanes work first-in first-out; a task also waits for
// the tasks of other lanes named in `after`, which check derives from what tasks read and write and from which
// buffers share addresses. Every edge points backward in the list, so there is no deadlock by construction.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "method/param_kernel.h"
#include "model/segment.h"
#include "schedule/demand.h"
#include "schedule/lanes.h"
#include "schedule/numerics.h"
#include "schedule/plan.h"
#include "schedule/waits.h"

namespace windlass {

// param: a kernel over parameters (method/param_kernel.h). host: what no device computes: a decision, or a mark.
enum class Verb : uint8_t { run, move, param, host };

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
    BufferSlice tokens;      // of the move that brought them
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
// tokens: a micro-batch's vectors (op/batch.h), [T] i32 each, one after the other, to where its runs read them.
enum class MoveKind : uint8_t { disk_read, disk_write, up, down, tokens };
LaneKind lane_of(MoveKind kind);  // not of tokens
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
    BufferId buffer = kNoBuffer;  // up, down, tokens: the one that is written
    BufferId source = kNoBuffer;  // up, down: the one that is read
    bool committed = false;       // disk_read: the version that is committed, even where there is a newer one
    int micro = 0;                // tokens: of this micro-batch
    int probe_index = 0;          // tokens: RunTask::probe_index, where answers are written
    std::vector<MovePiece> pieces;
};
inline constexpr int64_t kTokenBytes = 4 * sizeof(int32_t);  // of the vectors, for each token
// Which updates of past steps an act on arrival applies to a parameter. last: that of the step before, since the
// weights are updated where they live. deferred: all since they were last written back.
enum class Applies : uint8_t { none, last, deferred };

// A chunk, or several that are joined, or all of a parameter (ParamKernel::grain): where each slot of it is.
struct ParamChunk {
    int param = 0;
    int64_t first = 0;
    int64_t count = 0;
    BufferSlice weights, low, gradient, judge, narrow, plain, probes, squares, kept;
    GradientFormat gradient_format = GradientFormat::f32;  // that `gradient` has; it is widened where that is another
    std::vector<BufferSlice> state;
    BufferSlice block;  // low halves and state as the store has them, where they lie so
    // Of an act on arrival: in a step that writes back, and in the others.
    Applies writing_back = Applies::none, between = Applies::none;
    bool updates = false;  // the same: they are stored at last, since this is the parameter's home and first visit
    bool stores = true;    // false: it only reads weights, whatever its kernel may do to them
};

// param: a kernel over chunks. Of Grain::parameter all of each parameter in order, of Grain::group one tuple.
struct ParamTask {
    const ParamKernel* kernel = nullptr;
    int block = -1;  // whose parameters these are; on arrival, the block that reads them
    std::vector<ParamChunk> chunks;
    BufferSlice work;          // ParamKernel::work_bytes
    BufferSlice wide;          // f32, where narrow gradients are widened, one chunk after the other
    bool speculative = false;  // the norm is not known yet: as if nothing were clipped and everything finite
    int pass = -1;             // on arrival: index into Recipe::passes; -1: nothing is probed
    int point = -1;            // of the pass's points the only one that is made; -1: all of them
    std::shared_ptr<const ParamTuple> tuple;  // of Grain::group
    int iterations = 0;                       // the same: of learning, at most

    bool uses(ParamSlot slot) const { return kernel != nullptr && kernel->use_of(slot) != nullptr; }
};

// host: what the recipe decides at a moment, by losses and the norm; or, without one, the mark that the update which
// the step before deferred is whole, in memory and on disk: that step may be committed.
struct HostTask {
    std::optional<Stage> decides;
};

// Bytes [begin, end) of a buffer; end < 0: all of it.
struct BufferUse {
    BufferId buffer = kNoBuffer;
    bool write = false;
    int64_t begin = 0;
    int64_t end = -1;
};

// deferred: part of an update that the step before deferred; skipped where there is none. write_back: the same, and
// skipped too in steps that write nothing back (Schedule::writeback_steps).
enum class When : uint8_t { always, deferred, write_back };

struct Task {
    Verb verb = Verb::run;
    int lane = 0;      // index into Schedule::lanes
    int payload = -1;  // index into the list of its verb
    int block = -1;    // that it works for; -1: for no single one
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
    std::string name;  // "train/512", "eval/512", "decode/1", "refresh/512" (Phase::name), "redo", "flush"
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
    std::vector<ParamTask> params;
    std::string update_key;  // of updates (kernel_rate.h)
    std::vector<HostTask> hosts;
    bool is_phase = false;        // between two steps (method/phase.h)
    bool writes_answers = false;  // each point of a forward-only step reads rows of its own, with what it has written
    std::vector<Task> tasks;
    std::vector<Arrival> arrivals;  // pass by pass
    std::vector<BufferUse> uses;    // of all tasks, one after the other
    // Where execute finds results: the loss of each token [T, 1], f32; or the logits of each row's last token,
    // [1, V], one after the other in equal parts of their buffer. By micro-batch; where weights
    // are probed by what the recipe decides by, and for each of those by micro-batch.
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
    double start_s = 0, end_s = 0;
};

// Sum of demands: of a step on the average, where not every step's updates are written back.
Demand total_demand(const Schedule& schedule);
// Of some of its tasks.
Demand total_demand(std::span<const Task> tasks, int writeback_steps);
// Of a forward-only step that runs its schedule `rounds` times: updates are written back in the first alone.
Demand in_rounds(Demand demand, int64_t rounds);

}  // namespace windlass
