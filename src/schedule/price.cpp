#include "schedule/price.h"

#include <algorithm>

#include "schedule/kernel_rate.h"
#include "schedule/layout.h"

namespace windlass {
namespace {

// An unknown rate costs nothing.
double ratio(double amount, double rate) {
    return rate > 0 ? amount / rate : 0.0;
}

double amount(int64_t bytes) {
    return static_cast<double>(bytes);
}

GemmShape shape_of(const SegmentCall& call, const OpSize& size) {
    if (call.node->op->work == OpWork::attention) return GemmShape::attention;
    return size.tokens() <= kNarrowRows ? GemmShape::narrow : GemmShape::large;
}

// The share of a machine's rate for products that some of its threads have.
double products_share(const Machine& machine, int threads) {
    const double all = machine.threads, used = std::min(all, static_cast<double>(threads)), share = used / all;
    // One thread alone does more than its share of all threads' work: it waits for no other.
    if (all == 1 || machine.one_thread_gain <= 0) return share;
    return share * (1 + (machine.one_thread_gain - 1) * (all - used) / (all - 1));
}

// Of the kind of updates that a schedule has; of others `otherwise`.
// Bytes do not tell how long an update takes: 8-bit moments move 16 bytes a number where fp32 moves 28, and take as
// long, since they are rounded.
double update_rate(const std::map<std::string, double, std::less<>>& known, const std::string& key, double otherwise) {
    const auto found = known.find(key);
    return found != known.end() ? found->second : otherwise;
}

}  // namespace

PriceList::PriceList(const Schedule& schedule, const Machine& machine)
    : schedule_(schedule),
      machine_(machine),
      compute_share_(std::min(1.0, static_cast<double>(schedule.size.threads) / machine.threads)),
      products_share_(products_share(machine, schedule.size.threads)),
      host_share_(std::min(1.0, static_cast<double>(schedule.host_threads) / machine.threads)),
      memory_bytes_per_s_(machine.device_memory_bytes_per_s),
      host_update_bytes_per_s_(
          update_rate(machine.updates, schedule.update_key,
                      machine.update_bytes_per_s > 0 ? machine.update_bytes_per_s : machine.memory_bytes_per_s)),
      device_update_bytes_per_s_(
          update_rate(machine.device_updates, schedule.update_key, machine.device_memory_bytes_per_s)) {
    if (machine.unified_memory) memory_bytes_per_s_ = machine.memory_bytes_per_s;
    segments_.reserve(schedule.segments.size());
    for (const Segment& segment : schedule.segments) segments_.push_back(segment_work(segment));
}

double PriceList::call_rate(const SegmentCall& call, const OpSize& size) const {
    // Measured for the model's own shapes: without bf16 instructions, gradients of weights run at 0.6 to 0.9 of the
    // rate of a large product, and predictions by that rate were a quarter too short.
    if (!machine_.kernels.empty()) {
        const auto known = machine_.kernels.find(kernel_key(*call.node->op, call.node->spec, size, call.mode));
        if (known != machine_.kernels.end()) return known->second;
    }
    return machine_.gemm_flops(schedule_.size.compute, shape_of(call, size));
}

double PriceList::kernel_seconds(double flops, double bytes, double flops_per_s) const {
    double products = ratio(flops, flops_per_s);
    if (machine_.unified_memory) products /= products_share_;
    // The longer of the two, not their sum: rates of products were measured with the memory that they touch.
    return machine_.kernel_seconds + std::max(products, ratio(bytes, memory_bytes_per_s_));
}

void PriceList::add_compute_bytes(Work& work, double bytes) const {
    (machine_.unified_memory ? work.host_bytes : work.device_bytes) += bytes;
    work.cores = machine_.unified_memory ? compute_share_ : 0;
}

PriceList::Work PriceList::segment_work(const Segment& segment) const {
    Work work;
    for (const SegmentCall& call : segment.calls) {
        const double bytes = amount(call.cost.bytes);
        work.seconds += kernel_seconds(call.cost.flops, bytes, call_rate(call, segment.size));
        add_compute_bytes(work, bytes);
    }
    return work;
}

const ParamTask* PriceList::param_of(const Task& task) const {
    return task.verb == Verb::param && task.payload >= 0 ? &schedule_.params[static_cast<size_t>(task.payload)]
                                                         : nullptr;
}

// Where the compute lane works. Memory moves and random numbers are drawn at the same time; both directions of a probe
// share their numbers.
PriceList::Work PriceList::compute_work(const Task& task) const {
    if (task.verb == Verb::run && task.payload >= 0) {
        const int segment = schedule_.runs[static_cast<size_t>(task.payload)].segment;
        return segments_[static_cast<size_t>(segment)];
    }
    Work work;
    const double bytes = amount(task.demand.memory_bytes);
    double draws = ratio(task.demand.noise, machine_.noise_per_s);
    if (machine_.unified_memory) draws /= compute_share_;
    work.seconds =
        (calls(task) - 1) * machine_.kernel_seconds +
        std::max(kernel_seconds(task.demand.flops, bytes, machine_.gemm_flops(schedule_.size.compute)), draws);
    add_compute_bytes(work, bytes);
    return work;
}

bool PriceList::has_update_rate(const Task& task) const {
    const ParamTask* const param = param_of(task);
    return param != nullptr && param->kernel->has_update_rate;
}

PriceList::Work PriceList::update_work(const Task& task) const {
    Work work;
    const double bytes = amount(task.demand.memory_bytes);
    work.seconds = calls(task) * machine_.kernel_seconds;
    const bool on_host = kind_of(task) == LaneKind::host;
    // What the compute lane updates lives where it computes. Priced as the host's, updates of 8 billion parameters on
    // an H200 made the predicted step 2.19 s instead of 1.59 s.
    if (!on_host && !machine_.unified_memory) {
        work.seconds += ratio(bytes, device_update_bytes_per_s_);
        work.device_bytes = bytes;
        return work;
    }
    work.cores = on_host ? host_share_ : compute_share_;
    if (work.cores > 0) work.seconds += ratio(bytes, host_update_bytes_per_s_ * work.cores);
    work.host_bytes = bytes;
    return work;
}

// One for each chunk, and one more each where its gradient is widened; or one for each parameter, or for a group.
double PriceList::calls(const Task& task) const {
    const ParamTask* const param = param_of(task);
    if (param == nullptr || param->kernel->grain == Grain::group) return 1.0;
    int64_t calls = 0;
    for (const ParamChunk& chunk : param->chunks) {
        const bool is_widened = chunk.gradient_format != GradientFormat::f32 && param->uses(ParamSlot::gradient);
        const int64_t chunks = param->kernel->grain == Grain::chunk ? chunks_in(chunk.count) : chunk.first == 0 ? 1 : 0;
        calls += (1 + (is_widened ? 1 : 0)) * chunks;
    }
    return amount(calls);
}

double PriceList::pieces(const Task& task) const {
    if (task.verb != Verb::move || task.payload < 0) return 1.0;
    int64_t pieces = 0;
    for (const MovePiece& piece : schedule_.moves[static_cast<size_t>(task.payload)].pieces)
        pieces += chunks_in(piece.count);
    return amount(pieces);
}

PriceList::Work PriceList::copy_work(const Task& task) const {
    Work work;
    const double up = amount(task.demand.up_bytes), down = amount(task.demand.down_bytes);
    const double bytes = up + down;
    work.seconds = pieces(task) * machine_.kernel_seconds + ratio(up, machine_.link_up_bytes_per_s) +
                   ratio(down, machine_.link_down_bytes_per_s);
    if (!machine_.unified_memory) {
        work.host_bytes = work.device_bytes = bytes;
        return work;
    }
    // One thread copies, reading and writing each byte; that takes all threads bytes / (half of their rate) each.
    work.host_bytes = 2 * bytes;
    const double whole_machine = ratio(work.host_bytes, machine_.memory_bytes_per_s);
    if (work.seconds > 0) work.cores = std::min(whole_machine / work.seconds, 1.0 / machine_.threads);
    return work;
}

bool PriceList::is_summed(const Task& task) const {
    if (task.verb != Verb::move || task.payload < 0) return false;
    const DiskPlace place = schedule_.moves[static_cast<size_t>(task.payload)].place;
    return place == DiskPlace::weight || place == DiskPlace::state;
}

// What the drive reads or writes in memory, and the pass of the checksum: one thread's, while the drive is at work.
PriceList::Work PriceList::disk_work(const Task& task) const {
    Work work;
    const double read = amount(task.demand.disk_read_bytes), written = amount(task.demand.disk_write_bytes);
    work.seconds = ratio(read, machine_.disk_read_bytes_per_s) + ratio(written, machine_.disk_write_bytes_per_s);
    work.host_bytes = 2 * (read + written);
    // One thread sums some 10 GB/s: drives that are faster than that together wait for it.
    if (!is_summed(task)) return work;
    const double sums = ratio(read + written, machine_.checksum_bytes_per_s);
    work.seconds = std::max(work.seconds, sums);
    if (work.seconds > 0) work.cores = sums / work.seconds / machine_.threads;
    return work;
}

Price PriceList::finish(const Work& work, LaneKind lane) const {
    Price price;
    price.seconds = work.seconds;
    if (price.seconds <= 0) return price;
    const auto share = [&](Resource resource) -> double& { return price.shares[static_cast<size_t>(resource)]; };
    share(Resource::cores) = work.cores;
    share(Resource::host_memory) = std::min(1.0, ratio(work.host_bytes, machine_.memory_bytes_per_s) / work.seconds);
    share(Resource::device_memory) =
        std::min(1.0, ratio(work.device_bytes, machine_.device_memory_bytes_per_s) / work.seconds);
    if (lane == LaneKind::up)
        share(Resource::link) = ratio(machine_.link_up_bytes_per_s, machine_.link_both_bytes_per_s);
    if (lane == LaneKind::down)
        share(Resource::link) = ratio(machine_.link_down_bytes_per_s, machine_.link_both_bytes_per_s);
    const bool on_drive = lane == LaneKind::disk_read || lane == LaneKind::disk_write;
    if (on_drive && work.host_bytes > 0) {
        // Reads and writes of as many bytes at once, mixed bytes a second in all. Alone, these reads and writes would
        // take this many seconds per second: 1 if they take turns, 2 if neither slows the other.
        const double half = machine_.disk_mixed_bytes_per_s / 2;
        const double together =
            ratio(half, machine_.disk_read_bytes_per_s) + ratio(half, machine_.disk_write_bytes_per_s);
        share(Resource::drives) = ratio(1, together);
    }
    return price;
}

Price PriceList::of(const Task& task) const {
    Work work;
    switch (kind_of(task)) {
        case LaneKind::compute:
        case LaneKind::host:
            work = has_update_rate(task) ? update_work(task) : compute_work(task);
            break;
        case LaneKind::up:
        case LaneKind::down:
            work = copy_work(task);
            break;
        case LaneKind::disk_read:
        case LaneKind::disk_write:
            work = disk_work(task);
            break;
    }
    // Handing a task out takes this long, whatever it does.
    work.seconds += machine_.task_seconds;
    return finish(work, kind_of(task));
}

}  // namespace windlass
