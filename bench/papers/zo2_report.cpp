#include "papers/zo2_report.h"

#include <algorithm>
#include <array>
#include <optional>

#include <fmt/format.h>

#include "model/families.h"
#include "model/sublayers.h"
#include "plan/planner.h"
#include "schedule/machine_profiles.h"

namespace windlass {
namespace {

constexpr std::string_view kMachine = "rtx4090-server-12gen4";
// What the runtime of a GPU takes of its memory before anything is ours. Published numbers have it, too.
constexpr int64_t kContextBytes = 500'000'000;
constexpr int64_t kProcessBytes = 500'000'000;  // libraries, tokenizer, index of the data
constexpr int64_t kCardBytes = 24'000'000'000;
constexpr int64_t kTokens = 2048;
constexpr int64_t kUnlimited = int64_t{1} << 50;
// A step within the aim for memory takes at most so many times a step with the whole card.
constexpr double kSlowdownMost = 1.10;
constexpr double kGibGb = 1.073741824;

struct OptShape {
    std::string_view name;
    int64_t hidden, layers, heads;
    double published_gb;  // of the card, "GPU memory" of the repository's table, f16, 1 x 2048 tokens
    double aim_gb;        // of ours, at most; 0: less than published
};
constexpr OptShape kShapes[] = {
    {"1.3B", 2048, 24, 32, 3.75, 0},    {"2.7B", 2560, 32, 32, 4.14, 0}, {"6.7B", 4096, 32, 32, 4.99, 2.2},
    {"13B", 5120, 40, 40, 6.18, 3.0},   {"30B", 7168, 48, 56, 8.86, 0},  {"66B", 9216, 64, 72, 12.07, 0},
    {"175B", 12288, 96, 96, 18.04, 10},
};

TrainedModel model_of(const OptShape& shape, const Recipe& recipe) {
    HfConfig config =
        HfConfig::parse(fmt::format(R"({{"model_type": "opt", "hidden_size": {}, "ffn_dim": {}, "num_hidden_layers": {},
            "num_attention_heads": {}, "max_position_embeddings": 2048, "vocab_size": 50272,
            "word_embed_proj_dim": {}, "do_layer_norm_before": true, "activation_function": "relu"}})",
                                    shape.hidden, 4 * shape.hidden, shape.layers, shape.heads, shape.hidden),
                        "config.json");
    TrainedModel model(build_model(config, {}));
    for (ParamSpec& param : model.params) param.file_dtype = DType::f16;
    set_store(model, recipe.store);
    return in_sublayers(model);
}

Machine machine() {
    Machine made = completed(find_machine(real_files(), std::string(kMachine)));
    made.memory_bytes = kUnlimited;
    return made;
}

struct Asked {
    int64_t tokens = kTokens;
    int64_t device_bytes = kCardBytes - kContextBytes;  // of the card, for ours
    int writeback_steps = 0;                            // 0: as the planner likes
};

// The fastest plan.
Planned plan(const TrainedModel& model, const Recipe& recipe, const Asked& asked) {
    const Machine card = machine();
    const Numerics numerics{
        .compute = DType::bf16, .micro_batch_size = 1, .micro_batches = 1, .sequence_lengths = {asked.tokens}};
    const PlanRequest request{
        .policy = "host_stream",
        .device = {DeviceKind::fake, 0, true},
        .threads = card.threads,
        .budgets = {.ram = card.memory_bytes, .process = kProcessBytes, .device = asked.device_bytes},
        .schedules = {{ScheduleRequest::Kind::train, 1, asked.tokens, 1},
                      {ScheduleRequest::Kind::eval, 1, asked.tokens, 1}},
        .writeback_steps = asked.writeback_steps};
    return make_plan(model, recipe, numerics, card, request);
}

double gb(int64_t bytes) {
    return 1e-9 * static_cast<double>(bytes);
}

void print_owners(const Planned& planned) {
    for (const PlacementRow& row : planned.placement) {
        if (row.device_bytes > 0) fmt::print("        {:<24}{:>8.2f} GB\n", row.tag, gb(row.device_bytes));
    }
}

bool print_row(const OptShape& shape, const Recipe& recipe, const MemoryTable& table) {
    const TrainedModel model = model_of(shape, recipe);
    const double aim = shape.aim_gb > 0 ? shape.aim_gb : shape.published_gb;
    Asked asked{.device_bytes = static_cast<int64_t>(aim * 1e9) - kContextBytes,
                .writeback_steps = table.each_step ? 1 : 0};
    fmt::print("{:>5}{:>11.2f}{:>8.2f}", shape.name, shape.published_gb, aim);
    std::optional<Planned> found;
    try {
        found = plan(model, recipe, asked);
    } catch (const UserError&) {
        fmt::print("  does not fit: MISSED\n");
        return false;
    }
    const Planned& planned = *found;
    asked.device_bytes = kCardBytes - kContextBytes;
    const double roomy = plan(model, recipe, asked).step.seconds, seconds = planned.step.seconds;
    const double device = gb(planned.device_bytes + kContextBytes), host = gb(planned.memory_bytes);
    const double host_aim = 1.02 * 2e-9 * static_cast<double>(model.param_count()) + 1;
    // Updates that are written back at once need room to leave: that table is there to show what it costs.
    const bool met = device <= aim && host <= host_aim && (table.each_step || seconds <= kSlowdownMost * roomy);
    fmt::print("{:>8.2f}{:>10.1f}{:>9.1f}{:>9.2f}{:>8.0f}{:>10.2f}  {:<12} ahead {}, {}, home each {}{}\n", device,
               host, host_aim, seconds, static_cast<double>(kTokens) / seconds, roomy,
               fmt::format("{} {:.0f} %", lane_name(planned.binding.lane), 100 * planned.binding.busy),
               planned.plan.upload_ahead, planned.plan.one_probe ? "one probe" : "both probes",
               planned.plan.writeback_steps, met ? "" : "  MISSED");
    if (table.owners) print_owners(planned);
    std::fflush(stdout);
    return met;
}

}  // namespace

bool print_memory(const MemoryTable& table) {
    const Recipe recipe = make_recipe("zeroth_order", {.directions = 1});
    fmt::print(
        "OPT, zeroth_order, 1 x {} tokens, f16 in the host's memory, computed in bf16; {}, simulated.\n"
        "GB of 1e9 bytes: of the card with {:.1f} GB for its runtime, of the host with {:.1f} GB for the process; "
        "published\n"
        "as its table has it: if that counts GiB, it is {:.0f} % more.\n\n",
        kTokens, kMachine, gb(kContextBytes), gb(kProcessBytes), 100 * (kGibGb - 1));
    fmt::print("{:>5}{:>11}{:>8}{:>8}{:>10}{:>9}{:>9}{:>8}{:>10}  {}\n", "OPT", "published", "aim", "ours", "host",
               "aim", "s/step", "tok/s", "24 GB: s", "bound by");
    bool met = true;
    for (const OptShape& shape : kShapes) {
        if (table.owners && shape.aim_gb == 0) continue;
        met = print_row(shape, recipe, table) && met;
    }
    return met;
}

bool print_directions() {
    constexpr std::array<int, 5> kDirections = {1, 2, 4, 8, 16};
    // At the fewest tokens, where the link is the bound: not where products take longer than what still goes up.
    constexpr std::array<double, 5> kWanted = {1, 1.9, 3.5, 0, 0};
    constexpr std::array<int64_t, 3> kLengths = {256, 1024, 2048};
    fmt::print("Directions a second over those of one direction a step; {}, 24 GB, simulated\n\n{:>5}{:>8}", kMachine,
               "OPT", "tokens");
    for (const int directions : kDirections) fmt::print("{:>9}", fmt::format("n = {}", directions));
    fmt::print("   s/step, n = 1 and 16\n");
    bool met = true;
    for (const std::string_view name : {"13B", "66B"}) {
        const OptShape& shape = *std::find_if(std::begin(kShapes), std::end(kShapes),
                                              [&](const OptShape& each) { return each.name == name; });
        for (const int64_t tokens : kLengths) {
            fmt::print("{:>5}{:>8}", name, tokens);
            double one = 0, last = 0;
            bool row_met = true;
            for (size_t index = 0; index < kDirections.size(); ++index) {
                const Recipe recipe = make_recipe("zeroth_order", {.directions = kDirections[index]});
                const Simulation step = plan(model_of(shape, recipe), recipe, {.tokens = tokens}).step;
                last = step.seconds;
                if (index == 0) one = last;
                const double gain = one * kDirections[index] / last;
                const auto& busy = step.busy_seconds;
                const bool is_wanted =
                    tokens == kLengths[0] && busy[slot(LaneKind::up)] >= busy[slot(LaneKind::compute)];
                row_met = row_met && (!is_wanted || gain >= kWanted[index]);
                fmt::print("{:>9.2f}", gain);
                std::fflush(stdout);
            }
            fmt::print("   {:.2f}, {:.2f}{}\n", one, last, row_met ? "" : "  MISSED");
            met = met && row_met;
        }
    }
    return met;
}

}  // namespace windlass
