// From opened files to what a run does with them: which parameters are trained and how they are kept, by which recipe,
// in which numerics.
#include <algorithm>

#include "base/error.h"
#include "base/units.h"
#include "config/choices.h"
#include "config/param_group_text.h"
#include "data/chats.h"
#include "data/generation_config.h"
#include "data/task_answers.h"
#include "format/hf_config_values.h"
#include "method/forward_only/magnitude_limits.h"
#include "method/param_groups.h"
#include "model/load.h"
#include "session/best_rule.h"
#include "session/local_machine.h"
#include "session/phase.h"
#include "session/session_plan.h"
#include "state/coefficients.h"

namespace windlass {
namespace {

// A resumed run keeps what `auto` chose for it.
MethodOptions method_options(const Config& config, const std::optional<RunState>& recorded) {
    MethodOptions options = method_options(config);
    if (!recorded) return options;
    if (!state_format_of(config)) options.state_format = recorded->identity.numerics.state_format;
    if (!config.directions) options.directions = recorded->identity.directions;
    return options;
}

std::string trained_note(const TrainedModel& model) {
    const int64_t trained = trained_count(model), all = model.param_count();
    if (trained == all) return "";
    return fmt::format("{} of {} parameters are trained, {:.1f} %", format_count(trained), format_count(all),
                       100.0 * static_cast<double>(trained) / static_cast<double>(all));
}

void group_parameters(const Config& config, TrainedModel& model) {
    const char* const keys = config.freeze.empty()         ? "param_groups"
                             : config.param_groups.empty() ? "freeze"
                                                           : "freeze, param_groups";
    apply_param_groups(param_groups_of(config), keys, model);
}

std::string merge_note(const Recipe& recipe) {
    if (recipe.merge == Merge::per_window)
        return fmt::format("weights are read only, {} steps at a time; the steps' updates are kept apart until then",
                           recipe.merge_window);
    if (recipe.merge == Merge::never) return "matrices and tables are read only; their updates are kept apart";
    return "";
}

// Lengths are a part of numerics: rows to evaluate on that came later have to do with those of the run.
void require_room(const RunSpec& run, const Identity& recorded) {
    if (!run.data || run.data->fingerprint() != recorded.data_fingerprint) return;
    const int64_t longest = std::ranges::max(run.data->sequence_lengths(run.config.max_length));
    if (longest > recorded.numerics.sequence_lengths.back())
        throw UserError(ExitCode::usage, "eval_data", "a row has {} tokens, the run was begun with rows of {} at most",
                        longest, recorded.numerics.sequence_lengths.back())
            .hint("shorter rows, or windlass eval on what the run saves");
}

// But for what the planner chooses.
Numerics numerics_of(const RunSpec& run, const std::optional<RunState>& recorded) {
    Numerics numerics;
    numerics.compute = resolve_compute(run.config, run.model);
    numerics.kernel_path = kernel_path(computing_device(run.config));
    numerics.state_format = run.method_options.state_format;
    numerics.gradient_format = gradient_format_of(run.config);
    const auto [rows, count] = micro_choices(run, recorded).front();
    numerics.micro_batch_size = rows;
    numerics.micro_batches = count;
    if (recorded) {
        numerics.sequence_lengths = recorded->identity.numerics.sequence_lengths;
        require_room(run, recorded->identity);
    } else if (run.data) {
        numerics.sequence_lengths =
            choose_row_lengths(run.data->sequence_lengths(run.config.max_length), rows * count, run.config.max_length);
    } else {
        numerics.sequence_lengths = {run.config.max_length};
    }
    return numerics;
}

// Of a step that writes answers each round gives every answer a token at least.
int64_t most_rounds(FileSystem& files, const Config& config, const Recipe& recipe) {
    if (!writes_answers(config, recipe)) return 1;
    const TaskSpec task = find_task(files, config.task);
    require_written_answers(task, objective_of(config));
    return task.max_new_tokens;
}

// Something is kept as it was asked for. A matrix in 4 bits is never written: it stays as it is, or its updates are
// kept apart.
void require_narrow(const Config& config, const Recipe& recipe, const TrainedModel& model) {
    const KeptAs kept = kept_as(config.weight_storage);
    const bool asks = kept == KeptAs::f8 || kept == KeptAs::nf4;
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

// Where programs that read the trained model's generation_config.json stop, if the model's own files do not stop at the
// token that trained texts end with.
std::string changed_generation_config(FileSystem& files, const RunSpec& run) {
    const std::optional<int32_t> end = run.data ? run.data->text_end() : std::nullopt;
    return end ? generation_config_with_stop(files, run.config.model, *end) : "";
}

std::string stop_note(const RunSpec& run) {
    if (run.generation_config.empty()) return "";
    return fmt::format("generation_config.json of {} is changed: it stops at {} too, which ends trained texts",
                       ends_as_adapter(run.model) ? "merged models" : "the trained model",
                       run.tokenizer->id_to_token(*run.data->text_end()));
}

Samples samples_of(FileSystem& files, const RunSpec& run) {
    if (!run.tokenizer) return {};
    const bool asks = !run.config.sample_prompts.empty() && run.data->has_chats();
    const std::optional<ChatFormat> chats = asks ? open_chat_format(files, run.config, *run.tokenizer) : std::nullopt;
    return windlass::samples_of(run.config, *run.tokenizer, run.model, chats);
}

// With what follows from the magnitudes of the base's weights. The scales of a resumed run are those that it began
// with; that its weights are kept otherwise now is refused elsewhere, by name.
TrainedModel with_magnitudes(const RunSpec& run, const Identity* recorded) {
    TrainedModel model = run.model;
    const bool scales = is_kept_in_8_bits(model), sparse = run.config.sparse_share < 1;
    if (recorded != nullptr && recorded->weight_storage != run.config.weight_storage) return model;
    if (!sparse && (!scales || recorded != nullptr)) return model;
    check_tied(run.folder, model);
    set_by_magnitudes(model, run.config.sparse_share, run.first_weights());
    return model;
}

void require_same_scales(const Config& config, const TrainedModel& model, const Identity& recorded) {
    if (!is_kept_in_8_bits(model) || recorded.weight_storage != config.weight_storage ||
        recorded.scale_exponents == scale_exponents(model))
        return;
    throw UserError(ExitCode::model, config.model, "is not the model that this run began with")
        .hint("the model folder that this run started from");
}

// The sources' model as the run trains and keeps it.
TrainedModel model_of(const RunSpec& run, const std::optional<RunState>& recorded) {
    const Config& config = run.config;
    TrainedModel model(run.spec);
    group_parameters(config, model);
    set_kept_types(config, run.recipe, model);
    require_narrow(config, run.recipe, model);
    if (const PhaseSettings phase = phase_settings(config, run.recipe, model); phase.every > 0)
        phase.phase->set_up(model);
    if (recorded && recorded->identity.weight_storage == config.weight_storage && is_kept_in_8_bits(model))
        set_scale_exponents(recorded->identity.scale_exponents, config.model, model);
    return run.recipe.probes() ? in_sublayers(std::move(model)) : model;
}

Identity identity_of(const RunSpec& run, const std::optional<RunState>& recorded) {
    const Config& config = run.config;
    Identity identity;
    identity.seed = static_cast<uint64_t>(config.seed);
    identity.method = config.method;
    identity.param_groups = param_group_texts(run.model);
    identity.weight_storage = config.weight_storage;
    identity.merge_updates = merge_name(run.recipe.merge);
    if (run.data) identity.data_fingerprint = run.data->fingerprint();
    if (run.data && run.best) identity.eval_fingerprint = run.data->eval_fingerprint();
    identity.model_config = values_that_compute(run.folder.config());
    identity.settings = recorded_settings(config, run.recipe.probes());
    identity.numerics = numerics_of(run, recorded);
    identity.coefficients = coefficients_of(run.model, computing_device(config).kind);
    return identity;
}

}  // namespace

RunSpec assemble(FileSystem& files, Sources sources, const std::optional<RunState>& recorded, ConfigUse use) {
    RunSpec run(std::move(sources));
    run.method_options = method_options(run.config, recorded);
    run.recipe = make_recipe(run.config.method, run.method_options);
    run.model = model_of(run, recorded);
    run.phase = phase_settings(run.config, run.recipe, run.model);
    if (run.phase.every > 0) run.config.*run.phase.key = run.phase.every;
    run.generation_config = changed_generation_config(files, run);
    run.samples = samples_of(files, run);
    run.best = best_rule(run.config, run.data ? &*run.data : nullptr);
    run.rounds_most = most_rounds(files, run.config, run.recipe);
    run.identity = identity_of(run, recorded);
    for (const std::string& note : {trained_note(run.model), merge_note(run.recipe), stop_note(run)}) {
        if (!note.empty()) run.notes.push_back(note);
    }
    if (use != ConfigUse::train) return run;
    run.model = with_magnitudes(run, recorded ? &recorded->identity : nullptr);
    if (recorded) require_same_scales(run.config, run.model, recorded->identity);
    if (is_kept_in_8_bits(run.model)) run.identity.scale_exponents = scale_exponents(run.model);
    return run;
}

}  // namespace windlass
