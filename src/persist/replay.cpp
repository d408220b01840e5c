#include "persist/replay.h"

#include <algorithm>

#include "base/error.h"
#include "base/file_error.h"
#include "base/index.h"
#include "base/log.h"
#include "base/math.h"
#include "data/chats.h"
#include "data/generation_config.h"
#include "device/cpu/cpu_stream.h"
#include "format/base_checksum.h"
#include "format/model_folder.h"
#include "method/forward_only/materialize.h"
#include "model/families.h"
#include "model/load.h"
#include "persist/export.h"
#include "persist/trajectory_log.h"
#include "run/first_masters.h"
#include "session/budget.h"
#include "state/save_output.h"
#include "state/trajectory_settings.h"

namespace windlass {
namespace {

constexpr int64_t kPieceElements = int64_t{1} << 20;
constexpr int64_t kWindowSteps = 1024;  // that are in memory at once
static_assert(kMergeWindowMax <= kWindowSteps);

int64_t merge_window(const TrajectoryHeader& header, const TrainedModel& model) {
    const bool by_window =
        std::ranges::any_of(model.perturb, [](const ParamPerturb& param) { return param.merge == Merge::per_window; });
    return by_window ? header.noise.window : 1;
}

// The base, with the run's adapter and the types that a forward-only run stores.
TrainedModel stored_model(const ModelFolder& folder, const TrajectoryHeader& header, std::string_view where) {
    HfConfig config = folder.config();
    TrainedModel model(with_logged_adapter(header, where, build_model(config, folder.tensors())));
    set_store(model, StoreType::as_file);
    return model;
}

TrajectoryReader open_log(FileSystem& files, const ReplayOptions& options) {
    if (!options.step) return TrajectoryReader::open(files, options.log);
    // A step before the damage is whole, and all that it takes is before it too.
    TrajectoryReader log = TrajectoryReader::open(files, options.log, OnDamage::stop);
    if (*options.step > log.last_step()) return TrajectoryReader::open(files, options.log);
    if (!log.tail().empty()) log_warning("{}: {}; step {} does not need it", options.log, log.tail(), *options.step);
    return log;
}

int64_t step_to_replay(const TrajectoryReader& log, const ReplayOptions& options) {
    const int64_t step = options.step.value_or(log.last_step());
    if (step >= log.first_step() - 1 && step <= log.last_step()) return step;
    throw UserError(ExitCode::usage, "--step", "{} is not in {}, which holds steps {} to {}", step, options.log,
                    log.first_step(), log.last_step())
        .hint(fmt::format("--step {}", log.last_step()));
}

// Of an adapter, a replay writes what was learnt alone.
void require_whole(const ReplayOptions& options, const ModelSpec& model) {
    if (!is_gguf_target(options.target) || !ends_as_adapter(model)) return;
    throw UserError(ExitCode::usage, "replay", "llama.cpp loads whole models; the run of this log trained an adapter")
        .hint("--to a folder, which gets the adapter; or windlass export RUN --merged --to x.gguf, for the last step");
}

}  // namespace

int64_t merged_step(const TrajectoryHeader& header, const TrainedModel& model, int64_t step) {
    return round_down(step, merge_window(header, model));
}

Replay::Replay(TrajectoryReader& log, int64_t first_step, int64_t last_step, const TrainedModel& model,
               ReadMasters masters, int threads, ReplayOf what)
    : log_(log),
      first_step_(first_step),
      merged_step_(merged_step(log.header(), model, last_step)),
      at_once_(round_down(kWindowSteps, merge_window(log.header(), model))),
      model_(model),
      masters_(std::move(masters)),
      elements_(global_offsets(model)),
      stream_(make_stream(DeviceKind::cpu, threads)),
      sums_(model) {
    noise_of(log.header(), "the log");
    const DType stored = common_type(model);
    if (log.header().storage != stored)
        throw UserError(ExitCode::model, "the log", "its run stored {}, this model is stored as {}",
                        dtype_name(log.header().storage), dtype_name(stored))
            .hint("the model folder that this run started from");
    if (what == ReplayOf::kept) return;
    deferred_ = logged_steps(log, merged_step_, last_step);
    if (sums_.empty()) return;
    WINDLASS_CHECK(first_step == log.first_step(), "a sum of steps from {} on", first_step);
    for_logged_steps(log, last_step, [&](const StepParams& step) { sums_.add(step); });
}

// The steps of a window, read once for all pieces where one window is the whole run.
void Replay::load_steps(int64_t first_step) {
    if (window_ == first_step) return;
    steps_ = logged_steps(log_, first_step - 1, std::min(merged_step_, first_step + at_once_ - 1));
    window_ = first_step;
}

void Replay::take_piece(int index, int64_t first, std::span<float> masters) {
    const Param param = model_.param(index);
    weights_.resize(static_cast<size_t>(stored_bytes(param.storage.dtype, std::ssize(masters))));
    encode_kept(param, masters, weights_, &cpu_team(*stream_));
    const Merge merge = param.perturb.merge;
    const UpdatedElements elements{.param = param,
                                   .element = elements_[at(index)] + first,
                                   .count = std::ssize(masters),
                                   .weights = weights_.data(),
                                   .first = first};
    for (int64_t step = first_step_; step <= merged_step_ && merge != Merge::never; step += at_once_) {
        load_steps(step);
        update_by_steps(elements, steps_.steps, steps_.deferred, *stream_);
    }
    if (param.keeps_sum())
        read_updated(elements, deferred_.steps, merge == Merge::per_window ? deferred_.deferred : 0,
                     sums_.by_param()[at(index)], masters, *stream_);
    else
        decode_kept(param.storage, weights_, 0, masters);
}

void Replay::read(int param, int64_t first, std::span<float> out) {
    masters_(param, first, out);
    if (!model_.param(param).trains()) return;  // what is kept is rounded from these, once
    for (int64_t done = 0; done < std::ssize(out); done += kPieceElements) {
        const int64_t count = std::min(kPieceElements, std::ssize(out) - done);
        take_piece(param, first + done, out.subspan(static_cast<size_t>(done), static_cast<size_t>(count)));
    }
}

ReplayResult replay_log(FileSystem& files, const ReplayOptions& options) {
    const ExportOptions output{.target = options.target, .type = options.type};
    check_types(output);
    if (!files.exists(options.log))
        throw UserError(ExitCode::storage, options.log, "there is no such log")
            .hint("RUN/trajectory.wlt, which methods without a backward pass write");
    TrajectoryReader log = open_log(files, options);
    const int64_t step = step_to_replay(log, options);
    ModelFolder folder = ModelFolder::open(files, options.base, {.ignored_keys = options.ignored_keys});
    folder.warn_of_side_files(files);
    TrainedModel model = stored_model(folder, log.header(), options.log);
    read_param_groups(log.header(), options.log, model);
    read_weight_storage(log.header(), options.log, model);
    set_merge(model, logged_options(log.header(), options.log).merge);
    check_tied(folder, model);
    const ReadMasters base = first_masters(folder, model, log.header().run_seed);
    const int threads = options.threads > 0 ? options.threads : default_threads(files);
    require_trajectory_base(log.header(), describe_base(options.base, model, base, threads), options.log);
    read_magnitude_limits(log.header(), options.log, model);
    Replay replay(log, log.first_step(), step, model, base, threads);
    const std::string checksum = model.adapter ? base_checksum(folder) : "";
    require_whole(options, model);
    const std::string run = parent_folder(options.log);
    const OutputSource source{.model = model,
                              .base_folder = options.base,
                              .base_checksum = checksum,
                              .chat_template = template_beside(files, run),
                              .generation_config = generation_config_beside(files, run)};
    save_output(files, source, options.target,
                {.save = {.overwrite = options.overwrite,
                          .never_replaced = models_of_run(files, run),
                          .gguf = gguf_output(files, output, options.base, model, source.chat_template)}},
                [&](int param, int64_t first, std::span<float> out) { replay.read(param, first, out); });
    return {step, output_bytes(files, options.target)};
}

}  // namespace windlass
