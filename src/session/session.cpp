#include "session/session.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "base/error.h"
#include "base/log.h"
#include "base/math.h"
#include "base/units.h"
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
#include "session/budget.h"
#include "session/local_machine.h"
#include "session/phase.h"
#include "session/session_plan.h"
#include "session/stops.h"
#include "state/coefficients.h"
#include "state/store_masters.h"

namespace windlass {
namespace {

// A resumed run keeps what `auto` chose for it.
MethodOptions method_options(const Config& config, const std::optional<RunState>& recorded) {
    MethodOptions options = method_options(config);
    if (!recorded) return options;
    if (config.state_format == "auto") options.state_format = recorded->identity.numerics.state_format;
    if (!config.directions) options.directions = recorded->identity.directions;
    return options;
}

// max_length as the model allows it: a default above its positions is lowered, a wish is refused.
void fit_length(Config& config, const ModelSpec& model, std::vector<std::string>& notes) {
    if (config.max_length <= model.context_length) return;
    if (config.was_given("max_length")) {
        throw UserError(ExitCode::usage, "max_length", "{} tokens, but the model was made for {}", config.max_length,
                        model.context_length)
            .hint(fmt::format("max_length: {}", model.context_length));
    }
    config.max_length = model.context_length;
    notes.push_back(fmt::format("max_length is {}, the model's number of positions", config.max_length));
}

void group_parameters(Session& session) {
    const Config& config = session.config;
    const char* const keys = config.freeze.empty()         ? "param_groups"
                             : config.param_groups.empty() ? "freeze"
                                                           : "freeze, param_groups";
    apply_param_groups(param_groups_of(config), keys, session.model);
    session.identity.param_groups = param_group_texts(session.model);
    const int64_t trained = trained_count(session.model), all = session.model.param_count();
    if (trained < all)
        session.notes.push_back(fmt::format("{} of {} parameters are trained, {:.1f} %", format_count(trained),
                                            format_count(all),
                                            100.0 * static_cast<double>(trained) / static_cast<double>(all)));
}

void note_merge(Session& session) {
    const Recipe& recipe = session.recipe;
    if (recipe.merge == Merge::per_window)
        session.notes.push_back(
            fmt::format("weights are read only, {} steps at a time; the steps' updates are kept apart until then",
                        recipe.merge_window));
    if (recipe.merge == Merge::never)
        session.notes.emplace_back("matrices and tables are read only; their updates are kept apart");
}

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

// Lengths are a part of numerics: rows to evaluate on that came later have to do with those of the run.
void require_room(const Session& session, const Identity& recorded) {
    if (!session.data || session.identity.data_fingerprint != recorded.data_fingerprint) return;
    const int64_t longest = std::ranges::max(session.data->sequence_lengths(session.config.max_length));
    if (longest > recorded.numerics.sequence_lengths.back())
        throw UserError(ExitCode::usage, "eval_data", "a row has {} tokens, the run was begun with rows of {} at most",
                        longest, recorded.numerics.sequence_lengths.back())
            .hint("shorter rows, or windlass eval on what the run saves");
}

// What is planned for a machine that is described runs nowhere.
DeviceId computing_device(const Config& config) {
    return config.machine.empty() ? parse_device(config.device, "device") : DeviceId();
}

void resolve_numerics(Session& session, const std::optional<RunState>& recorded) {
    Numerics& numerics = session.identity.numerics;
    numerics.compute = resolve_compute(session.config.dtype, session.model);
    numerics.kernel_path = kernel_path(computing_device(session.config));
    numerics.state_format = session.method_options.state_format;
    numerics.gradient_format = *gradient_format_from_name(session.config.gradient_format);
    const auto [rows, count] = micro_choices(session, recorded).front();
    numerics.micro_batch_size = rows;
    numerics.micro_batches = count;
    if (recorded) {
        numerics.sequence_lengths = recorded->identity.numerics.sequence_lengths;
        require_room(session, recorded->identity);
    } else if (session.data) {
        numerics.sequence_lengths = choose_row_lengths(session.data->sequence_lengths(session.config.max_length),
                                                       rows * count, session.config.max_length);
    } else {
        numerics.sequence_lengths = {session.config.max_length};
    }
}

// Of all micro-batches that the planner chooses from.
std::vector<OpSize> micro_sizes(const Session& session, const std::optional<RunState>& recorded) {
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

void note_device_share(Session& session) {
    const Machine& machine = session.machine;
    if (machine.device_memory_bytes == 0 || !session.config.device_memory.text.empty()) return;
    session.notes.push_back(
        fmt::format("device_memory is {:.0f} % of the device's {}{}", 100 * device_memory_share(machine),
                    format_bytes(machine.device_memory_bytes),
                    machine.device_has_display ? ", since a display takes some of it" : ", which has no display"));
}

// The machine, its threads, and what of it may be used: this one, measured, or another one, as it is written down.
Budgets resolve_machine(FileSystem& files, Session& session, const std::optional<RunState>& recorded) {
    const Config& config = session.config;
    const auto threads = [&](int all) { return config.threads ? static_cast<int>(*config.threads) : all; };
    if (config.machine.empty()) {
        session.threads = threads(default_threads());
        LocalMachine local = local_machine(files, config, session.threads,
                                           kernel_cases(session.model, session.recipe, micro_sizes(session, recorded)));
        session.machine = std::move(local.machine);
        session.request.device = local.device;
        if (!local.note.empty()) session.notes.push_back(std::move(local.note));
        return local.budgets;
    }
    session.machine = find_machine(files, config.machine);
    session.threads = threads(session.machine.threads);
    session.notes.push_back(
        fmt::format("planned for {}, as {} describes it; nothing was measured", session.machine.name, config.machine));
    note_device_share(session);
    if (!session.machine.unified_memory) session.request.device = {.kind = DeviceKind::fake, .own_memory = true};
    return machine_budgets(session.machine, config, session.threads);
}

// Of a step that writes answers each round gives every answer a token at least.
int64_t most_rounds(FileSystem& files, const Config& config, const Recipe& recipe) {
    if (!writes_answers(config, recipe)) return 1;
    const TaskSpec task = find_task(files, config.task);
    require_written_answers(task, *objective_from_name(config.objective));
    return task.max_new_tokens;
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

// Something is kept as it was asked for. A matrix in 4 bits is never written: it stays as it is, or its updates are
// kept apart.
void require_narrow(const Config& config, const Recipe& recipe, const TrainedModel& model) {
    const bool asks = config.weight_storage == "f8" || config.weight_storage == "nf4";
    if (asks && !is_kept_in_8_bits(model) && !is_kept_in_4_bits(model))
        throw UserError(ExitCode::usage, "weight_storage",
                        "{} is for weights that are not split masters, but method {} trains every matrix as one",
                        config.weight_storage, config.method)
            .hint("freeze matrices (param_groups), or method: zeroth_order");
    const auto is_written = [](const Param& param) {
        return param.storage.dtype == DType::nf4 && param.trains() && param.perturb.merge != Merge::never;
    };
    const auto is_updated_in_8_bits = [](const Param& param) {
        return param.storage.dtype == DType::f8_e4m3 && param.trains();
    };
    const auto params = model.all_params();
    if (const auto found = std::ranges::find_if(params, is_updated_in_8_bits);
        recipe.uses_gradients_at_once() && found != params.end())
        throw UserError(ExitCode::usage, "weight_storage", "f8 is not for what {} trains, but {} is trained",
                        config.method, (*found).spec.name)
            .hint("weight_storage: as_file");
    const auto trained = std::ranges::find_if(params, is_written);
    if (trained == params.end()) return;
    throw UserError(ExitCode::usage, "weight_storage",
                    "nf4 keeps matrices of layers as they were loaded, but {} is trained", (*trained).spec.name)
        .hint(
            "merge_updates: never (with noise: low_rank, noise_window: 0, noise_kept: both), or to freeze the matrices "
            "of "
            "layers, which windlass inspect MODEL --tensors lists");
}

void resolve_phase(Session& session) {
    Config& config = session.config;
    session.phase = phase_settings(config, session.recipe, session.model);
    if (session.phase.every == 0) return;
    config.lsp_refresh = session.phase.every;
    session.phase.phase->set_up(session.model);
}

// What is planned from config.json alone.
void note_absent(FileSystem& files, Session& session) {
    const bool has_type = session.folder.config().has({"dtype", "torch_dtype"});
    session.notes.push_back(
        fmt::format("{} holds no weights: planned from config.json alone, which says {}", session.config.model,
                    has_type ? fmt::format("that they are {}", dtype_name(files_type(session.model)))
                             : "nothing of their type, so f32"));
    const auto has_file = [&](std::string_view name) {
        return files.exists(fmt::format("{}/{}", session.config.model, name));
    };
    if (session.config.train_data.empty() || has_file("tokenizer.json") || has_file("vocab.json")) return;
    session.notes.push_back(fmt::format("no tokenizer to read {} with: all rows are taken to be max_length, {} tokens",
                                        session.config.train_data.front(), session.config.max_length));
    session.config.train_data.clear();
}

// What finding the reference's log-likelihoods takes, before the first step.
void note_reference(Session& session) {
    if (!needs_references(session)) return;
    const int64_t rows = 2 * (session.data->pair_count() + session.data->eval_count());
    const Schedule* const schedule = session.planned.schedules.find(schedule_name(
        {.kind = ScheduleRequest::Kind::eval, .sequence_length = session.numerics().sequence_lengths.back()}));
    const double seconds =
        simulate(*schedule, session.machine).seconds * static_cast<double>(div_up(rows, session.rows_per_step()));
    session.notes.push_back(
        fmt::format("the reference's log-likelihoods of {} answers are found before the first step, in {} at most",
                    rows, format_seconds(seconds)));
}

void open_data(FileSystem& files, Session& session) {
    session.tokenizer = open_tokenizer(files, session.config.model, session.model);
    session.data = RunData::open(files, session.config, *session.tokenizer);
    session.identity.data_fingerprint = session.data->fingerprint();
    resolve_stops(files, session);
}

void resolve_samples(FileSystem& files, Session& session) {
    const Config& config = session.config;
    const bool asks = !config.sample_prompts.empty() && session.data->has_chats();
    const std::optional<ChatFormat> chats = asks ? open_chat_format(files, config, *session.tokenizer) : std::nullopt;
    session.samples = samples_of(config, *session.tokenizer, session.model, chats);
}

}  // namespace

void set_kept_types(const Config& config, const Recipe& recipe, TrainedModel& model) {
    set_store(model, recipe.store);
    keep_frozen_as(model, resolve_compute(config.dtype, model));
    if (config.weight_storage == "f8") keep_in_8_bits(model);
    if (config.weight_storage == "nf4") keep_in_4_bits(model);
    set_merge(model, recipe.merge);
}

std::optional<PreferenceAttrs> preference_of(const Config& config) {
    const Objective objective = *objective_from_name(config.objective);
    if (!compares_pairs(objective)) return std::nullopt;
    using Kind = PreferenceAttrs::Kind;
    const Kind kind = objective == Objective::orpo ? Kind::orpo : Kind::dpo;
    return PreferenceAttrs{kind, config.preference_beta, config.train_on_prompt};
}

bool needs_references(const Session& session) {
    return session.data && session.preference && session.preference->kind == PreferenceAttrs::Kind::dpo;
}

OutputSource output_of(const Session& session) {
    return {.model = session.model,
            .base_folder = session.config.model,
            .base_checksum = session.identity.base_checksum,
            .chat_template = session.data ? session.data->chat_template() : "",
            .generation_config = session.generation_config};
}

bool writes_answers(const Config& config, const Recipe& recipe) {
    return recipe.probes() && writes_answers(*objective_from_name(config.objective));
}

std::string working_store_path(const Config& config) {
    if (config.ssd_dir.empty() || config.output_dir.empty()) return "";  // planning writes nothing
    const std::string absolute = std::filesystem::absolute(config.output_dir).lexically_normal().string();
    const auto bytes = std::as_bytes(std::span(absolute));
    std::string name = std::filesystem::path(absolute).filename().string();
    if (name.empty()) name = "run";
    return fmt::format("{}/{}-{:08x}.wls", config.ssd_dir, name, static_cast<uint32_t>(xxh3_64(bytes)));
}

DType resolve_compute(const std::string& dtype, const ModelSpec& model) {
    if (dtype == "bf16") return DType::bf16;
    if (dtype == "f32") return DType::f32;
    int64_t f32_elements = 0;
    for (const ParamSpec& param : model.params) f32_elements += param.file_dtype == DType::f32 ? param.numel() : 0;
    return f32_elements * 2 > model.param_count() ? DType::f32 : DType::bf16;
}

ReadMasters Session::first_weights() const {
    return first_masters(folder, model, identity.seed, adapter ? &*adapter : nullptr);
}

Session prepare_session(FileSystem& files, const Config& config, const std::optional<RunState>& recorded, ConfigUse use,
                        KeptPlans kept) {
    ModelFolder folder =
        ModelFolder::open(files, config.model,
                          {.weights_may_be_absent = use == ConfigUse::plan, .ignored_keys = config.ignore_config_keys});
    HfConfig hf_config = folder.config();
    ModelSpec spec = build_model(hf_config, folder.tensors());
    std::optional<AdapterFolder> adapter = put_adapter(files, config, folder, spec);
    const std::optional<PreferenceAttrs> preference = preference_of(config);
    if (preference) spec = judge_pairs(std::move(spec), *preference);
    Session session{.config = config,
                    .folder = std::move(folder),
                    .model = TrainedModel(std::move(spec)),
                    .adapter = std::move(adapter),
                    .preference = preference,
                    .plan_cache = plan_cache_of(files, config, kept == KeptPlans::used ? user_cache_folder() : "")};
    session.notes = session.model.notes;
    if (const std::string& note = session.folder.renaming_note(); !note.empty()) session.notes.push_back(note);
    group_parameters(session);
    fit_length(session.config, session.model, session.notes);
    session.method_options = method_options(config, recorded);
    session.recipe = make_recipe(config.method, session.method_options);
    set_kept_types(config, session.recipe, session.model);
    require_narrow(config, session.recipe, session.model);
    resolve_phase(session);
    session.identity.weight_storage = config.weight_storage;
    session.identity.merge_updates = merge_name(session.recipe.merge);
    if (recorded && recorded->identity.weight_storage == config.weight_storage && is_kept_in_8_bits(session.model))
        set_scale_exponents(recorded->identity.scale_exponents, config.model, session.model);
    note_merge(session);
    if (session.recipe.probes()) session.model = in_sublayers(session.model);
    if (session.folder.tensors().empty()) note_absent(files, session);
    if (!session.config.train_data.empty()) open_data(files, session);
    if (session.tokenizer) resolve_samples(files, session);
    session.best = best_rule(config, session.data ? &*session.data : nullptr);
    session.identity.settings = recorded_settings(session.config, session.recipe.probes());
    session.rounds_most = most_rounds(files, config, session.recipe);
    session.identity.seed = static_cast<uint64_t>(config.seed);
    session.identity.method = config.method;
    resolve_numerics(session, recorded);  // first: it says whether the device is there
    session.identity.coefficients = coefficients_of(session.model, computing_device(session.config).kind);
    Budgets budgets = resolve_machine(files, session, recorded);
    if (config.export_steps) budgets.exporter = export_memory_bytes(session.model);
    session.request = {.policy = config.policy,
                       .recompute = config.gradient_checkpointing,
                       .update_time = config.update_time,
                       .device = session.request.device,
                       .threads = session.threads,
                       .budgets = budgets,
                       .writeback_steps = wanted_writeback(session),
                       .clip_frequency = clip_frequency(config, recorded)};
    plan_session(session, recorded);
    session.identity.schedule = resolve_schedule(config, resolve_steps(session));
    if (session.planned.plan.store) session.store_path = working_store_path(config);
    note_reference(session);
    return session;
}

}  // namespace windlass
