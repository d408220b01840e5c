#include "run/engine.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <optional>

#include "base/file_error.h"
#include "base/index.h"
#include "base/math.h"
#include "device/cpu/cpu_stream.h"
#include "format/checksum.h"
#include "method/forward_only/materialize.h"
#include "model/load.h"
#include "run/chunk_io.h"
#include "run/execute.h"
#include "run/first_masters.h"
#include "run/recent_steps.h"
#include "run/step_outputs.h"

namespace windlass {

struct Engine::Impl {
    Impl(FileSystem& files_in, EngineSetup setup_in)
        : files(files_in),
          setup(std::move(setup_in)),
          elements(global_offsets(setup.model)),
          own_device(setup.device == nullptr ? make_device(setup.plan.device) : nullptr),
          devices({{setup.plan.device.index, own_device ? own_device.get() : setup.device}}),
          arenas(setup.schedules, devices),
          streams(setup.schedules, devices, setup.plan.threads, setup.plan.host_threads),
          movers(files, setup.emulation, setup.plan.store, setup.schedules.schedules.front().lanes),
          recent(setup.recipe.history, setup.recipe.merge == Merge::per_window),
          sums(setup.model) {}

    void open_store(Store opened) {
        const auto spills = [&](const Param& param) {
            return param.trains() && setup.plan.of(param.spec.block).gradients == Home::disk;
        };
        store =
            std::make_unique<WorkingStore>(files, std::move(opened), setup.model, setup.store_path,
                                           WorkingStore::Spills{std::ranges::any_of(setup.model.all_params(), spills),
                                                                setup.schedules.activation_file_bytes()},
                                           setup.numerics.gradient_format);
        durable_step = store->store().committed_step();
    }
    ChunkIo chunks() {
        reader.reset();  // it holds staging
        WINDLASS_CHECK(!deferred.has_value() || keeps_window(), "the update of step {} is still deferred",
                       deferred->step);
        return ChunkIo(setup, arenas, store.get());
    }

    // Masters of a chunk in staging: deferred updates are added to the kept weights.
    void join(ChunkIo& chunks, const ChunkSpan& chunk, int64_t first, std::span<float> masters) {
        const Param param = setup.model.param(chunk.param);
        if (!param.keeps_sum()) return chunks.join(chunk, first, masters);
        const std::span<float> numbers = chunks.floats(chunk);
        const auto read = [&](const Launch& launch) {
            read_updated({.param = param,
                          .element = elements[at(chunk.param)] + chunk.first,
                          .count = chunk.count,
                          .weights = chunks.weights(),
                          .first = chunk.first},
                         recent.steps(), param.perturb.merge == Merge::per_window ? recent.deferred() : 0,
                         sums.by_param()[at(chunk.param)], numbers, launch.stream());
        };
        streams.compute().launch(read);
        streams.compute().synchronize();
        std::ranges::copy(numbers.subspan(at(first), masters.size()), masters.begin());
    }

    // What is kept of masters, and no state yet, into staging. Where another device computes, the host has no team but
    // that of its updates.
    void take(ChunkIo& chunks, const ChunkSpan& chunk, const ReadMasters& masters) {
        Stream& compute = streams.compute();
        const std::span<float> numbers = chunks.floats(chunk);
        masters(chunk.param, chunk.first, numbers);
        chunks.split(chunk, numbers, compute.device() == DeviceKind::cpu ? &cpu_team(compute) : nullptr);
        chunks.clear_state(chunk);
    }

    // Every chunk that `fill` puts into staging, to a new store committed as this step.
    void write_store(const std::string& path, int versions, int64_t step, const std::string& run_state, ChunkIo& chunks,
                     const std::function<void(const ChunkSpan&)>& fill) {
        Store target = Store::create(files, path, store_layout(setup.model, setup.recipe, versions, setup.store_meta));
        std::vector<ChunkUpdate> written;
        chunks.for_each(stored_params(setup.model, versions), [&](const ChunkSpan& chunk) {
            fill(chunk);
            const int64_t index = std::ssize(written);
            written.push_back({index, chunks.write_to(target, index)});
        });
        target.commit(step, run_state, written);
    }

    // The run's first state, chunk by chunk through staging: to memory, and to the working store, which gets its name
    // only once it is whole.
    void begin(int64_t step, const std::string& run_state,
               const std::function<void(ChunkIo&, const ChunkSpan&)>& fill) {
        reader.reset();  // it holds staging
        ChunkIo staging(setup, arenas, nullptr);
        const auto fill_memory = [&](const ChunkSpan& chunk) {
            fill(staging, chunk);
            staging.store_in_memory(chunk);
        };
        durable_step = step;
        if (!setup.plan.store) return staging.for_each(store_order(setup.model), fill_memory);
        const std::string unfinished = setup.store_path + kUnfinishedStore;
        files.remove_tree(unfinished);
        write_store(unfinished, 2, step, run_state, staging, fill_memory);
        files.rename(unfinished, setup.store_path);
        files.sync_folder(parent_folder(setup.store_path));
        open_store(Store::open(files, setup.store_path));
    }

    // Updates are deferred until their window is over.
    bool keeps_window() const { return setup.recipe.merge == Merge::per_window; }
    // Whether this step writes back what is deferred: of a forward-only method; other updates that are deferred always
    // are.
    bool writes_back(int64_t step) const {
        if (!setup.recipe.probes()) return true;
        if (keeps_window()) return recent.deferred() > 0 && window_start(step, setup.recipe.merge_window) == step;
        return recent.deferred() >= setup.plan.writeback_steps;
    }

    StepReport execute(const Schedule& schedule, const StepInput& input, bool stoppable = true, bool home = true,
                       GeneratedAnswers* answers = nullptr) {
        reader.reset();
        ExecuteContext context{.setup = setup,
                               .arenas = arenas,
                               .streams = streams,
                               .store = store.get(),
                               .movers = movers,
                               .workers = workers,
                               .elements = elements,
                               .stop = stoppable ? stop : never,
                               .deferred = deferred && !setup.recipe.probes() ? &deferred->params : nullptr,
                               .recent = setup.recipe.probes() ? &recent : nullptr,
                               .sums = sums.by_param(),
                               .writes_back = home,
                               .answers = answers,
                               .mark = [this, home] { home ? land() : land_in_place(); }};
        return windlass::execute(schedule, context, input);
    }

    // A training schedule, once. What landed on the way is let go of, also where it fails.
    StepReport run_round(const Schedule& schedule, const StepInput& input, bool home, GeneratedAnswers* answers) {
        try {
            StepReport report = execute(schedule, input, true, home, answers);
            drop_landed();
            return report;
        } catch (...) {
            drop_landed();
            throw;
        }
    }

    // Of the schedule that ran last.
    std::vector<double> token_losses(const Schedule& schedule) const {
        return StepOutputs(setup.schedules, schedule, arenas).token_losses();
    }
    // Rounds on the same directions until all points have written their answers. The first brings home what is to go
    // home, and applies in place what is deferred; the others find it done, and apply to what they fetch the same
    // updates as the first.
    StepReport write_answers(const Schedule& schedule, const StepInput& input, bool home) {
        WINDLASS_CHECK(!setup.recipe.runs(PassKind::tangent), "nothing is written along a tangent");
        const int points = static_cast<int>(schedule.outputs.size()) / schedule.micro_batches;
        GeneratedAnswers answers(*input.objective, input.micro, points);
        StepReport step = run_round(schedule, input, home, &answers);
        while (!answers.is_done()) {
            StepReport round = run_round(schedule, input, home, &answers);
            round.rounds = step.rounds + 1;
            round.seconds += step.seconds;
            for (size_t kind = 0; kind < kLaneKinds; ++kind) round.busy_seconds[kind] += step.busy_seconds[kind];
            round.tasks = std::move(step.tasks);
            step = std::move(round);
        }
        return step;
    }

    // Deferred updates are in memory and on disk. Their factors are needed until the schedule ends.
    void land() {
        if (!deferred || deferred->landed) return;
        if (store != nullptr) store->commit(deferred->step, deferred->run_state);
        durable_step = deferred->step;
        deferred->landed = true;
    }
    void land_in_place() {
        if (deferred && !keeps_window()) deferred->landed_in_place = true;
    }
    void drop_landed() {
        if (!deferred) return;
        if (deferred->landed_in_place) recent.land_in_place();
        deferred->landed_in_place = false;
        if (!deferred->landed) return;
        recent.land();
        deferred.reset();
    }
    void commit_now(int64_t step, const std::string& run_state, bool applied) {
        if (store != nullptr) {
            if (!applied) store->discard_written();  // what was written again is what was there before
            store->commit(step, run_state);
        }
        durable_step = step;
    }

    // What the store has as committed, to where the plan keeps it in memory.
    void fill_memory() {
        ChunkIo staging = chunks();
        if (!staging.keeps_in_memory()) return;
        staging.for_each(store_order(setup.model), [&](const ChunkSpan& chunk) {
            staging.fetch(chunk);
            staging.store_in_memory(chunk);
        });
    }
    // A step that is not to be has changed memory, and the version of the store that is not committed.
    void take_back() {
        store->discard_written();
        fill_memory();
    }

    // A wrong guess: the update is done again from the state before it, or taken back. Without a store `kept` has that
    // state.
    void redo(const StepParams& params) {
        execute(*setup.schedules.find("redo"), {.params = params}, /*stoppable=*/setup.plan.store);
    }

    // The update of a step that the next one's forward will do; of a forward-only method those of `recent`, up to this
    // step.
    struct Deferred {
        StepParams params;
        int64_t step = 0;
        std::string run_state;
        bool landed = false, landed_in_place = false;
    };

    FileSystem& files;
    EngineSetup setup;
    const std::vector<int64_t> elements;  // by parameter
    std::unique_ptr<Device> own_device;
    const Devices devices;
    Arenas arenas;
    LaneStreams streams;
    Movers movers;
    std::unique_ptr<WorkingStore> store;
    std::optional<Deferred> deferred;
    std::optional<ChunkIo> reader;  // of masters, until anything else happens
    RecentSteps recent;
    LowRankSums sums;
    int64_t durable_step = 0;
    std::atomic<bool> stop{false}, never{false};
    LaneWorkers workers;  // last: its threads use what is above
};

Engine::Engine(FileSystem& files, EngineSetup setup) : impl_(std::make_unique<Impl>(files, std::move(setup))) {}
Engine::~Engine() = default;

const EngineSetup& Engine::setup() const {
    return impl_->setup;
}
void Engine::request_stop() noexcept {
    impl_->stop.store(true);
}

void Engine::load(ModelFolder& folder, const std::string& run_state) {
    check_tied(folder, impl_->setup.model);
    fill(0, run_state, first_masters(folder, impl_->setup.model, impl_->setup.seed));
}

void Engine::fill(int64_t step, const std::string& run_state, const ReadMasters& masters) {
    impl_->begin(step, run_state,
                 [&](ChunkIo& chunks, const ChunkSpan& chunk) { impl_->take(chunks, chunk, masters); });
}

std::string Engine::reopen() {
    EngineSetup& setup = impl_->setup;
    Store store = Store::open(impl_->files, setup.store_path);
    require_layout(store.layout(), store_layout(setup.model, setup.recipe, 2, ""), setup.store_path);
    require_undamaged(store);
    impl_->open_store(std::move(store));
    impl_->fill_memory();
    return impl_->store->store().committed_run_state();
}

std::string Engine::restore(Store& snapshot, const ReadMasters& base) {
    const EngineSetup& setup = impl_->setup;
    // A working store, of a run that had one, has two versions of all parameters.
    const int versions = snapshot.layout().versions;
    const std::vector<int> held = stored_params(setup.model, versions);
    require_layout(snapshot.layout(), store_layout(setup.model, setup.recipe, versions, ""), snapshot.file().path());
    require_undamaged(snapshot);
    const std::string run_state = snapshot.committed_run_state();
    impl_->begin(snapshot.committed_step(), run_state, [&](ChunkIo& chunks, const ChunkSpan& chunk) {
        const auto found = std::ranges::find(held, chunk.param);
        if (found == held.end() || !setup.model.param(chunk.param).changes()) return impl_->take(chunks, chunk, base);
        const int64_t first = snapshot.first_chunk(found - held.begin());
        chunks.fetch_from(snapshot, first + chunk.first / kChunkElements, chunk);
    });
    return run_state;
}

StepReport Engine::train_step(const Schedule& schedule, const StepInput& input) {
    const bool home = impl_->writes_back(input.params.step),
               writes = input.objective != nullptr && writes_answers(input.objective->kind);
    StepReport report =
        writes ? impl_->write_answers(schedule, input, home) : impl_->run_round(schedule, input, home, nullptr);
    if (input.token_losses && !impl_->setup.recipe.probes()) report.token_losses = impl_->token_losses(schedule);
    WINDLASS_CHECK(!(impl_->deferred && home) && impl_->recent.deferred_in_place() == 0,
                   "step {} is over, and the one before it has not landed", input.params.step);
    if (report.spoiled && impl_->store != nullptr) impl_->take_back();
    const bool guessed_wrong = !report.applied || report.clip_scale != 1.0;
    if (guessed_wrong && impl_->setup.plan.any(UpdateTime::in_backward)) {
        impl_->redo(report.params);
        report.redone = true;
    }
    return report;
}

void Engine::commit(int64_t step, const std::string& run_state, const StepReport& report) {
    WINDLASS_CHECK(!report.spoiled || impl_->store != nullptr, "the state before step {} is lost", step);
    const bool probes = impl_->setup.recipe.probes();
    if (probes && report.applied) {
        impl_->recent.add(report.params);
        impl_->sums.add(report.params);
    }
    const bool holds =
        probes ? impl_->recent.deferred() > 0 : report.applied && impl_->setup.plan.any(UpdateTime::next_forward);
    if (holds)
        impl_->deferred = Impl::Deferred{.params = report.params, .step = step, .run_state = run_state};
    else
        impl_->commit_now(step, run_state, report.applied);
}

StepReport Engine::run_phase(const Schedule& schedule, const StepInput& input) {
    flush();
    return impl_->execute(schedule, input);
}

void Engine::commit_phase(int64_t step, const std::string& run_state) {
    impl_->commit_now(step, run_state, true);
}

void Engine::recall(std::vector<StepParams> steps, int deferred, int64_t step, const std::string& run_state) {
    impl_->recent.recall(std::move(steps), deferred);
    if (deferred > 0)
        impl_->deferred = Impl::Deferred{.step = step, .run_state = run_state};
    else if (step > impl_->durable_step)
        impl_->commit_now(step, run_state, false);
}

void Engine::recall_sums(const StepParams& step) {
    impl_->sums.add(step);
}

int64_t Engine::durable_step() const {
    return impl_->durable_step;
}

void Engine::flush() {
    if (!impl_->deferred || (impl_->keeps_window() && !impl_->writes_back(impl_->deferred->step + 1))) return;
    impl_->execute(*impl_->setup.schedules.find("flush"), {}, /*stoppable=*/false);
    impl_->drop_landed();
}

StepReport Engine::evaluate(const Schedule& schedule, const StepInput& input, bool token_losses) {
    flush();
    StepReport report = impl_->execute(schedule, input, true, /*home=*/!impl_->keeps_window());
    if (token_losses) report.token_losses = impl_->token_losses(schedule);
    return report;
}

StepReport Engine::decode(const Schedule& schedule, const StepInput& input) {
    flush();
    StepReport report = impl_->execute(schedule, input, true, /*home=*/!impl_->keeps_window());
    report.logits = StepOutputs(impl_->setup.schedules, schedule, impl_->arenas).logits(impl_->setup.model.vocab);
    return report;
}

void Engine::snapshot(const std::string& path, int64_t step, const std::string& run_state) {
    flush();
    ChunkIo chunks = impl_->chunks();
    const int64_t deferred_by = impl_->deferred ? impl_->durable_step : step;
    impl_->write_store(path, 1, deferred_by, run_state, chunks, [&](const ChunkSpan& chunk) { chunks.fetch(chunk); });
}

void Engine::read_masters(int param, int64_t first, std::span<float> out) {
    flush();
    std::optional<ChunkIo>& chunks = impl_->reader;
    if (!chunks) chunks.emplace(impl_->chunks());
    chunks->read(param, first, out, [&](const ChunkSpan& chunk, int64_t from, std::span<float> part) {
        impl_->join(*chunks, chunk, from, part);
    });
}

}  // namespace windlass
