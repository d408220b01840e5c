// step_bench: a whole training step beside the peak of matrix products in the same run.
//
//   step_bench --shape gpt2-124m | llama-1.1b | llama-8b | ... [--model DIR | --seeded] [--rows R] [--length T]
//              [--micro M[,M...]] [--steps N] [--threads N] [--dtype bf16|f32] [--recompute]
//              [--policy in_memory|host_stream|three_tier] [--device cpu|cpu:emulate|cuda[:N]] [--small-probe]
//              [--ram SIZE] [--device-memory SIZE] [--link RATE] [--disk RATE] [--update TIME]
//              [--state fp32|bf16|int8] [--gradients f32|bf16|i8|i4] [--store DIR] [--table] [--digest] [--profile]
//              [--method adamw|lomo|adalomo|zeroth_order|forward_gradient] [--directions N]
//              [--noise gaussian|rademacher] [--adapter none|lora|qlora|ia3|lsp/2|lsp/4] [--rank N]
//              [--compare adapters|small-states|methods] [--refresh ROWS]
//
// Prints model FLOP/s (6 N per token without lookup-only tables, plus attention; 2 N for each forward of a method that
// never goes backward; with an adapter what its ops need) over the GEMM peak (1024 x 4096 x 4096, random inputs, median
// before and after), and where the time goes. For several numbers of micro-batches, or with --table: what a probe right
// before predicts, what was measured (median, least and most), how far a probe right after predicts otherwise (beyond 5
// %: marked, the row does not count), and the bound: the longest of what the same step takes with everything in memory
// and all threads, measured right before, and what the bytes of link and disk take alone. A run in memory has none. On
// a CUDA device the peak is its probe's, what is in memory counts as its kernels' time alone, and a line compares the
// device's memory with the plan's; where the time goes is found with --profile, which waits for each kernel. --seeded:
// weights are made in memory from a seed; there are no files but a config.json.
// --small-probe is for devices of the tests, and for runs whose time does not matter: rates say nothing then. --digest
// prints a checksum of all losses and of the weights behind the last step: two runs that end with the same bits print
// the same one.
#include <sys/resource.h>
#include <unistd.h>

#include <optional>

#include "base/clock.h"
#include "base/rng.h"
#include "base/units.h"
#include "device/cpu/isa.h"
#include "machine_line.h"
#include "measure.h"
#include "model_work.h"
#include "perturb/noise.h"
#include "plan/planner.h"
#include "run/calibrate.h"
#include "run/engine.h"
#include "schedule/machine_text.h"
#include "schedule/simulate.h"
#include "step_arguments.h"
#include "step_digest.h"
#include "step_model.h"
#include "step_peak.h"
#include "step_profile.h"
#include "step_refresh.h"

namespace windlass {
namespace {

struct Rows {
    std::vector<int32_t> tokens, targets, positions, starts;
    Rows(int64_t count, int64_t length, int64_t vocab) : starts(static_cast<size_t>(count), 0) {
        Random random(3, RandomStream::test);
        for (int64_t i = 0; i < count; ++i) {
            tokens.push_back(static_cast<int32_t>(random.below(static_cast<uint64_t>(vocab))));
            targets.push_back(static_cast<int32_t>(random.below(static_cast<uint64_t>(vocab))));
            positions.push_back(static_cast<int32_t>(i % length));
        }
    }
};

// This machine as it is now, with its link and disk as slow as they are asked to be. A disk that is slowed below what
// any drive does need not be measured.
Machine bench_machine(const Arguments& a, const TrainedModel& model) {
    const bool wants_disk = a.emulation.disk_bytes_per_s == 0 && a.policy == "three_tier";
    Machine machine = completed(calibrate_machine(real_files(), wants_disk ? a.store : "", a.threads));
    const std::unique_ptr<Device> device = make_device(a.on_card() ? a.id() : DeviceId{});
    if (a.on_card()) calibrate_device(*device, a.small_probe ? kSmallestProbe : DeviceProbe{}, machine);
    const OpSize size{.rows = a.rows, .sequence_length = a.length, .compute = a.dtype};
    if (!a.small_probe)
        calibrate_kernels(kernel_cases(model, make_recipe(a.method, a.options), {&size, 1}), *device, a.threads,
                          machine);
    return slowed(machine, a.emulation.link_bytes_per_s, a.emulation.disk_bytes_per_s);
}

EngineSetup make_setup(const Arguments& a, ModelFolder& folder, const Machine& machine, OpProfile& profile,
                       Simulation& predicted) {
    EngineSetup setup{.model = model_of(a, folder),
                      .recipe = make_recipe(a.method, a.options),
                      .method_options = a.options,
                      .emulation = a.emulation,
                      .profile = &profile};
    setup.numerics = {.compute = a.dtype,
                      .micro_batch_size = a.rows,
                      .micro_batches = a.micro,
                      .sequence_lengths = {a.length},
                      .kernel_path = kernel_path(a.id()),
                      .state_format = a.options.state_format,
                      .gradient_format = a.gradients};
    const PlanRequest request{.policy = a.policy == "auto" ? "" : a.policy,
                              .recompute = a.recompute               ? std::optional(true)
                                           : a.policy == "in_memory" ? std::optional(false)
                                                                     : std::nullopt,
                              .update_time = a.update_time(),
                              .device = a.id(),
                              .threads = a.threads,
                              .budgets = {.ram = a.ram, .disk = int64_t{1} << 50, .device = a.device_memory},
                              .schedules = requests_of(a)};
    Planned planned = make_plan(setup.model, setup.recipe, setup.numerics, machine, request);
    setup.plan = planned.plan;
    predicted = planned.step;
    setup.schedules = std::move(planned.schedules);
    if (!a.profiles()) setup.profile = nullptr;
    setup.store_path = a.store + "/step-bench.wls";
    return setup;
}

StepInput make_input(const Arguments& a, const Rows& rows) {
    StepInput input;
    for (int micro = 0; micro < a.micro; ++micro) {
        const int64_t begin = micro * a.rows * a.length;
        input.micro.push_back({.rows = a.rows,
                               .sequence_length = a.length,
                               .tokens = rows.tokens.data() + begin,
                               .positions = rows.positions.data() + begin,
                               .doc_start = rows.starts.data() + begin,
                               .targets = rows.targets.data() + begin});
    }
    return input;
}

struct Measured {
    double seconds = 0;  // of a step, median; the first one, which warms up, is left out
    double least = 0, most = 0;
    double compute_seconds = 0;  // the compute lane busy, median
    StepReport last;
};

Measured measure(const Arguments& a, Engine& engine, StepInput input, OpProfile& profile) {
    const double tokens = static_cast<double>(a.rows * a.length * a.micro);
    Measured measured;
    std::vector<double> times, busy;
    Digest digest;
    for (int step = 0; step <= a.steps; ++step) {
        if (step == 1) profile.clear();
        input.params = {.step = step + 1, .learning_rate = 1e-5, .head = {.loss_scale = 1.0 / tokens}};
        measured.last = engine.train_step(engine.setup().schedules.schedules[0], input);
        const int64_t commit = now_ns();
        engine.commit(step + 1, "{}", measured.last);
        const double seconds = measured.last.seconds + seconds_since(commit);
        digest.add(measured.last);
        if (a.micros.size() == 1 && !a.table)
            fmt::print("step {}{}: loss {:.4f}, {:.3f} s\n", step, step == 0 ? " (warm-up)" : "",
                       measured.last.loss_sum / tokens, seconds);
        if (step == 0) continue;
        times.push_back(seconds);
        busy.push_back(measured.last.busy_seconds[slot(LaneKind::compute)]);
    }
    if (a.digest && a.refresh_rows == 0) {
        digest.add_weights(engine);
        fmt::print("digest {:016x} of {} steps\n", digest.value(), a.steps + 1);
    }
    const auto [least, most] = std::minmax_element(times.begin(), times.end());
    measured.least = *least, measured.most = *most;
    measured.seconds = median(std::move(times));
    measured.compute_seconds = median(std::move(busy));
    return measured;
}

void print_result(const Arguments& a, const Engine& engine, const Measured& measured, double peak) {
    const double tokens = static_cast<double>(a.rows * a.length * a.micro), seconds = measured.seconds;
    const EngineSetup& setup = engine.setup();
    const Demand demand = total_demand(setup.schedules.schedules[0]);
    const double whole = forwards(setup.recipe) / 3 * training_flops_per_token(setup.model, a.length) * tokens;
    const double model_flops = setup.model.adapter ? demand.model_flops : whole, hardware_flops = demand.flops;
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    fmt::print("{} {} {} {} x {} x {}, {} threads, {}: {:.3f} s/step, {:.0f} tokens/s\n", a.shape, a.method,
               dtype_name(a.dtype), a.micro, a.rows, a.length, a.threads, setup.numerics.kernel_path, seconds,
               tokens / seconds);
    // A peak that the step beats was measured while others computed: it is no peak, and nothing is a share of it.
    const bool is_peak = hardware_flops / seconds <= peak;
    fmt::print("gemm peak {:.1f} GFLOP/s; model {:.1f} GFLOP/s{}\n", peak * 1e-9, model_flops / seconds * 1e-9,
               is_peak ? fmt::format(" = {:.3f} of it; hardware {:.3f}", model_flops / seconds / peak,
                                     hardware_flops / seconds / peak)
                       : ", more than the peak: measured on a busy machine, to be run again");
    fmt::print("arena {}, peak resident {}\n", format_bytes(setup.schedules.memory_bytes()),
               format_bytes(usage.ru_maxrss * 1024));
}

// How far two looks at the machine are apart: in what they predict of this step, since not every rate matters to it.
constexpr double kDriftMax = 0.05;  // for a row to count
double drift(const Schedule& schedule, const Machine& before, const Machine& after) {
    const auto [less, more] = std::minmax({simulate(schedule, before).seconds, simulate(schedule, after).seconds});
    return 1 - less / more;
}

// Of the card: what the engine took of it, beside what the plan says it takes.
class CardMemory {
  public:
    explicit CardMemory(const Arguments& a) : id_(a.on_card() ? a.id() : DeviceId{}), before_(properties()) {}
    void print(const Engine& engine) const {
        if (id_.kind != DeviceKind::cuda) return;
        const ScheduleSet& set = engine.setup().schedules;
        const int64_t planned = set.by_kind(set.arena_bytes)[slot(TierKind::device)];
        fmt::print("device memory: {} taken, {} planned, {:+.0f} MiB, {:+.1f} %; {} by what was there before\n",
                   format_bytes(taken()), format_bytes(planned), static_cast<double>(taken() - planned) / (1 << 20),
                   100.0 * static_cast<double>(taken() - planned) / static_cast<double>(planned),
                   format_bytes(before_.memory_bytes - before_.free_bytes));
    }
    int64_t taken() const { return before_.free_bytes - properties().free_bytes; }

  private:
    DeviceProperties properties() const { return make_device(id_)->properties(); }
    DeviceId id_;
    DeviceProperties before_;
};

// One row of the table. What link and disk would take alone follows from their bytes and rates.
struct TableRow {
    Simulation predicted;
    Measured measured;
    double in_memory_seconds = 0;  // of the same step, measured; 0: this is it
    double drift = 0;
};

void print_row(const Arguments& a, const TableRow& row, const Plan& plan) {
    const auto& alone = row.predicted.alone_seconds;
    const double link = std::max(alone[slot(LaneKind::up)], alone[slot(LaneKind::down)]);
    const double disk = alone[slot(LaneKind::disk_read)] + alone[slot(LaneKind::disk_write)];
    const double bound = std::max({row.in_memory_seconds, link, disk}), seconds = row.measured.seconds;
    fmt::print(
        "{:>8} {:>8.2f} {:>8.2f} {:>13} {:>6.2f} {:>5.1f}%{} | {:>7.2f} {:>9} {:>6.2f} {:>6.2f} | {:>5}  {}, {}\n",
        a.rows * a.length * a.micro, row.predicted.seconds, seconds,
        fmt::format("{:.2f} to {:.2f}", row.measured.least, row.measured.most), row.predicted.seconds / seconds,
        100 * row.drift, row.drift <= kDriftMax ? " " : "!", row.measured.compute_seconds,
        row.in_memory_seconds > 0 ? fmt::format("{:.2f}", row.in_memory_seconds) : "-", link, disk,
        row.in_memory_seconds > 0 ? fmt::format("{:.2f}", bound / seconds) : "-", describe_placement(plan),
        describe_updates(plan));
    std::fflush(stdout);
}

// A step of this run. `plan` takes what it was.
TableRow measure_row(const Arguments& a, const std::string& program, Plan& plan) {
    ModelFolder folder = open_folder(a, program);
    OpProfile profile;
    TableRow row;
    const Machine machine = bench_machine(a, model_of(a, folder));
    EngineSetup setup = make_setup(a, folder, machine, profile, row.predicted);
    real_files().remove_tree(setup.store_path);
    const CardMemory memory(a);
    Engine engine(real_files(), std::move(setup));
    fill(a, engine, folder);
    const Rows rows(a.rows * a.length * a.micro, a.length, engine.setup().model.vocab);
    row.measured = measure(a, engine, make_input(a, rows), profile);
    memory.print(engine);
    row.drift = drift(engine.setup().schedules.schedules[0], machine, bench_machine(a, engine.setup().model));
    plan = engine.setup().plan;
    real_files().remove_tree(engine.setup().store_path);
    return row;
}

// The same step, everything in memory.
Arguments in_memory(Arguments a) {
    a.policy = "in_memory", a.device = "cpu", a.update = "auto";
    a.emulation = {};
    a.ram = a.device_memory = int64_t{1} << 50;
    return a;
}

// A row counts where the machine was the same before and after it.
void run_table(Arguments a, const std::string& program) {
    fmt::print(
        "  tokens  predict  measure  least to most  ratio  drift | compute in memory  link   disk | bound/measured\n");
    std::optional<CardMemory> after_first;  // which has loaded kernels and libraries
    for (const int micro : a.micros) {
        a.micro = micro;
        Plan plan;
        double in_memory_seconds = 0;
        if (a.policy != "in_memory" && !a.on_card())
            in_memory_seconds = measure_row(in_memory(a), program, plan).measured.seconds;
        TableRow row = measure_row(a, program, plan);
        row.in_memory_seconds = a.on_card() ? row.predicted.alone_seconds[slot(LaneKind::compute)] : in_memory_seconds;
        print_row(a, row, plan);
        if (!after_first) after_first.emplace(a);
    }
    if (a.on_card() && a.micros.size() > 1)
        fmt::print("device memory that engines left behind: {}\n", format_bytes(after_first->taken()));
}

// One of the engines that take steps in turn.
class ComparedEngine {
  public:
    ComparedEngine(Arguments a, const std::string& program)
        : a_(std::move(a)),
          folder_(open_folder(a_, program)),
          rows_(a_.rows * a_.length * a_.micro, a_.length, model_of(a_, folder_).vocab) {
        Simulation predicted;
        const Machine machine = bench_machine(a_, model_of(a_, folder_));
        engine_ = std::make_unique<Engine>(real_files(), make_setup(a_, folder_, machine, profile_, predicted));
        fill(a_, *engine_, folder_);
        peak_ = a_.on_card() ? card_peak(a_.dtype, machine) : 0;
    }
    // The first one warms up.
    void step() {
        const double peak = peak_ > 0 ? peak_ : gemm_peak(a_.dtype, a_.threads);
        StepInput input = make_input(a_, rows_);
        const double tokens = static_cast<double>(a_.rows * a_.length * a_.micro);
        input.params = {.step = ++step_, .learning_rate = 1e-5, .head = {.loss_scale = 1.0 / tokens}};
        const StepReport report = engine_->train_step(engine_->setup().schedules.schedules[0], input);
        engine_->commit(step_, "{}", report);
        if (step_ == 1) return;
        seconds_.push_back(report.seconds);
        shares_.push_back(total_demand(engine_->setup().schedules.schedules[0]).flops / report.seconds / peak);
    }
    const std::vector<double>& seconds() const { return seconds_; }
    // Each step's time over that of the other's in the same round.
    std::vector<double> over(const ComparedEngine& other) const {
        std::vector<double> ratios;
        for (size_t round = 0; round < seconds_.size(); ++round)
            ratios.push_back(seconds_[round] / other.seconds_[round]);
        return ratios;
    }
    double share() const { return median(shares_); }
    const EngineSetup& setup() const { return engine_->setup(); }

  private:
    Arguments a_;
    ModelFolder folder_;
    Rows rows_;
    OpProfile profile_;
    std::unique_ptr<Engine> engine_;
    double peak_ = 0;
    int64_t step_ = 0;
    std::vector<double> seconds_, shares_;
};

// All engines are there at once and take steps in turn: what else computes slows each of them alike.
void run_comparison(Arguments a, const std::string& program) {
    const std::vector<std::string> names = compared_names(a.compare);
    std::vector<std::unique_ptr<ComparedEngine>> engines;
    for (const std::string& name : names) {
        Arguments one = a;
        set_compared(one, name);
        engines.push_back(std::make_unique<ComparedEngine>(std::move(one), program));
    }
    for (int round = 0; round <= a.steps; ++round)
        for (const auto& engine : engines) engine->step();
    fmt::print("{}\n{} {} {}, state {}, {} x {} x {} tokens, {} threads, rank {}, {} rounds\n", machine_line(), a.shape,
               a.method, dtype_name(a.dtype), state_format_name(a.options.state_format), a.micro, a.rows, a.length,
               a.threads, a.rank, a.steps);
    fmt::print(
        "trained            numbers     memory   s/step    least to most  over 1st    least to most  over 2nd  of "
        "peak\n");
    const auto range = [](const std::vector<double>& values) {
        const auto [least, most] = std::minmax_element(values.begin(), values.end());
        return fmt::format("{:.2f} to {:.2f}", *least, *most);
    };
    for (size_t index = 0; index < engines.size(); ++index) {
        const ComparedEngine& each = *engines[index];
        const std::vector<double> over_all = each.over(*engines[0]);
        fmt::print("{:<14} {:>11} {:>10} {:>8.2f} {:>16} {:>9.3f} {:>16} {:>10.3f} {:>8.3f}\n", names[index],
                   trained_count(each.setup().model), format_bytes(each.setup().schedules.memory_bytes()),
                   median(each.seconds()), range(each.seconds()), median(over_all), range(over_all),
                   median(each.over(*engines[1])), each.share());
    }
}

void run(const Arguments& a, const std::string& program) {
    if (!a.compare.empty()) return run_comparison(a, program);
    if (a.table || a.micros.size() > 1) return run_table(a, program);
    ModelFolder folder = open_folder(a, program);
    OpProfile profile;
    Simulation predicted;
    const Machine machine = bench_machine(a, model_of(a, folder));
    const auto peak = [&] { return a.on_card() ? card_peak(a.dtype, machine) : gemm_peak(a.dtype, a.threads); };
    const double before = peak();
    EngineSetup setup = make_setup(a, folder, machine, profile, predicted);
    fmt::print("plan: {}, {}, {}\n", describe_placement(setup.plan), describe_updates(setup.plan),
               describe_saved(setup.plan));
    real_files().remove_tree(setup.store_path);
    const CardMemory memory(a);
    Engine engine(real_files(), std::move(setup));
    fill(a, engine, folder);
    const Rows rows(a.rows * a.length * a.micro, a.length, engine.setup().model.vocab);
    const Measured measured = measure(a, engine, make_input(a, rows), profile);
    print_refresh(a, engine, make_input(a, rows), measured.seconds);
    fmt::print("predicted {:.3f} s/step\n", predicted.seconds);
    print_result(a, engine, measured, 0.5 * (before + peak()));
    memory.print(engine);
    if (a.profiles())
        print_profile(profile, engine.setup().schedules.schedules[0], measured.last, a.steps, measured.seconds);
    real_files().remove_tree(engine.setup().store_path);
}

}  // namespace
}  // namespace windlass

int main(int argc, char** argv) {
    try {
        windlass::run(windlass::parse(argc, argv), argv[0]);
    } catch (const windlass::Error& error) {
        fmt::print(stderr, "error: {}\n", error.what());
        return static_cast<int>(error.code());
    }
}
