#include "train/run_text.h"

#include "base/error.h"
#include "base/json.h"
#include "base/units.h"

namespace windlass {
namespace {

std::string bytes_or_dash(int64_t bytes) {
    return bytes > 0 ? format_bytes(bytes) : "-";
}

std::string rate_text(double bytes_per_s) {
    return fmt::format("{:.2f} GB/s", bytes_per_s * 1e-9);
}

int64_t step_tokens(const Session& session) {
    return session.rows_per_step() * session.numerics().row_lengths.back();
}

std::string placement_table(const Session& session) {
    const Planned& planned = session.planned;
    const Budgets& budgets = session.request.budgets;
    std::vector<std::vector<std::string>> rows = {{"Placement", "memory", "disk"}};
    for (const PlacementRow& row : planned.placement)
        rows.push_back({"  " + row.owner, bytes_or_dash(row.memory_bytes), bytes_or_dash(row.disk_bytes)});
    rows.push_back({"  predicted peak", format_bytes(planned.memory_bytes), bytes_or_dash(planned.disk_bytes)});
    rows.push_back({"  limits", format_bytes(budgets.ram), bytes_or_dash(budgets.disk)});
    return aligned_table(rows);
}

std::string step_text(const Session& session) {
    const Simulation& step = session.planned.step;
    const auto busy = [&](LaneKind lane) { return step.busy_seconds[static_cast<size_t>(lane)]; };
    std::string text = fmt::format("Per step  {} predicted: compute {}", format_seconds(step.seconds),
                                   format_seconds(busy(LaneKind::compute)));
    if (session.planned.plan.uses_disk()) {
        text += fmt::format(" | disk reads {} ({}), writes {} ({})", format_seconds(busy(LaneKind::disk_read)),
                            format_bytes(step.demand.disk_read_bytes), format_seconds(busy(LaneKind::disk_write)),
                            format_bytes(step.demand.disk_write_bytes));
    }
    const double peak = session.machine.gemm_flops(session.numerics().compute);
    text += fmt::format(" | {:.0f} tok/s", static_cast<double>(step_tokens(session)) / step.seconds);
    if (peak > 0) text += fmt::format(", MFU {:.0f} %", step.demand.model_flops / step.seconds / peak * 100);
    return text + "\n";
}

std::string run_line(const Session& session) {
    const int64_t steps = session.total_steps();
    if (steps == 0) return "Run       length not known without train_data or max_steps\n";
    const double seconds = session.planned.step.seconds * static_cast<double>(steps);
    std::string text = fmt::format("Run       {} steps, at most {}", steps, format_seconds(seconds));
    const int64_t writes = session.planned.step.demand.disk_write_bytes;
    if (writes > 0) text += fmt::format("; writes {} to disk", format_bytes(writes * steps));
    return text + "\n";
}

std::string method_text(const Session& session) {
    const Numerics& n = session.numerics();
    const Plan& plan = session.planned.plan;
    return fmt::format(
        "Method    {}, {} rows x {} accumulated, up to {} tokens each = {} tokens a step, computed in {}{}; policy "
        "{}\n",
        session.recipe.name, n.micro_rows, n.micro_count, n.row_lengths.back(), step_tokens(session),
        dtype_name(n.compute), plan.recompute ? ", activations recomputed" : "", plan.policy);
}

std::string machine_line(const Session& session) {
    const Machine& m = session.machine;
    std::string text =
        fmt::format("Machine   {}, {} threads, {} memory; {} {:.0f} GFLOP/s, copies {}", m.name, session.threads,
                    format_bytes(m.memory_bytes), dtype_name(session.numerics().compute),
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
        for (size_t i = 0; i < row.size(); ++i)
            line += i == 0 ? fmt::format("{:<{}}", row[i], widths[i]) : fmt::format("  {:>{}}", row[i], widths[i]);
        line.erase(line.find_last_not_of(' ') + 1);
        text += line + "\n";
    }
    return text;
}

std::string plan_text(const Session& session) {
    std::string text =
        fmt::format("Model     {}, {} parameters, {} blocks, {}\n", session.model.family,
                    format_count(session.model.param_count()), session.model.blocks.size(), session.config.model);
    text += machine_line(session) + method_text(session);
    if (session.data) text += fmt::format("Data      {}\n", session.data->report().summary());
    text += placement_table(session);
    text += step_text(session) + run_line(session);
    for (const std::string& note : session.notes) text += fmt::format("Note      {}\n", note);
    return text + "FITS\n";
}

std::string plan_json(const Session& session) {
    const Planned& p = session.planned;
    const Numerics& n = session.numerics();
    Json placement = Json::array();
    for (const PlacementRow& row : p.placement)
        placement.push_back({{"owner", row.owner}, {"memory_bytes", row.memory_bytes}, {"disk_bytes", row.disk_bytes}});
    const auto busy = [&](LaneKind lane) { return p.step.busy_seconds[static_cast<size_t>(lane)]; };
    const Json json = {{"schema_version", 1},
                       {"fits", true},
                       {"model",
                        {{"path", session.config.model},
                         {"family", session.model.family},
                         {"parameters", session.model.param_count()}}},
                       {"policy", p.plan.policy},
                       {"recompute", p.plan.recompute},
                       {"numerics",
                        {{"compute", dtype_name(n.compute)},
                         {"micro_rows", n.micro_rows},
                         {"micro_count", n.micro_count},
                         {"row_lengths", n.row_lengths},
                         {"kernel_path", n.kernel_path}}},
                       {"placement", placement},
                       {"memory_bytes", p.memory_bytes},
                       {"memory_limit_bytes", session.request.budgets.ram},
                       {"disk_bytes", p.disk_bytes},
                       {"disk_limit_bytes", session.request.budgets.disk},
                       {"step",
                        {{"seconds", p.step.seconds},
                         {"compute_seconds", busy(LaneKind::compute)},
                         {"disk_read_seconds", busy(LaneKind::disk_read)},
                         {"disk_write_seconds", busy(LaneKind::disk_write)},
                         {"tokens", step_tokens(session)},
                         {"model_flops", p.step.demand.model_flops},
                         {"disk_read_bytes", p.step.demand.disk_read_bytes},
                         {"disk_write_bytes", p.step.demand.disk_write_bytes}}},
                       {"total_steps", session.total_steps()},
                       {"notes", session.notes}};
    return json.dump(2) + "\n";
}

}  // namespace windlass
