#include "app/cli/verbs.h"
#include "app/cli/words.h"
#include "base/json.h"
#include "base/log.h"
#include "plan/refusal.h"
#include "schedule/trace.h"
#include "session/advice.h"
#include "session/cheaper.h"
#include "session/run_text.h"
#include "session/session.h"

namespace windlass {
namespace {

void write_trace(const std::string& path, const Session& session) {
    const Schedule& schedule = leading_schedule(session.planned.schedules);
    Trace trace;
    trace.add(fmt::format("{}, predicted for {}", schedule.name, session.machine.name), session.model,
              session.planned.schedules, schedule, session.planned.step.tasks);
    write_text_atomic(real_files(), path, trace.json());
}

// A refusal names what else would fit.
Session plan_session(const Config& config) {
    try {
        return prepare_session(real_files(), config, std::nullopt, ConfigUse::plan);
    } catch (const UserError& error) {
        if (error.code() != ExitCode::no_fit) throw;
        const std::string others = others_that_fit(real_files(), config);
        if (others.empty()) throw;
        throw Error(error.code(), fmt::format("{}{}{}", error.what(), kNextWayOut, others));
    }
}

}  // namespace

ExitCode run_plan(const PlanArgs& args) {
    const Config config = config_from_words(args.words, ConfigUse::plan);
    const Session session = plan_session(config);
    if (!args.trace.empty()) write_trace(args.trace, session);
    // Many plans are compared with this one, so it is shown before.
    if (!args.json) print_result(plan_text(session));
    if (args.alone) {
        print_result(args.json ? plan_json(session, Json()) : kFits);
        return ExitCode::ok;
    }
    log_info("planning other settings and methods, to compare with; --alone leaves that out");
    const std::vector<MethodAdvice> methods = compare_methods(session);
    const std::vector<Cheaper> cheaper = find_cheaper(session, methods);
    if (!args.json) {
        print_result(cheaper_text(cheaper) + advice_text(methods) + kFits);
        return ExitCode::ok;
    }
    Json advice = advice_json(methods);
    advice["cheaper"] = cheaper_json(cheaper);
    print_result(plan_json(session, advice));
    return ExitCode::ok;
}

}  // namespace windlass
