// The command line: the verb that is named. What a verb does is in the file of its name.
#include <sys/prctl.h>

#include <CLI/CLI.hpp>

#include <algorithm>
#include <csignal>
#include <string>

#include "app/cli/flags.h"
#include "app/cli/help.h"
#include "app/cli/outline.h"
#include "app/cli/output.h"
#include "app/cli/verbs.h"
#include "app/cli/words.h"
#include "base/activity.h"
#include "base/error.h"
#include "base/log.h"
#include "base/log_file.h"
#include "base/standard_streams.h"
#include "session/signals.h"
#include "train/progress.h"

namespace windlass {
namespace {

DataArgs::What data_what_of(const std::string& name) {
    if (name == "stats") return DataArgs::What::stats;
    if (name == "check") return DataArgs::What::check;
    return name == "keys" ? DataArgs::What::keys : DataArgs::What::show;
}

ExitCode dispatch(const CLI::App& app, Arguments& args, VerbOutput& out, LogFile& log) {
    if (args.quiet) set_log_level(LogLevel::warning);
    if (args.ends_with_parent) prctl(PR_SET_PDEATHSIG, SIGTERM);
    keep_within(args.within);
    const CLI::App* verb = app.get_subcommands().front();
    const std::string& name = verb->get_name();
    const std::vector<std::string> words = verb->remaining();
    args.data.what = data_what_of(args.data_what);
    if (name == "plan") return args.plan.words = words, run_plan(args.plan, out);
    if (name == "train") return args.train.words = words, run_train(args.train, out, log);
    if (name == "status") return run_status(args.status, out);
    if (name == "runs") return run_runs(args.runs, out);
    if (name == "eval") return args.eval.words = words, run_eval(args.eval, out);
    if (name == "generate") return args.generate.words = words, run_generate(args.generate, out);
    if (name == "chat") return args.chat.words = words, run_chat(args.chat, out);
    if (name == "data") return args.data.words = words, run_data(args.data, out);
    if (name == "export") return run_export(args.to_export, out);
    if (name == "replay") return run_replay(args.replay, out);
    if (name == "inspect") return run_inspect(args.inspect, out);
    if (name == "doctor") return run_doctor(args.doctor, out);
    if (name == "config") return verb->got_subcommand("schema") ? run_config_schema(out) : run_config(args.config, out);
    if (name == "completion") return run_completion(args.completion, outline_of(app), out);
    if (name == "ui") return run_ui(args.ui, out);
    return run_version(args.version, out);
}

// The words as the parser takes them: "--version" is the verb.
std::vector<std::string> parsed_words(int argc, char** argv) {
    std::vector<std::string> words(argv + 1, argv + argc);
    if (words.empty()) words = {"--help"};
    if (words[0] == "--version" || words[0] == "-V") words[0] = "version";
    return words;
}

ExitCode print_help(const CLI::App& app, bool whole) {
    const int columns = terminal_style(1).columns;
    const std::vector<CLI::App*> verbs = app.get_subcommands();
    print_result(verbs.empty() ? program_help(whole, columns) : verb_help(*verbs.front(), whole, columns));
    return ExitCode::ok;
}

ExitCode run(int argc, char** argv, VerbOutput& out, LogFile& log) {
    CLI::App app("", "windlass");
    Arguments args;
    app.set_help_flag("-h,--help", "Print this help");
    app.set_help_all_flag("--help-all", "Print this help with all settings");
    app.require_subcommand(1);
    add_verbs(app, args);
    std::vector<std::string> words = parsed_words(argc, argv);
    if (words[0] == "help") return run_help(app, {words.begin() + 1, words.end()}, out);
    check_verb(app, words[0]);
    words = with_known_flags(app, std::move(words));
    const std::string first = words[0];
    std::ranges::reverse(words);  // the parser takes them from the back
    try {
        app.parse(std::move(words));
    } catch (const CLI::CallForHelp&) {
        return print_help(app, false);
    } catch (const CLI::CallForAllHelp&) {
        return print_help(app, true);
    } catch (const CLI::ParseError& error) {
        throw UserError(ExitCode::usage, "command line", "{}", error.what())
            .hint(first.starts_with('-') ? "windlass --help" : fmt::format("windlass {} --help", first));
    }
    return dispatch(app, args, out, log);
}

// How the program ends where a verb throws.
ExitCode fail(VerbOutput& out, ExitCode code, const std::string& message) {
    out.fail(code, message);
    return code;
}

ExitCode run_or_fail(int argc, char** argv, VerbOutput& out) {
    LogFile log;  // of a run, whose failure is told in it too
    try {
        take_signals();  // before any other thread
        const TerminalStyle style = terminal_style(2);
        const ActivityDisplay display({style.interactive, style.color, style.columns});
        const ExitCode code = run(argc, argv, out, log);
        out.finish(code);
        return code;
    } catch (const Error& error) {
        return fail(out, error.code(), error.what());
    } catch (const std::bad_alloc&) {
        return fail(out, ExitCode::no_fit,
                    "memory: the system refuses more. Try: a larger --ram, or a smaller --per-device-train-batch-size");
    } catch (const std::exception& error) {
        return fail(out, ExitCode::internal, fmt::format("internal: {}", error.what()));
    }
}

}  // namespace
}  // namespace windlass

int main(int argc, char** argv) {
    using namespace windlass;
    hold_standard_descriptors();  // before anything is opened
    const std::string verb = argc > 1 ? argv[1] : "";
    if (verb == "train") outlive_readers();  // a run has more to lose than they
    VerbOutput out(result_form_of({argv + 1, static_cast<size_t>(std::max(argc, 1) - 1)}), verb);
    return static_cast<int>(run_or_fail(argc, argv, out));
}
