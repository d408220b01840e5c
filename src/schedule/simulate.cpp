#include "schedule/simulate.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "base/index.h"
#include "schedule/price.h"

namespace windlass {
namespace {

// Tasks of a schedule, lane by lane.
class LaneOrder {
  public:
    explicit LaneOrder(const Schedule& schedule) : begin_(schedule.lanes.size() + 1, 0), tasks_(schedule.tasks.size()) {
        for (const Task& task : schedule.tasks) ++begin_[at(task.lane) + 1];
        std::partial_sum(begin_.begin(), begin_.end(), begin_.begin());
        std::vector<size_t> next = begin_;
        for (size_t index = 0; index < schedule.tasks.size(); ++index)
            tasks_[next[at(schedule.tasks[index].lane)]++] = index;
    }
    size_t count(size_t lane) const { return begin_[lane + 1] - begin_[lane]; }
    size_t task(size_t lane, size_t sequence) const { return tasks_[begin_[lane] + sequence]; }

  private:
    std::vector<size_t> begin_;
    std::vector<size_t> tasks_;
};

// Time runs from event to event; an event is the end of a task. Between two of them every running task proceeds at a
// constant speed: 1 as if it were alone, less where something that it uses is short.
class Fluid {
  public:
    // `all`: else without what is skipped where nothing is written back.
    Fluid(const Schedule& schedule, const Machine& machine, bool all, Simulation& result)
        : schedule_(schedule),
          prices_(schedule, machine),
          order_(schedule),
          all_(all),
          result_(result),
          lanes_(schedule.lanes.size()) {}

    void run() {
        result_.tasks.resize(schedule_.tasks.size());
        start_what_can();
        while (running_count_ > 0) {
            set_speeds();
            advance();
            start_what_can();
        }
        result_.seconds = now_;
        for (size_t lane = 0; lane < lanes_.size(); ++lane) {
            WINDLASS_CHECK(static_cast<size_t>(lanes_[lane].done) == order_.count(lane), "{}: lane {} waits for ever",
                           schedule_.name, lane);
        }
    }

  private:
    struct Lane {
        int done = 0;
        bool running = false;
        size_t task = 0;
        double end = 0;    // when the task is done, if its speed stays
        double speed = 1;  // seconds of work in a second
        std::array<double, kResources> shares{};
    };

    LaneKind kind(size_t lane) const { return schedule_.lanes[lane].kind; }

    bool can_start(const Task& task) const {
        return std::ranges::all_of(task.after,
                                   [&](const Wait& wait) { return lanes_[at(wait.lane)].done >= wait.count; });
    }

    // A task of no duration is done at once, and others may be waiting for it.
    void start_what_can() {
        for (bool changed = true; changed;) {
            changed = false;
            for (size_t index = 0; index < lanes_.size(); ++index) {
                Lane& lane = lanes_[index];
                while (!lane.running && static_cast<size_t>(lane.done) < order_.count(index)) {
                    const size_t id = order_.task(index, static_cast<size_t>(lane.done));
                    const Task& task = schedule_.tasks[id];
                    if (!can_start(task)) break;
                    // A skipped task counts like any other: waits are numbers of tasks.
                    changed |=
                        !start(lane, index, id, all_ || task.when != When::write_back ? prices_.of(task) : Price{});
                }
            }
        }
    }

    // False where the task is over already.
    bool start(Lane& lane, size_t index, size_t id, const Price& price) {
        result_.tasks[id] = {now_, now_};
        result_.alone_seconds[slot(kind(index))] += price.seconds;
        if (price.seconds <= 0) {
            ++lane.done;
            return false;
        }
        lane = {.done = lane.done, .running = true, .task = id, .end = now_ + price.seconds, .shares = price.shares};
        ++running_count_;
        return true;
    }

    // The demand on each resource; more than 1 is more than there is. A task that is alone on one has enough.
    void set_speeds() {
        std::array<double, kResources> wanted{};
        std::array<int, kResources> users{};
        for (const Lane& lane : lanes_) {
            if (!lane.running) continue;
            for (size_t resource = 0; resource < wanted.size(); ++resource) {
                wanted[resource] += lane.shares[resource];
                users[resource] += lane.shares[resource] > 0 ? 1 : 0;
            }
        }
        for (Lane& lane : lanes_) {
            if (!lane.running) continue;
            double speed = 1;
            for (size_t resource = 0; resource < wanted.size(); ++resource) {
                // If another resource holds a task back, the share that it leaves unused goes to no other task. So a
                // step has the bounds of docs/dev/simulator.md.
                if (lane.shares[resource] > 0 && users[resource] > 1 && wanted[resource] > 1)
                    speed = std::min(speed, 1 / wanted[resource]);
            }
            if (speed == lane.speed) continue;
            lane.end = now_ + (lane.end - now_) * lane.speed / speed;
            lane.speed = speed;
        }
    }

    void advance() {
        double next = std::numeric_limits<double>::infinity();
        for (const Lane& lane : lanes_) {
            if (lane.running) next = std::min(next, lane.end);
        }
        now_ = next;
        for (size_t index = 0; index < lanes_.size(); ++index) {
            Lane& lane = lanes_[index];
            if (!lane.running || lane.end > now_) continue;
            TaskSpan& span = result_.tasks[lane.task];
            span.end_s = now_;
            result_.busy_seconds[slot(kind(index))] += span.end_s - span.start_s;
            lane.running = false;
            ++lane.done;
            --running_count_;
        }
    }

    const Schedule& schedule_;
    PriceList prices_;
    LaneOrder order_;
    bool all_;
    Simulation& result_;
    std::vector<Lane> lanes_;
    int running_count_ = 0;
    double now_ = 0;
};

// `home` with this share, `between` with the rest; tasks stay those of `home`.
void mix(const Simulation& between, double share, Simulation& home) {
    const auto mean = [share](double a, double& b) { b = a + share * (b - a); };
    mean(between.seconds, home.seconds);
    for (size_t lane = 0; lane < home.busy_seconds.size(); ++lane) {
        mean(between.busy_seconds[lane], home.busy_seconds[lane]);
        mean(between.alone_seconds[lane], home.alone_seconds[lane]);
    }
}

}  // namespace

Simulation simulate(const Schedule& schedule, const Machine& machine) {
    Simulation result;
    Fluid(schedule, machine, true, result).run();
    // Both kinds of step have the same tasks and waits, and skip different ones: each is simulated once, and the mean
    // counts them as often as they occur.
    if (schedule.writeback_steps > 1) {
        Simulation between;
        Fluid(schedule, machine, false, between).run();
        mix(between, 1.0 / schedule.writeback_steps, result);
    }
    result.demand = total_demand(schedule);
    return result;
}

Simulation in_rounds(Simulation step, int64_t rounds) {
    step.seconds *= static_cast<double>(rounds);
    // Only the first round writes back, so the lanes down and to disk do not repeat.
    for (const LaneKind lane : {LaneKind::compute, LaneKind::up, LaneKind::disk_read}) {
        step.busy_seconds[slot(lane)] *= static_cast<double>(rounds);
        step.alone_seconds[slot(lane)] *= static_cast<double>(rounds);
    }
    step.demand = in_rounds(step.demand, rounds);
    return step;
}

}  // namespace windlass
