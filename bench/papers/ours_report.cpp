#include "papers/ours_report.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "base/units.h"
#include "papers/ours.h"
#include "papers/ratel_rows.h"
#include "schedule/machine_profiles.h"

namespace windlass {
namespace {

constexpr int64_t kDriveBytes = 3'840'000'000'000;
constexpr int64_t kSystemBytes = 8 * kGiB;  // of the host's memory, for the rest of the machine

// What is left of the host's memory for a run.
int64_t usable(const Machine& machine) {
    return machine.memory_bytes - kSystemBytes;
}

// The paper's machine with fewer drives, which give their rating up to what the socket passes.
DriveArray array_of(const PublishedRow& row, const Machine& machine) {
    return {.drives = row.drives,
            .batch_latency_s = kept_fit(machine).batch_latency_s,
            .socket_bytes_per_s = machine.disk_read_bytes_per_s};
}

Machine sized(Machine machine) {
    machine.disk_bytes = machine.drives * kDriveBytes;
    return machine;
}

std::string busiest(const OurAnswer& answer) {
    const Simulation& step = answer.planned.step;
    const auto most = std::max_element(step.busy_seconds.begin(), step.busy_seconds.end());
    return fmt::format("{} {:.0f} %", lane_name(static_cast<LaneKind>(most - step.busy_seconds.begin())),
                       100 * *most / step.seconds);
}

std::string cell(const std::optional<OurAnswer>& answer) {
    return answer ? fmt::format("{:.0f}", answer->tokens_per_s) : "-";
}

// Tokens a second as published, where so many operations are counted for each parameter and token.
double published_rate(const PublishedRow& row, double operations) {
    return row.tflops * 1e12 / (operations * row.shape.params());
}

// What is published counts 8 operations for each parameter and token, or 6: the tables cannot tell. And the latency of
// batches, fitted for the published program, may be the drives' own: then our transfers wait for it, too.
void print_row(const PublishedRow& row, const TrainedModel& model, const Machine& paper_machine) {
    const DriveArray array = array_of(row, paper_machine);
    OurQuestion question{.model = &model,
                         .machine = sized(with_drives(paper_machine, array)),
                         .rows = row.batch,
                         .sequence_length = row.shape.sequence_length,
                         .memory_bytes = usable(paper_machine),
                         .all_on_drives = true};
    const double most = published_rate(row, 6), least = published_rate(row, 8);
    fmt::print("{:<17}{:>6}{:>6}{:>7}{:>6.0f}{:>6.0f} |", row.table, row.model, row.batch, row.drives, least, most);
    std::optional<OurAnswer> first;
    for (const StateFormat format : kStateFormats) {
        question.format = format;
        const std::optional<OurAnswer> answer = ask(question);
        fmt::print("{:>6}", cell(answer));
        if (!first) first = answer;
    }
    question.format = StateFormat::fp32;
    question.all_on_drives = false;
    fmt::print("{:>8}", cell(ask(question)));
    question.all_on_drives = true;
    question.machine = sized(with_late_drives(paper_machine, array));
    const std::optional<OurAnswer> late = ask(question);
    fmt::print("{:>8} |", cell(late));
    for (const std::optional<OurAnswer>& answer : {first, late}) {
        for (const double published : {least, most})
            fmt::print("{:>8}", answer ? fmt::format("{:.2f}", answer->tokens_per_s / published) : "-");
    }
    if (first) fmt::print("  micro {}, {}", first->numerics.micro_batch_size, busiest(*first));
    fmt::print("\n");
}

struct Aim {
    std::string_view what;
    const TrainedModel* model = nullptr;
    std::string_view machine;
    int64_t rows = 1;
    int64_t memory_bytes = 0;
    int64_t disk_bytes = 0;  // 0: all of the machine's
    StateFormat format = StateFormat::fp32;
    double tokens_per_s = 0;  // 0: that it runs at all
    bool was_met = true;      // and must stay so
};

// Gives whether it is met, or never was.
bool print_aim(const Aim& aim) {
    Machine machine = completed(find_machine(real_files(), std::string(aim.machine)));
    if (aim.disk_bytes > 0) machine.disk_bytes = aim.disk_bytes;
    const std::optional<OurAnswer> answer = ask({.model = aim.model,
                                                 .machine = machine,
                                                 .rows = aim.rows,
                                                 .format = aim.format,
                                                 .memory_bytes = aim.memory_bytes - kSystemBytes,
                                                 .all_on_drives = true});
    const bool met = answer && answer->tokens_per_s >= aim.tokens_per_s;
    fmt::print("{:<44}{:>4}{:>8}{:>10}  {:<8}", aim.what, state_format_name(aim.format),
               aim.tokens_per_s > 0 ? fmt::format("{:.0f}", aim.tokens_per_s) : "runs", cell(answer),
               met           ? "met"
               : aim.was_met ? "NO LONGER MET"
                             : "not met");
    if (answer) {
        const Planned& planned = answer->planned;
        fmt::print("  {:<15} micro {:>2}, device {:>5.1f}, host {:>6.1f}, disk {:>7.1f} GB", busiest(*answer),
                   answer->numerics.micro_batch_size, 1e-9 * static_cast<double>(planned.device_bytes),
                   1e-9 * static_cast<double>(planned.memory_bytes), 1e-9 * static_cast<double>(planned.disk_bytes));
    }
    fmt::print("\n");
    return met || !aim.was_met;
}

}  // namespace

void print_ours(const Machine& paper_machine) {
    const TrainedModel small = gpt_13b(), large = gpt_175b();
    fmt::print(
        "tokens/s. Published, if its TFLOPS count 8 or 6 operations for each parameter and token: 8N, 6N. Ours, with "
        "no\n"
        "home in memory for weights and state, by format of the state: fp32, bf16, int8. memory: fp32 wherever it is "
        "best.\n"
        "late: fp32 on drives where each batch of {} MiB waits {:.2f} ms, too. Then fp32 and late over published.\n\n",
        kBatchBytes / kMiB, 1e3 * kept_fit(paper_machine).batch_latency_s);
    fmt::print("{:<17}{:>6}{:>6}{:>7}{:>6}{:>6} |{:>6}{:>6}{:>6}{:>8}{:>8} |{:>8}{:>8}{:>8}{:>8}\n", "table", "model",
               "batch", "drives", "8N", "6N", "fp32", "bf16", "int8", "memory", "late", "fp32/8N", "fp32/6N", "late/8N",
               "late/6N");
    for (const PublishedRow& row : published_rows()) {
        if (row.use == RowUse::repeated) continue;
        print_row(row, row.model == "13B" ? small : large, paper_machine);
        std::fflush(stdout);
    }
}

bool print_aims(const Machine& paper_machine) {
    const TrainedModel small = gpt_13b(), large = gpt_175b(), llama = llama_70b();
    const std::string_view paper = "rtx4090-server-12gen4", four = "rtx4090-workstation-4gen5";
    const int64_t all = paper_machine.memory_bytes;
    std::vector<Aim> aims;
    for (const StateFormat format : kStateFormats) {
        aims.push_back({"13B, 12 drives, 65k tokens a step", &small, paper, 64, all, 0, format, 1750, false});
        aims.push_back(
            {"13B, 12 drives, 8k tokens a step", &small, paper, 8, all, 0, format, 1000, format != StateFormat::fp32});
    }
    aims.push_back({"13B, 4 Gen5 drives, 8k tokens a step", &small, four, 8, 256 * kGiB, 0, StateFormat::int8, 650});
    aims.push_back({"70B, desktop, 64 GiB, 2 TB, 8k tokens a step", &llama, "rtx4090-desktop", 8, 64 * kGiB,
                    2'000'000'000'000, StateFormat::int8, 0});
    for (const StateFormat format : {StateFormat::int8, StateFormat::fp32}) {
        const bool small_state = format == StateFormat::int8;
        aims.push_back(
            {"175B, 12 drives, 768 GiB, 16k tokens a step", &large, paper, 16, all, 0, format, 85, small_state});
        aims.push_back(
            {"175B, 12 drives, 256 GiB, 16k tokens a step", &large, paper, 16, 256 * kGiB, 0, format, 85, small_state});
        aims.push_back({"175B, 12 drives, 128 GiB, 16k tokens a step", &large, paper, 16, 128 * kGiB, 0, format, 0});
    }
    aims.push_back(
        {"175B, 4 Gen5 drives, 256 GiB, 16k tokens", &large, four, 16, 256 * kGiB, 0, StateFormat::bf16, 70, false});
    fmt::print("{:<44}{:>4}{:>8}{:>10}\n", "aim, everything on the drives", "", "wanted", "tokens/s");
    bool kept = true;
    for (const Aim& aim : aims) {
        kept = print_aim(aim) && kept;
        std::fflush(stdout);
    }
    return kept;
}

}  // namespace windlass
