#include "train/train.h"

#include <cmath>

#include "base/log.h"
#include "base/units.h"
#include "format/store.h"
#include "train/budget.h"
#include "train/checkpoint.h"
#include "train/loop.h"
#include "train/run_folder.h"
#include "train/run_text.h"
#include "train/session.h"

namespace windlass {
namespace {

// run.yaml says what `auto` became where it decides the bits.
Config resolved_config(const Session& session) {
    Config config = session.config;
    config.per_device_train_batch_size = session.numerics().micro_rows;
    config.gradient_accumulation_steps = session.numerics().micro_count;
    config.dtype = dtype_name(session.numerics().compute);
    config.state_format = state_format_name(session.numerics().state_format);
    config.resume.clear();
    config.overwrite = false;
    return config;
}

void check_output_space(FileSystem& files, const Session& session, const std::string& folder) {
    const int64_t free = files.free_bytes(folder);
    const int64_t final_bytes = session.folder.total_bytes();
    if (free < final_bytes) {
        throw UserError(ExitCode::storage, folder, "the trained model needs {}, {} are free", format_bytes(final_bytes),
                        format_bytes(free))
            .hint("another output_dir");
    }
    const int64_t checkpoint = checkpoint_bytes(session.folder, session.model, session.recipe);
    if (session.config.save_steps && free < final_bytes + checkpoint)
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
            .store_meta = run_state_text(session.first),
            .seed = session.first.seed,
            .emulation = emulation_of(session.config)};
}

// Fills the engine and returns the state it then holds.
RunState begin(FileSystem& files, Session& session, const StartPoint& start, Engine& engine) {
    switch (start.from) {
        case StartPoint::From::model:
            engine.load(session.folder, run_state_text(session.first));
            return session.first;
        case StartPoint::From::working_store:
            log_info("going on from the working store, step {}", start.state.step);
            return parse_run_state(engine.reopen(), start.path);
        case StartPoint::From::checkpoint:
            break;
    }
    log_info("going on from {}", start.path);
    Store snapshot = Store::open(files, fmt::format("{}/{}", start.path, kStateFile), OpenMode::read);
    return parse_run_state(engine.restore(snapshot), start.path);
}

}  // namespace

TrainResult train(FileSystem& files, const Config& given, const TraceRequest& trace) {
    RunFolder folder(files, given);
    const StartPoint start = find_start(files, given);
    Config config = given;
    if (start.from == StartPoint::From::working_store && config.policy == "auto") config.policy = "three_tier";
    const bool resumes = start.from != StartPoint::From::model;
    Session session = prepare_session(files, config, resumes ? std::optional(start.state) : std::nullopt);
    if (resumes) {
        require_same_run(start.state, session.first, start.path);
        if (start.state.schedule != session.first.schedule)
            log_warning("the learning rate schedule is not the one that the run began with; the new one is followed");
    }
    check_output_space(files, session, folder.path());
    if (config.overwrite) folder.clear();  // only now: a run that is refused costs nobody an older one
    set_log_file(folder.file("log.txt"));
    const std::string plan = plan_text(session);
    log_line(LogLevel::info, std::string_view(plan).substr(0, plan.size() - 1));
    write_text_atomic(files, folder.file("run.yaml"), config_to_yaml(resolved_config(session)));
    // An emulated device's memory is the process's too.
    if (config.was_given("ram"))
        enforce_memory(session.request.budgets.ram + session.planned.device_bytes, session.threads);
    Engine engine(files, engine_setup(session));
    RunState state = begin(files, session, start, engine);
    state.schedule = session.first.schedule;  // of a resumed run: the one that it now follows
    TrainLoop loop(files, session, folder, engine, std::move(state));
    if (trace.path.empty()) return loop.run();
    TraceWriter writer(files, trace);
    loop.set_trace(&writer);
    const TrainResult result = loop.run();
    writer.finish();
    return result;
}

}  // namespace windlass
