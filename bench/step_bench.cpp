// step_bench: a whole training step beside the peak of matrix products in the same run.
//
//   step_bench --shape gpt2-124m | llama-1.1b [--model DIR] [--rows R] [--length T] [--micro M] [--steps N]
//              [--threads N] [--dtype bf16|f32] [--recompute] [--policy in_memory|three_tier] [--ram SIZE] [--store
//              DIR]
//
// Prints model FLOP/s (6 N per token without lookup-only tables, plus attention) over the GEMM peak (1024 x 4096 x
// 4096, random inputs, median before and after), and where the rest of the time goes.
#include <sys/resource.h>
#include <unistd.h>

#include <cstdlib>
#include <thread>

#include "base/clock.h"
#include "base/rng.h"
#include "base/units.h"
#include "device/cpu/isa.h"
#include "model/families.h"
#include "op/gemm.h"
#include "plan/planner.h"
#include "run/engine.h"

namespace windlass {
namespace {

struct Arguments {
    std::string shape = "gpt2-124m", model, policy = "in_memory", store = ".";
    int64_t rows = 8, length = 512, ram = int64_t{1} << 50;
    int micro = 1, steps = 3, threads = static_cast<int>(std::thread::hardware_concurrency());
    DType dtype = DType::bf16;
    bool recompute = false;
};

Arguments parse(int argc, char** argv) {
    Arguments a;
    bool rows_given = false;
    for (int i = 1; i < argc; ++i) {
        const std::string key = argv[i];
        if (key == "--recompute") {
            a.recompute = true;
            continue;
        }
        const std::string value = i + 1 < argc ? argv[++i] : "";
        if (key == "--shape")
            a.shape = value;
        else if (key == "--model")
            a.model = value;
        else if (key == "--policy")
            a.policy = value;
        else if (key == "--store")
            a.store = value;
        else if (key == "--rows")
            a.rows = std::stol(value), rows_given = true;
        else if (key == "--length")
            a.length = std::stol(value);
        else if (key == "--ram")
            a.ram = parse_bytes(value, "--ram");
        else if (key == "--micro")
            a.micro = std::stoi(value), rows_given = true;
        else if (key == "--steps")
            a.steps = std::stoi(value);
        else if (key == "--threads")
            a.threads = std::stoi(value);
        else if (key == "--dtype")
            a.dtype = *dtype_from_name(value);
        else
            throw UserError(ExitCode::usage, key, "unknown option");
    }
    if (a.shape == "llama-1.1b" && !rows_given) a.rows = 2, a.micro = 4;
    return a;
}

double gemm_peak(DType dtype, int threads) {
    constexpr int64_t kM = 1024, kN = 4096, kK = 4096;
    const int64_t size = dtype_bytes(dtype);
    HugeBuffer a(kM * kK * size, true), b(kN * kK * size, true), c(kM * kN * size, true);
    Random random(1, RandomStream::test);
    for (const HugeBuffer* buffer : {&a, &b}) {
        for (int64_t i = 0; i < buffer->size() / size; ++i) {
            const float x = random.normal();
            if (dtype == DType::f32)
                reinterpret_cast<float*>(buffer->data())[i] = x;
            else
                reinterpret_cast<bf16*>(buffer->data())[i] = to_bf16(x);
        }
    }
    Team team(threads);
    std::vector<double> rates;
    for (int round = 0; round < 12; ++round) {
        const int64_t start = now_ns();
        gemm({.a = Tensor(dtype, {kM, kK}, a.data()),
              .b = Tensor(dtype, {kN, kK}, b.data()),
              .c = Tensor(dtype, {kM, kN}, c.data()),
              .transpose_b = true},
             team);
        if (round >= 2) rates.push_back(2.0 * kM * kN * kK / seconds_since(start));
    }
    std::nth_element(rates.begin(), rates.begin() + rates.size() / 2, rates.end());
    return rates[rates.size() / 2];
}

std::string make_model_folder(const Arguments& a, const std::string& program) {
    if (!a.model.empty()) return a.model;
    const std::string folder = fmt::format("{}/step-bench-{}", a.store, a.shape);
    if (real_files().exists(folder)) return folder;
    const std::string maker = program.substr(0, program.rfind('/') + 1) + "make_model";
    if (std::system(fmt::format("{} --shape {} --out {} >/dev/null", maker, a.shape, folder).c_str()) != 0)
        throw UserError(ExitCode::internal, maker, "failed to make a {} model", a.shape);
    return folder;
}

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

void print_profile(const OpProfile& profile, const Schedule& schedule, const StepReport& report, int steps,
                   double seconds) {
    std::vector<std::pair<int64_t, std::string>> lines;
    for (const auto& [key, ns] : profile.ns())
        lines.emplace_back(ns, fmt::format("{} {}", key.first, direction_name(key.second)));
    int64_t update = 0, reduce = 0;
    for (size_t i = 0; i < schedule.tasks.size(); ++i) {
        const int64_t ns = report.tasks[i].end_ns - report.tasks[i].start_ns;
        if (schedule.tasks[i].verb == Verb::update) update += ns;
        if (schedule.tasks[i].verb == Verb::reduce) reduce += ns;
    }
    lines.emplace_back(update * steps, "update");
    lines.emplace_back(reduce * steps, "gradient norm");
    std::sort(lines.rbegin(), lines.rend());
    for (const auto& [ns, name] : lines) {
        const double share = static_cast<double>(ns) * 1e-9 / steps / seconds;
        if (share >= 0.001)
            fmt::print("  {:<28} {:>8.1f} ms  {:>5.1f} %\n", name, static_cast<double>(ns) * 1e-6 / steps, 100 * share);
    }
}

EngineSetup make_setup(const Arguments& a, ModelFolder& folder, double peak, OpProfile& profile) {
    HfConfig config = folder.config();
    EngineSetup setup{
        .model = build_model(config, folder.tensors()), .recipe = make_recipe("adamw", {}), .profile = &profile};
    setup.numerics = {.compute = a.dtype,
                      .micro_rows = a.rows,
                      .micro_count = a.micro,
                      .row_lengths = {a.length},
                      .kernel_path = std::string(isa_name(cpu_isa()))};
    const Machine machine{.threads = a.threads,
                          .gemm_bf16_flops = peak,
                          .gemm_f32_flops = peak,
                          .memory_bytes_per_s = 40e9,
                          .disk_read_bytes_per_s = 3e9,
                          .disk_write_bytes_per_s = 3e9};
    const PlanRequest request{.policy = a.policy,
                              .recompute = a.recompute ? "true" : "false",
                              .threads = a.threads,
                              .budgets = {.ram = a.ram, .disk = int64_t{1} << 50},
                              .schedules = {{ScheduleRequest::Kind::train, a.rows, a.length, a.micro}}};
    Planned planned = make_plan(setup.model, setup.recipe, setup.numerics, machine, request);
    setup.plan = planned.plan;
    setup.schedules = std::move(planned.schedules);
    setup.store_path = a.store + "/step-bench.wls";
    return setup;
}

StepInput make_input(const Arguments& a, const Rows& rows) {
    StepInput input;
    for (int micro = 0; micro < a.micro; ++micro) {
        const int64_t begin = micro * a.rows * a.length;
        input.micro.push_back({.rows = a.rows,
                               .row_length = a.length,
                               .tokens = rows.tokens.data() + begin,
                               .positions = rows.positions.data() + begin,
                               .doc_start = rows.starts.data() + begin,
                               .targets = rows.targets.data() + begin});
    }
    return input;
}

struct Measured {
    double seconds = 0;  // of a step, mean; the first one, which warms up, is left out
    StepReport last;
};

Measured measure(const Arguments& a, Engine& engine, StepInput input, OpProfile& profile) {
    const double tokens = static_cast<double>(a.rows * a.length * a.micro);
    Measured measured;
    for (int step = 0; step <= a.steps; ++step) {
        if (step == 1) profile.clear();
        input.params = {.step = step + 1, .learning_rate = 1e-5, .loss_scale = 1.0 / tokens};
        measured.last = engine.train_step(engine.setup().schedules.schedules[0], input);
        const int64_t commit = now_ns();
        engine.commit(step + 1, "{}", measured.last);
        const double seconds = measured.last.seconds + seconds_since(commit);
        fmt::print("step {}{}: loss {:.4f}, {:.3f} s\n", step, step == 0 ? " (warm-up)" : "",
                   measured.last.loss_sum / tokens, seconds);
        if (step > 0) measured.seconds += seconds / a.steps;
    }
    return measured;
}

void print_result(const Arguments& a, const Engine& engine, const Measured& measured, double peak) {
    const double tokens = static_cast<double>(a.rows * a.length * a.micro), seconds = measured.seconds;
    const double model_flops = engine.setup().model.training_flops_per_token(a.length) * tokens;
    const double hardware_flops = total_demand(engine.setup().schedules.schedules[0]).flops;
    struct rusage usage {};
    getrusage(RUSAGE_SELF, &usage);
    fmt::print("{} {} {} x {} x {}, {} threads, {}: {:.3f} s/step, {:.0f} tokens/s\n", a.shape, dtype_name(a.dtype),
               a.micro, a.rows, a.length, a.threads, isa_name(cpu_isa()), seconds, tokens / seconds);
    fmt::print("gemm peak {:.1f} GFLOP/s; model {:.1f} GFLOP/s = {:.3f} of it; hardware {:.3f}\n", peak * 1e-9,
               model_flops / seconds * 1e-9, model_flops / seconds / peak, hardware_flops / seconds / peak);
    fmt::print("arena {}, peak resident {}\nwhere the time goes:\n", format_bytes(engine.setup().schedules.arena_bytes),
               format_bytes(usage.ru_maxrss * 1024));
}

void run(const Arguments& a, const std::string& program) {
    const double before = gemm_peak(a.dtype, a.threads);
    ModelFolder folder = ModelFolder::open(real_files(), make_model_folder(a, program));
    OpProfile profile;
    EngineSetup setup = make_setup(a, folder, before, profile);
    real_files().remove_tree(setup.store_path);
    Engine engine(real_files(), std::move(setup));
    engine.load(folder, "{}");
    const Rows rows(a.rows * a.length * a.micro, a.length, engine.setup().model.vocab);
    const Measured measured = measure(a, engine, make_input(a, rows), profile);
    print_result(a, engine, measured, 0.5 * (before + gemm_peak(a.dtype, a.threads)));
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
