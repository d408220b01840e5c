#include "train/session.h"

#include <cmath>
#include <filesystem>

#include "base/error.h"
#include "base/log.h"
#include "base/math.h"
#include "base/units.h"
#include "device/cpu/isa.h"
#include "format/checksum.h"
#include "method/noise/noise.h"
#include "model/families.h"
#include "model/param_groups.h"
#include "model/sublayers.h"
#include "schedule/machine_profiles.h"
#include "train/budget.h"
#include "train/machine_cache.h"
#include "train/param_group_text.h"
#include "train/store_masters.h"
#include "train/task_answers.h"

namespace windlass {
namespace {

constexpr int64_t kAutoRows = 8;  // rows that a step has for each of gradient_accumulation_steps when rows are `auto`

constexpr int64_t kMicroRowsMax = 65536;

// What `auto` chooses from. A run that goes on keeps what was chosen for it.
std::vector<StateFormat> state_candidates(const std::optional<RunState>& recorded) {
    if (recorded) return {recorded->numerics.state_format};
    return {StateFormat::s1};
}

MethodOptions method_options(const Config& config, const std::optional<RunState>& recorded) {
    return {.beta1 = config.adam_beta1,
            .beta2 = config.adam_beta2,
            .epsilon = config.adam_epsilon,
            .weight_decay = config.weight_decay,
            .max_grad_norm = config.max_grad_norm,
            .state_format = resolve_state_format(config.state_format, state_candidates(recorded)),
            .zo_eps = config.zo_eps,
            .directions = static_cast<int>(config.directions),
            .scalar_clip = config.scalar_clip,
            .noise = *noise_kind_from_name(config.noise),
            .noise_rank = static_cast<int>(config.noise_rank),
            .noise_window = config.noise_window,
            .noise_keeps_left = config.noise_kept == "both",
            .estimator = *estimator_from_name(config.zo_estimator),
            .exact_inplace = config.exact_inplace,
            .layer_drop = config.layer_drop,
            .sparse_share = config.sparse_share,
            .moments = *moments_from_name(config.zo_optimizer),
            .replay_window = static_cast<int>(config.replay_window)};
}

// max_length as the model allows it: a default above its positions is lowered, a wish is refused.
void fit_length(Config& config, const ModelSpec& model, std::vector<std::string>& notes) {
    if (config.max_length <= model.context_length) return;
    if (config.was_given("max_length")) {
        throw UserError(ExitCode::usage, "max_length", "{} tokens, but the model was made for {}", config.max_length,
                        model.context_length)
            .hint(fmt::format("max_length {}", model.context_length));
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
    session.first.param_groups = param_group_texts(session.model);
    const int64_t trained = trained_count(session.model), all = session.model.param_count();
    if (trained < all)
        session.notes.push_back(fmt::format("{} of {} parameters are trained, {:.1f} %", format_count(trained),
                                            format_count(all),
                                            100.0 * static_cast<double>(trained) / static_cast<double>(all)));
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

int64_t resolve_steps(Session& session) {
    if (session.config.max_steps) return *session.config.max_steps;
    if (!session.data) return 0;
    const int64_t rows = session.data->training().rows_in_passes(session.config.num_train_epochs);
    return std::max<int64_t>(1, div_up(rows, session.examples_per_step()));
}

std::vector<ScheduleRequest> schedule_requests(const Numerics& numerics, bool evaluates) {
    std::vector<ScheduleRequest> requests;
    for (const int64_t length : numerics.row_lengths) {
        ScheduleRequest request{
            .rows = numerics.micro_rows, .row_length = length, .micro_count = static_cast<int>(numerics.micro_count)};
        requests.push_back(request);
        request.kind = ScheduleRequest::Kind::eval;
        if (evaluates) requests.push_back(request);
    }
    return requests;
}

// The shapes of a micro-batch to choose from: (rows, count). The configuration counts examples.
std::vector<std::pair<int64_t, int64_t>> micro_choices(const Session& session,
                                                       const std::optional<RunState>& recorded) {
    const Config& config = session.config;
    const int64_t accumulation = config.gradient_accumulation_steps, rows_each = session.rows_per_example();
    if (config.per_device_train_batch_size) {
        const int64_t rows = *config.per_device_train_batch_size * rows_each;
        if (rows > kMicroRowsMax)
            throw UserError(ExitCode::usage, "per_device_train_batch_size",
                            "{} examples of {} candidates are {} rows; {} are the most", rows / rows_each, rows_each,
                            rows, kMicroRowsMax)
                .hint("a larger gradient_accumulation_steps");
        return {{rows, accumulation}};
    }
    if (recorded) return {{recorded->numerics.micro_rows, recorded->numerics.micro_count}};
    std::vector<std::pair<int64_t, int64_t>> choices;
    for (int64_t rows = kAutoRows; rows >= 1; rows /= 2)
        choices.emplace_back(rows * rows_each, accumulation * (kAutoRows / rows));
    return choices;
}

// Bytes that each step may write, so that the run stays within ssd_writes; 0: as many as it likes.
int64_t step_disk_writes(Session& session) {
    const std::string& text = session.config.ssd_writes.text;
    if (text.empty()) return 0;
    const int64_t steps = resolve_steps(session);
    if (steps == 0)
        throw UserError(ExitCode::usage, "ssd_writes", "the length of the run is not known").hint("give max_steps");
    return std::max<int64_t>(1, parse_bytes(text, "ssd_writes") / steps);
}

// Plans every shape of a micro-batch and keeps the fastest that fits; the refusal is that of the smallest.
void plan_shapes(Session& session, const std::optional<RunState>& recorded) {
    Numerics& numerics = session.first.numerics;
    bool found = false;
    std::exception_ptr refusal;
    for (const auto& [rows, count] : micro_choices(session, recorded)) {
        Numerics choice = numerics;
        choice.micro_rows = rows;
        choice.micro_count = count;
        PlanRequest request = session.request;
        request.schedules = schedule_requests(choice, session.has_eval());
        request.budgets.step_disk_writes = step_disk_writes(session);
        try {
            Planned planned = make_plan(session.model, session.recipe, choice, session.machine, request);
            if (found && planned.step.seconds >= session.planned.step.seconds) continue;
            session.planned = std::move(planned);
            session.request = std::move(request);
            numerics = choice;
            found = true;
        } catch (const UserError& error) {
            if (error.code() != ExitCode::no_fit) throw;
            refusal = std::current_exception();
        }
    }
    if (!found) std::rethrow_exception(refusal);
}

// The state format that is asked for, or the most exact one that fits.
void plan_session(Session& session, const std::optional<RunState>& recorded) {
    const bool is_open = session.config.state_format == "auto" && !recorded && !session.recipe.state.empty();
    for (const StateFormat format : kStateFormats) {
        if (is_open) {
            session.method_options.state_format = session.first.numerics.state_format = format;
            session.recipe = make_recipe(session.config.method, session.method_options);
        }
        try {
            plan_shapes(session, recorded);
            if (is_open && format != kStateFormats[0])
                session.notes.push_back(fmt::format("state_format is {}: with {} nothing fits",
                                                    state_format_name(format), state_format_name(kStateFormats[0])));
            return;
        } catch (const UserError& error) {
            const bool is_last = format == *std::prev(std::end(kStateFormats));
            if (error.code() != ExitCode::no_fit || !is_open || is_last) throw;
        }
    }
}

void resolve_numerics(Session& session, const std::optional<RunState>& recorded) {
    Numerics& numerics = session.first.numerics;
    numerics.compute = resolve_compute(session.config.dtype, session.model);
    numerics.kernel_path = isa_name(cpu_isa());
    numerics.state_format = session.method_options.state_format;
    const auto [rows, count] = micro_choices(session, recorded).front();
    numerics.micro_rows = rows;
    numerics.micro_count = count;
    if (recorded) {
        numerics.row_lengths = recorded->numerics.row_lengths;
    } else if (session.data) {
        numerics.row_lengths = choose_row_lengths(session.data->row_lengths(session.config.max_length), rows * count,
                                                  session.config.max_length);
    } else {
        numerics.row_lengths = {session.config.max_length};
    }
}

// Of all micro-batches that the planner chooses from.
std::vector<OpSize> micro_sizes(const Session& session, const std::optional<RunState>& recorded) {
    std::vector<OpSize> sizes;
    for (const auto& [rows, count] : micro_choices(session, recorded)) {
        for (const int64_t length : session.first.numerics.row_lengths)
            sizes.push_back({.rows = rows, .row_length = length, .compute = session.first.numerics.compute});
    }
    return sizes;
}

// The machine, its threads, and what of it may be used: this one, measured, or another one, as it is written down.
Budgets resolve_machine(FileSystem& files, Session& session, const std::optional<RunState>& recorded) {
    const Config& config = session.config;
    const auto threads = [&](int all) { return config.threads ? static_cast<int>(*config.threads) : all; };
    if (config.machine.empty()) {
        session.threads = threads(default_threads());
        const Emulation emulation = emulation_of(config);
        Machine machine = known_machine(files, config.ssd_dir, session.threads);
        const std::vector<OpSize> sizes = micro_sizes(session, recorded);
        add_kernels(files, config.ssd_dir, kernel_cases(session.model, session.recipe, sizes), session.threads,
                    machine);
        session.machine = slowed(std::move(machine), emulation.link_bytes_per_s, emulation.disk_bytes_per_s);
        session.request.device = parse_device(config.device, "device");
        return resolve_budgets(files, config, session.threads);
    }
    session.machine = find_machine(files, config.machine);
    session.threads = threads(session.machine.threads);
    session.notes.push_back(
        fmt::format("planned for {}, as {} describes it; nothing was measured", session.machine.name, config.machine));
    session.request.device = {.kind = DeviceKind::fake, .own_memory = !session.machine.unified_memory};
    return machine_budgets(session.machine, config, session.threads);
}

// Of a step that writes answers each round gives every answer a token at least.
int64_t most_rounds(FileSystem& files, const Config& config, const Recipe& recipe) {
    const Objective objective = *objective_from_name(config.objective);
    if (!writes_answers(objective) || !recipe.probes()) return 1;
    const TaskSpec task = find_task(files, config.task);
    require_written_answers(task, objective);
    return task.max_new_tokens;
}

// What the planner is to choose from. In each round updates that have not gone home are applied to what is fetched: so
// over many of them it is better that they go at once, unless writing is what is short.
int wanted_writeback(const Session& session) {
    if (session.config.writeback_steps) return static_cast<int>(*session.config.writeback_steps);
    return session.rounds_most > 1 && session.config.ssd_writes.text.empty() ? 1 : 0;
}

}  // namespace

void set_kept_types(const Config& config, const Recipe& recipe, ModelSpec& model) {
    set_store(model, recipe.store);
    if (recipe.probes() && config.weight_storage == "f8") keep_in_8_bits(model);
}

Emulation emulation_of(const Config& config) {
    const auto rate = [](const ByteLimit& limit, std::string_view key) {
        return limit.text.empty() ? 0.0 : static_cast<double>(parse_bytes(limit.text, key));
    };
    return {.link_bytes_per_s = rate(config.link_rate, "link_rate"),
            .disk_bytes_per_s = rate(config.disk_rate, "disk_rate")};
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

StateFormat resolve_state_format(const std::string& wanted, std::span<const StateFormat> candidates) {
    if (wanted == "auto") return candidates.front();
    const std::optional<StateFormat> named = state_format_from_name(wanted);
    WINDLASS_CHECK(named, "the table of keys lets \"{}\" through", wanted);
    return *named;
}

Session prepare_session(FileSystem& files, const Config& config, const std::optional<RunState>& recorded) {
    ModelFolder folder = ModelFolder::open(files, config.model);
    HfConfig hf_config = folder.config();
    ModelSpec model = build_model(hf_config, folder.tensors());
    Session session{.config = config, .folder = std::move(folder), .model = std::move(model)};
    session.notes = session.model.notes;
    group_parameters(session);
    fit_length(session.config, session.model, session.notes);
    session.method_options = method_options(config, recorded);
    session.recipe = make_recipe(config.method, session.method_options);
    set_kept_types(config, session.recipe, session.model);
    session.first.weight_storage = config.weight_storage;
    if (recorded && recorded->weight_storage == config.weight_storage && is_kept_in_8_bits(session.model))
        set_scale_exponents(recorded->scale_exponents, config.model, session.model);
    if (session.recipe.probes()) session.model = in_sublayers(session.model);
    if (!config.train_data.empty()) {
        session.tokenizer = Tokenizer::load(files, config.model);
        if (session.tokenizer->vocab_size() > session.model.vocab)
            throw UserError(ExitCode::model, config.model, "the tokenizer has {} ids, the model {}",
                            session.tokenizer->vocab_size(), session.model.vocab);
        session.data = RunData::open(files, session.config, *session.tokenizer);
        session.first.data_fingerprint = session.data->fingerprint();
    }
    session.rounds_most = most_rounds(files, config, session.recipe);
    session.first.seed = static_cast<uint64_t>(config.seed);
    session.first.method = config.method;
    resolve_numerics(session, recorded);
    Budgets budgets = resolve_machine(files, session, recorded);
    if (config.export_steps) budgets.exporter = export_memory_bytes(session.model);
    session.request = {.policy = config.policy,
                       .recompute = config.gradient_checkpointing,
                       .update_time = config.update_time,
                       .device = session.request.device,
                       .threads = session.threads,
                       .budgets = budgets,
                       .writeback_steps = wanted_writeback(session)};
    if (config.max_grad_norm == 0)
        session.request.clip_frequency = 0;
    else if (recorded && recorded->applied_steps > 0)
        session.request.clip_frequency =
            static_cast<double>(recorded->clipped_steps) / static_cast<double>(recorded->applied_steps);
    plan_session(session, recorded);
    session.first.schedule = resolve_schedule(config, resolve_steps(session));
    if (session.planned.plan.store) session.store_path = working_store_path(config);
    return session;
}

}  // namespace windlass
