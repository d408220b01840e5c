// task_lanes.h: the order in which the tasks of a schedule are done. The only code that waits.
//
// Each lane works through its tasks in order, on a thread of its own; before a task it waits until the other lanes are
// as far as check said. A task is issued, and later complete. Where a lane's stream completes at once, and where the
// host itself does the work, both are the same. A stream that runs ahead is given up to kRunAhead tasks: for a need in
// another such lane the thread waits until that task is issued, and then has its stream wait for the task's event; for
// any other need it waits until the task is complete, as do all lanes that do not run ahead. A second thread of such a
// lane waits for its events, in order, and says what is complete.
//
// A lane ends a task with success or a failure, never a throw across threads: the first failure, or a request to
// stop, keeps new tasks from starting; what is in flight is complete when run() returns.
#pragma once

#include <atomic>
#include <exception>
#include <functional>
#include <mutex>
#include <vector>

#include "run/engine.h"
#include "run/lane_streams.h"
#include "run/lane_workers.h"
#include "run/movers.h"
#include "run/task_memory.h"

namespace windlass {

// What tasks do.
struct LaneWork {
    // Asked once, before a task is issued. False: the step is dropped.
    std::function<bool(const Task&)> may_begin;
    // False: the task is skipped.
    std::function<bool(const Task&)> is_due;
    // On the lane's stream.
    std::function<void(const Task&, const LaunchedMemory&)> launched;
    // On the lane's thread, when all that the task waits for is complete: in lanes without a stream, and what is
    // decided.
    std::function<void(const Task&, const TaskMemory&)> on_host;
};

class TaskLanes {
  public:
    // Everything outlives it.
    struct Context {
        const ScheduleSet& set;
        const Schedule& schedule;
        const Arenas& arenas;
        LaneStreams& streams;
        Movers& movers;
    };
    TaskLanes(const Context& context, LaneWork work);

    void run(LaneWorkers& workers);
    // Of run():
    std::exception_ptr failure() const { return failure_; }  // the first; null where there was none
    bool stopped() const { return stopped_.load(); }         // something may not begin
    std::array<double, kLaneKinds> busy_seconds() const;     // by kind
    std::vector<TaskTime> take_times() { return std::move(times_); }

  private:
    struct Flight {
        size_t task = 0;
        TaskMemory memory;
    };
    struct Lane {
        Stream* stream = nullptr;
        bool runs_ahead = false;
        std::vector<Flight> flights;     // of the tasks that are issued and not complete; by sequence, in turn
        std::atomic<int> issued{0};      // tasks
        std::atomic<int> complete{0};    // of which
        int last = 0;                    // the last task that is issued, once `issued` is given up
        std::vector<int> stream_waited;  // by lane: what the stream has waited for
        int64_t busy_ns = 0;
    };
    static constexpr int kRunAhead = 256;

    Lane& lane(int index) { return lanes_[static_cast<size_t>(index)]; }
    Flight& flight(Lane& lane, int sequence) {
        return lane.flights[static_cast<size_t>(sequence - 1) % lane.flights.size()];
    }
    void issue_all(int number);
    bool issue(int number, size_t index);
    void wait_on_host(Lane& lane, const Task& task, std::span<const int> before, bool on_host);
    void wait_on_stream(Lane& lane, const Task& task);
    void launch(int number, int sequence, bool is_due);
    void reap(int number);
    void complete(int number, int sequence, int64_t start_ns, int64_t end_ns);
    void fail(std::exception_ptr failure);

    const Context context_;
    const LaneWork work_;
    const TaskOrder& order_;
    std::vector<Lane> lanes_;
    std::vector<TaskTime> times_;
    std::atomic<bool> failed_{false}, stopped_{false};
    std::mutex failure_mutex_;
    std::exception_ptr failure_;
};

}  // namespace windlass
