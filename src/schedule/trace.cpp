#include "schedule/trace.h"

#include <algorithm>
#include <cmath>
#include <functional>

namespace windlass {
namespace {

constexpr std::array<std::string_view, 5> kPlaces = {"weights", "low halves", "state", "gradients", "activations"};
constexpr std::array<std::string_view, 4> kMoves = {"read", "write", "up", "down"};

// Titles come from users.
std::string json_string(std::string_view text) {
    std::string result = "\"";
    for (const char c : text) {
        if (c == '"' || c == '\\') result += '\\';
        if (static_cast<unsigned char>(c) < 0x20)
            result += fmt::format("\\u{:04x}", static_cast<int>(c));
        else
            result += c;
    }
    return result + '"';
}

int64_t nanoseconds(double seconds) {
    return std::llround(seconds * 1e9);
}

// Microseconds, to the nanosecond.
std::string microseconds(int64_t ns) {
    return fmt::format("{}.{:03}", ns / 1000, ns % 1000);
}

int64_t bytes_of(const Demand& d) {
    return d.memory_bytes + d.up_bytes + d.down_bytes + d.disk_read_bytes + d.disk_write_bytes;
}

std::string_view block_name(const ModelSpec& model, int block) {
    const auto index = static_cast<size_t>(block);
    return index < model.blocks.size() ? model.blocks[index].name : model.logits.name;
}

std::string_view host_name(const HostTask& task) {
    static constexpr std::array<std::string_view, 5> kStages = {"arrival", "gradient", "losses", "norm", "conclude"};
    return task.decides ? kStages[static_cast<size_t>(*task.decides)] : "mark";
}

// What tasks are sorted by; tasks over parameters by their kernel.
std::string_view category_of(const Schedule& schedule, const Task& task) {
    static constexpr std::array<std::string_view, 4> kVerbs = {"run", "move", "param", "host"};
    return task.verb == Verb::param ? schedule.params[static_cast<size_t>(task.payload)].kernel->name
                                    : kVerbs[static_cast<size_t>(task.verb)];
}

std::string move_name(const ModelSpec& model, const ScheduleSet& set, const Schedule& schedule, const MoveTask& move) {
    const int param = move.pieces.empty() ? -1 : move.pieces[0].param;
    const BufferId kept = move.source != kNoBuffer ? move.source : move.buffer;
    const BufferSpec& buffer = set.buffer(schedule, kept);
    if (move.kind == MoveKind::tokens) return fmt::format("tokens micro {}", move.micro);
    std::string whose =
        param >= 0 ? std::string(block_name(model, model.params[static_cast<size_t>(param)].block)) : buffer.name;
    if (param < 0 && buffer.block >= 0)
        whose = fmt::format("{}.{}.{}", block_name(model, buffer.block), buffer.micro, buffer.name);
    return fmt::format("{} {} {}", kMoves[static_cast<size_t>(move.kind)], kPlaces[static_cast<size_t>(move.place)],
                       whose);
}

}  // namespace

std::string task_name(const ModelSpec& model, const ScheduleSet& set, const Schedule& schedule, const Task& task) {
    const auto payload = static_cast<size_t>(task.payload);
    switch (task.verb) {
        case Verb::run: {
            const RunTask& run = schedule.runs[payload];
            return fmt::format("{} {} micro {}", schedule.segments[static_cast<size_t>(run.segment)].name,
                               block_name(model, run.block), run.micro);
        }
        case Verb::move:
            return move_name(model, set, schedule, schedule.moves[payload]);
        case Verb::param: {
            const ParamTask& param = schedule.params[payload];
            const std::string pass = param.pass >= 0 ? fmt::format(" pass {}", param.pass) : "";
            return fmt::format("{}{} {}{}", param.kernel->name, param.speculative ? " (speculative)" : "",
                               block_name(model, param.block), pass);
        }
        case Verb::host:
            return std::string(host_name(schedule.hosts[payload]));
    }
    return "?";
}

std::vector<TraceTask> longest_tasks(const ModelSpec& model, const ScheduleSet& set, const Schedule& schedule,
                                     std::span<const TaskSpan> spans, size_t count) {
    WINDLASS_CHECK(spans.size() == schedule.tasks.size(), "{} spans for {} tasks", spans.size(), schedule.tasks.size());
    const auto seconds_of = [&](size_t task) { return spans[task].end_s - spans[task].start_s; };
    std::vector<size_t> order;
    for (size_t task = 0; task < spans.size(); ++task)
        if (seconds_of(task) > 0) order.push_back(task);
    if (order.size() > count) {
        std::ranges::stable_sort(order, std::greater(), seconds_of);
        order.resize(count);
        std::ranges::sort(order);
    }
    std::vector<TraceTask> tasks;
    for (const size_t task : order)
        tasks.push_back({schedule.tasks[task].lane, spans[task].start_s, seconds_of(task),
                         task_name(model, set, schedule, schedule.tasks[task])});
    return tasks;
}

void Trace::add_event(std::string event) {
    events_ += events_.empty() ? "\n" : ",\n";
    events_ += event;
}

void Trace::add_lanes(std::string_view title, const Schedule& schedule) {
    add_event(
        fmt::format(R"({{"name":"process_name","ph":"M","pid":{},"args":{{"name":{}}}}})", steps_, json_string(title)));
    for (size_t lane = 0; lane < schedule.lanes.size(); ++lane) {
        add_event(fmt::format(R"({{"name":"thread_name","ph":"M","pid":{},"tid":{},"args":{{"name":"{}"}}}})", steps_,
                              lane, lane_name(schedule.lanes[lane].kind)));
        add_event(fmt::format(R"({{"name":"thread_sort_index","ph":"M","pid":{},"tid":{},"args":{{"sort_index":{}}}}})",
                              steps_, lane, lane));
    }
}

void Trace::add(std::string_view title, const ModelSpec& model, const ScheduleSet& set, const Schedule& schedule,
                std::span<const TaskSpan> spans) {
    WINDLASS_CHECK(spans.size() == schedule.tasks.size(), "{} spans for {} tasks", spans.size(), schedule.tasks.size());
    ++steps_;
    add_lanes(title, schedule);
    for (size_t index = 0; index < spans.size(); ++index) {
        const Task& task = schedule.tasks[index];
        const int64_t start = nanoseconds(spans[index].start_s), end = nanoseconds(spans[index].end_s);
        if (end <= start) continue;
        add_event(fmt::format(R"({{"name":{},"cat":"{}","ph":"X","pid":{},"tid":{},"ts":{},"dur":{},)"
                              R"("args":{{"task":{},"bytes":{},"flops":{:.0f}}}}})",
                              json_string(task_name(model, set, schedule, task)), category_of(schedule, task), steps_,
                              task.lane, microseconds(start), microseconds(end - start), index, bytes_of(task.demand),
                              task.demand.flops));
    }
}

std::string Trace::json() const {
    return "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[" + events_ + "\n]}\n";
}

}  // namespace windlass
