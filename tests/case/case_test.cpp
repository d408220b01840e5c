// Plans and schedules of small models under given budgets, as text: tests/case/*.txt.
//
// A case opens with "key: value" lines, then an empty line, then what is expected. A deliberate change shows as the
// difference; the test prints the whole text that it got.
#include <regex>

#include "plan/planner.h"
#include "tests/place.h"
#include "tests/unit/schedule/schedule_fixture.h"

namespace windlass {
namespace {

struct Case {
    std::map<std::string, std::string> keys;
    std::string expected;

    const std::string& operator[](const std::string& key) const { return keys.at(key); }
    int64_t number(const std::string& key) const { return std::stoll(keys.at(key)); }
};

Case read_case(const std::string& path) {
    const std::string text = read_text(real_files(), path, 1 << 16);
    const size_t end = text.find("\n\n");
    Case read{.expected = text.substr(end + 2)};
    std::istringstream head(text.substr(0, end));
    for (std::string line; std::getline(head, line);)
        read.keys[line.substr(0, line.find(": "))] = line.substr(line.find(": ") + 2);
    return read;
}

// Rates in round numbers, so that predicted times can be followed by hand.
Machine case_machine() {
    return {.gemm_bf16_flops = 1e10,
            .gemm_f32_flops = 5e9,
            .memory_bytes_per_s = 1e10,
            .disk_read_bytes_per_s = 1e9,
            .disk_write_bytes_per_s = 5e8};
}

// Workspace, and with it the sum, follow the kernels of the day: planner_test.cpp adds the table up.
std::string plan_text(const Planned& planned) {
    const Plan& plan = planned.plan;
    std::string text = fmt::format("plan: {}\n", describe(plan));
    for (const PlacementRow& row : planned.placement) {
        if (row.tag == "workspace" || row.tag == "fragmentation" || row.tag == "program and libraries") continue;
        text += fmt::format("  {:<28}{:>10}{:>10}\n", row.tag, row.memory_bytes, row.disk_bytes);
    }
    return text;
}

// Neighbours that do the same are one line: "compute: forward embedding x 2".
std::string task_text(const TrainedModel& model, const Schedule& schedule, const Task& task) {
    static constexpr std::array<std::string_view, 5> kPlaces = {"weights", "low halves", "state", "gradients",
                                                                "activations"};
    const auto payload = static_cast<size_t>(task.payload);
    const auto block_name = [&](int index) {
        const auto block = static_cast<size_t>(index);
        return block < model.blocks.size() ? model.blocks[block].name : model.logits.name;
    };
    switch (task.verb) {
        case Verb::run: {
            const RunTask& run = schedule.runs[payload];
            return fmt::format("{} {}", schedule.segments[static_cast<size_t>(run.segment)].name,
                               block_name(run.block));
        }
        case Verb::move: {
            const MoveTask& move = schedule.moves[payload];
            if (move.kind == MoveKind::tokens) return "tokens";
            const std::string_view place = kPlaces[static_cast<size_t>(move.place)];
            if (move.place == DiskPlace::activation)
                return fmt::format("{} an activation", move.kind == MoveKind::disk_write ? "write" : "read");
            const std::string& first = model.params[static_cast<size_t>(move.pieces.front().param)].name;
            const size_t more = move.pieces.size() - 1;
            return fmt::format("{} {} of {}{}", move.kind == MoveKind::disk_write ? "write" : "read", place, first,
                               more > 0 ? fmt::format(" and {} more", more) : "");
        }
        case Verb::param: {
            const ParamTask& param = schedule.params[payload];
            return param.uses(ParamSlot::plain) ? fmt::format("arrive {}", block_name(param.block))
                                                : std::string(param.kernel->name);
        }
        case Verb::host:
            return schedule.hosts[payload].decides ? "norm" : "mark";
    }
    return "?";
}

std::string schedule_text(const TrainedModel& model, const Schedule& schedule) {
    std::string text = fmt::format("schedule: {}\n", schedule.name), pending;
    int times = 0;
    const auto flush = [&] {
        if (times > 0) text += fmt::format("  {}{}\n", pending, times > 1 ? fmt::format(" x {}", times) : "");
    };
    for (const Task& task : schedule.tasks) {
        const std::string line = fmt::format("{}: {}", lane_name(schedule.lanes[static_cast<size_t>(task.lane)].kind),
                                             task_text(model, schedule, task));
        if (line != pending) flush(), times = 0;
        pending = line;
        ++times;
    }
    flush();
    const Demand demand = total_demand(schedule);
    return text + fmt::format("  reads {}, writes {}\n", demand.disk_read_bytes, demand.disk_write_bytes);
}

std::string outcome(const Case& wanted) {
    const TrainedModel model = tiny_model(wanted["model"]);
    const DType compute = dtype_from_name(wanted["compute"]).value();
    const Numerics numerics = numerics_of(compute, wanted.number("rows"), wanted.number("row length"),
                                          static_cast<int>(wanted.number("micro-batches")));
    const PlanRequest request{.budgets = {.ram = wanted.number("ram"), .disk = wanted.number("disk")},
                              .schedules = {train_request(numerics)}};
    try {
        const Planned planned = make_plan(model, make_recipe("adamw", {}), numerics, case_machine(), request);
        return plan_text(planned) + schedule_text(model, planned.schedules.schedules[0]);
    } catch (const UserError& error) {
        static const std::regex kNeed("(needs at least|--ram) [0-9.]+ ?[KM]iB");
        return std::regex_replace(error.what(), kNeed, "$1 ...") + "\n";
    }
}

std::vector<std::string> case_names() {
    std::vector<std::string> names;
    for (const std::string& name : real_files().list(fmt::format("{}/tests/case", source_dir())))
        if (name.ends_with(".txt")) names.push_back(name.substr(0, name.size() - 4));
    return names;
}

class Cases : public testing::TestWithParam<std::string> {};

TEST_P(Cases, AsWritten) {
    const Case wanted = read_case(fmt::format("{}/tests/case/{}.txt", source_dir(), GetParam()));
    const std::string got = outcome(wanted);
    EXPECT_EQ(got, wanted.expected) << got;
}

INSTANTIATE_TEST_SUITE_P(Files, Cases, testing::ValuesIn(case_names()), [](const auto& info) { return info.param; });

}  // namespace
}  // namespace windlass
