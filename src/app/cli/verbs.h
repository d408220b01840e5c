// verbs.h: what each verb of the command line does, free of the parser.
//
// Results go to stdout (output.h), messages to stderr. A verb returns the exit code, or throws an Error, which main()
// prints once.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"

namespace windlass {

class LogFile;
class VerbOutput;
struct Outline;

// Verbs that take configuration: words are a file, key=value and --key value (config/config.h).
// `download`: the model that is named is downloaded first if it is not there (hub_download.h).
struct PlanArgs {
    std::vector<std::string> words;
    std::string trace;            // file to write the predicted step to; empty: none
    bool alone = false;           // nothing is compared with it
    double compare_seconds = 20;  // that the comparison may take; 0: as long as it takes
    bool no_plan_cache = false;
    bool lanes = false;  // an event has the predicted step's tasks
    bool download = false;
};
ExitCode run_plan(const PlanArgs& args, VerbOutput& out);

struct TrainArgs {
    std::vector<std::string> words;
    std::string trace;                 // file to write steps to as they ran; empty: none
    std::vector<int64_t> trace_steps;  // which; empty: the first and the last
    bool dry_run = false;
    bool download = false;
};
// `log` is opened for the run.
ExitCode run_train(const TrainArgs& args, VerbOutput& out, LogFile& log);

struct StatusArgs {
    std::string run;      // its folder
    bool follow = false;  // until it ends, and then with its exit code
};
ExitCode run_status(const StatusArgs& args, VerbOutput& out);

struct RunsArgs {
    std::string folder = ".";
};
ExitCode run_runs(const RunsArgs& args, VerbOutput& out);

struct EvalArgs {
    std::vector<std::string> words;  // MODEL first, then configuration
    std::vector<std::string> data;
    std::string choices;    // candidates separated by '|'
    int64_t shots = 0;      // demonstrations in front of a task's prompts
    std::string reference;  // the reference model of dpo
    bool download = false;
};
ExitCode run_eval(const EvalArgs& args, VerbOutput& out);

struct GenerateArgs {
    std::vector<std::string> words;  // MODEL first, then configuration
    std::string prompt;              // "-": stdin
    int64_t max_new_tokens = 128;
    double temperature = 0;
    int64_t top_k = 0;
    double top_p = 1;
    bool chat = false;               // the prompt is a message, put into the model's chat template
    std::vector<std::string> stops;  // texts that end it
    bool download = false;
};
ExitCode run_generate(const GenerateArgs& args, VerbOutput& out);

struct ChatArgs {
    std::vector<std::string> words;  // MODEL first, then configuration
    std::string system;
    int64_t max_new_tokens = 1024;
    double temperature = 0;
    int64_t top_k = 0;
    double top_p = 1;
    std::vector<std::string> stops;
    bool download = false;
};
ExitCode run_chat(const ChatArgs& args, VerbOutput& out);

struct DataArgs {
    enum class What : uint8_t { show, stats, check, keys };
    What what = What::show;
    std::vector<std::string> words;  // configuration
    int64_t samples = 3;
    bool download = false;
};
ExitCode run_data(const DataArgs& args, VerbOutput& out);

struct ExportArgs {
    std::string source, model, target, dtype, type, max_shard_size;
    std::string merged;  // "base" or "computed"; empty: not merged
    bool delta = false;
    bool overwrite = false;
    bool download = false;
};
ExitCode run_export(const ExportArgs& args, VerbOutput& out);

struct ReplayArgs {
    std::string base, log, target, type;
    std::vector<std::string> ignored_keys;  // of the base's config.json
    std::optional<int64_t> step;
    int threads = 0;
    bool overwrite = false;
    bool download = false;
};
ExitCode run_replay(const ReplayArgs& args, VerbOutput& out);

struct InspectArgs {
    std::string model;
    std::vector<std::string> ignored_keys;  // of its config.json
    bool tensors = false;
    bool download = false;
};
ExitCode run_inspect(const InspectArgs& args, VerbOutput& out);

struct DoctorArgs {
    std::string ssd_dir;
    std::string device = "cpu";  // cuda or cuda:N: it and its link are measured too
    int threads = 0;
    std::string save;     // file to write the machine to; empty: none
    std::string machine;  // a file or profile to print instead of measuring
};
ExitCode run_doctor(const DoctorArgs& args, VerbOutput& out);

struct ConfigArgs {
    std::string file;  // of another tool
};
ExitCode run_config(const ConfigArgs& args, VerbOutput& out);
ExitCode run_config_schema(VerbOutput& out);

struct CompletionArgs {
    std::string shell;
};
ExitCode run_completion(const CompletionArgs& args, const Outline& outline, VerbOutput& out);

// The page of a verb in the form of man(1); of the program if the verb is empty.
ExitCode run_man_page(const std::string& verb, const Outline& outline);

struct UiArgs {
    std::string root = ".";
    std::vector<std::string> others;
    int port = 0;
};
ExitCode run_ui(const UiArgs& args, VerbOutput& out);

struct VersionArgs {
    bool licences = false;  // of the libraries alone
};
ExitCode run_version(const VersionArgs& args, VerbOutput& out);

}  // namespace windlass
