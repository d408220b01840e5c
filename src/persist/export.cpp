#include "persist/export.h"

#include <filesystem>

#include "base/error.h"
#include "base/file_error.h"
#include "config/model_place.h"
#include "config/param_group_text.h"
#include "config/run_place.h"
#include "data/chats.h"
#include "data/generation_config.h"
#include "data/gguf_fields.h"
#include "data/open_adapter.h"
#include "format/base_checksum.h"
#include "format/manifest.h"
#include "format/store.h"
#include "model/families.h"
#include "model/gguf.h"
#include "model/load.h"
#include "model/save.h"
#include "persist/export_request.h"
#include "persist/model_card.h"
#include "persist/run_folder.h"
#include "persist/trajectory_log.h"
#include "run/first_masters.h"
#include "session/session.h"
#include "state/checkpoint.h"
#include "state/store_masters.h"

namespace windlass {
namespace {

constexpr std::string_view kLastStep = "last";

struct Source {
    std::string store;  // file
    std::string run;    // folder; of a checkpoint that was moved away, any other
    std::string base;   // model folder with the names, dtypes and side files
    bool is_checkpoint = false;
    std::vector<std::string> ignored_keys = {};  // of the base's config.json; a checkpoint's folder has none of them
    std::vector<std::string> models = {};        // that the run names
    Config adapter = {};                         // what it says of one
    std::string chat_template = {};              // text of its own one, that no model's folder has
    std::string generation_config = {};          // the same
};

void refuse_model(const std::string& source, const std::string& model) {
    if (model.empty()) return;
    throw UserError(ExitCode::usage, "--model", "{} has its own weights, and needs no base", source)
        .hint("leave --model out");
}

// The base is the run's model, if no `model` takes its place; of a checkpoint that was moved away, the one that its
// adapter names.
Source of_adapter_checkpoint(FileSystem& files, const std::string& path, const std::string& model) {
    const std::string run = fmt::format("{}/..", path);
    std::vector<std::string> models = models_of_run(files, run);
    const std::string adapter = fmt::format("{}/{}", path, kAdapterFolder);
    std::string base = model;
    if (base.empty()) base = models.empty() ? find_model(files, adapter).folder : models.front();
    models.push_back(model);
    return {.store = fmt::format("{}/{}", path, kStateFile),
            .run = run,
            .base = std::move(base),
            .is_checkpoint = true,
            .ignored_keys = values_in_run(files, run, "ignore_config_keys"),
            .models = std::move(models),
            .adapter = {.adapter = adapter},
            .chat_template = template_beside(files, adapter),
            .generation_config = generation_config_beside(files, run)};
}

Source of_checkpoint(FileSystem& files, const std::string& path, const std::string& model) {
    if (files.exists(fmt::format("{}/{}", path, kAdapterFolder))) return of_adapter_checkpoint(files, path, model);
    refuse_model(path, model);
    return {.store = fmt::format("{}/{}", path, kStateFile),
            .run = fmt::format("{}/..", path),
            .base = fmt::format("{}/{}", path, kModelFolder),
            .is_checkpoint = true,
            .models = models_of_run(files, fmt::format("{}/..", path))};
}

// Of a run that is to end with its best step, where it has one.
std::optional<std::string> best_checkpoint(FileSystem& files, const Config& config, const StartPoint& start) {
    if (!config.load_best_model_at_end || !start.resumes()) return std::nullopt;
    const int64_t best = start.last().progress.best.step;
    for (const CheckpointPlace& place : list_checkpoints(files, config.output_dir)) {
        if (best > 0 && place.step == best) return place.path;
    }
    return std::nullopt;
}

Source of_run(FileSystem& files, const std::string& run, const std::string& step, const std::string& model) {
    const std::string yaml = fmt::format("{}/run.yaml", run);
    if (!files.exists(yaml)) {
        throw UserError(ExitCode::usage, run, "is neither a run (it has no run.yaml) nor a checkpoint")
            .hint("windlass export RUN[:STEP] --to DIR");
    }
    Config config = make_config({.file = read_config_file(files, yaml)}, ConfigUse::train).config;
    config.output_dir = run;
    config.resume = step.empty() || step == kLastStep ? "auto" : step;
    const StartPoint start = find_start(files, run_request(config));
    if (const auto best = best_checkpoint(files, config, start); step.empty() && best)
        return of_checkpoint(files, *best, model);
    if (start.log_to)
        throw UserError(ExitCode::usage, run, "has no checkpoint of step {}, only its trajectory log leads there", step)
            .hint(fmt::format("windlass replay {} {}/{} --step {} --to DIR", config.model, run, kTrajectoryName, step));
    if (start.from == StartPoint::From::model)
        throw UserError(ExitCode::usage, run, "holds neither a checkpoint nor a working store, only a trajectory log")
            .hint(fmt::format("windlass replay {} {}/{} --to DIR", config.model, run, kTrajectoryName));
    if (start.from == StartPoint::From::working_store)
        return {.store = start.path,
                .run = run,
                .base = model.empty() ? config.model : model,
                .ignored_keys = config.ignore_config_keys,
                .models = {config.model, model},
                .adapter = config,
                .chat_template = template_beside(files, run),
                .generation_config = generation_config_beside(files, run)};
    return of_checkpoint(files, start.path, model);
}

// What `source` names: a checkpoint's folder; else a run's, and a step of it where one is given.
struct Named {
    bool is_checkpoint = false;
    std::string folder, step;
};

Named parse_source(FileSystem& files, const std::string& source) {
    // The manifest of a run's final/ comes without a state.
    if (files.exists(fmt::format("{}/{}", source, kManifestName)) &&
        files.exists(fmt::format("{}/{}", source, kStateFile)))
        return {true, source, ""};
    const size_t colon = source.rfind(':');
    if (colon != std::string::npos && !files.exists(source))
        return {false, source.substr(0, colon), source.substr(colon + 1)};
    return {false, source, ""};
}

// What the run computed with in place of the base's weights.
void keep_as_run(const Identity& identity, const std::string& base, TrainedModel& model) {
    set_store(model, StoreType::as_file);
    keep_frozen_as(model, identity.numerics.compute);
    keep_in_few_bits(identity, base, model);
}

// The run's projectors were refreshed.
bool writes_into_weights(const RunState& state) {
    return state.progress.phase_before > 0;
}

// As the run did whose store this is. What it did not train has no scale here: it is taken from the base.
void keep_as(Store& store, const RunState& state, const std::string& base, TrainedModel& model) {
    apply_param_groups(param_groups_of(state.identity.param_groups, store.file().path()), base, model);
    if (model.adapter) keep_as_run(state.identity, base, model);
    if (model.adapter && writes_into_weights(state)) set_refreshed(model);
    keep_as_stored(store, model);
    if (model.adapter || !is_kept_in_8_bits(model)) return;
    std::vector<int> exponents = state.identity.scale_exponents;
    const std::vector<uint8_t> frozen = frozen_params(model);
    for (size_t index = 0; index < std::min(exponents.size(), frozen.size()); ++index) {
        if (frozen[index]) exponents[index] = 0;
    }
    set_scale_exponents(exponents, base, model);
}

// A checkpoint's folder has what was trained in it, and its manifest.
void require_base(const Source& source, const ModelFolder& base, const RunState& state) {
    if (source.is_checkpoint || state.identity.base_checksum.empty()) return;
    require_same_base(state.identity, {.base_checksum = base_checksum(base)}, base.path());
}

SaveOptions save_options(FileSystem& files, const Source& source, const ModelSpec& model, const ExportOptions& options,
                         std::string card) {
    return {.dtype = options.dtype,
            .shard_bytes_max = options.shard_bytes_max,
            .overwrite = options.overwrite,
            .never_replaced = source.models,
            .chat_template = source.chat_template,
            .generation_config = source.generation_config,
            .card = std::move(card),
            .gguf = gguf_output(files, options, source.base, model, source.chat_template)};
}

// If updates are kept apart from weights, a store holds no step's weights, but a checkpoint's model folder does.
ExportResult export_folder(FileSystem& files, const Source& source, const RunState& state,
                           const ExportOptions& options) {
    if (!source.is_checkpoint)
        throw UserError(ExitCode::usage, source.store, "a run with merge_updates {} has its weights in its log",
                        state.identity.merge_updates)
            .hint(fmt::format("windlass replay {} RUN/{} --to DIR", source.base, kTrajectoryName));
    ModelFolder folder = ModelFolder::open(files, source.base);
    HfConfig config = folder.config();
    const ModelSpec model = build_model(config, folder.tensors());
    const TrainedModel trained(model);
    std::string card = card_of_run(files, source.run, state, {trained, source.base}, OutputForm::usual);
    save_model(files, source.base, options.target, model, save_options(files, source, model, options, std::move(card)),
               [&](int param, int64_t first, std::span<float> out) {
                   load_elements(folder, model.params[static_cast<size_t>(param)], first, out);
               });
    return {source.store, state.progress.step, output_bytes(files, options.target)};
}

// A checkpoint's adapter folder has what its state has.
ExportResult export_adapter(FileSystem& files, const Source& source, const RunState& state, const ModelFolder& base,
                            const AdapterFolder& adapter, TrainedModel model, const ExportOptions& options) {
    keep_as_run(state.identity, source.base, model);
    const OutputSource output{model, source.base, state.identity.base_checksum, source.chat_template};
    std::string card = card_of_run(files, source.run, state, output, options.form);
    save_output(files, output, options.target,
                {save_options(files, source, model, options, std::move(card)), options.form},
                first_masters(base, model, 0, &adapter));
    return {source.store, state.progress.step, output_bytes(files, options.target)};
}

ExportResult export_store(FileSystem& files, const Source& source, const ExportOptions& options) {
    Store store = Store::open(files, source.store, OpenMode::read);
    const ModelFolder base = ModelFolder::open(files, source.base, {.ignored_keys = source.ignored_keys});
    base.warn_of_side_files(files);
    HfConfig config = base.config();
    ModelSpec spec = build_model(config, base.tensors());
    const std::optional<AdapterFolder> adapter = put_adapter(files, source.adapter, base, spec);
    TrainedModel model(std::move(spec));
    const RunState state = parse_run_state(store.committed_run_state(), source.store);
    if (adapter && source.is_checkpoint)
        return export_adapter(files, source, state, base, *adapter, std::move(model), options);
    const bool has_model = source.is_checkpoint && writes_into_weights(state);
    if (has_model) require_no_delta(options.form);
    if (has_model || state.identity.merge_updates != merge_name(Merge::each_step))
        return export_folder(files, source, state, options);
    require_base(source, base, state);
    keep_as(store, state, source.base, model);
    StoreMasters masters(store, model, first_masters(base, model, state.identity.seed, adapter ? &*adapter : nullptr));
    const OutputSource output{model, source.base, state.identity.base_checksum, source.chat_template};
    std::string card = card_of_run(files, source.run, state, output, options.form);
    save_output(files, output, options.target,
                {save_options(files, source, model, options, std::move(card)), options.form},
                [&](int param, int64_t first, std::span<float> out) { masters.read(param, first, out); });
    return {source.store, store.committed_step(), output_bytes(files, options.target)};
}

// The step that a run's manifest gives for its last folder; nothing if there is none, or if it is a foreign file.
std::optional<int64_t> step_of(FileSystem& files, const std::string& folder) {
    try {
        return read_manifest(files, folder).step;
    } catch (const UserError&) {
        return std::nullopt;
    }
}

// A model's folder, for llama.cpp.
ExportResult export_plain_model(FileSystem& files, const std::string& path, const ExportOptions& options) {
    const ModelFolder folder = ModelFolder::open(files, path);
    HfConfig config = folder.config();
    const ModelSpec model = build_model(config, folder.tensors());
    check_tied(folder, model);
    save_model(files, path, options.target, model, save_options(files, {.store = {}, .base = path}, model, options, ""),
               [&](int param, int64_t first, std::span<float> out) {
                   load_elements(folder, model.params[static_cast<size_t>(param)], first, out);
               });
    return {path, step_of(files, path), output_bytes(files, options.target)};
}

// In its folder a run looks for requests by these names.
void check_no_request(FileSystem& files, const std::string& target) {
    const auto path = std::filesystem::path(std::filesystem::absolute(target + "/").lexically_normal()).parent_path();
    const std::string name = path.filename().string(), folder = path.parent_path().string();
    if ((name == kExportRequestName || name == kSaveRequestName) && files.exists(path_in(folder, "run.yaml")))
        throw UserError(ExitCode::usage, target, "is where the run {} looks for requests", folder)
            .hint(fmt::format("{}-model, or a folder elsewhere", target));
}

}  // namespace

bool is_gguf_target(std::string_view target) {
    return target.ends_with(".gguf");
}

void check_types(const ExportOptions& options) {
    if (!is_gguf_target(options.target)) {
        if (!options.type) return;
        throw UserError(ExitCode::usage, "--type", "is the type of a GGUF file, and {} is none by its name",
                        options.target)
            .hint("--to model.gguf, or --dtype for a Hugging Face folder");
    }
    if (options.dtype || options.shard_bytes_max)
        throw UserError(ExitCode::usage, options.dtype ? "--dtype" : "--max-shard-size",
                        "is for folders; a GGUF file is one file of one type")
            .hint("--type f32, f16, bf16 or q8_0");
}

std::optional<GgufOutput> gguf_output(FileSystem& files, const ExportOptions& options, const std::string& base_folder,
                                      const ModelSpec& model, const std::string& chat_template) {
    if (!is_gguf_target(options.target)) return std::nullopt;
    require_gguf(model);
    const std::string name = std::filesystem::path(options.target).stem().string();
    return GgufOutput{.type = options.type,
                      .fields = gguf_fields(files, base_folder, model.vocab, name, chat_template)};
}

std::vector<std::string> models_of_run(FileSystem& files, const std::string& folder) {
    return values_in_run(files, folder, "model");
}

std::optional<DType> export_type_from_name(std::string_view name) {
    for (const DType type : {DType::bf16, DType::f16, DType::f32}) {
        if (dtype_name(type) == name) return type;
    }
    return std::nullopt;
}

ExportResult export_model(FileSystem& files, const ExportOptions& options) {
    check_types(options);
    check_no_request(files, options.target);
    const Named named = parse_source(files, run_folder_of(files, options.source));
    const std::string model = options.model.empty() ? "" : find_model(files, options.model).folder;
    if (is_gguf_target(options.target) && files.exists(fmt::format("{}/config.json", named.folder))) {
        refuse_model(named.folder, model);
        return export_plain_model(files, named.folder, options);
    }
    if (named.is_checkpoint) return export_store(files, of_checkpoint(files, named.folder, model), options);
    const bool names_step = !named.step.empty() && named.step != kLastStep;
    if (names_step || !files.exists(fmt::format("{}/run.yaml", named.folder)))
        return export_store(files, of_run(files, named.folder, named.step, model), options);
    // No run may write the store while it is read. A run in progress is asked to export; if it ends first, try again.
    for (;;) {
        if (const auto idle = lock_idle_run(files, named.folder))
            return export_store(files, of_run(files, named.folder, named.step, model), options);
        if (const auto result = ask_for_export(files, named.folder, options)) return *result;
    }
}

}  // namespace windlass
