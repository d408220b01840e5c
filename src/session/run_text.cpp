#include "session/run_text.h"

#include "base/error.h"
#include "base/json.h"
#include "base/plural.h"
#include "base/units.h"
#include "method/forward_only/materialize.h"
#include "method/phase.h"
#include "schedule/trace.h"

namespace windlass {
namespace {

std::string bytes_or_dash(int64_t bytes) {
    return bytes > 0 ? format_bytes(bytes) : "-";
}

std::string rate_text(double bytes_per_s) {
    return fmt::format("{:.2f} GB/s", bytes_per_s * 1e-9);
}

int64_t step_tokens(const Session& session) {
    return session.rows_per_step() * session.numerics().sequence_lengths.back();
}

std::string placement_table(const Session& session) {
    const Planned& planned = session.planned;
    const Budgets& budgets = session.request.budgets;
    const bool apart = planned.plan.own_memory();
    std::vector<std::vector<std::string>> rows;
    const auto add = [&](std::string name, std::string device, std::string memory, std::string disk) {
        rows.push_back({std::move(name)});
        if (apart) rows.back().push_back(std::move(device));
        rows.back().push_back(std::move(memory));
        rows.back().push_back(std::move(disk));
    };
    add("Placement", "device", apart ? "host" : "memory", "disk");
    for (const PlacementRow& row : planned.placement)
        add("  " + row.tag, bytes_or_dash(row.device_bytes), bytes_or_dash(row.memory_bytes),
            bytes_or_dash(row.disk_bytes));
    add("  predicted peak", bytes_or_dash(planned.device_bytes), format_bytes(planned.memory_bytes),
        bytes_or_dash(planned.disk_bytes));
    const std::string_view limit = session.memory.name;
    add("  limits", format_bytes(budgets.device),
        format_bytes(budgets.ram) + (limit.empty() ? "" : fmt::format(" ({})", limit)), bytes_or_dash(budgets.disk));
    return aligned_table(rows);
}

// The lanes that work, with the bytes that cross them.
std::string lanes_text(const Simulation& step) {
    const auto lane = [&](LaneKind kind, std::string_view what, int64_t bytes) -> std::string {
        const double busy = step.busy_seconds[slot(kind)];
        if (busy <= 0 || (kind != LaneKind::host && bytes == 0)) return "";
        return fmt::format(" | {} {}{}", what, format_seconds(busy),
                           bytes > 0 ? fmt::format(" ({})", format_bytes(bytes)) : "");
    };
    return lane(LaneKind::host, "updates", 0) + lane(LaneKind::up, "up", step.demand.up_bytes) +
           lane(LaneKind::down, "down", step.demand.down_bytes) +
           lane(LaneKind::disk_read, "disk reads", step.demand.disk_read_bytes) +
           lane(LaneKind::disk_write, "disk writes", step.demand.disk_write_bytes);
}

double tokens_per_second(const Session& session) {
    return static_cast<double>(step_tokens(session)) / session.seconds_at_most();
}

// "at most 50 rounds of 1.2 s, "
std::string rounds_words(const Session& session) {
    if (session.rounds_most == 1) return "";
    return fmt::format("at most {} rounds of {}, ", session.rounds_most, format_seconds(session.planned.step.seconds));
}

// Nothing multiplies faster than it can: more than all of the peak says that the peak was measured on a busy machine.
std::string share_of_peak(double share) {
    if (share <= 1) return fmt::format("MFU {:.0f} %", share * 100);
    return "MFU not known: kernels were measured faster than the peak, which is stale";
}

// What a step takes longer that finds the norm before it updates anything, where gradients are used at once.
double second_backward_seconds(const Session& session) {
    if (!session.recipe.has_norm_pass()) return 0;
    MethodOptions options = session.method_options;
    options.max_grad_norm = 0;
    const Recipe without = make_recipe(session.recipe.name, options);
    const Planned planned = evaluate_plan(session.model, without, session.numerics(), session.machine, session.request,
                                          session.planned.plan);
    return session.planned.step.seconds - planned.step.seconds;
}

std::string step_text(const Session& session) {
    const Planned& planned = session.planned;
    const Simulation step = session.step_at_most();
    const double seconds = session.seconds_at_most();
    std::string text =
        fmt::format("Per step  {}{} predicted: compute {}{}", rounds_words(session), format_seconds(seconds),
                    format_seconds(step.busy_seconds[slot(LaneKind::compute)]), lanes_text(step));
    const double peak = session.machine.gemm_flops(session.numerics().compute);
    text += fmt::format(" | {:.0f} tok/s", tokens_per_second(session));
    if (peak > 0) text += ", " + share_of_peak(step.demand.model_flops / seconds / peak);
    if (planned.redo_seconds > 0 && session.request.clip_frequency > 0)
        text += fmt::format(
            "\nClipping  a step that is clipped does updates again: {} with it, {} without; taken to be {:.0f} % of "
            "steps",
            format_seconds(step.seconds + planned.redo_seconds), format_seconds(step.seconds),
            100 * session.request.clip_frequency);
    if (const double second = second_backward_seconds(session); second > 0)
        text += fmt::format("\nClipping  the norm takes a second backward: {} of each step; max_grad_norm 0 spares it",
                            format_seconds(second));
    text += fmt::format("\nBound by  {}, busy {:.0f} % of the step", lane_name(planned.binding.lane),
                        planned.binding.busy * 100);
    if (!planned.binding.improvement.empty())
        text += fmt::format("; {}{}", planned.binding.improvement, session.rounds_most > 1 ? " (of one round)" : "");
    return text + "\n";
}

// "Refresh   of projectors: 12 s each 1000 steps, 0.2 % more time; the first before the first step"
std::string phase_line(const Session& session) {
    if (session.phase.every == 0) return "";
    const double one = session.planned.phase_seconds, step = session.seconds_at_most();
    std::string name(session.phase.phase->name);
    name[0] = static_cast<char>(std::toupper(name[0]));
    return fmt::format("{:<10}of {}: {} each {} steps, {:.2g} % more time; the first before the first step\n", name,
                       session.phase.phase->of, format_seconds(one), session.phase.every,
                       100 * one / (step * static_cast<double>(session.phase.every)));
}

// How often a row is trained, where that is not once: "; each row is trained 2.67 times (3 rows an epoch, 8 a step)".
std::string passes_words(const Session& session) {
    if (!session.data) return "";
    const int64_t epoch = session.data->epoch_rows(), step = session.examples_per_step();
    const int64_t rows = session.total_steps() * step;
    if (rows == epoch) return "";
    const double passes = static_cast<double>(rows) / static_cast<double>(epoch);
    const std::string_view what = session.data->has_pairs() ? "pair" : "row";
    return fmt::format("; each {} is trained {:.3g} times ({}s: {} an epoch, {} a step)", what, passes, what, epoch,
                       step);
}

std::string run_line(const Session& session) {
    const int64_t steps = session.total_steps();
    if (steps == 0) return "Run       length not known without train_data or max_steps\n";
    const double seconds = session.seconds_at_most() * static_cast<double>(steps);
    std::string text = fmt::format("Run       {}, at most {}", counted(steps, "step"), format_seconds(seconds));
    const int64_t writes = session.planned.step.demand.disk_write_bytes * steps;
    if (writes > 0) text += fmt::format("; writes {} to disk", format_bytes(writes));
    const double wear = drive_wear(session.machine, static_cast<double>(writes));
    if (wear > 0) text += fmt::format(", {:.2g} % of the drives' life", wear * 100);
    const double per_money = tokens_per_money(session.machine, tokens_per_second(session));
    if (per_money > 0)
        text += fmt::format("; {} tokens for each unit of money", format_count(static_cast<int64_t>(per_money)));
    return text + passes_words(session) + "\n";
}

std::string plan_line(const Session& session) {
    const Plan& plan = session.planned.plan;
    if (session.recipe.probes())
        return fmt::format("Plan      {}: {}; {} evaluated\n", plan.policy, describe_forward_only(plan),
                           session.planned.evaluations);
    std::string text = fmt::format("Plan      {}: {}", plan.policy, describe_placement(plan));
    if (plan.store || plan.updates_apart() || plan.device_groups > 0)
        text += fmt::format("; {}", describe_updates(plan));
    if (plan.any_recompute()) text += fmt::format("; {}", describe_saved(plan));
    return text + fmt::format("; {} evaluated\n", session.planned.evaluations);
}

// What decides the bits in addition to rows and types: the format of the state, or what directions are.
std::string method_words(const Session& session) {
    const StateFormat format = session.numerics().state_format;
    const MethodOptions& options = session.method_options;
    if (session.recipe.uses_gradients_at_once())
        return options.split_masters ? std::string("fp32 masters")
                                     : fmt::format("weights kept in {}", dtype_name(common_type(session.model)));
    if (!session.recipe.probes()) {
        const GradientFormat gradients = session.numerics().gradient_format;
        const bool rounds = gradients != GradientFormat::f32;
        return fmt::format("{} moments{}", state_format_name(format),
                           rounds ? fmt::format(", {} gradients", gradient_format_name(gradients)) : "");
    }
    std::string text = fmt::format("{} {} {}", options.directions, noise_kind_name(options.noise),
                                   options.directions == 1 ? "direction" : "directions");
    if (const Noise noise = noise_of(options); noise.rank > 0)
        text += fmt::format(" of rank {}, {} kept for {}", noise.rank, noise.keeps_left ? "both factors" : "one factor",
                            noise.window == 0 ? "the whole run" : fmt::format("{} steps", noise.window));
    if (session.recipe.runs(PassKind::forward)) {
        if (options.estimator != ZoEstimator::two_sided) text += fmt::format(", {}", estimator_name(options.estimator));
        text += fmt::format(", eps {:g}", options.zo_eps);
        if (options.sparse_share < 1) text += fmt::format(", the smallest {:g} of each matrix", options.sparse_share);
    }
    if (options.layer_drop > 0) text += fmt::format(", {:g} of the layers left out", options.layer_drop);
    if (options.moments != NoiseMoments::none)
        text += fmt::format(", {} over the last {} steps", moments_name(options.moments), options.replay_window);
    const DType common = common_type(session.model), frozen = session.model.frozen_type.value_or(common);
    const bool differs = frozen != common && trained_count(session.model) < session.model.param_count();
    const std::string files = fmt::format("{}{}", dtype_name(common),
                                          differs ? fmt::format(" ({} at most where frozen)", dtype_name(frozen)) : "");
    if (is_kept_in_8_bits(session.model))
        return text + fmt::format(", matrices kept in {}, vectors in {}", dtype_name(DType::f8_e4m3), files);
    if (is_kept_in_4_bits(session.model))
        return text + fmt::format(", matrices of layers kept in {}, all else in {}", dtype_name(DType::nf4), files);
    return text + fmt::format(", weights kept in {}", files);
}

std::string method_text(const Session& session) {
    const Numerics& n = session.numerics();
    const Plan& plan = session.planned.plan;
    return fmt::format(
        "Method    {}, {}, {} rows, {} accumulation step{}, up to {} tokens each = {} tokens a step, computed in {}; "
        "policy {}\n",
        session.recipe.name, method_words(session), n.micro_batch_size, n.micro_batches,
        n.micro_batches == 1 ? "" : "s", n.sequence_lengths.back(), step_tokens(session), dtype_name(n.compute),
        plan.policy);
}

std::string machine_line(const Session& session) {
    const Machine& m = session.machine;
    std::string text = fmt::format("Machine   {}, {}, {} memory; {} {:.0f} GFLOP/s, copies {}", m.name,
                                   counted(session.threads, "thread"), format_bytes(m.memory_bytes),
                                   dtype_name(session.numerics().compute),
                                   m.gemm_flops(session.numerics().compute) * 1e-9, rate_text(m.memory_bytes_per_s));
    if (m.disk_read_bytes_per_s > 0)
        text += fmt::format("; disk reads {}, writes {}", rate_text(m.disk_read_bytes_per_s),
                            rate_text(m.disk_write_bytes_per_s));
    return text + "\n";
}

}  // namespace

std::string aligned_table(const std::vector<std::vector<std::string>>& rows) {
    std::vector<size_t> widths;
    for (const auto& row : rows) {
        widths.resize(std::max(widths.size(), row.size()), 0);
        for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
    }
    std::string text;
    for (const auto& row : rows) {
        std::string line;
        for (size_t i = 0; i < row.size(); ++i) {
            line += fmt::format(
                "{}{}", i == 0 ? "" : "  ",
                i == 0 ? fmt::format("{:<{}}", row[i], widths[i]) : fmt::format("{:>{}}", row[i], widths[i]));
        }
        line.erase(line.find_last_not_of(' ') + 1);
        text += line + "\n";
    }
    return text;
}

std::string plan_text(const Session& session) {
    std::string text = fmt::format("Model     {}, {} parameters, {}, {}\n", session.model.family,
                                   format_count(session.model.param_count()),
                                   counted(std::ssize(session.model.blocks), "block"), session.config.model);
    text += machine_line(session) + method_text(session);
    if (session.data) text += fmt::format("Data      {}\n", session.data->report().summary());
    text += plan_line(session) + placement_table(session);
    text += step_text(session) + phase_line(session) + run_line(session);
    for (const std::string& note : session.notes) text += fmt::format("Note      {}\n", note);
    return text;
}

Json step_json(const Session& session) {
    const Simulation step = session.step_at_most();
    const auto busy = [&](LaneKind lane) { return step.busy_seconds[slot(lane)]; };
    return {{"seconds", session.seconds_at_most()},
            {"unclipped_seconds", step.seconds},
            {"clipped_seconds", step.seconds + session.planned.redo_seconds},
            {"second_backward_seconds", second_backward_seconds(session)},
            {"rounds", session.rounds_most},
            {"compute_seconds", busy(LaneKind::compute)},
            {"host_seconds", busy(LaneKind::host)},
            {"up_seconds", busy(LaneKind::up)},
            {"down_seconds", busy(LaneKind::down)},
            {"disk_read_seconds", busy(LaneKind::disk_read)},
            {"disk_write_seconds", busy(LaneKind::disk_write)},
            {"tokens", step_tokens(session)},
            {"model_flops", step.demand.model_flops},
            {"up_bytes", step.demand.up_bytes},
            {"down_bytes", step.demand.down_bytes},
            {"disk_read_bytes", step.demand.disk_read_bytes},
            {"disk_write_bytes", step.demand.disk_write_bytes}};
}

Json lanes_json(const Session& session) {
    constexpr size_t kTasksMax = 4000;
    const Schedule& schedule = leading_schedule(session.planned.schedules);
    Json lanes = Json::array();
    for (const auto& lane : schedule.lanes) lanes.push_back({{"lane", lane_name(lane.kind)}, {"tasks", Json::array()}});
    double seconds = 0;
    for (const TraceTask& task :
         longest_tasks(session.model, session.planned.schedules, schedule, session.planned.step.tasks, kTasksMax)) {
        seconds = std::max(seconds, task.start_s + task.seconds);
        lanes[static_cast<size_t>(task.lane)]["tasks"].push_back(
            {{"name", task.name}, {"start", task.start_s}, {"seconds", task.seconds}});
    }
    return {{"title", fmt::format("{}, predicted for {}", schedule.name, session.machine.name)},
            {"seconds", seconds},
            {"lanes", lanes}};
}

Json plan_json(const Session& session, const Json& advice, const Json& compared) {
    const Planned& p = session.planned;
    Json placement = Json::array();
    for (const PlacementRow& row : p.placement)
        placement.push_back({{"owner", row.tag},
                             {"device_bytes", row.device_bytes},
                             {"memory_bytes", row.memory_bytes},
                             {"disk_bytes", row.disk_bytes}});
    const double writes = static_cast<double>(p.step.demand.disk_write_bytes);
    const double per_price = tokens_per_money(session.machine, tokens_per_second(session));  // of the machine's prices
    return {{"fits", true},
            {"model",
             {{"path", session.config.model},
              {"family", session.model.family},
              {"parameters", session.model.param_count()}}},
            {"policy", p.plan.policy},
            {"method", session.recipe.name},
            {"recompute", p.plan.any_recompute() && !session.recipe.probes()},
            {"numerics", numerics_json(session.numerics())},
            {"placement", placement},
            {"plan", session.recipe.probes() ? describe_forward_only(p.plan) : describe_placement(p.plan)},
            {"writeback_steps", p.plan.writeback_steps},
            {"updates", session.recipe.probes() ? "updates when fetched" : describe_updates(p.plan)},
            {"saved", session.recipe.probes() ? "" : describe_saved(p.plan)},
            {"evaluations", p.evaluations},
            {"device_bytes", p.device_bytes},
            {"device_limit_bytes", p.plan.own_memory() ? session.request.budgets.device : 0},
            {"memory_bytes", p.memory_bytes},
            {"memory_limit_bytes", session.request.budgets.ram},
            {"memory_limited_by", session.memory.name},
            {"disk_bytes", p.disk_bytes},
            {"disk_limit_bytes", session.request.budgets.disk},
            {"step", step_json(session)},
            {"bound_by", lane_name(p.binding.lane)},
            {"bound_share", p.binding.busy},
            {"improvement", p.binding.improvement},
            {"tokens_per_second", tokens_per_second(session)},
            {"tokens_per_unit_of_price", per_price > 0 ? Json(per_price) : Json()},
            {"drive_wear_per_step", drive_wear(session.machine, writes)},
            {"total_steps", session.total_steps()},
            {"notes", session.notes},
            {"advice", advice},
            {"compared", compared}};
}

}  // namespace windlass
