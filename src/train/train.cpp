#include "train/train.h"

#include <cmath>

#include "base/activity.h"
#include "base/log.h"
#include "base/math.h"
#include "base/units.h"
#include "config/choices.h"
#include "format/base_checksum.h"
#include "format/replaceable_folder.h"
#include "format/side_files.h"
#include "format/store.h"
#include "method/forward_only/magnitude_limits.h"
#include "model/adapters/peft.h"
#include "model/load.h"
#include "persist/replay.h"
#include "persist/rewind.h"
#include "persist/run_folder.h"
#include "persist/run_identity.h"
#include "persist/trajectory_log.h"
#include "run/first_masters.h"
#include "run/working_store.h"
#include "session/budget.h"
#include "session/local_machine.h"
#include "session/session.h"
#include "state/checkpoint.h"
#include "state/store_masters.h"
#include "train/final_folder.h"
#include "train/finished_run.h"
#include "train/loop.h"
#include "train/next_commands.h"
#include "train/references.h"
#include "train/run_begin.h"
#include "train/run_yaml.h"
#include "train/trace_writer.h"

namespace windlass {
namespace {

// The run must not remove its own sources first.
void check_overwrites_no_base(FileSystem& files, const Config& config, const RunFolder& folder) {
    std::vector<std::string> bases = {config.model, config.adapter};
    bases.insert(bases.end(), config.train_data.begin(), config.train_data.end());
    bases.insert(bases.end(), config.eval_data.begin(), config.eval_data.end());
    for (const std::string& base : bases) {
        if (base.empty() || !files.exists(base) || !folder.would_clear(files.resolve(base))) continue;
        throw UserError(ExitCode::usage, "overwrite", "would remove {}, which this run is made from", base)
            .hint("another output_dir");
    }
}

// Reports before the first step what would stop the run after its last one.
void check_final_folder(FileSystem& files, const Session& session, const std::string& final_folder) {
    if (!ends_as_adapter(session.model)) require_copyable(files, session.folder.path(), "config.json");
    if (!files.exists(final_folder) || !files.status(final_folder).is_folder) return;
    check_not_among(files, final_folder, {session.config.model});
    check_replaceable(files, final_folder, session.folder.side_files());
}

void check_output_space(FileSystem& files, const Session& session, const std::string& folder) {
    const int64_t free = files.free_bytes(folder);
    const bool ends = ends_as_adapter(session.model);
    const int64_t final_bytes = ends ? peft_bytes(session.model) : session.folder.total_bytes();
    if (free < final_bytes) {
        throw UserError(ExitCode::storage, folder, "the trained {} needs {}, {} are free", ends ? "adapter" : "model",
                        format_bytes(final_bytes), format_bytes(free))
            .hint("another output_dir");
    }
    const int64_t checkpoint = checkpoint_bytes(files, session.folder, session.model, session.recipe);
    if ((session.config.save_steps || session.config.load_best_model_at_end) && free < final_bytes + checkpoint)
        log_warning("{} has {} free, a checkpoint needs {}", folder, format_bytes(free), format_bytes(checkpoint));
}

EngineSetup engine_setup(const Session& session) {
    return {.model = session.model,
            .recipe = session.recipe,
            .method_options = session.method_options,
            .numerics = session.numerics(),
            .plan = session.planned.plan,
            .schedules = session.planned.schedules,
            .store_path = session.store_path,
            .store_meta = run_state_text({.identity = session.identity}),
            .seed = session.identity.seed,
            .emulation = emulation_of(session.config)};
}

// With which the engine is filled: a branch has the progress of another run, and an id of its own.
std::string first_state_text(const Session& session, const StartPoint& start) {
    return run_state_text({session.identity, start.last().progress});
}

// Fills the engine with the weights that `masters` gives after `step`, brought to start.last() by the log.
void replay_into(FileSystem& files, const Session& session, const StartPoint& start, int64_t step, ReadMasters masters,
                 Engine& engine) {
    const std::string path = fmt::format("{}/{}", session.config.output_dir, kTrajectoryName);
    TrajectoryReader log = TrajectoryReader::open(files, path);
    if (start.from == StartPoint::From::model)
        require_trajectory_base(log.header(),
                                describe_base(session.config.model, session.model, masters, session.threads), path);
    const int64_t last = merged_step(log.header(), session.model, start.last().progress.step);
    if (last > step) log_info("steps {} to {} are taken from the log", step + 1, last);
    Replay replay(log, step + 1, last, session.model, std::move(masters), session.threads, ReplayOf::kept);
    engine.fill(last, first_state_text(session, start),
                [&](int param, int64_t first, std::span<float> out) { replay.read(param, first, out); });
}

void replay_store(FileSystem& files, const Session& session, const StartPoint& start, const std::string& path,
                  Engine& engine) {
    Store store = Store::open(files, path, OpenMode::read);
    StoreMasters masters(store, session.model, session.first_weights());
    replay_into(
        files, session, start, store.committed_step(),
        [&](int param, int64_t first, std::span<float> out) { masters.read(param, first, out); }, engine);
}

// What weights have learned since they were last merged is in the log alone.
void require_no_log(const Session& session, int64_t home, int64_t last, const std::string& path) {
    const bool never = session.recipe.merge == Merge::never;
    if (session.recipe.merge == Merge::each_step || (never ? last : last - home) == 0) return;
    throw UserError(ExitCode::storage, path, "does not hold steps {} to {}, which are in no weights yet",
                    never ? 1 : home + 1, last)
        .hint("begin again with the model folder in a checkpoint, which has them");
}

// What the engine would remember of the steps up to `start.last()` had the run not been stopped: those by which the log
// is ahead of its weights, and those that updates look back at.
void recall_steps(FileSystem& files, const Session& session, const StartPoint& start, Engine& engine) {
    const std::string path = fmt::format("{}/{}", session.config.output_dir, kTrajectoryName);
    if (!session.recipe.probes() || !start.resumes()) return;
    const int64_t home = engine.durable_step(), last = start.last().progress.step;
    if (!files.exists(path)) return require_no_log(session, home, last, path);
    TrajectoryReader log = TrajectoryReader::open(files, path);
    if (home < log.first_step() - 1 || last > log.last_step()) return;  // refused where the log is opened to write
    if (session.recipe.merge == Merge::never) {
        if (log.first_step() > 1) require_no_log(session, 0, last, path);
        for_logged_steps(log, last, [&](const StepParams& step) { engine.recall_sums(step); });
    }
    LoggedSteps found = logged_steps(log, home, last);
    engine.recall(std::move(found.steps), found.deferred, last, first_state_text(session, start));
}

// A store may lag the log by at most the steps between two write-backs: their updates are deferred again. If it lags
// more, it belongs to a plan with longer periods, or was moved here: it is written again.
void begin_at_store(FileSystem& files, const Session& session, const StartPoint& start, Engine& engine) {
    const int64_t most = session.planned.plan.any(UpdateTime::next_forward) ? session.planned.plan.writeback_steps : 0;
    if (start.logged && start.logged->progress.step > start.state.progress.step + most)
        return replay_store(files, session, start, start.path, engine);
    if (!session.store_path.empty()) {
        engine.reopen();
        return;
    }
    // The plan is another one, which keeps no store: this one is what a checkpoint would be.
    Store store = Store::open(files, start.path, OpenMode::read);
    engine.restore(store, session.first_weights());
}

void begin_at_checkpoint(FileSystem& files, const Session& session, const StartPoint& start, Engine& engine) {
    const std::string path = fmt::format("{}/{}", start.path, kStateFile);
    // Restored, the store of a branch would have the id of the other run until its first step.
    const bool begins_store = !session.config.branch_from.empty() && !session.store_path.empty();
    if (start.logged || begins_store) return replay_store(files, session, start, path, engine);
    Store snapshot = Store::open(files, path, OpenMode::read);
    engine.restore(snapshot, session.first_weights());
}

void begin_at_model(FileSystem& files, const Session& session, const StartPoint& start, Engine& engine) {
    check_tied(session.folder, session.model);
    if (!start.logged) return engine.fill(0, run_state_text({.identity = session.identity}), session.first_weights());
    replay_into(files, session, start, 0, session.first_weights(), engine);
}

// Fills the engine from where the run starts, and returns the state that it then holds.
RunState begin(FileSystem& files, const Session& session, const StartPoint& start, Engine& engine) {
    const Activity reading("reading weights", div_up(session.model.param_count(), kChunkElements),
                           {.counts_engine_work = true});
    switch (start.from) {
        case StartPoint::From::model:
            begin_at_model(files, session, start, engine);
            break;
        case StartPoint::From::working_store:
            log_info("continuing from the working store, step {}", start.state.progress.step);
            begin_at_store(files, session, start, engine);
            break;
        case StartPoint::From::checkpoint:
            log_info("continuing from {}", start.path);
            begin_at_checkpoint(files, session, start, engine);
            break;
    }
    recall_steps(files, session, start, engine);
    return {session.identity, start.resumes() ? start.last().progress : RunProgress{}};
}

// The log of a forward-only run, opened after the state that the engine holds. A run that resumes without a log gets a
// new one, whose base is that state.
std::optional<TrajectoryLog> open_trajectory(FileSystem& files, const Session& session, const RunFolder& folder,
                                             const StartPoint& start, Engine& engine, const RunState& state) {
    if (!session.recipe.probes()) return std::nullopt;
    if (files.exists(folder.file(kTrajectoryName))) {
        return TrajectoryLog::resume(files, folder.path(), session, state);
    }
    const bool at_base = state.progress.step == 0;  // a kill may part the log from the first state
    if (!at_base)
        log_warning("{} is gone; a new one begins with the weights of step {}", folder.file(kTrajectoryName),
                    state.progress.step);
    return TrajectoryLog::begin(
        files, folder.path(), session, state, at_base ? session.config.model : start.path,
        [&](int param, int64_t first, std::span<float> out) { engine.read_masters(param, first, out); });
}

// The store of an engine that holds the reference; it is gone when the run's own is made.
std::string reference_store_path(const std::string& store_path) {
    return store_path.empty() ? "" : store_path + ".reference";
}

void remove_stores(FileSystem& files, const std::string& store) {
    if (store.empty()) return;
    remove_store(files, store);
    remove_store(files, reference_store_path(store));
}

// The store first: killed in between, none is left that the folder does not know.
void clear(FileSystem& files, RunFolder& folder, const std::string& store) {
    remove_stores(files, store);
    folder.clear();
}

// States later than the one that the run resumes from no longer belong to it: they were undone, or are damaged. A
// store that is not used is older than that state, or was undone, and the new one needs its place.
void leave_others(FileSystem& files, const RunFolder& folder, const std::string& store, const StartPoint& start) {
    set_aside_checkpoints(files, folder.path(), start.last().progress.step);
    if (start.from != StartPoint::From::working_store) remove_stores(files, store);
}

// If the run's adapter has been trained already, the base computes them with a fresh adapter, which adds zeros. This
// engine is gone before the run's own takes its memory, and no kill leaves a run that begins without
// its adapter.
References find_references_of_base(FileSystem& files, const Session& session, const RunFolder& folder,
                                   const std::string& key) {
    EngineSetup setup = engine_setup(session);
    const std::string store = setup.store_path = reference_store_path(session.store_path);
    const auto remove_store = [&] {
        if (!store.empty()) files.remove_tree(store);
    };
    try {
        Engine engine(files, std::move(setup));
        engine.fill(0, run_state_text({.identity = session.identity}),
                    first_masters(session.folder, session.model, session.identity.seed));
        References found = find_references(files, session, folder, key, engine);
        remove_store();
        return found;
    } catch (...) {
        remove_store();
        throw;
    }
}

// The steps. What they take of memory is free again when they are over.
struct StepsDone {
    TrainResult result;
    RunState state;  // that they came to
};
StepsDone run_steps(FileSystem& files, const Session& session, RunFolder& folder, const StartPoint& start,
                    const TraceRequest& trace, RunControl& control, EventStream& events) {
    // The base's log-likelihoods can be computed while the base exists: until the first step, or with an adapter.
    const bool has_stepped = start.resumes() && start.last().progress.step > 0,
               has_base = session.model.adapter.has_value();
    const std::string key = needs_references(session) ? references_key(session) : "";
    std::optional<References> references;
    if (needs_references(session)) references = take_references(files, session, folder, key, has_stepped && !has_base);
    const bool has_learnt = session.adapter || has_stepped, lacks_references = needs_references(session) && !references;
    if (lacks_references && has_learnt) references = find_references_of_base(files, session, folder, key);
    Engine engine(files, engine_setup(session));
    RunState state = begin(files, session, start, engine);
    std::optional<TrajectoryLog> trajectory = open_trajectory(files, session, folder, start, engine, state);
    if (lacks_references && !has_learnt) references = find_references(files, session, folder, key, engine);
    TrainLoop loop(files, session, references.value_or(References()), folder, engine, control, events, std::move(state),
                   trajectory ? &*trajectory : nullptr);
    std::optional<TraceWriter> writer;
    if (!trace.path.empty()) loop.add(writer.emplace(files, trace));
    TrainResult result = loop.run();
    if (writer) writer->finish();
    return {std::move(result), loop.state()};
}

// final/ where it is not of the last step, and what there is to say at the end. The engine is gone.
TrainResult end_run(FileSystem& files, const Session& session, const RunFolder& folder, StepsDone done) {
    TrainResult& result = done.result;
    const bool is_best = session.best && session.best->keeps && done.state.progress.best.step > 0;
    const int64_t best = done.state.progress.best.step;
    if (!result.final_folder.empty() && is_best && best != result.steps)
        write_final_of_checkpoint(files, session, folder, best, done.state);
    if (!result.final_folder.empty()) tell_next(result.next = next_commands(files, session, folder.path()));
    describe_end(session, done.state.progress, result);
    return std::move(result);
}

}  // namespace

TrainResult train(FileSystem& files, const Config& given, const TrainHooks& hooks) {
    std::optional<LogFile> own_log;
    if (hooks.log == nullptr) own_log.emplace();
    RunControl own_control;
    EventStream own_events;
    EventStream& events = hooks.events != nullptr ? *hooks.events : own_events;
    const RunRequest request = run_request(given);
    RunFolder folder(files, request);
    const StoreLock store_lock(files, request.store);
    require_own_store(files, request);
    const bool branches = !given.branch_from.empty();
    const bool goes_on = !branches && given.resume == "auto";
    const std::optional<RunState> ended = goes_on ? ended_state(files, folder.path()) : std::nullopt;
    if (ended) {
        if (std::optional<TrainResult> over = already_finished(files, given, folder, *ended)) return std::move(*over);
    }
    StartPoint start = branches ? find_branch(files, given) : find_start(files, request);
    Config config = given;
    if (start.from == StartPoint::From::working_store && is_open(config.policy)) config.policy = "three_tier";
    const bool resumes = start.resumes();
    if (resumes) keep_date(files, folder.path(), config);
    Session session = prepare_session(files, config, resumes ? std::optional(start.last()) : std::nullopt);
    session.identity.base_checksum = needed_checksum(session);
    std::vector<std::string> changed;
    if (resumes) {
        const RunState& last = start.last();
        changed = require_same(session, last, start.path.empty() ? folder.path() : start.path);
        take_from_before(last.identity, last.progress.step, session.identity);
    }
    check_final_folder(files, session, folder.file("final"));
    check_output_space(files, session, folder.path());
    const bool continues = resumes && !branches;
    session.identity.run_id = continues ? adopted_run_id(files, start, folder.path()) : new_run_id();
    const std::vector<RunPart> parts = parts_from(files, folder, start, continues);
    session.identity.part_id = parts.back().id;
    if (config.overwrite) check_overwrites_no_base(files, session.config, folder);
    if (config.overwrite) clear(files, folder, request.store);  // only now: a refused run must not delete an older one
    // Before all else: what is killed from here on is a run, which may be resumed or overwritten.
    if (!continues) write_run_yaml(files, session, folder, parts);
    if (branches) begin_branch(files, given, start);
    if (start.log_to) start.logged = state_behind(files, session, folder.path(), start.state, *start.log_to);
    (own_log ? *own_log : *hooks.log).open(folder.file("log.txt"));
    events.open(folder.file(kEventsName));
    // Before the log is cut: killed in between, the run is still all there.
    if (continues) leave_others(files, folder, request.store, start);
    // After that: a kill in between leaves no state that is later than where the new part begins.
    if (continues) write_run_yaml(files, session, folder, parts);
    tell_begin(files, session, start, changed, ended, events);
    keep_changed_texts(files, session, folder);
    // An emulated device's memory is the process's too.
    std::optional<EnforcedMemory> enforced;
    if (config.was_given("ram"))
        enforced.emplace(session.request.budgets.ram + session.planned.device_bytes,
                         session.recipe.probes() ? 2 * session.threads : session.threads);  // a log has its own team
    RunControl& control = hooks.control != nullptr ? *hooks.control : own_control;
    return end_run(files, session, folder, run_steps(files, session, folder, start, hooks.trace, control, events));
}

}  // namespace windlass
