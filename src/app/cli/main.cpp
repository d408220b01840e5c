// The command line: the verb that is named. What a verb does is in the file of its name.
#include <CLI/CLI.hpp>

#include <algorithm>
#include <string>

#include "app/cli/failure.h"
#include "app/cli/flags.h"
#include "app/cli/help.h"
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

ExitCode dispatch(const CLI::App& app, Arguments& args, LogFile& log) {
    if (args.quiet) set_log_level(LogLevel::warning);
    const CLI::App* verb = app.get_subcommands().front();
    const std::string& name = verb->get_name();
    const std::vector<std::string> words = verb->remaining();
    args.data.what = data_what_of(args.data_what);
    if (name == "plan") return args.plan.words = words, run_plan(args.plan);
    if (name == "train") return args.train.words = words, run_train(args.train, log);
    if (name == "eval") return args.eval.words = words, run_eval(args.eval);
    if (name == "generate") return args.generate.words = words, run_generate(args.generate);
    if (name == "chat") return args.chat.words = words, run_chat(args.chat);
    if (name == "data") return args.data.words = words, run_data(args.data);
    if (name == "export") return run_export(args.to_export);
    if (name == "replay") return run_replay(args.replay);
    if (name == "inspect") return run_inspect(args.inspect);
    if (name == "doctor") return run_doctor(args.doctor);
    if (name == "config") return run_config(args.config);
    return run_version(args.version);
}

// The words as the parser takes them: "help VERB" is "VERB --help", "--version" is the verb.
std::vector<std::string> parsed_words(int argc, char** argv) {
    std::vector<std::string> words(argv + 1, argv + argc);
    if (words.empty()) words = {"--help"};
    if (words[0] == "--version" || words[0] == "-V") words[0] = "version";
    if (words[0] != "help") return words;
    if (words.size() == 1) return {"--help"};
    return {words[1], "--help"};
}

ExitCode print_help(const CLI::App& app, bool whole) {
    const int columns = terminal_style(1).columns;
    const std::vector<CLI::App*> verbs = app.get_subcommands();
    print_result(verbs.empty() ? program_help(whole, columns) : verb_help(*verbs.front(), whole, columns));
    return ExitCode::ok;
}

ExitCode run(int argc, char** argv, LogFile& log) {
    CLI::App app("", "windlass");
    Arguments args;
    app.set_help_flag("-h,--help", "Print this help");
    app.set_help_all_flag("--help-all", "Print this help with all settings");
    app.require_subcommand(1);
    add_verbs(app, args);
    std::vector<std::string> words = parsed_words(argc, argv);
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
    return dispatch(app, args, log);
}

// On stderr for people, and on stdout for a program that asked for JSON.
int fail(bool json, ExitCode code, const std::string& message) {
    log_line(LogLevel::error, message);
    if (json) print_failure(code, message);
    return static_cast<int>(code);
}

}  // namespace
}  // namespace windlass

int main(int argc, char** argv) {
    using namespace windlass;
    hold_standard_descriptors();  // before anything is opened
    const bool json = asks_for_json({argv + 1, static_cast<size_t>(std::max(argc, 1) - 1)});
    LogFile log;  // of a run, whose failure is told in it too
    try {
        take_signals();  // before any other thread
        const TerminalStyle style = terminal_style(2);
        const ActivityDisplay display({style.interactive, style.color, style.columns});
        return static_cast<int>(run(argc, argv, log));
    } catch (const Error& error) {
        return fail(json, error.code(), error.what());
    } catch (const std::bad_alloc&) {
        return fail(json, ExitCode::no_fit,
                    "memory: the system refuses more. Try: a larger --ram, or a smaller --per-device-train-batch-size");
    } catch (const std::exception& error) {
        return fail(json, ExitCode::internal, fmt::format("internal: {}", error.what()));
    }
}
