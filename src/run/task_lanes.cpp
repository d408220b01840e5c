#include "run/task_lanes.h"

#include <limits>

#include "base/activity.h"
#include "base/clock.h"
#include "base/index.h"

namespace windlass {
namespace {

constexpr int kGivenUp = std::numeric_limits<int>::max();  // a lane that has ended: no lane waits for it any more

void wait_until(const std::atomic<int>& count, int need) {
    for (int now = count.load(std::memory_order_acquire); now < need; now = count.load(std::memory_order_acquire))
        count.wait(now, std::memory_order_acquire);
}

void raise_to(std::atomic<int>& count, int value) {
    count.store(value, std::memory_order_release);
    count.notify_all();
}

// The norm, and the losses of a forward-only step: the host reads the results of other tasks, and later tasks depend
// on what it finds.
bool is_decided(const Schedule& schedule, const Task& task) {
    return task.verb == Verb::host && schedule.hosts[at(task.payload)].decides;
}

}  // namespace

TaskLanes::TaskLanes(const Context& context, LaneWork work)
    : context_(context),
      work_(std::move(work)),
      order_(context.streams.order(context.schedule)),
      lanes_(context.schedule.lanes.size()),
      times_(context.schedule.tasks.size()) {
    for (int number = 0; number < std::ssize(lanes_); ++number) {
        Lane& made = lane(number);
        made.stream = context.streams.stream(number);
        made.runs_ahead = context.streams.runs_ahead(number);
        if (made.runs_ahead) made.stream_waited.resize(lanes_.size(), 0);
        made.flights.resize(order_.tasks_of(number) == 0 ? 0 : made.runs_ahead ? at(kRunAhead) : 1);
    }
}

void TaskLanes::run(LaneWorkers& workers) {
    const int count = static_cast<int>(lanes_.size());
    const int own = context_.streams.compute_lane();
    std::vector<int> others;
    for (int number = 0; number < count; ++number) {
        if (order_.tasks_of(number) == 0) continue;
        if (number != own) others.push_back(number);
        if (lane(number).runs_ahead) others.push_back(count + number);
    }
    workers.run(own, others, [this, count](int worker) { worker < count ? issue_all(worker) : reap(worker - count); });
    if (!failure_) return;
    // What failed between its launch and its event refers to this object, too.
    for (const Lane& each : lanes_) {
        try {
            if (each.runs_ahead) each.stream->synchronize();
        } catch (...) {
            // It is the failure that is reported already, or one that followed from it.
        }
    }
}

void TaskLanes::issue_all(int number) {
    Lane& own = lane(number);
    for (size_t index = 0; index < context_.schedule.tasks.size(); ++index) {
        if (context_.schedule.tasks[index].lane != number) continue;
        if (!issue(number, index)) break;
        own.last = order_.sequence(index);
    }
    // Also after a failure: a lane that waits for tasks which are never issued would wait for ever.
    raise_to(own.issued, kGivenUp);
    if (!own.runs_ahead) raise_to(own.complete, kGivenUp);
}

// False: nothing more is to be issued.
bool TaskLanes::issue(int number, size_t index) {
    Lane& own = lane(number);
    const Task& task = context_.schedule.tasks[index];
    const int sequence = order_.sequence(index);
    const bool on_host = own.stream == nullptr || is_decided(context_.schedule, task);
    wait_on_host(own, task, order_.before(index), on_host);
    // Its place among the flights is free once the task that had it is complete.
    wait_until(own.complete, sequence - static_cast<int>(own.flights.size()));
    wait_for(context_.movers.jitter(number));
    // Only after the waits: lanes that gave up end them, too, and then the task's inputs are missing.
    if (failed_.load() || stopped_.load()) return false;
    if (!work_.may_begin(task)) {
        stopped_.store(true);
        return false;
    }
    try {
        Flight& flight = this->flight(own, sequence);
        flight.task = index;
        const bool is_due = work_.is_due(task);
        const int64_t start_ns = now_ns();
        // A skipped task has no lease, but keeps its place: other lanes count it.
        if (is_due)
            flight.memory.take(task, context_.set, context_.schedule, context_.arenas,
                               {.lane = number, .sequence = sequence, .before = order_.before(index)});
        if (on_host) {
            if (is_due) work_.on_host(task, flight.memory);
            complete(number, sequence, start_ns, now_ns());
        } else {
            if (own.runs_ahead) wait_on_stream(own, task);
            launch(number, sequence, is_due);
        }
    } catch (...) {
        fail(std::current_exception());
        return false;
    }
    // Last: a lane that sees the count may wait for the task's event, which must be recorded by then.
    raise_to(own.issued, sequence);
    return true;
}

void TaskLanes::wait_on_host(Lane& own, const Task& task, std::span<const int> before, bool on_host) {
    if (own.runs_ahead && on_host) {
        // The leases of all that it waits for, directly or not, are dropped: the host may look.
        for (size_t other = 0; other < lanes_.size(); ++other) wait_until(lanes_[other].complete, before[other]);
        return;
    }
    for (const Wait& need : task.after) {
        const Lane& other = lane(need.lane);
        wait_until(own.runs_ahead && other.runs_ahead ? other.issued : other.complete, need.count);
    }
}

void TaskLanes::wait_on_stream(Lane& own, const Task& task) {
    for (const Wait& need : task.after) {
        Lane& other = lane(need.lane);
        int& waited = own.stream_waited[at(need.lane)];
        // A stream does its work in order: once it has waited for a task, all earlier ones of that lane are complete as
        // well.
        if (waited >= need.count || other.complete.load(std::memory_order_acquire) >= need.count) continue;
        own.stream->wait_for(*context_.streams.events(need.lane, need.count).end);
        waited = need.count;
    }
}

void TaskLanes::launch(int number, int sequence, bool is_due) {
    Lane& own = lane(number);
    const TaskEvents& events = context_.streams.events(number, sequence);
    // Also for a skipped task, since streams of other lanes wait for its event.
    own.stream->record(*events.begin);
    if (is_due) {
        own.stream->launch([this, &flight = flight(own, sequence)](const Launch& launch) {
            work_.launched(context_.schedule.tasks[flight.task], LaunchedMemory(flight.memory, launch));
        });
    }
    own.stream->record(*events.end);
    if (!own.runs_ahead) complete(number, sequence, events.begin->time_ns(), events.end->time_ns());
}

// Of a lane that runs ahead: what is complete, in order.
void TaskLanes::reap(int number) {
    Lane& own = lane(number);
    while (true) {
        const int sequence = own.complete.load(std::memory_order_acquire) + 1;
        wait_until(own.issued, sequence);
        // Between the two the lane's own thread may have done a task itself.
        if (own.complete.load(std::memory_order_acquire) >= sequence) continue;
        if (own.issued.load(std::memory_order_acquire) == kGivenUp && sequence > own.last) break;
        const TaskEvents& events = context_.streams.events(number, sequence);
        // Both, even if the first one reports a failure: the stream may still be working on the task, and its leases
        // are dropped next.
        for (Event* const event : {events.begin.get(), events.end.get()}) {
            try {
                event->wait();
            } catch (...) {
                fail(std::current_exception());
            }
        }
        complete(number, sequence, events.begin->time_ns(), events.end->time_ns());
    }
    raise_to(own.complete, kGivenUp);
}

void TaskLanes::complete(int number, int sequence, int64_t start_ns, int64_t end_ns) {
    Lane& own = lane(number);
    Flight& flight = this->flight(own, sequence);
    times_[flight.task] = {start_ns, end_ns};
    own.busy_ns += end_ns - start_ns;
    // Before the count rises: a task that waits for this one may take the same bytes at once.
    flight.memory.drop();
    count_engine_work();
    raise_to(own.complete, sequence);
}

void TaskLanes::fail(std::exception_ptr failure) {
    const std::lock_guard lock(failure_mutex_);
    if (!failure_) failure_ = std::move(failure);
    failed_.store(true);
}

std::array<double, kLaneKinds> TaskLanes::busy_seconds() const {
    std::array<double, kLaneKinds> seconds{};
    for (size_t number = 0; number < lanes_.size(); ++number)
        seconds[slot(context_.schedule.lanes[number].kind)] += static_cast<double>(lanes_[number].busy_ns) * 1e-9;
    return seconds;
}

}  // namespace windlass
