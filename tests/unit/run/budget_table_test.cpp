// Every policy under many budgets: the plan that the planner makes for each gives the bits of everything in memory.
//
// Budgets are shares of the way from the least that a policy can do with to all that it could use, of the device, of
// the host and of the disk. The table is printed: it shows that the plans differ.
#include <map>
#include <set>

#include "base/rng.h"
#include "base/units.h"
#include "tests/sanitizer.h"
#include "tests/unit/run/placement_fixture.h"
#include "tests/unit/schedule/schedule_fixture.h"

namespace windlass {
namespace {

constexpr int64_t kTableRows = 4;  // of a step
constexpr int64_t kTableLength = 24;
constexpr double kLevels[] = {0.01, 0.1, 0.5, 1};  // of the way from the least to the most

struct Place {
    const char* policy;
    bool own_memory;
};
constexpr Place kPlaces[] = {
    {"in_memory", false}, {"in_memory", true}, {"host_stream", true}, {"three_tier", false}, {"three_tier", true}};

// One line of the table.
struct Trial {
    Place place;
    StateFormat format = StateFormat::fp32;
    int micro_batches = 1;
    double device = 1, host = 1;  // levels
    int index = 0;                // turns what the line does not name: model, machine, threads, update, jitter, drive
};

const char* model_name(const Trial& trial) {
    return trial.index % 2 == 0 ? "gpt2" : "llama";
}
// Clips some of the steps, not all.
double norm_limit(const Trial& trial) {
    return trial.index % 2 == 0 ? 2.4 : 3.0;
}
DType compute_type(const Trial& trial) {
    return trial.index / 2 % 2 == 0 ? DType::f32 : DType::bf16;
}

// Rates in the proportions of a device beside a host, for models of some ten thousand parameters; every other machine
// has a slow drive, or a slow link.
Machine machine_of(int index) {
    const double disk = index % 3 == 1 ? 2e7 : 3e8, link = index % 3 == 2 ? 3e7 : 2e9;
    return completed({.unified_memory = false,
                      .gemm_bf16_flops = 2e10,
                      .gemm_f32_flops = 1e10,
                      .memory_bytes_per_s = 1e10,
                      .device_memory_bytes_per_s = 5e10,
                      .link_up_bytes_per_s = link,
                      .link_down_bytes_per_s = link,
                      .link_both_bytes_per_s = 1.5 * link,
                      .disk_read_bytes_per_s = disk,
                      .disk_write_bytes_per_s = disk / 2,
                      .update_bytes_per_s = 1e9,
                      .update_busy_factor = 0.7,
                      .task_seconds = 1e-6});
}

// What the planner is asked: the shapes and the method are those of the engine that will run the plan.
struct Question {
    explicit Question(const Trial& trial)
        : model(tiny_model(model_name(trial))),
          method({.weight_decay = 0.1, .max_grad_norm = norm_limit(trial), .state_format = trial.format}),
          recipe(make_recipe("adamw", method)),
          numerics(
              numerics_of(compute_type(trial), kTableRows / trial.micro_batches, kTableLength, trial.micro_batches)),
          machine(machine_of(trial.index)) {
        numerics.state_format = trial.format;
        request = {.policy = trial.place.policy,
                   .update_time = trial.index % 4 == 2 ? std::optional(UpdateTime::in_backward) : std::nullopt,
                   .device = {.own_memory = trial.place.own_memory},
                   .threads = 1 + trial.index % 3,
                   .schedules = {train_request(numerics), train_request(numerics)}};
        request.schedules[1].kind = ScheduleRequest::Kind::eval;
        request.schedules[1].micro_batches = 1;
    }

    TrainedModel model;
    MethodOptions method;
    Recipe recipe;
    Numerics numerics;
    Machine machine;
    PlanRequest request;
};

// Budgets at these levels. A disk at its least holds what a plan with the most memory puts there.
Budgets budgets_of(const Question& question, const Trial& trial) {
    const SavedRanks ranks = rank_saved(question.model, question.request.schedules[0], question.request.device.kind,
                                        question.numerics, question.machine);
    const auto needs = [&](const Space& space, const Choice& choice) {
        return evaluate_plan(question.model, question.recipe, question.numerics, question.machine, question.request,
                             plan_of(space, choice, ranks, programs_of(question.model)));
    };
    for (const Policy* policy : all_policies()) {
        if (policy->name != question.request.policy) continue;
        const Space space = policy->space(question.request, {.saved_most = most_saved(ranks)}).value();
        const Planned least = needs(space, space.leanest()), most = needs(space, space.richest());
        Choice offloaded = space.richest();
        at(offloaded, Knob::keep) = 0;
        const Planned other = needs(space, offloaded);
        const auto level = [](int64_t low, int64_t high, double share) {
            return low + static_cast<int64_t>(share * static_cast<double>(std::max<int64_t>(0, high - low)));
        };
        const bool tight_disk = trial.host == 1 && trial.device == 1;
        return {.ram = level(least.memory_bytes, std::max(most.memory_bytes, other.memory_bytes), trial.host),
                .disk = tight_disk ? most.disk_bytes : std::max({least.disk_bytes, most.disk_bytes, other.disk_bytes}),
                .device = level(least.device_bytes, std::max(most.device_bytes, other.device_bytes), trial.device)};
    }
    throw std::out_of_range(question.request.policy);
}

std::string plan_line(const Plan& plan) {
    return fmt::format("{}; {}; {}; block inputs {}, ahead {} and {}, groups of {}, host threads {}",
                       describe_placement(plan), describe_updates(plan), describe_saved(plan),
                       home_name(plan.of(1).block_input), plan.read_ahead, plan.update_ahead, plan.group_chunks,
                       plan.host_threads);
}

std::string budget_line(const Trial& trial, const Budgets& budgets) {
    const auto share = [](double level, int64_t bytes) {
        return fmt::format("{:>4.0f} % {:>9}", level * 100, format_bytes(bytes));
    };
    return fmt::format("{:<11} {:<11} {:<5} {} {} x {} {}  device {}  host {}  disk {:>9}", trial.place.policy,
                       trial.place.own_memory ? "cpu:emulate" : "cpu", model_name(trial),
                       dtype_name(compute_type(trial)), state_format_name(trial.format), trial.micro_batches,
                       trial.index % 3,
                       trial.place.own_memory ? share(trial.device, budgets.device) : fmt::format("{:>16}", "-"),
                       share(trial.host, budgets.ram), format_bytes(budgets.disk));
}

// The second batch is the first with other words.
std::array<TestBatch, 2> table_batches(const Golden& golden) {
    std::vector<int32_t> ids = golden.ids("ids"), targets = golden.ids("targets");
    for (const int32_t id : golden.ids("ids_b")) ids.push_back(id);
    for (const int32_t id : golden.ids("targets_b")) targets.push_back(id);
    const TestBatch first(ids, targets, kTableRows);
    constexpr int32_t kVocab = 96;
    for (std::vector<int32_t>* words : {&ids, &targets}) {
        for (int32_t& id : *words) id = id == kIgnored ? id : (id * 5 + 7) % kVocab;
    }
    return {first, TestBatch(ids, targets, kTableRows)};
}

EngineOptions options_of(const Question& question, const Plan& plan) {
    return {.plan = plan,
            .compute = question.numerics.compute,
            .method = question.method,
            .micro_batch_size = question.numerics.micro_batch_size,
            .micro_batches = static_cast<int>(question.numerics.micro_batches),
            .sequence_length = kTableLength};
}

class BudgetTable : public testing::Test {
  protected:
    void expect_same_bits(const std::vector<Trial>& table) {
        std::set<std::string> plans;
        for (const Trial& trial : table) {
            const Question question(trial);
            PlanRequest request = question.request;
            request.budgets = budgets_of(question, trial);
            const std::string budgets = budget_line(trial, request.budgets);
            SCOPED_TRACE(budgets);
            const Planned planned =
                make_plan(question.model, question.recipe, question.numerics, question.machine, request);
            fmt::print("{}  {}\n", budgets, plan_line(planned.plan));
            plans.insert(fmt::format("{} {} {}", trial.place.policy, trial.place.own_memory, plan_line(planned.plan)));
            EXPECT_LE(planned.memory_bytes, request.budgets.ram);
            EXPECT_LE(planned.device_bytes, request.budgets.device);
            EXPECT_LE(planned.disk_bytes, request.budgets.disk);
            EXPECT_TRUE(outcome_of(trial, options_of(question, planned.plan)) == reference_of(trial, question));
        }
        fmt::print("{} lines, {} plans\n", table.size(), plans.size());
        plan_count_ = std::ssize(plans);
    }
    int64_t plan_count_ = 0;

  private:
    Outcome outcome_of(const Trial& trial, EngineOptions options) {
        const Golden golden(model_name(trial));
        // Lanes overtake each other in ways that a quiet machine never shows.
        options.emulation = {.jitter_seed = static_cast<uint64_t>(trial.index),
                             .jitter_ns = trial.index / 4 % 3 == 0 ? 200'000 : 0};
        if (!options.plan.store || trial.index % 5 != 0) return run_steps(golden, table_batches(golden), options);
        const TempFolder drive;  // a real one: a sync of it takes longer than a step
        return run_steps(golden, table_batches(golden), options, real_files(), drive.path());
    }
    // Everything in memory, one thread.
    const Outcome& reference_of(const Trial& trial, const Question& question) {
        const std::string key = fmt::format("{} {} {} {}", model_name(trial), dtype_name(compute_type(trial)),
                                            state_format_name(trial.format), trial.micro_batches);
        const auto found = references_.find(key);
        if (found != references_.end()) return found->second;
        const Golden golden(model_name(trial));
        const Plan plan{.policy = "in_memory", .order = MicroOrder::micro_batch_first};
        const Outcome made = run_steps(golden, table_batches(golden), options_of(question, plan));
        expect_some_clipped(made);
        return references_.emplace(key, made).first->second;
    }
    std::map<std::string, Outcome> references_;
};

// Every policy, format and accumulation with `draws` pairs of levels out of all.
std::vector<Trial> drawn_table(int draws) {
    Random random(11, RandomStream::test);
    std::vector<Trial> table;
    const auto any_level = [&] { return kLevels[random.below(std::size(kLevels))]; };
    for (const Place& place : kPlaces) {
        for (const StateFormat format : kStateFormats) {
            for (const int micro_batches : {1, 4}) {
                for (int draw = 0; draw < draws; ++draw)
                    table.push_back({place, format, micro_batches, any_level(), any_level(),
                                     static_cast<int>(table.size()) + draw / 2});
            }
        }
    }
    return table;
}

TEST_F(BudgetTable, NeverChangesABit) {
    std::vector<Trial> table = drawn_table(2);
    // Most of it is planning. Sanitizers look at a seventh, in which every place, format and accumulation occurs.
    if (is_sanitized()) std::erase_if(table, [](const Trial& trial) { return trial.index % 7 != 0; });
    expect_same_bits(table);
    EXPECT_GE(plan_count_, std::ssize(table) / 4);
}

class SlowBudgetTable : public BudgetTable {};

TEST_F(SlowBudgetTable, NeverChangesABit) {
    std::vector<Trial> table;
    for (const Place& place : kPlaces) {
        for (const StateFormat format : kStateFormats) {
            for (const int micro_batches : {1, 4}) {
                for (const double device : kLevels) {
                    if (!place.own_memory && device < 1) continue;
                    for (const double host : kLevels)
                        for (int turn = 0; turn < 3; ++turn)
                            table.push_back(
                                {place, format, micro_batches, device, host, static_cast<int>(table.size()) + turn});
                }
            }
        }
    }
    expect_same_bits(table);
    EXPECT_GE(plan_count_, 100);
}

}  // namespace
}  // namespace windlass
