#include <unistd.h>

#include <chrono>

#include "app/cli/output.h"
#include "app/cli/verbs.h"
#include "app/cli/words.h"
#include "base/json.h"
#include "base/log.h"
#include "base/shell_word.h"
#include "base/status_line.h"
#include "plan/refusal.h"
#include "schedule/trace.h"
#include "session/comparison.h"
#include "session/run_text.h"
#include "session/run_warnings.h"
#include "session/session.h"
#include "session/signals.h"
#include "train/progress.h"
#include "train/run_events.h"

namespace windlass {
namespace {

constexpr EventKind kMethod{.name = "method"};
constexpr EventKind kCheaper{.name = "cheaper"};
constexpr EventKind kLanes{.name = "lanes"};

void write_trace(const std::string& path, const Session& session) {
    const Schedule& schedule = leading_schedule(session.planned.schedules);
    Trace trace;
    trace.add(fmt::format("{}, predicted for {}", schedule.name, session.machine.name), session.model,
              session.planned.schedules, schedule, session.planned.step.tasks);
    write_text_atomic(real_files(), path, trace.json());
}

// A refusal names what else would fit. Each of these is a plan of its own, so that a person reads the refusal first.
ExitCode refuse(const UserError& refusal, const Config& config, KeptPlans kept, const VerbOutput& out) {
    std::string message = refusal.what();
    if (out.is_text()) log_line(LogLevel::error, message);
    find_others_that_fit(real_files(), config, kept, [&](const std::string& words) {
        message += fmt::format("{}{}", kNextWayOut, words);
        if (out.is_text()) log_more(fmt::format("{}{}", kNextWayOut.substr(1), words));
    });
    if (!out.is_text()) throw Error(refusal.code(), message);
    return refusal.code();
}

// A line at stderr, where a person watches, that says how far a comparison is and how long it may take.
class Countdown {
  public:
    ~Countdown() { clear_status(); }
    void draw(int64_t done, int64_t count, double seconds_left) const {
        if (!style_.interactive) return;
        const std::string left = seconds_left > 0 ? fmt::format(", at most {:.0f} s more", seconds_left) : "";
        const std::string line = fmt::format("comparing: {} of {}{}; Ctrl-C ends it", done, count, left);
        draw_status(line.substr(0, static_cast<size_t>(style_.columns - 1)), style_.color);
    }

  private:
    const TerminalStyle style_ = terminal_style(STDERR_FILENO);
};

// How long a comparison may take: until Ctrl-C, or until its seconds are over.
class Patience {
  public:
    explicit Patience(double seconds) : seconds_(seconds) {}
    double seconds_left() const {
        const std::chrono::duration<double> passed = Clock::now() - begin_;
        return seconds_ - passed.count();
    }
    bool is_limited() const { return seconds_ > 0; }
    bool is_over() const { return interrupt_.was_interrupted() || (is_limited() && seconds_left() <= 0); }
    std::string why() const {
        return interrupt_.was_interrupted() ? "interrupted" : fmt::format("{:g} s are over", seconds_);
    }

  private:
    using Clock = std::chrono::steady_clock;
    const InterruptScope interrupt_;
    const double seconds_;
    const Clock::time_point begin_ = Clock::now();
};

std::string not_reached_line(const Comparison& comparison, const PlanArgs& args, const Patience& patience) {
    if (comparison.not_reached.empty()) return "";
    std::vector<std::string> words = {"windlass", "plan"};
    words.insert(words.end(), args.words.begin(), args.words.end());
    words.insert(words.end(), {"--compare-seconds", "0"});
    return fmt::format("Skipped   {} ({}). Try: {}\n", fmt::join(comparison.not_reached, "; "), patience.why(),
                       shell_command(words));
}

// Rows of both tables as they are found.
void print_comparison(const Session& session, const PlanArgs& args, const Patience& patience) {
    std::vector<MethodAdvice> methods = methods_to_compare(session);
    const size_t width = name_width(methods);
    const Countdown countdown;
    bool has_cheaper = false;
    const ComparisonView view{
        .method = [&](const MethodAdvice& each) { print_result(method_line(each, width)); },
        .cheaper =
            [&](const Cheaper& each) {
                print_result((has_cheaper ? "" : cheaper_head()) + cheaper_lines(each));
                has_cheaper = true;
            },
        .wait = [&](int64_t done, int64_t count) { countdown.draw(done, count, patience.seconds_left()); }};
    print_result(methods_head(width));
    const Comparison comparison =
        compare(session, std::move(methods), view, {.should_stop = [&] { return patience.is_over(); }});
    std::string rest;
    if (!has_cheaper && comparison.not_reached.empty()) rest += kNothingCheaper;
    if (!comparison.methods.empty()) rest += advice_line(comparison.methods, run_costs(session));
    print_result(rest + not_reached_line(comparison, args, patience) + kFits);
}

// As events each row when it is found, else all of them with the plan.
void tell_comparison(const Session& session, const Patience& patience, VerbOutput& out) {
    const Countdown countdown;
    const RunCosts costs = run_costs(session);
    const ComparisonView view{
        .method = [&](const MethodAdvice& each) { out.tell(kMethod, method_json(each, costs)); },
        .cheaper = [&](const Cheaper& each) { out.tell(kCheaper, cheaper_json(each)); },
        .wait = [&](int64_t done, int64_t count) { countdown.draw(done, count, patience.seconds_left()); }};
    const Comparison comparison =
        compare(session, methods_to_compare(session), view, {.should_stop = [&] { return patience.is_over(); }});
    const Json rows = comparison_json(session, comparison), reached = compared_json(comparison);
    if (out.has_events())
        out.result({{"fits", true}, {"advised", rows["advised"]}, {"compared", reached}});
    else
        out.result(plan_json(session, rows, reached));
}

}  // namespace

ExitCode run_plan(const PlanArgs& args, VerbOutput& out) {
    const Config config =
        config_from_words(args.words, ConfigUse::plan, download_of(args.download, HubFiles::configuration));
    log_info("planning {} for {} on {}", config.method, config.model,
             config.machine.empty() ? "this machine" : config.machine);
    const KeptPlans kept = args.no_plan_cache ? KeptPlans::ignored : KeptPlans::used;
    std::optional<Session> planned;
    try {
        planned.emplace(prepare_session(real_files(), config, std::nullopt, ConfigUse::plan, kept));
    } catch (const UserError& error) {
        if (error.code() != ExitCode::no_fit) throw;
        if (args.alone) throw;
        return refuse(error, config, kept, out);
    }
    const Session& session = *planned;
    for (const std::string& warning : run_warnings(session)) log_warning("{}", warning);
    if (!args.trace.empty()) write_trace(args.trace, session);
    // Many plans are compared with this one, so it is shown before.
    if (out.is_text()) print_result(plan_text(session));
    out.tell(kPlanEvent, plan_json(session, Json(), Json()));
    if (args.lanes) out.tell(kLanes, lanes_json(session));
    if (args.alone) {
        if (out.is_text())
            print_result(kFits);
        else
            out.result(out.has_events() ? Json{{"fits", true}} : plan_json(session, Json(), Json()));
        return ExitCode::ok;
    }
    const Patience patience(args.compare_seconds);  // from the line below on, Ctrl-C keeps what was found
    log_info("comparing with other methods and settings; --alone skips that");
    if (out.is_text())
        print_comparison(session, args, patience);
    else
        tell_comparison(session, patience, out);
    return ExitCode::ok;
}

}  // namespace windlass
