#include "persist/trajectory_log.h"

#include "base/file_error.h"
#include "base/json.h"
#include "base/log.h"
#include "device/cpu/cpu_stream.h"
#include "format/checksum.h"
#include "format/checksummed_json.h"
#include "method/forward_only/materialize.h"
#include "model/load.h"
#include "perturb/noise.h"
#include "schedule/numerics.h"
#include "state/trajectory_settings.h"

namespace windlass {
namespace {

constexpr int64_t kStateBytesMax = int64_t{1} << 20;

uint64_t table_sum_of(const TrainedModel& model) {
    std::vector<TrajectoryParam> table;
    for (const Param param : model.all_params())
        table.push_back(
            {param.spec.name, param.storage.dtype, param.spec.shape, param.trains(), param.training.decays});
    return trajectory_table_sum(table);
}

void add_weights(const Param& param, std::span<const float> masters, Team& team, Xxh3Stream& sum) {
    constexpr size_t kPiece = size_t{1} << 20;
    std::vector<std::byte> bytes(static_cast<size_t>(stored_bytes(param.storage.dtype, kPiece)));
    for (; !masters.empty(); masters = masters.subspan(std::min(kPiece, masters.size()))) {
        const auto piece = masters.first(std::min(kPiece, masters.size()));
        const auto stored =
            std::span(bytes).first(static_cast<size_t>(stored_bytes(param.storage.dtype, std::ssize(piece))));
        encode_kept(param, piece, stored, &team);
        sum.add(stored);
    }
}

void write_state(FileSystem& files, const std::string& path, const RunState& state) {
    write_text_atomic(files, path, with_checksum(run_state_text(state)));
}

}  // namespace

std::optional<RunState> logged_state(FileSystem& files, const std::string& run_folder) {
    const std::string path = path_in(run_folder, kTrajectoryName);
    const std::string state_path = path_in(run_folder, kTrajectoryStateName);
    if (!files.exists(path)) return std::nullopt;
    const TrajectoryReader log = TrajectoryReader::open(files, path);
    const int64_t first = log.first_step(), last = log.last_step();
    if (!files.exists(state_path)) {
        log_warning("the log cannot be resumed from: {}: is gone", state_path);
        return std::nullopt;
    }
    // The log leads to its last step from an older state too.
    const std::string remedy = fmt::format("--resume={}, which follows {} instead", last, path);
    const std::string text = read_text(files, state_path, kStateBytesMax);
    require_checksum(text, state_path, remedy);
    RunState state = parse_run_state(text, state_path);
    if (state.progress.step < first - 1 || state.progress.step > last)
        throw UserError(ExitCode::storage, state_path, "is of step {}, the log holds steps {} to {}",
                        state.progress.step, first, last)
            .hint(remedy);
    return state;
}

TrajectoryHeader trajectory_header(const Session& session) {
    const MethodOptions& options = session.method_options;
    const DType storage = common_type(session.model);
    const bool rounds = storage != DType::f32 || is_kept_in_8_bits(session.model);
    return {.method = session.recipe.name,
            .run_seed = session.identity.seed,
            .noise = logged_noise(noise_of(options)),
            .directions = options.directions,
            .eps = session.recipe.runs(PassKind::tangent) ? 0.0 : options.zo_eps,
            .storage = storage,
            .stochastic_rounding = rounds,
            .base = {.name = session.config.model,
                     .elements = session.model.param_count(),
                     .table_sum = table_sum_of(session.model)},
            .settings = trajectory_settings(session.identity, session.model)};
}

TrajectoryBase describe_base(const std::string& name, const TrainedModel& model, const ReadMasters& masters,
                             int threads) {
    CpuStream stream(threads);
    Xxh3Stream sum;
    std::vector<float> numbers;
    for (int index = 0; index < model.param_size(); ++index) {
        const int64_t count = model.param(index).numel();
        for (int64_t first = 0; first < count; first += kChunkElements) {
            numbers.resize(static_cast<size_t>(std::min(kChunkElements, count - first)));
            masters(index, first, numbers);
            add_weights(model.param(index), numbers, stream.team(), sum);
        }
    }
    return {.name = name, .elements = model.param_count(), .table_sum = table_sum_of(model), .weights_sum = sum.sum()};
}

PerturbStep noise_of(const TrajectoryHeader& header, std::string_view where) {
    StepParams step;
    set_noise(logged_options(header, where), step);
    return step.perturb();
}

StepParams step_of(const TrajectoryHeader& header, const TrajectoryRecord& record, PerturbStep noise) {
    noise.decay = record.decay;
    std::ranges::copy(record.scalars, noise.scalars.begin());
    return {.seed = header.run_seed,
            .step = record.step,
            .learning_rate = record.learning_rate,
            .apply = record.applied,
            .method = noise};
}

LoggedSteps logged_steps(TrajectoryReader& log, int64_t home, int64_t last) {
    constexpr int64_t kPiece = 256;
    const PerturbStep noise = noise_of(log.header(), "the log");
    const MomentRule& rule = noise.rule;
    LoggedSteps found;
    const auto take = [&](int64_t first, int64_t end) {
        std::vector<StepParams> applied;
        if (first > end) return applied;
        for (const TrajectoryRecord& record : log.read(first, end))
            if (record.applied) applied.push_back(step_of(log.header(), record, noise));
        return applied;
    };
    // Backward, until there is as much history as updates look back at, or as there ever was.
    const auto wanted = static_cast<size_t>(rule.history());
    for (int64_t end = home; end >= log.first_step() && found.steps.size() < wanted; end -= kPiece) {
        const std::vector<StepParams> piece = take(std::max(log.first_step(), end - kPiece + 1), end);
        found.steps.insert(found.steps.begin(), piece.begin(), piece.end());
    }
    if (found.steps.size() > wanted) found.steps.erase(found.steps.begin(), found.steps.end() - rule.history());
    const std::vector<StepParams> deferred = take(home + 1, last);
    found.steps.insert(found.steps.end(), deferred.begin(), deferred.end());
    found.deferred = static_cast<int>(deferred.size());
    return found;
}

void for_logged_steps(TrajectoryReader& log, int64_t last, const std::function<void(const StepParams&)>& body) {
    constexpr int64_t kPiece = 1024;
    const PerturbStep noise = noise_of(log.header(), "the log");
    for (int64_t first = log.first_step(); first <= last; first += kPiece) {
        for (const TrajectoryRecord& record : log.read(first, std::min(last, first + kPiece - 1))) {
            if (record.applied) body(step_of(log.header(), record, noise));
        }
    }
}

TrajectoryLog::TrajectoryLog(FileSystem& files, const std::string& run_folder, TrajectoryWriter writer,
                             int64_t last_step)
    : files_(files),
      state_path_(path_in(run_folder, kTrajectoryStateName)),
      writer_(std::move(writer)),
      last_step_(last_step) {}

TrajectoryLog TrajectoryLog::begin(FileSystem& files, const std::string& run_folder, const Session& session,
                                   const RunState& state, const std::string& base_name, const ReadMasters& masters) {
    TrajectoryHeader header = trajectory_header(session);
    header.first_step = static_cast<uint32_t>(state.progress.step + 1);
    header.base = describe_base(base_name, session.model, masters, session.threads);
    const std::string path = path_in(run_folder, kTrajectoryName);
    write_state(files, path_in(run_folder, kTrajectoryStateName), state);
    return {files, run_folder, TrajectoryWriter::create(files, path, header), state.progress.step};
}

TrajectoryLog TrajectoryLog::resume(FileSystem& files, const std::string& run_folder, const Session& session,
                                    const RunState& state) {
    const std::string path = path_in(run_folder, kTrajectoryName);
    TrajectoryWriter writer = TrajectoryWriter::open(files, path);
    require_same_log(writer.header(), trajectory_header(session), path);
    const int64_t first = writer.header().first_step, last = writer.next_step() - 1;
    if (state.progress.step < first - 1 || state.progress.step > last)
        throw UserError(ExitCode::usage, path, "the log holds steps {} to {}, the run resumes after step {}", first,
                        last, state.progress.step)
            .hint("resume: STEP of a checkpoint within the log; or move the log away, then a new one begins there");
    write_state(files, path_in(run_folder, kTrajectoryStateName), state);
    if (state.progress.step < last) {
        log_info("the log is cut off after step {}; it held steps up to {}", state.progress.step, last);
        writer.truncate_after(state.progress.step);
    }
    return {files, run_folder, std::move(writer), state.progress.step};
}

void TrajectoryLog::add(const StepReport& report, const RunState& state) {
    const PerturbStep& made = report.params.perturb();
    writer_.append({.step = static_cast<uint32_t>(state.progress.step),
                    .learning_rate = report.params.learning_rate,
                    .decay = made.decay,
                    .applied = report.applied,
                    .scalars = {made.scalars.begin(), made.scalars.begin() + made.directions}});
    writer_.sync();
    write_state(files_, state_path_, state);
    last_step_ = state.progress.step;
}

}  // namespace windlass
