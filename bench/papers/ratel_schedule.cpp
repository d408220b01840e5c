#include "papers/ratel_schedule.h"

#include <algorithm>
#include <initializer_list>

#include "base/math.h"
#include "method/recipe.h"

namespace windlass {
namespace {

// The artifact's settings.
constexpr int64_t kGroupParams = 700'000'000;  // of the optimizer
constexpr int kHostLayers = 6;                 // weight buffers in the host's memory
constexpr int kDeviceLayers = 2;
// Six weight and four activation buffers of 1.2e9 fp16 elements, eight optimizer buffers of a group.
constexpr double kPinnedBytes = 10 * 1.2e9 * 2 + 8 * 4.0 * static_cast<double>(kGroupParams);
// Reads g2 p4 m4 v4 and writes p4 m4 v4 w2 of a parameter; the gradient is widened to fp32 before.
constexpr double kAdamBytes = 28 + 6;

constexpr int kNoTask = -1;

double layer_weight_bytes(const GptShape& shape) {
    return kHalfBytes * shape.layer_params();
}

// Matrices of the optimizer that are read, updated and written as one.
struct Group {
    std::vector<int64_t> matrices;
    int64_t params = 0;
    int last_visit = 0;  // of backward that gives it a gradient, from 0
};

std::vector<Group> groups_of(const GptShape& shape) {
    std::vector<Group> groups(1);
    for (int visit = 0; visit < shape.layers; ++visit) {
        for (const int64_t elements : shape.matrices()) {
            if (groups.back().params > 0 && groups.back().params + elements > kGroupParams) groups.emplace_back();
            groups.back().matrices.push_back(elements);
            groups.back().params += elements;
            groups.back().last_visit = visit;
        }
    }
    return groups;
}

struct DiskCost {
    double read_bytes = 0;
    double write_bytes = 0;
};

DiskCost weights_cost(const RatelStep& step) {
    DiskCost cost;
    for (const int64_t elements : step.shape.matrices())
        cost.read_bytes += step.array.read_cost_bytes(kHalfBytes * elements);
    return cost;
}

// Master and both moments are read; they and the new weights are written.
DiskCost group_cost(const RatelStep& step, const Group& group) {
    DiskCost cost;
    for (const int64_t elements : group.matrices) {
        cost.read_bytes += 3 * step.array.read_cost_bytes(kMasterBytes * elements);
        cost.write_bytes += 3 * step.array.write_cost_bytes(kMasterBytes * elements) +
                            step.array.write_cost_bytes(kHalfBytes * elements);
    }
    return cost;
}

int64_t bytes_of(double amount) {
    return static_cast<int64_t>(amount);
}

class Writer {
  public:
    explicit Writer(const RatelStep& step, const KeptSet& kept, const Machine& machine)
        : step_(step), machine_(machine), seconds_(layer_seconds(step.shape, machine)) {
        schedule_.name = "ratel";
        schedule_.size.compute = DType::bf16;
        schedule_.size.threads = machine.threads;
        schedule_.host_threads = machine.threads;
        schedule_.params = {{.kernel = find_method("adamw").recipe({}).update(), .chunks = {{}}}};
        share_of(kept);
    }

    Schedule write() {
        const int layers = step_.shape.layers;
        const std::vector<Group> groups = groups_of(step_.shape);
        size_t next = 0;
        for (int visit = 0; visit < 2 * layers; ++visit) {
            read_ahead(visit);
            pass(visit);
            for (; visit >= layers && next < groups.size() && groups[next].last_visit == visit - layers; ++next)
                update(groups[next]);
        }
        write_back();
        return std::move(schedule_);
    }

  private:
    // Kept values by layer: kinds that all layers keep, and one more that only the last ones do.
    void share_of(const KeptSet& kept) {
        const int layers = step_.shape.layers;
        kept_bytes_.assign(static_cast<size_t>(layers), 0);
        saved_.assign(static_cast<size_t>(layers), 0);
        const std::vector<KeptValue> values = kept_values(step_.shape, machine_);
        for (int index = 0; index < kept.count; ++index) {
            const size_t layer = static_cast<size_t>(layers - 1 - index % layers);
            kept_bytes_[layer] += values[static_cast<size_t>(index / layers)].bytes * step_.tokens();
            saved_[layer] += values[static_cast<size_t>(index / layers)].seconds * step_.tokens();
        }
    }

    // Adds a task that waits for others; gives its index.
    int add(LaneKind lane, Demand demand, std::initializer_list<int> waits) {
        const Verb verb = lane == LaneKind::compute ? Verb::run : lane == LaneKind::host ? Verb::param : Verb::move;
        Task task{.verb = verb,
                  .lane = find_lane(schedule_.lanes, lane_beside(lane, 0)),
                  .payload = verb == Verb::param ? 0 : -1,
                  .demand = demand};
        for (const int other : waits) {
            if (other == kNoTask) continue;
            const size_t index = static_cast<size_t>(other);
            task.after.raise(schedule_.tasks[index].lane, position_[index] + 1);
        }
        position_.push_back(lane_counts_[slot(lane)]++);
        schedule_.tasks.push_back(std::move(task));
        return static_cast<int>(schedule_.tasks.size()) - 1;
    }

    int run_of(int visit) const { return visit < 0 ? kNoTask : runs_[static_cast<size_t>(visit)]; }

    // Everything that the device does is said in products at its rate.
    Demand compute(double seconds) const { return {.flops = seconds * machine_.gemm_flops(DType::bf16)}; }

    // Weights of the visits that have a buffer, before the optimizer's transfers of this one.
    void read_ahead(int visit) {
        const int end = std::min(visit + kHostLayers, 2 * step_.shape.layers);
        while (static_cast<int>(reads_.size()) < end) {
            const int user = static_cast<int>(reads_.size()) - kHostLayers;  // of the buffer, before
            reads_.push_back(add(LaneKind::disk_read, {.disk_read_bytes = bytes_of(weights_cost(step_).read_bytes)},
                                 {run_of(user)}));
        }
    }

    // One layer forward or backward: its weights come, it runs, and what it leaves goes to the host.
    void pass(int visit) {
        const int layers = step_.shape.layers;
        const bool backward = visit >= layers;
        const size_t layer = static_cast<size_t>(backward ? 2 * layers - 1 - visit : visit);
        const double weights = layer_weight_bytes(step_.shape);
        const double input = kHalfBytes * static_cast<double>(step_.shape.width) * step_.tokens();
        const double values = input + kept_bytes_[layer];
        const int up = add(LaneKind::up, {.up_bytes = bytes_of(weights + (backward ? values : 0))},
                           {reads_[static_cast<size_t>(visit)], run_of(visit - kDeviceLayers)});
        const double forward = seconds_.forward * step_.tokens();
        const double again = forward - saved_[layer] + seconds_.backward * step_.tokens();
        runs_.push_back(add(LaneKind::compute, compute(backward ? again : forward), {up}));
        const double down = backward ? kHalfBytes * step_.shape.layer_params() : values;
        last_down_ = add(LaneKind::down, {.down_bytes = bytes_of(down)}, {runs_.back()});
    }

    // The group's gradients are down: its state is read and updated, and the group before it is written meanwhile.
    void update(const Group& group) {
        const DiskCost cost = group_cost(step_, group);
        const int read = add(LaneKind::disk_read, {.disk_read_bytes = bytes_of(cost.read_bytes)}, {last_down_});
        write_back();
        const double adam = kAdamBytes * static_cast<double>(group.params);
        updated_ = add(LaneKind::host, {.memory_bytes = bytes_of(adam)}, {read});
        updated_bytes_ = cost.write_bytes;
    }

    // In the lane of reads: the artifact does one after the other.
    void write_back() {
        if (updated_ == kNoTask) return;
        add(LaneKind::disk_read, {.disk_write_bytes = bytes_of(updated_bytes_)}, {updated_});
        updated_ = kNoTask;
    }

    const RatelStep& step_;
    const Machine& machine_;
    LayerSeconds seconds_;
    Schedule schedule_;
    std::array<int, kLaneKinds> lane_counts_{};
    std::vector<int> position_;  // of each task in its lane
    std::vector<int> reads_;     // by visit
    std::vector<int> runs_;      // by visit
    std::vector<double> kept_bytes_, saved_;
    int last_down_ = kNoTask;
    int updated_ = kNoTask;
    double updated_bytes_ = 0;
};

// Forward's and backward's slowest resource, with so much kept.
class CostModel {
  public:
    CostModel(const RatelStep& step, const Machine& machine) : machine_(machine) {
        const LayerSeconds layer = layer_seconds(step.shape, machine);
        forward_ = layer.forward * step.tokens() * step.shape.layers;
        backward_ = (layer.forward + layer.backward) * step.tokens() * step.shape.layers;
        weights_ = layer_weight_bytes(step.shape) * step.shape.layers;
        inputs_ = kHalfBytes * static_cast<double>(step.shape.width) * step.tokens() * step.shape.layers;
        forward_disk_ = weights_cost(step).read_bytes * step.shape.layers / machine.disk_read_bytes_per_s;
        backward_disk_ = forward_disk_;
        for (const Group& group : groups_of(step.shape)) {
            const DiskCost cost = group_cost(step, group);
            backward_disk_ +=
                cost.read_bytes / machine.disk_read_bytes_per_s + cost.write_bytes / machine.disk_write_bytes_per_s;
        }
        host_ = kAdamBytes * step.shape.params() / machine.memory_bytes_per_s;
    }

    double seconds(const KeptSet& kept) const {
        const double values = inputs_ + kept.bytes;
        const double up = machine_.link_up_bytes_per_s, down = machine_.link_down_bytes_per_s;
        const double forward = std::max({forward_, weights_ / up, values / down, forward_disk_});
        const double backward = std::max(
            {backward_ - kept.saved_seconds, (weights_ + values) / up, weights_ / down, backward_disk_, host_});
        return forward + backward;
    }

    bool fits(const KeptSet& kept) const {
        return kPinnedBytes + inputs_ + kept.bytes <= static_cast<double>(machine_.memory_bytes);
    }

  private:
    const Machine& machine_;
    double forward_ = 0, backward_ = 0, weights_ = 0, inputs_ = 0;
    double forward_disk_ = 0, backward_disk_ = 0, host_ = 0;
};

}  // namespace

KeptSet choose_kept(const RatelStep& step, const Machine& machine) {
    const CostModel model(step, machine);
    const double products = 24.0 * static_cast<double>(step.shape.width * step.shape.width) /
                            machine.gemm_flops(DType::bf16) * step.tokens() * step.shape.layers;
    KeptSet kept;
    for (const KeptValue& value : kept_values(step.shape, machine)) {
        for (int layer = 0; layer < step.shape.layers; ++layer) {
            KeptSet more = kept;
            more.count += 1;
            more.bytes += value.bytes * step.tokens();
            more.saved_seconds += value.seconds * step.tokens();
            more.recompute_share = std::max(0.0, 1 - more.saved_seconds / products);
            // Each further value saves less for a byte, so the first that does not help is the end.
            if (!model.fits(more) || model.seconds(more) >= model.seconds(kept)) return kept;
            kept = more;
        }
    }
    return kept;
}

Schedule ratel_schedule(const RatelStep& step, const KeptSet& kept, const Machine& machine) {
    return Writer(step, kept, machine).write();
}

RatelResult simulate_ratel(const RatelStep& step, const Machine& machine) {
    const Machine equipped = with_drives(machine, step.array);
    RatelResult result{.kept = choose_kept(step, equipped)};
    result.simulation = simulate(ratel_schedule(step, result.kept, equipped), equipped);
    return result;
}

}  // namespace windlass
