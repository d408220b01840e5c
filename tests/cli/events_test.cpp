// --json=lines: what a program reads that drives the command line by events alone.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "tests/cli/sandbox.h"

namespace windlass::cli {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Not;

std::vector<Json> parsed(const std::string& text) {
    std::vector<Json> events;
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);)
        events.push_back(parse_json(line, fmt::format("event {}", events.size() + 1), ExitCode::internal));
    return events;
}

std::string name_of(const Json& event) {
    return event.value("event", "");
}

std::vector<Json> of_kind(const std::vector<Json>& events, const std::string& name) {
    std::vector<Json> found;
    std::ranges::copy_if(events, std::back_inserter(found), [&](const Json& each) { return name_of(each) == name; });
    return found;
}

bool is_last_of_a_program(const Json& event) {
    const std::string name = name_of(event);
    return name == "done" || name == "stopped" || name == "error";
}

// What holds for every command: each line is an object, the first is the beginning, exactly the last says how it ended.
std::vector<Json> events_of(const Command& command) {
    const Finished finished = run(command);
    SCOPED_TRACE(describe(finished));
    std::vector<Json> events = parsed(finished.out);
    EXPECT_GE(events.size(), 2u);
    if (events.size() < 2) return {{}, {}};
    EXPECT_EQ(name_of(events.front()), "begin");
    EXPECT_EQ(events.front().value("schema_version", 0), 1);
    EXPECT_EQ(std::ranges::count_if(events, is_last_of_a_program), 1);
    EXPECT_TRUE(is_last_of_a_program(events.back())) << events.back();
    EXPECT_EQ(events.back().value("code", -1), finished.code);
    for (const Json& event : events) EXPECT_GT(event.value("time", 0.0), 1e9) << event;
    return events;
}

std::vector<int64_t> steps_in(const std::vector<Json>& events) {
    std::vector<int64_t> steps;
    for (const Json& event : of_kind(events, "step")) steps.push_back(event.value("step", int64_t{0}));
    return steps;
}

TEST(Events, OfARunAreItsMetricsAndItsMilestones) {
    Sandbox sandbox;
    Settings settings = sandbox.training();
    settings["max_steps"] = "4";
    settings["save_steps"] = "2";
    settings["eval_data"] = sandbox.token_rows();
    settings["eval_steps"] = "2";
    const std::vector<Json> events = events_of(sandbox.train(settings, {"--json=lines"}));
    const std::vector<Json> lines = parsed(read_bytes(sandbox.out() + "/metrics.jsonl"));
    const std::vector<Json> steps = of_kind(events, "step");
    ASSERT_EQ(steps.size(), lines.size());
    for (size_t i = 0; i < steps.size(); ++i) {
        Json told = steps[i], written = lines[i];
        told.erase("event");
        written.erase("checksum");  // of the text
        EXPECT_EQ(SortedJson(told), SortedJson(written));
    }
    const std::vector<Json> evaluations = of_kind(events, "evaluation");
    ASSERT_EQ(evaluations.size(), 2u);
    EXPECT_EQ(evaluations[1]["eval_loss"], lines[3]["eval_loss"]);
    EXPECT_EQ(of_kind(events, "plan").size(), 1u);
    ASSERT_EQ(of_kind(events, "run").size(), 1u);
    EXPECT_EQ(of_kind(events, "run")[0]["total_steps"], 4);
    const std::vector<Json> saved = of_kind(events, "checkpoint");
    ASSERT_EQ(saved.size(), 2u);
    EXPECT_TRUE(fs::exists(saved[0].value("folder", "") + "/manifest.json"));
    EXPECT_EQ(events.back()["final"], sandbox.out() + "/final");
    // The run's file has the same, without what other files hold.
    const std::vector<Json> kept = parsed(read_bytes(sandbox.out() + "/events.jsonl"));
    EXPECT_EQ(kept.back(), events.back());
    EXPECT_THAT(of_kind(kept, "step"), IsEmpty());
    EXPECT_EQ(of_kind(kept, "checkpoint").size(), 2u);
}

TEST(Events, TellWhyARunThatWasNotFollowedEnded) {
    Sandbox sandbox;
    Settings settings = sandbox.training();
    must_succeed(sandbox.train(settings));
    EXPECT_EQ(name_of(parsed(read_bytes(sandbox.out() + "/events.jsonl")).back()), "done");
    settings["max_steps"] = "4";
    must_succeed(sandbox.train(settings, {"--resume"}));
    const std::vector<Json> warnings = of_kind(parsed(read_bytes(sandbox.out() + "/events.jsonl")), "warning");
    ASSERT_EQ(warnings.size(), 1u);
    EXPECT_THAT(warnings[0].value("text", ""), testing::HasSubstr("changed settings: max_steps"));
    settings["loss_watchdog_threshold"] = "0.001";
    settings["loss_watchdog_patience"] = "1";
    const Finished diverged = run(sandbox.train(settings, {"--overwrite"}));
    const Json last = parsed(read_bytes(sandbox.out() + "/events.jsonl")).back();
    EXPECT_EQ(name_of(last), "error") << describe(diverged);
    EXPECT_EQ(last["code"], diverged.code);
    EXPECT_EQ(last["kind"], "diverged");
}

// Each verb, once well and once with a mistake that it finds by itself.
TEST(Events, OfEveryVerbEndInTheExitCode) {
    Sandbox sandbox;
    must_succeed(sandbox.train(sandbox.training()));
    const std::string model = sandbox.model(), rows = sandbox.token_rows(), final = sandbox.out() + "/final";
    const auto kinds = [&](std::vector<std::string> words) {
        words.emplace_back("--json=lines");
        SCOPED_TRACE(fmt::format("{}", fmt::join(words, " ")));
        std::vector<std::string> names;
        for (const Json& event : events_of(sandbox.windlass(words)))
            if (name_of(event) != "note" && name_of(event) != "warning") names.push_back(name_of(event));
        return names;
    };
    const auto ends_well = ElementsAre("begin", "done");
    EXPECT_THAT(kinds({"plan", "--alone", "--model", model, "--train-data", rows}),
                ElementsAre("begin", "plan", "done"));
    EXPECT_THAT(kinds({"eval", final, "--data", rows}), ends_well);
    EXPECT_THAT(kinds({"export", sandbox.out(), "--to", sandbox / "exported"}), ends_well);
    EXPECT_THAT(kinds({"data", "stats", "--model", model, "--train-data", rows}), ends_well);
    EXPECT_THAT(kinds({"data", "show", "--samples", "2", "--model", model, "--train-data", rows}),
                ElementsAre("begin", "row", "row", "done"));
    EXPECT_THAT(kinds({"data", "keys"}), ends_well);
    EXPECT_THAT(kinds({"inspect", model}), ends_well);
    EXPECT_THAT(kinds({"version"}), ends_well);
    EXPECT_THAT(kinds({"train", "--dry-run", "--model", model, "--train-data", rows, "--output-dir", "o"}), ends_well);
    const auto fails = ElementsAre("begin", "error");
    EXPECT_THAT(kinds({"plan", "--model", "absent"}), fails);
    EXPECT_THAT(kinds({"eval", "absent", "--data", rows}), fails);
    EXPECT_THAT(kinds({"chat", model}), fails);
    EXPECT_THAT(kinds({"export", "absent", "--to", sandbox / "x"}), fails);
    EXPECT_THAT(kinds({"data", "show", "--model", model, "--train-data", "absent"}), fails);
    EXPECT_THAT(kinds({"trian"}), fails);
    EXPECT_THAT(kinds({"plan", "--absent"}), fails);
    EXPECT_THAT(kinds({"plan", "--alone", "--model", model, "--train-data", rows, "--ram", "1MiB"}), fails);
}

// A run's stdout as a pipe of one page, which a test reads or not.
class Follower {
  public:
    explicit Follower(Command command) : fifo_(folder_ / "events") {
        EXPECT_EQ(::mkfifo(fifo_.c_str(), 0600), 0);
        reader_ = ::open(fifo_.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
        // The smallest pipe: a few steps fill it.
        ::fcntl(reader_, F_SETPIPE_SZ, 4096);
        std::string line;
        for (const std::string& word : command.words) line += "'" + word + "' ";
        command.words = {"/bin/sh", "-c", fmt::format("exec {} >'{}'", line, fifo_)};
        process_.emplace(command);
    }
    ~Follower() { hang_up(); }

    void hang_up() {
        if (reader_ >= 0) ::close(std::exchange(reader_, -1));
    }
    // What is in the pipe now.
    void read() {
        char block[4096];
        for (ssize_t count; (count = ::read(reader_, block, sizeof block)) > 0;)
            text_.append(block, static_cast<size_t>(count));
    }
    Process& process() { return *process_; }
    const std::string& text() const { return text_; }

  private:
    TempFolder folder_;
    std::string fifo_, text_;
    int reader_ = -1;
    std::optional<Process> process_;
};

Settings long_run(Sandbox& sandbox) {
    Settings settings = sandbox.training();
    settings["max_steps"] = "40";
    settings["save_steps"] = "10";
    return settings;
}

// Steps that a reader has no time for are dropped and counted, nothing else is, and the run does not wait.
TEST(Events, ASlowReaderMissesStepsOnly) {
    Sandbox sandbox;
    const Settings settings = long_run(sandbox);
    must_succeed(sandbox.train(settings));
    const Tensors expected = read_safetensors(sandbox.out() + "/final/model.safetensors");
    Follower follower(sandbox.train(settings, {"--overwrite", "--json=lines"}));
    const auto has_saved = [&](int step) {
        return fs::exists(fmt::format("{}/checkpoint-{}/manifest.json", sandbox.out(), step));
    };
    // The run before has that checkpoint until this one clears the folder.
    const auto final = sandbox.out() + "/final/manifest.json";
    ASSERT_TRUE(wait_until([&] { return !fs::exists(final); }, 60));
    ASSERT_TRUE(wait_until([&] { return has_saved(40); }, 60));
    wait_until([&] { return follower.read(), !follower.process().is_running(); }, 60);
    follower.read();
    const Finished finished = follower.process().wait();
    EXPECT_EQ(finished.code, 0) << describe(finished);
    const std::vector<Json> events = parsed(follower.text());
    EXPECT_EQ(name_of(events.back()), "done");
    EXPECT_EQ(of_kind(events, "checkpoint").size(), 4u);
    EXPECT_EQ(of_kind(events, "plan").size(), 1u);
    EXPECT_LT(steps_in(events).size(), 40u);
    EXPECT_EQ(read_safetensors(sandbox.out() + "/final/model.safetensors"), expected);
}

TEST(Events, AVanishedReaderIsAWarning) {
    Sandbox sandbox;
    const Settings settings = long_run(sandbox);
    Follower follower(sandbox.train(settings, {"--json=lines"}));
    ASSERT_TRUE(wait_until(
        [&] {
            return follower.read(),
                   !steps_in(parsed(follower.text().substr(0, follower.text().rfind('\n') + 1))).empty();
        },
        60));
    follower.hang_up();
    const Finished finished = follower.process().wait();
    EXPECT_EQ(finished.code, 0) << describe(finished);
    EXPECT_NE(finished.err.find("stdout takes no events any more"), std::string::npos) << finished.err;
    EXPECT_EQ(name_of(parsed(read_bytes(sandbox.out() + "/events.jsonl")).back()), "done");
}

// Plans, trains, stops, resumes and exports by events alone.
TEST(Events, AClientDrivesARun) {
    Sandbox sandbox;
    Settings settings = sandbox.training();
    settings["max_steps"] = "100000";
    Settings planned = settings;
    planned.erase("output_dir");
    std::vector<std::string> words = words_of(settings);
    words.insert(words.begin(), {"plan", "--alone", "--json=lines"});
    EXPECT_EQ(events_of(sandbox.windlass(words)).back()["fits"], true);
    {
        Follower follower(sandbox.train(settings, {"--json=lines"}));
        ASSERT_TRUE(
            wait_until([&] { return follower.read(), follower.text().find("\"step\",") != std::string::npos; }, 60));
        write_bytes(sandbox.out() + "/stop", "");
        ASSERT_TRUE(wait_until([&] { return follower.read(), !follower.process().is_running(); }, 60));
        follower.read();
        const Json last = parsed(follower.text()).back();
        EXPECT_EQ(name_of(last), "stopped");
        EXPECT_EQ(last["code"], 130);
        EXPECT_EQ(follower.process().wait().code, 130);
        EXPECT_NE(last.value("resume", "").find("--resume"), std::string::npos) << last;
        settings["max_steps"] = std::to_string(last.value("steps", int64_t{0}) + 2);
    }
    EXPECT_FALSE(fs::exists(sandbox.out() + "/stop"));
    const std::vector<Json> resumed = events_of(sandbox.train(settings, {"--resume", "--json=lines"}));
    EXPECT_EQ(name_of(resumed.back()), "done");
    EXPECT_EQ(steps_in(resumed).size(), 2u);
    const std::vector<Json> exported =
        events_of(sandbox.windlass({"export", sandbox.out(), "--to", sandbox / "model", "--json=lines"}));
    EXPECT_EQ(exported.back()["folder"], sandbox / "model");
}

// Of a run that was over when it was asked: the next one is not stopped.
TEST(Events, AStopOfAnEarlierRunIsRemoved) {
    Sandbox sandbox;
    Settings settings = sandbox.training();
    must_succeed(sandbox.train(settings));
    write_bytes(sandbox.out() + "/stop", "");
    settings["max_steps"] = "4";
    const std::vector<Json> events = events_of(sandbox.train(settings, {"--resume", "--json=lines"}));
    EXPECT_EQ(name_of(events.back()), "done");
    EXPECT_FALSE(fs::exists(sandbox.out() + "/stop"));
}

TEST(Chat, AnswersAProgramByEvents) {
    Sandbox sandbox;
    const std::string model = sandbox.model();
    write_bytes(model + "/chat_template.jinja",
                "{% for m in messages %}{{ m.role[0] }}:{{ m.content }}\n{% endfor %}{% if add_generation_prompt "
                "%}a:{% endif %}");
    Command command = sandbox.windlass({"chat", model, "--max-new-tokens", "4", "--json=lines"});
    command.input =
        "{\"content\": \"who?\"}\n{\"command\": \"undo\"}\n{\"command\": \"undo\"}\n{\"command\": \"sing\"}\nwho?\n"
        "{\"command\": \"system\", \"content\": \"be brief\"}\n[]\n{\"content\": 1}\n{\"command\": \"quit\"}\n"
        "{\"content\": \"never read\"}\n";
    const std::vector<Json> events = events_of(command);
    std::vector<std::string> names;
    std::string text;
    for (const Json& event : events) {
        if (name_of(event) == "text") text += event.value("delta", "");
        if (name_of(event) != "text" && name_of(event) != "note") names.push_back(name_of(event));
    }
    EXPECT_THAT(names, ElementsAre("begin", "ready", "answer", "obeyed", "refused", "refused", "refused", "obeyed",
                                   "refused", "refused", "obeyed", "done"));
    const std::vector<Json> answers = of_kind(events, "answer");
    ASSERT_EQ(answers.size(), 1u);
    EXPECT_EQ(answers[0]["content"], text);
    EXPECT_LE(answers[0].value("tokens", 100), 4);
}

}  // namespace
}  // namespace windlass::cli
