#include "train/session.h"

#include <cmath>
#include <filesystem>

#include "base/error.h"
#include "base/log.h"
#include "base/math.h"
#include "base/units.h"
#include "device/cpu/isa.h"
#include "format/checksum.h"
#include "model/families.h"
#include "train/budget.h"
#include "train/machine_cache.h"

namespace windlass {
namespace {

constexpr int64_t kAutoRows = 8;  // rows that a step has for each of gradient_accumulation_steps when rows are `auto`

MethodOptions method_options(const Config& config) {
    return {.beta1 = config.adam_beta1,
            .beta2 = config.adam_beta2,
            .epsilon = config.adam_epsilon,
            .weight_decay = config.weight_decay,
            .max_grad_norm = config.max_grad_norm};
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
    return std::max<int64_t>(1, div_up(rows, session.rows_per_step()));
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

// The shapes of a micro-batch to choose from: (rows, count).
std::vector<std::pair<int64_t, int64_t>> micro_choices(const Config& config, const std::optional<RunState>& recorded) {
    const int64_t accumulation = config.gradient_accumulation_steps;
    if (config.per_device_train_batch_size) return {{*config.per_device_train_batch_size, accumulation}};
    if (recorded) return {{recorded->numerics.micro_rows, recorded->numerics.micro_count}};
    std::vector<std::pair<int64_t, int64_t>> choices;
    for (int64_t rows = kAutoRows; rows >= 1; rows /= 2) choices.emplace_back(rows, accumulation * (kAutoRows / rows));
    return choices;
}

// Plans every choice and keeps the fastest that fits; the refusal is that of the smallest.
void plan_session(Session& session, const std::optional<RunState>& recorded) {
    Numerics& numerics = session.first.numerics;
    bool found = false;
    std::exception_ptr refusal;
    for (const auto& [rows, count] : micro_choices(session.config, recorded)) {
        Numerics choice = numerics;
        choice.micro_rows = rows;
        choice.micro_count = count;
        PlanRequest request = session.request;
        request.schedules = schedule_requests(choice, session.has_eval());
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

void resolve_numerics(Session& session, const std::optional<RunState>& recorded) {
    Numerics& numerics = session.first.numerics;
    numerics.compute = resolve_compute(session.config.dtype, session.model);
    numerics.kernel_path = isa_name(cpu_isa());
    const auto [rows, count] = micro_choices(session.config, recorded).front();
    if (recorded) {
        numerics.row_lengths = recorded->numerics.row_lengths;
    } else if (session.data) {
        numerics.row_lengths = choose_row_lengths(session.data->row_lengths(session.config.max_length), rows * count,
                                                  session.config.max_length);
    } else {
        numerics.row_lengths = {session.config.max_length};
    }
}

}  // namespace

std::string working_store_path(const Config& config) {
    if (config.ssd_dir.empty()) return "";
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

Session prepare_session(FileSystem& files, const Config& config, const std::optional<RunState>& recorded) {
    ModelFolder folder = ModelFolder::open(files, config.model);
    HfConfig hf_config = folder.config();
    ModelSpec model = build_model(hf_config, folder.tensors());
    Session session{.config = config, .folder = std::move(folder), .model = std::move(model)};
    session.notes = session.model.notes;
    fit_length(session.config, session.model, session.notes);
    session.method_options = method_options(config);
    session.recipe = make_recipe(config.method, session.method_options);
    session.threads = config.threads ? static_cast<int>(*config.threads) : default_threads();
    if (!config.train_data.empty()) {
        session.tokenizer = Tokenizer::load(files, config.model);
        if (session.tokenizer->vocab_size() > session.model.vocab)
            throw UserError(ExitCode::model, config.model, "the tokenizer has {} ids, the model {}",
                            session.tokenizer->vocab_size(), session.model.vocab);
        session.data = RunData::open(files, session.config, *session.tokenizer);
        session.first.data_fingerprint = session.data->fingerprint();
    }
    session.first.seed = static_cast<uint64_t>(config.seed);
    session.first.method = config.method;
    resolve_numerics(session, recorded);
    session.machine = known_machine(files, config.ssd_dir, session.threads);
    session.request = {.policy = config.policy,
                       .recompute = config.gradient_checkpointing,
                       .threads = session.threads,
                       .budgets = resolve_budgets(files, config, session.threads)};
    plan_session(session, recorded);
    session.first.schedule = resolve_schedule(config, resolve_steps(session));
    if (session.planned.plan.uses_disk()) session.store_path = working_store_path(config);
    return session;
}

}  // namespace windlass
