#include "session/session.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "base/error.h"
#include "base/log.h"
#include "base/math.h"
#include "base/units.h"
#include "config/choices.h"
#include "config/param_group_text.h"
#include "config/user_folder.h"
#include "data/chats.h"
#include "data/open_adapter.h"
#include "data/open_model.h"
#include "data/task_answers.h"
#include "device/cpu/isa.h"
#include "format/checksum.h"
#include "method/param_groups.h"
#include "model/families.h"
#include "model/preference_head.h"
#include "model/sublayers.h"
#include "run/first_masters.h"
#include "schedule/lower.h"
#include "schedule/machine_profiles.h"
#include "schedule/simulate.h"
#include "session/best_rule.h"
#include "session/local_machine.h"
#include "session/phase.h"
#include "session/session_plan.h"
#include "state/coefficients.h"
#include "state/store_masters.h"

namespace windlass {
namespace {

LrSchedule resolve_schedule(const Config& config, int64_t total_steps) {
    LrSchedule schedule{.type = config.lr_scheduler_type,
                        .peak = config.learning_rate,
                        .total_steps = total_steps,
                        .warmup_steps = config.warmup_steps,
                        .min_ratio = config.min_lr_ratio,
                        .cycles = config.lr_num_cycles,
                        .power = config.lr_power};
    const auto steps = static_cast<double>(total_steps);
    if (schedule.warmup_steps == 0)
        schedule.warmup_steps = static_cast<int64_t>(std::ceil(config.warmup_ratio * steps));
    if (schedule.type == "warmup_stable_decay")
        schedule.decay_steps = static_cast<int64_t>(std::ceil(config.lr_decay_ratio * steps));
    return schedule;
}

// Of all micro-batches that the planner chooses from.
std::vector<OpSize> micro_sizes(const RunSpec& session, const std::optional<RunState>& recorded) {
    std::vector<OpSize> sizes;
    for (const auto& [rows, count] : micro_choices(session, recorded)) {
        for (const int64_t length : session.identity.numerics.sequence_lengths)
            sizes.push_back({.rows = rows,
                             .sequence_length = length,
                             .device = computing_device(session.config).kind,
                             .compute = session.identity.numerics.compute});
    }
    return sizes;
}

std::string device_share_note(const Machine& machine) {
    return fmt::format("device_memory is {:.0f} % of the device's {}{}", 100 * device_memory_share(machine),
                       format_bytes(machine.device_memory_bytes),
                       machine.device_has_display ? ", since a display takes some of it" : ", which has no display");
}

// The machine, its threads, and what of it may be used.
struct Place {
    Machine machine;
    int threads = 1;
    DeviceId device;
    Budgets budgets;
    MemoryLimit memory;
    std::vector<std::string> notes;
};

int threads_of(const Config& config, int all) {
    return config.threads ? static_cast<int>(*config.threads) : all;
}

// This one, measured.
Place this_machine(FileSystem& files, const RunSpec& run, const std::optional<RunState>& recorded) {
    Place place{.threads = threads_of(run.config, default_threads(files))};
    LocalMachine local = local_machine(files, run.config, place.threads,
                                       kernel_cases(run.model, run.recipe, micro_sizes(run, recorded)));
    place.machine = std::move(local.machine);
    place.device = local.device;
    place.budgets = local.budgets;
    place.memory = local.memory;
    if (!local.note.empty()) place.notes.push_back(std::move(local.note));
    return place;
}

// Another one, as it is written down.
Place described_machine(FileSystem& files, const RunSpec& run) {
    const Config& config = run.config;
    Place place{.machine = find_machine(files, config.machine)};
    const Machine& machine = place.machine;
    place.threads = threads_of(config, machine.threads);
    place.notes.push_back(
        fmt::format("planned for {}, as {} describes it; nothing was measured", machine.name, config.machine));
    if (machine.device_memory_bytes > 0 && config.device_memory.text.empty())
        place.notes.push_back(device_share_note(machine));
    if (!machine.unified_memory) place.device = {.kind = DeviceKind::fake, .own_memory = true};
    place.budgets = machine_budgets(machine, config, place.threads);
    return place;
}

// What the planner is to choose from. In each round updates that have not been written back are applied to what is
// fetched: so over many of them it is better that they go at once, unless writing is what is short.
int wanted_writeback(const Session& session) {
    if (session.config.writeback_steps) return static_cast<int>(*session.config.writeback_steps);
    return session.rounds_most > 1 && session.config.ssd_writes.text.empty() ? 1 : 0;
}

// Of steps: as the run had it so far; before any, what is usual.
double clip_frequency(const Config& config, const std::optional<RunState>& recorded) {
    if (config.max_grad_norm == 0) return 0;
    if (!recorded || recorded->progress.applied_steps == 0) return PlanRequest().clip_frequency;
    return static_cast<double>(recorded->progress.clipped_steps) /
           static_cast<double>(recorded->progress.applied_steps);
}

// What finding the reference's log-likelihoods takes, before the first step.
std::string reference_note(const Session& session) {
    if (!needs_references(session)) return "";
    const int64_t rows = 2 * (session.data->pair_count() + session.data->eval_count());
    const Schedule* const schedule = session.planned.schedules.find(schedule_name(
        {.kind = ScheduleRequest::Kind::eval, .sequence_length = session.numerics().sequence_lengths.back()}));
    const double seconds =
        simulate(*schedule, session.machine).seconds * static_cast<double>(div_up(rows, session.rows_per_step()));
    return fmt::format("the reference's log-likelihoods of {} answers are found before the first step, in {} at most",
                       rows, format_seconds(seconds));
}

}  // namespace

DeviceId computing_device(const Config& config) {
    return config.machine.empty() ? parse_device(config.device, "device") : DeviceId();
}

void set_kept_types(const Config& config, const Recipe& recipe, TrainedModel& model) {
    set_store(model, recipe.store);
    keep_frozen_as(model, resolve_compute(config, model));
    const KeptAs kept = kept_as(config.weight_storage);
    if (kept == KeptAs::f8) keep_in_8_bits(model);
    if (kept == KeptAs::nf4) keep_in_4_bits(model);
    set_merge(model, recipe.merge);
}

std::optional<PreferenceAttrs> preference_of(const Config& config) {
    const Objective objective = objective_of(config);
    if (!compares_pairs(objective)) return std::nullopt;
    using Kind = PreferenceAttrs::Kind;
    const Kind kind = objective == Objective::orpo ? Kind::orpo : Kind::dpo;
    return PreferenceAttrs{kind, config.preference_beta, config.train_on_prompt};
}

bool needs_references(const RunSpec& run) {
    return run.data && run.preference && run.preference->kind == PreferenceAttrs::Kind::dpo;
}

OutputSource output_of(const Session& session) {
    return {.model = session.model,
            .base_folder = session.config.model,
            .base_checksum = session.identity.base_checksum,
            .chat_template = session.data ? session.data->chat_template() : "",
            .generation_config = session.generation_config};
}

bool writes_answers(const Config& config, const Recipe& recipe) {
    return recipe.probes() && writes_answers(objective_of(config));
}

std::string working_store_path(const Config& config) {
    if (config.ssd_dir.empty() || config.output_dir.empty()) return "";  // planning writes nothing
    const std::string absolute = std::filesystem::absolute(config.output_dir).lexically_normal().string();
    const auto bytes = std::as_bytes(std::span(absolute));
    std::string name = std::filesystem::path(absolute).filename().string();
    if (name.empty()) name = "run";
    return fmt::format("{}/{}-{:08x}.wls", config.ssd_dir, name, static_cast<uint32_t>(xxh3_64(bytes)));
}

DType resolve_compute(const Config& config, const ModelSpec& model) {
    if (const std::optional<DType> given = compute_type_of(config)) return *given;
    int64_t f32_elements = 0;
    for (const ParamSpec& param : model.params) f32_elements += param.file_dtype == DType::f32 ? param.numel() : 0;
    return f32_elements * 2 > model.param_count() ? DType::f32 : DType::bf16;
}

ReadMasters RunSpec::first_weights() const {
    return first_masters(folder, model, identity.seed, adapter ? &*adapter : nullptr);
}

Session plan_run(FileSystem& files, RunSpec spec, const std::optional<RunState>& recorded, KeptPlans kept) {
    Session session(std::move(spec));
    const Config& config = session.config;
    session.plan_cache = plan_cache_of(files, config, kept == KeptPlans::used ? user_cache_folder() : "");
    Place place = config.machine.empty() ? this_machine(files, session, recorded) : described_machine(files, session);
    session.threads = place.threads;
    session.machine = std::move(place.machine);
    session.memory = place.memory;
    session.notes.insert(session.notes.end(), place.notes.begin(), place.notes.end());
    if (config.export_steps) place.budgets.exporter = export_memory_bytes(session.model);
    session.request = {.policy = policy_of(config).value_or(""),
                       .recompute = recompute_of(config),
                       .update_time = update_time_of(config),
                       .device = place.device,
                       .threads = session.threads,
                       .budgets = place.budgets,
                       .writeback_steps = wanted_writeback(session),
                       .clip_frequency = clip_frequency(config, recorded)};
    PlanChoice chosen = choose_plan(session, recorded);
    session.method_options = chosen.options;
    session.recipe = std::move(chosen.recipe);
    session.identity.numerics = std::move(chosen.numerics);
    session.identity.directions = session.recipe.probes() ? chosen.options.directions : session.identity.directions;
    session.request = std::move(chosen.request);
    session.planned = std::move(chosen.planned);
    session.notes.insert(session.notes.end(), chosen.notes.begin(), chosen.notes.end());
    session.identity.schedule = resolve_schedule(config, steps_of(session));
    if (session.planned.plan.store) session.store_path = working_store_path(config);
    if (const std::string note = reference_note(session); !note.empty()) session.notes.push_back(note);
    return session;
}

Session prepare_session(FileSystem& files, const Config& config, const std::optional<RunState>& recorded, ConfigUse use,
                        KeptPlans kept) {
    return plan_run(files, assemble(files, open_sources(files, config, use), recorded, use), recorded, kept);
}

}  // namespace windlass
