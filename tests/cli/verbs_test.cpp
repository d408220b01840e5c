// What each verb prints and writes, through the real program.
#include <gmock/gmock.h>

#include <filesystem>
#include <iterator>
#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "tests/cli/sandbox.h"

namespace windlass::cli {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

TEST(Version, IsPrintedBothWays) {
    const Sandbox sandbox;
    const Json json = json_of(sandbox.windlass({"version", "--json"}));
    const std::string version = json.value("version", "");
    EXPECT_THAT(version, testing::MatchesRegex("[0-9]+\\.[0-9]+\\.[0-9]+"));
    EXPECT_THAT(json.value("products", ""), testing::ContainsRegex("^oneDNN [0-9]+\\.[0-9]+\\.[0-9]+$"));
    const std::string text = must_succeed(sandbox.windlass({"version"})).out;
    EXPECT_THAT(text, HasSubstr("windlass " + version));
    EXPECT_THAT(text, HasSubstr("products " + json.value("products", "?")));
    EXPECT_THAT(text,
                HasSubstr("commit " + (json.at("commit").is_null() ? "unknown" : json["commit"].get<std::string>())));
    const bool has_cuda = json.at("cuda").at("built").get<bool>();
    EXPECT_EQ(json.at("devices").size(), has_cuda ? 2u : 1u);
    EXPECT_THAT(text, HasSubstr((has_cuda ? "cuda CUDA " : "cuda not built: ")));
    EXPECT_THAT(text, HasSubstr(json["cuda"]["text"].get<std::string>()));
}

TEST(Version, NamesLibrariesAndTheirLicences) {
    const Sandbox sandbox;
    const Json json = json_of(sandbox.windlass({"version", "--json"}));
    const std::string text = must_succeed(sandbox.windlass({"version"})).out;
    EXPECT_THAT(text, HasSubstr("\nbuild " + json.value("build_type", "?") + "\n"));
    EXPECT_THAT(text, HasSubstr("\ndevices cpu"));
    const std::string licences = must_succeed(sandbox.windlass({"version", "--licences"})).out;
    EXPECT_EQ(must_succeed(sandbox.windlass({"version", "--licenses"})).out, licences);
    EXPECT_THAT(licences, testing::StartsWith("windlass " + json.value("version", "?")));
    std::set<std::string> names;
    for (const Json& library : json.at("libraries")) {
        const std::string name = library.at("name"), version = library.value("version", "");
        const std::string named = version.empty() ? name : name + " " + version;
        names.insert(name);
        EXPECT_THAT(licences, testing::ContainsRegex("\n" + std::regex_replace(named, std::regex("[+.()]"), "[$&]") +
                                                     " +" + library.at("licence").get<std::string>().substr(0, 8)));
        if (version.empty()) continue;
        EXPECT_THAT(version, testing::MatchesRegex("[0-9]+[.][0-9]+.*")) << name;
        EXPECT_THAT(text, HasSubstr(named));
    }
    for (const char* const name :
         {"oneDNN", "fmt", "zstd", "zlib", "liblzma", "libcsv", "yaml-cpp", "liburing", "ISA-L"})
        EXPECT_TRUE(names.contains(name)) << name;
}

// Every shared library that is loaded is in the list of licences.
TEST(Version, LeavesOutNoLibrary) {
    const Sandbox sandbox;
    const std::string licences = must_succeed(sandbox.windlass({"version", "--licences"})).out;
    static const std::map<std::string, std::string> kOf = {
        {"dnnl", "oneDNN"},   {"yaml-cpp", "yaml-cpp"}, {"pcre2-8", "PCRE2"},  {"z", "zlib"},
        {"lzma", "liblzma"},  {"csv", "libcsv"},        {"isal", "ISA-L"},     {"uring", "liburing"},
        {"xxhash", "xxHash"}, {"edit", "libedit"},      {"gomp", "libgomp"},   {"stdc++", "libstdc++"},
        {"gcc_s", "libgcc"},  {"c", "glibc"},           {"m", "glibc"},        {"utf8proc", "utf8proc"},
        {"zstd", "zstd"},     {"fmt", "fmt"},           {"OpenCL", "ocl-icd"}, {"tinfo", "ncurses"},
        {"bsd", "libbsd"},    {"md", "libmd"}};
    Command command = sandbox.windlass({"version"});
    command.environment["LD_TRACE_LOADED_OBJECTS"] = "1";  // the loader prints them and ends
    const std::string loaded = run(command).out;
    static const std::regex kLibrary("lib([a-zA-Z0-9+_-]+)[.]so[.0-9]* =>");
    int count = 0;
    for (std::sregex_iterator found(loaded.begin(), loaded.end(), kLibrary), end; found != end; ++found, ++count) {
        const std::string name = (*found)[1];
        ASSERT_TRUE(kOf.contains(name)) << name << " is new: it belongs into src/app/cli/libraries.cpp";
        EXPECT_THAT(licences, HasSubstr(kOf.at(name))) << name;
    }
    EXPECT_GE(count, 3) << loaded;
}

// One measurement serves both: each takes seconds.
TEST(Doctor, FindsTheMachineAndSavesItForPlans) {
    Sandbox sandbox;
    const std::string saved = sandbox / "mine.machine";
    const Json json = json_of(sandbox.windlass({"doctor", "--threads", "1", "--json", "--save", saved}));
    EXPECT_THAT(json.value("verdict", ""), HasSubstr("ready"));
    EXPECT_EQ(json.at("machine").at("threads"), 1);
    EXPECT_GT(json.at("machine").at("gemm_f32_flops").get<double>(), 0);
    std::set<std::string> names;
    for (const Json& finding : json["findings"]) names.insert(finding.at("name"));
    for (const char* name : {"processor", "kernels", "memory", "disk queue", "f32 products"})
        EXPECT_TRUE(names.contains(name));
    must_succeed(sandbox.windlass({"plan", "--model", sandbox.model(), "--machine", saved}));
}

// No machine that tests run on is known to have a CUDA device: either answer is right, silence is not.
TEST(Doctor, ExaminesADriveAndSaysWhetherThereIsACudaDevice) {
    const Sandbox sandbox;
    const Finished refused = run(sandbox.windlass({"doctor", "--threads", "1", "--device", "cuda:77"}));
    EXPECT_EQ(refused.code, static_cast<int>(ExitCode::gpu));
    EXPECT_THAT(refused.err, HasSubstr("Try: "));
    EXPECT_EQ(refused.out, "") << "it was measured first";
    const std::string text = must_succeed(sandbox.windlass({"doctor", "--threads", "1", "--ssd", sandbox / "ssd"})).out;
    EXPECT_THAT(text, testing::ContainsRegex("cuda  +[^ ]"));
    for (const char* part : {"direct I/O", "disk reads", "GB/s", "verdict        ready"})
        EXPECT_THAT(text, HasSubstr(part));
    EXPECT_TRUE(fs::is_empty(sandbox / "ssd"));
}

TEST(Doctor, PrintsAPreparedMachine) {
    const Sandbox sandbox;
    const std::string profile = must_succeed(sandbox.windlass({"doctor", "--machine", "h200-server-8gen5"})).out;
    EXPECT_THAT(profile, HasSubstr("gemm_bf16_flops: 593000000000000\n"));
    EXPECT_THAT(profile, HasSubstr("disk_mixed_bytes_per_s: "));  // what follows is said too
}

TEST(Inspect, SaysWhatAFolderHolds) {
    Sandbox sandbox;
    const Json json = json_of(sandbox.windlass({"inspect", sandbox.model("llama3"), "--tensors", "--json"}));
    EXPECT_EQ(json["supported"], true);
    EXPECT_EQ(json["model_type"], "llama");
    EXPECT_EQ(json["vocab"], 96);
    EXPECT_EQ(json["context_length"], 256);
    EXPECT_EQ(json["tokenizer"]["ids"], 96);
    EXPECT_EQ(json["tensors"].size(), 20u);
    EXPECT_EQ(json["tensors"][0]["dtype"], "F32");
    const std::string text = must_succeed(sandbox.windlass({"inspect", sandbox.model("llama3"), "--tensors"})).out;
    EXPECT_THAT(text, HasSubstr("supported"));
    EXPECT_THAT(text, HasSubstr("model.embed_tokens.weight"));
}

TEST(Inspect, SaysWhyAModelIsNotSupported) {
    Sandbox sandbox;
    edit_json(sandbox.model() + "/config.json", [](Json& config) { config["model_type"] = "mixtral"; });
    const Finished finished = run(sandbox.windlass({"inspect", sandbox.model(), "--json"}));
    EXPECT_EQ(finished.code, static_cast<int>(ExitCode::model));
    const Json json = parse_json(finished.out, "stdout", ExitCode::internal);
    EXPECT_EQ(json["supported"], false);
    EXPECT_THAT(json.value("problem", ""), HasSubstr("\"mixtral\""));
}

TEST(Plan, SaysWhatFitsAndWritesNothing) {
    Sandbox sandbox;
    Settings settings = sandbox.training();
    std::vector<std::string> words = words_of(settings);
    words.insert(words.begin(), "plan");
    const std::string text = must_succeed(sandbox.windlass(words)).out;
    for (const char* part :
         {"Model", "Machine", "Method", "Placement", "weights", "predicted peak", "Per step", "FITS"})
        EXPECT_THAT(text, HasSubstr(part));
    words.push_back("--json");
    EXPECT_FALSE(json_of(sandbox.windlass(words)).empty());
    EXPECT_FALSE(fs::exists(sandbox.out()));
}

// What the process itself takes differs a little each time.
std::string without_memory_of_process(const std::string& text) {
    return std::regex_replace(text, std::regex("[0-9.]+ [KMG]iB"), "...");
}

// What is compared with it takes much longer than the plan itself: a stdout that is full shows the order.
TEST(Plan, IsPrintedBeforeOthersAreMade) {
    Sandbox sandbox;
    Command command =
        sandbox.windlass({"plan", "--model", sandbox.model(), "--max-length", "64", "--compare-seconds", "0"});
    const Finished whole = must_succeed(command);
    EXPECT_LT(whole.err.find("planning adamw for "), whole.err.find("comparing with other methods"));
    EXPECT_THAT(whole.err, testing::Not(HasSubstr("\x1b"))) << "nothing counts down in a pipe";
    EXPECT_THAT(whole.out, testing::EndsWith("\nFITS\n"));
    EXPECT_LT(whole.out.find("Per step"), whole.out.find("\nMethods "));
    EXPECT_LT(whole.out.find("\nMethods "), whole.out.find("\nFaster "));
    EXPECT_LT(whole.out.find("\nFaster "), whole.out.find("\nAdvice    use "));
    EXPECT_THAT(whole.out, testing::Not(HasSubstr("\nSkipped ")));
    command.words.insert(command.words.begin(), {"/bin/sh", "-c", "exec \"$@\" > /dev/full", "sh"});
    const Finished finished = run(command);
    EXPECT_EQ(finished.code, static_cast<int>(ExitCode::storage)) << describe(finished);
    EXPECT_THAT(finished.err, testing::Not(HasSubstr("comparing with other methods")));
}

// Words that a line "Try: windlass ..." says to type.
std::vector<std::string> tried_words(const std::string& text) {
    const size_t begin = text.find("Try: windlass ") + std::string("Try: windlass ").size();
    std::istringstream line(text.substr(begin, text.find('\n', begin) - begin));
    return {std::istream_iterator<std::string>(line), {}};
}

// A budget that is over at once: nothing is compared, all of it is named, and the command that is named compares it.
TEST(Plan, NamesWhatItHadNoTimeFor) {
    Sandbox sandbox;
    const std::vector<std::string> words = {"plan", "--model",           sandbox.model(), "--max-length",
                                            "64",   "--compare-seconds", "1e-9"};
    const Finished finished = must_succeed(sandbox.windlass(words));
    EXPECT_THAT(finished.out, testing::EndsWith("\nFITS\n"));
    EXPECT_THAT(finished.out, HasSubstr("\nSkipped   adamw; adamw, lora; adamw, qlora; "));
    EXPECT_THAT(finished.out, HasSubstr("(1e-09 s are over). Try: windlass plan "));
    const std::string whole = must_succeed(sandbox.windlass(tried_words(finished.out))).out;
    EXPECT_THAT(whole, HasSubstr("\n  adamw, lora "));
    EXPECT_THAT(whole, testing::Not(HasSubstr("\nSkipped ")));
    std::vector<std::string> as_json = words;
    as_json.push_back("--json");
    const Json compared = json_of(sandbox.windlass(as_json)).at("compared");
    EXPECT_EQ(compared.at("complete"), false);
    EXPECT_THAT(compared.at("not_reached").dump(), HasSubstr("\"adamw, lora\""));
    as_json[as_json.size() - 2] = "0";
    EXPECT_EQ(json_of(sandbox.windlass(as_json)).at("compared").at("complete"), true);
}

// The same words have the same answer, whether it was searched or kept; without kept plans it is searched.
TEST(Plan, SaysTheSameOfAKeptPlan) {
    Sandbox sandbox;
    const std::vector<std::string> words = {"plan", "--model",   sandbox.model(),   "--max-length",
                                            "48",   "--machine", "rtx4090-desktop", "--compare-seconds",
                                            "0"};
    Command command = sandbox.windlass(words);
    command.environment["XDG_CACHE_HOME"] = sandbox / "cache";
    const std::string first = without_memory_of_process(must_succeed(command).out);
    EXPECT_TRUE(fs::exists(sandbox / "cache/windlass/plans"));
    EXPECT_EQ(without_memory_of_process(must_succeed(command).out), first);
    fs::remove_all(sandbox / "cache");
    command.words.push_back("--no-plan-cache");
    EXPECT_EQ(without_memory_of_process(must_succeed(command).out), first);
    EXPECT_FALSE(fs::exists(sandbox / "cache"));
}

TEST(Plan, NeedsAModelOnly) {
    Sandbox sandbox;
    const Json json = json_of(sandbox.windlass({"plan", "--model", sandbox.model(), "--max-length", "64", "--json"}));
    EXPECT_FALSE(json.empty());
}

TEST(Plan, TakesAnotherMachinesMemoryAndDisk) {
    Sandbox sandbox;
    const Json json =
        json_of(sandbox.windlass({"plan", "--model", sandbox.model(), "--max-length", "64", "--machine",
                                  "rtx4090-desktop", "--ssd-dir", sandbox / "not-touched", "--alone", "--json"}));
    EXPECT_TRUE(json.at("advice").is_null()) << "nothing is compared with a plan alone";
    EXPECT_TRUE(json.at("compared").is_null());
    const int64_t memory = (int64_t{64} << 30) / 100 * 80;  // of the machine; the default share
    EXPECT_NEAR(json.at("memory_limit_bytes").get<double>(), static_cast<double>(memory), 1e3);
    EXPECT_EQ(json.at("disk_limit_bytes").get<int64_t>(), int64_t{4'000'000'000'000} / 10 * 9);
    EXPECT_THAT(json.at("notes").dump(), HasSubstr("rtx4090-desktop"));
    EXPECT_FALSE(fs::exists(sandbox / "not-touched"));
}

// Tasks in a trace that `windlass` wrote, by the title of their step.
std::map<std::string, int> traced_tasks(const std::string& path) {
    std::map<int, std::string> titles;
    std::map<std::string, int> tasks;
    const Json json = read_json(path);
    for (const Json& event : json.at("traceEvents")) {
        const int process = event.at("pid");
        if (event.at("name") == "process_name") titles[process] = event.at("args").at("name");
        if (event.at("ph") == "X") ++tasks[titles.at(process)];
    }
    return tasks;
}

TEST(Plan, WritesThePredictedStepAsATrace) {
    Sandbox sandbox;
    const std::string path = sandbox / "trace.json";
    must_succeed(sandbox.windlass({"plan", "model=" + sandbox.model(), "--alone", "--machine", "h100-server-4gen5",
                                   "max_length=64", "--trace", path}));
    const std::map<std::string, int> tasks = traced_tasks(path);
    ASSERT_EQ(tasks.size(), 1u);
    EXPECT_THAT(tasks.begin()->first, HasSubstr("train/64, predicted for "));
    EXPECT_GT(tasks.begin()->second, 10);
}

TEST(Plan, SaysWhichMachinesThereAre) {
    Sandbox sandbox;
    const Finished finished =
        run(sandbox.windlass({"plan", "--model", sandbox.model(), "--machine", "rtx4090-desktob"}));
    EXPECT_EQ(finished.code, static_cast<int>(ExitCode::usage));
    EXPECT_THAT(finished.err, HasSubstr("Try: rtx4090-desktop"));
}

TEST(Preset, IsListedAndPlanned) {
    Sandbox sandbox;
    EXPECT_EQ(json_of(sandbox.windlass({"version", "--json"})).at("presets"),
              Json::array({"adalomo", "dora", "fuyou", "fzoo", "ia3", "lomo", "lora-fa", "lora-plus", "lora", "lozo",
                           "lsp", "qlora", "spsa15", "zerof", "zo2"}));
    EXPECT_THAT(must_succeed(sandbox.windlass({"train", "--help-all"})).out, HasSubstr("\n  fuyou  "));
    const std::vector<std::string> words = {
        "plan",      "--preset",          "fuyou",   "--model", sandbox.model(), "--max-length", "64",
        "--ssd-dir", sandbox / "scratch", "--alone", "--json"};
    const Json json = json_of(sandbox.windlass(words));
    EXPECT_EQ(json.at("policy"), "three_tier");
    EXPECT_THAT(json.value("updates", ""), HasSubstr("in backward"));
}

TEST(Train, RefusesAnotherMachine) {
    Sandbox sandbox;
    const Finished finished = run(sandbox.train(sandbox.training(), {"--machine", "rtx4090-desktop"}));
    EXPECT_EQ(finished.code, static_cast<int>(ExitCode::usage));
    EXPECT_THAT(finished.err, HasSubstr("windlass plan"));
}

TEST(Output, HasNoColourAndNoBarWhereNobodyWatches) {
    Sandbox sandbox;
    for (const char* variable : {"NO_COLOR", "COLUMNS"}) {
        Command command = sandbox.train(sandbox.training(), {"--overwrite"});
        command.environment[variable] = "40";
        const Finished finished = must_succeed(command);
        EXPECT_EQ(finished.err.find('\x1b'), std::string::npos);
        EXPECT_EQ(finished.err.find('\r'), std::string::npos);
        EXPECT_EQ(finished.out, sandbox.out() + "/final\n");
    }
}

TEST(Output, QuietRunsSayNothing) {
    Sandbox sandbox;
    EXPECT_EQ(must_succeed(sandbox.train(sandbox.training(), {"--quiet"})).err, "");
}

// Planning may take seconds, and reading a large model minutes: what is done is said before.
TEST(Output, BeginsWithALineBeforeAnythingTakesLong) {
    Sandbox sandbox;
    Settings settings = sandbox.training();
    settings["ram"] = "20MiB";
    for (const char* verb : {"plan", "train"}) {
        std::vector<std::string> words = words_of(settings);
        words.insert(words.begin(), verb);
        const std::string begin = fmt::format("planning adamw for {}", sandbox.model());
        EXPECT_THAT(run(sandbox.windlass(words)).err, testing::StartsWith(begin)) << verb;
        write_bytes(sandbox.model() + "/config.json", "{");
        EXPECT_THAT(run(sandbox.windlass(words)).err, testing::StartsWith(begin)) << "not even the model is read";
        fs::remove_all(sandbox.model());
    }
}

TEST(Train, LeavesWhatItPromises) {
    Sandbox sandbox;
    Settings settings = sandbox.training();
    settings["report_to"] = "[jsonl, tensorboard]";
    settings["val_split"] = "2";
    settings["eval_steps"] = "1";
    const Json json = json_of(sandbox.train(settings, {"--json"}));
    EXPECT_EQ(json["steps"], 2);
    EXPECT_TRUE(json["eval_loss"].is_number());
    EXPECT_EQ(json["final"], sandbox.out() + "/final");
    bool has_events = false;
    for (const auto& entry : fs::directory_iterator(sandbox.out()))
        has_events |= entry.path().filename().string().starts_with("events.out.tfevents.");
    EXPECT_TRUE(has_events);
    for (const char* name :
         {"run.yaml", "log.txt", "metrics.jsonl", "loss.svg", "checkpoint-2/manifest.json", "final/config.json"})
        EXPECT_TRUE(fs::exists(fmt::format("{}/{}", sandbox.out(), name))) << name;
    EXPECT_THAT(read_bytes(sandbox.out() + "/metrics.jsonl"), HasSubstr("\"eval_loss\""));
}

TEST(Train, WritesStepsAsTheyRanAsATrace) {
    Sandbox sandbox;
    Settings settings = sandbox.training();
    settings["max_steps"] = "3";
    const std::string path = sandbox / "trace.json";
    must_succeed(sandbox.train(settings, {"--trace", path}));
    std::map<std::string, int> tasks = traced_tasks(path);
    ASSERT_EQ(tasks.size(), 2u);  // the first and the last
    EXPECT_THAT(tasks.begin()->first, HasSubstr("step 1, train/"));
    EXPECT_THAT(tasks.rbegin()->first, HasSubstr("step 3, train/"));
    for (const auto& [title, count] : tasks) EXPECT_GT(count, 10) << title;
    settings["overwrite"] = "true";
    must_succeed(sandbox.train(settings, {"--trace", path, "--trace-steps", "2"}));
    tasks = traced_tasks(path);
    ASSERT_EQ(tasks.size(), 1u);
    EXPECT_THAT(tasks.begin()->first, HasSubstr("step 2, train/"));
}

TEST(Train, DryRunPrintsTheConfigurationAndWritesNothing) {
    Sandbox sandbox;
    Settings settings = sandbox.training();
    const Finished dry = must_succeed(sandbox.train(settings, {"--dry-run"}));
    EXPECT_THAT(dry.out, HasSubstr("learning_rate: 0.001"));
    EXPECT_FALSE(fs::exists(sandbox.out()));
    write_bytes(sandbox / "run.yaml", dry.out);
    must_succeed(sandbox.windlass({"train", sandbox / "run.yaml"}));
}

TEST(Train, FlagsWinOverOverridesOverFileOverEnvironment) {
    Sandbox sandbox;
    Settings settings = sandbox.training();
    write_bytes(sandbox / "run.yaml", "seed: 2\nlearning_rate: 2\nweight_decay: 2\n");
    settings["learning_rate"] = "3";
    settings["seed"] = "3";
    Command command = sandbox.train(settings, {sandbox / "run.yaml", "--seed=4", "--dry-run"});
    command.environment = {{"WINDLASS_SEED", "1"}, {"WINDLASS_WEIGHT_DECAY", "1"}, {"WINDLASS_ADAM_BETA1", "0.5"}};
    const std::string yaml = must_succeed(command).out;
    for (const char* part : {"\nseed: 4", "\nlearning_rate: 3", "\nweight_decay: 2", "\nadam_beta1: 0.5"})
        EXPECT_THAT(yaml, HasSubstr(part));
}

}  // namespace
}  // namespace windlass::cli
