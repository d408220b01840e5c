// A run whose reader goes away, or that a queue system warns: it saves the step, leaves, and resumes to the same bits.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>

#include "base/shell_word.h"
#include "tests/cli/sandbox.h"

namespace windlass::cli {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kStepsOfAPipeline = 120;
constexpr double kLongest = 60;  // seconds

enum class Output { null, dead_pipe, full_pipe, dead_socket, terminal, stopped_terminal };
enum class Ending { run, group, parent, hang_up, type };  // who is signalled, or what else ends it

struct Pipeline {
    const char* name;
    std::string line = "sh run.sh";  // of a shell in a session of its own
    Output output = Output::null;
    Ending ending = Ending::run;
    std::vector<int> signals = {SIGTERM};
    int code = 143;
    std::string wrap = {};  // what starts the program
};

void PrintTo(const Pipeline& pipeline, std::ostream* out) {
    *out << pipeline.name;
}

// stdout and stderr of the session's shell, and the test's end of them.
struct Ends {
    int inner = -1, outer = -1;
    bool is_terminal = false;

    explicit Ends(Output output) {
        int pair[2] = {-1, -1};
        switch (output) {
            case Output::null:
                inner = ::open("/dev/null", O_RDWR | O_CLOEXEC);
                return;
            case Output::dead_pipe:
            case Output::full_pipe:
                EXPECT_EQ(::pipe2(pair, O_CLOEXEC), 0);
                outer = pair[0], inner = pair[1];
                break;
            case Output::dead_socket:
                EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
                outer = pair[0], inner = pair[1];
                break;
            case Output::terminal:
            case Output::stopped_terminal:
                open_terminal();
        }
        if (output == Output::full_pipe) fill();
        if (output == Output::stopped_terminal) stop();
        if (output == Output::dead_pipe || output == Output::dead_socket) hang_up();
    }
    ~Ends() {
        hang_up();
        ::close(inner);
    }
    Ends(const Ends&) = delete;
    Ends& operator=(const Ends&) = delete;

    void hang_up() {
        if (outer >= 0) ::close(outer);
        outer = -1;
    }

    // What it holds, and what comes until it has this text.
    bool reads(std::string_view expected) const {
        std::string text;
        const auto take = [&] {
            std::string some(4096, '\0');
            const ssize_t count = ::read(outer, some.data(), some.size());
            text.append(some, 0, count > 0 ? static_cast<size_t>(count) : 0);
            return text.find(expected) != std::string::npos;
        };
        EXPECT_EQ(::fcntl(outer, F_SETFL, O_NONBLOCK), 0);
        return wait_until(take, kLongest);
    }
    void type(std::string_view keys) const { EXPECT_EQ(::write(outer, keys.data(), keys.size()), std::ssize(keys)); }

  private:
    void open_terminal() {
        outer = ::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
        EXPECT_GE(outer, 0);
        EXPECT_EQ(::grantpt(outer), 0);
        EXPECT_EQ(::unlockpt(outer), 0);
        inner = ::open(::ptsname(outer), O_RDWR | O_NOCTTY | O_CLOEXEC);
        EXPECT_GE(inner, 0);
        is_terminal = true;
    }
    void stop() const { EXPECT_EQ(::tcflow(inner, TCOOFF), 0); }
    void fill() const {
        EXPECT_EQ(::fcntl(inner, F_SETFL, O_NONBLOCK), 0);
        const std::string text(4096, '-');
        while (::write(inner, text.data(), text.size()) > 0) {
        }
        EXPECT_EQ(::fcntl(inner, F_SETFL, 0), 0);
    }
};

// "sh run.sh" runs the program, leaves its number in "pid", and how it ended in "code".
class Session {
  public:
    Session(const Pipeline& pipeline, const Sandbox& sandbox, const Settings& settings)
        : pipeline_(pipeline), sandbox_(sandbox), ends_(pipeline.output) {
        const Command command = sandbox.train(settings);
        std::string words;
        for (const std::string& word : command.words) words += " " + shell_word(word);
        write_bytes(sandbox / "run.sh", fmt::format("trap : INT TERM HUP USR2 XCPU\n"
                                                    "{} sh -c 'echo $$ > pid.tmp; mv pid.tmp pid; exec \"$@\"' sh{}\n"
                                                    "echo $? > code.tmp; mv code.tmp code\n",
                                                    pipeline.wrap, words));
        shell_ = ::fork();
        if (shell_ == 0) become(command);
    }
    ~Session() {
        if (const pid_t run = number_in("pid"); run > 0 && !fs::exists(sandbox_ / "code")) ::kill(run, SIGKILL);
        ::kill(-shell_, SIGKILL);
        ::waitpid(shell_, nullptr, 0);
    }
    Session(const Session&) = delete;
    Session& operator=(const Session&) = delete;

    // Once some steps are done. The run is held while it is signalled, so that it is not over before that.
    void end_early() {
        const auto lines = [&] { return std::ssize(metrics_of(sandbox_.out())); };
        ASSERT_TRUE(wait_until([&] { return lines() >= 2 || fs::exists(sandbox_ / "code"); }, kLongest)) << log();
        const pid_t run = number_in("pid");
        ASSERT_GT(run, 0);
        ::kill(run, SIGSTOP);
        for (const int signal : pipeline_.signals) {
            if (pipeline_.ending == Ending::run) ::kill(run, signal);
            if (pipeline_.ending == Ending::group) ::kill(-shell_, signal);
            if (pipeline_.ending == Ending::parent) ::kill(parent_of(run), signal);
        }
        if (pipeline_.ending == Ending::hang_up) ends_.hang_up();
        if (pipeline_.ending == Ending::type) ends_.type("\x03");
        ::kill(run, SIGCONT);
    }
    bool reads(std::string_view text) const { return ends_.reads(text); }
    int code() {
        EXPECT_TRUE(wait_until([&] { return fs::exists(sandbox_ / "code"); }, kLongest)) << log();
        return number_in("code");
    }

  private:
    [[noreturn]] void become(const Command& command) const {
        ::setsid();
        if (ends_.is_terminal) ::ioctl(ends_.inner, TIOCSCTTY, 0);
        for (const int number : {SIGINT, SIGQUIT, SIGHUP, SIGPIPE}) ::signal(number, SIG_DFL);
        const int input = ends_.is_terminal ? ends_.inner : ::open("/dev/null", O_RDONLY | O_CLOEXEC);
        ::dup2(input, STDIN_FILENO);
        ::dup2(ends_.inner, STDOUT_FILENO);
        ::dup2(ends_.inner, STDERR_FILENO);
        for (const auto& [name, value] : command.environment) ::setenv(name.c_str(), value.c_str(), 1);
        ::setenv("TERM", "xterm", 1);
        if (::chdir(sandbox_.path().c_str()) == 0)
            ::execl("/bin/sh", "sh", "-c", pipeline_.line.c_str(), static_cast<char*>(nullptr));
        ::_exit(127);
    }
    int number_in(const std::string& name) const {
        return fs::exists(sandbox_ / name) ? std::stoi(read_bytes(sandbox_ / name)) : -1;
    }
    static pid_t parent_of(pid_t process) {
        return std::stoi(said_after(read_bytes(fmt::format("/proc/{}/status", process)), "\nPPid:"));
    }
    std::string log() const {
        const std::string path = sandbox_.out() + "/log.txt";
        return fs::exists(path) ? read_bytes(path) : "no log";
    }

    const Pipeline& pipeline_;
    const Sandbox& sandbox_;
    Ends ends_;
    pid_t shell_ = -1;
};

Settings settings_of(Sandbox& sandbox) {
    Settings settings = sandbox.training();
    settings["max_steps"] = std::to_string(kStepsOfAPipeline);
    settings["save_steps"] = "null";
    return settings;
}

struct Ended {
    std::vector<Json> metrics;
    std::string weights;
};

Ended ended_as(const Sandbox& sandbox) {
    return {metrics_of(sandbox.out()), read_bytes(sandbox.out() + "/final/model.safetensors")};
}

const Ended& undisturbed() {
    static const Ended outcome = [] {
        Sandbox sandbox;
        must_succeed(sandbox.train(settings_of(sandbox)));
        return ended_as(sandbox);
    }();
    return outcome;
}

bool needs_terminal(const Pipeline& pipeline) {
    return pipeline.output == Output::terminal || pipeline.output == Output::stopped_terminal;
}

// A system that mounts no /dev/pts has none.
bool has_terminals() {
    const int terminal = ::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (terminal < 0) return false;
    const bool has_one = ::grantpt(terminal) == 0 && ::unlockpt(terminal) == 0;
    ::close(terminal);
    return has_one;
}

class LostReader : public testing::TestWithParam<Pipeline> {
  protected:
    void SetUp() override {
        if (needs_terminal(GetParam()) && !has_terminals()) GTEST_SKIP() << "no terminals: is /dev/pts mounted?";
    }
};

TEST_P(LostReader, TheRunIsSavedAndResumedToTheSameBits) {
    const Ended& expected = undisturbed();
    Sandbox sandbox;
    {
        Session session(GetParam(), sandbox, settings_of(sandbox));
        ASSERT_NO_FATAL_FAILURE(session.end_early());
        ASSERT_EQ(session.code(), GetParam().code);
    }
    const size_t steps = metrics_of(sandbox.out()).size();
    ASSERT_LT(steps, static_cast<size_t>(kStepsOfAPipeline));
    ASSERT_TRUE(fs::exists(fmt::format("{}/checkpoint-{}", sandbox.out(), steps)));
    EXPECT_THAT(
        read_bytes(sandbox.out() + "/log.txt"),
        testing::HasSubstr(fmt::format("stopped after step {} of {}. To continue: ", steps, kStepsOfAPipeline)));
    must_succeed(sandbox.windlass({"train", sandbox.out() + "/run.yaml", "--resume"}));
    const Ended resumed = ended_as(sandbox);
    EXPECT_EQ(resumed.metrics, expected.metrics);
    EXPECT_TRUE(resumed.weights == expected.weights) << "weights differ";
}

TEST(SlowReader, IsToldWhatItMissed) {
    Sandbox sandbox;
    Settings settings = settings_of(sandbox);
    settings["max_steps"] = "100000";
    const Pipeline pipeline{"AFullPipe", "sh run.sh", Output::full_pipe};
    const Session session(pipeline, sandbox, settings);
    ASSERT_TRUE(wait_until([&] { return metrics_of(sandbox.out()).size() >= 2; }, kLongest));
    EXPECT_TRUE(session.reads(" lines were not read here; log.txt of the run has them\nstep "));
    EXPECT_THAT(read_bytes(sandbox.out() + "/log.txt"),
                testing::AllOf(testing::StartsWith("warning: stderr does not take messages (nothing reads them); "
                                                   "they are in log.txt alone\nplanning adamw for "),
                               testing::HasSubstr("\nstep 1/100000 ")));
}

// Else the first file that is opened gets the number of stderr, and the log's lines with it.
TEST(ClosedStreams, ArePlaceholders) {
    Sandbox sandbox;
    const Command command = sandbox.train(settings_of(sandbox));
    Command closed = command;
    closed.words = {"/bin/sh", "-c", "exec \"$@\" <&- >&- 2>&-", "sh"};
    closed.words.insert(closed.words.end(), command.words.begin(), command.words.end());
    Process process(closed);
    ASSERT_TRUE(wait_until([&] { return !metrics_of(sandbox.out()).empty(); }, kLongest));
    for (const int descriptor : {0, 1, 2})
        EXPECT_EQ(fs::read_symlink(fmt::format("/proc/{}/fd/{}", process.id(), descriptor)), "/dev/null");
}

// Launchers repeat a signal, and queues send one after another: none of them costs the step that the first waits for.
TEST(WarnedRun, FinishesItsStepWhateverFollows) {
    Sandbox sandbox;
    Settings slow = settings_of(sandbox);
    std::vector<int> ids(256);
    for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int>(3 + i * 7 % 90);
    slow["train_data"] = sandbox.rows("long.jsonl", {Json({{"input_ids", ids}}).dump()});
    slow["max_length"] = "256";
    slow["per_device_train_batch_size"] = "32";
    slow["gradient_accumulation_steps"] = "8";
    Process process(sandbox.train(slow));
    ASSERT_TRUE(wait_until([&] { return !metrics_of(sandbox.out()).empty(); }, kLongest)) << process.messages();
    process.send(SIGUSR2);
    const auto is_told = [&] { return process.messages().find("stopping after this step") != std::string::npos; };
    ASSERT_TRUE(wait_until([&] { return is_told() || !process.is_running(); }, kLongest));
    for (const int signal : {SIGHUP, SIGXCPU, SIGHUP, SIGXCPU, SIGALRM, SIGPWR, SIGUSR2, SIGINT, SIGTERM})
        process.send(signal);
    const Finished stopped = process.wait();
    EXPECT_EQ(stopped.code, 143) << describe(stopped);
    EXPECT_TRUE(fs::exists(fmt::format("{}/checkpoint-{}", sandbox.out(), metrics_of(sandbox.out()).size())))
        << describe(stopped);
}

INSTANTIATE_TEST_SUITE_P(
    Pipelines, LostReader,
    testing::Values(
        Pipeline{"CtrlCInTee", "sh run.sh 2>&1 | tee read.txt", Output::null, Ending::group, {SIGINT}, 130},
        Pipeline{"TerminateInTee", "sh run.sh 2>&1 | tee read.txt", Output::null, Ending::group, {SIGTERM}},
        Pipeline{"TerminateAfterHead", "sh run.sh 2>&1 | head -n 1"},
        Pipeline{"CtrlCAtADeadPipe", "sh run.sh", Output::dead_pipe, Ending::run, {SIGINT}, 130},
        Pipeline{"HangUpAtADeadPipe", "sh run.sh", Output::dead_pipe, Ending::run, {SIGHUP}},
        Pipeline{"CtrlCAtAFullPipe", "sh run.sh", Output::full_pipe, Ending::run, {SIGINT}, 130},
        Pipeline{"TerminateAtAStoppedReader", "sh run.sh 2>&1 | sh -c 'kill -STOP $$'"},
        Pipeline{"TerminateAtADeadSocket", "sh run.sh", Output::dead_socket},
        Pipeline{"TerminateWithoutStreams", "sh run.sh <&- >&- 2>&-"},
        Pipeline{"TerminateWithAFullDisk", "sh run.sh > /dev/full 2>&1"},
        Pipeline{"CtrlCAtATerminal", "sh run.sh", Output::terminal, Ending::type, {}, 130},
        Pipeline{"CtrlCAtAStoppedTerminal", "sh run.sh", Output::stopped_terminal, Ending::type, {}, 130},
        Pipeline{"CtrlCInScript", "script -qec 'sh run.sh' read.txt", Output::terminal, Ending::type, {}, 130},
        Pipeline{"TheTerminalHangsUp", "sh run.sh", Output::terminal, Ending::hang_up, {}},
        Pipeline{
            "TheTerminalOfAPipelineHangsUp", "sh run.sh 2>&1 | tee read.txt", Output::terminal, Ending::hang_up, {}},
        Pipeline{"TerminateAfterNohup",
                 "sh run.sh > read.txt 2>&1",
                 Output::null,
                 Ending::group,
                 {SIGHUP, SIGTERM},
                 143,
                 "nohup"},
        Pipeline{"SeveralHangUps", "sh run.sh", Output::terminal, Ending::run, {SIGHUP, SIGCONT, SIGHUP}},
        Pipeline{"TimeoutTerminatesTwice", "sh run.sh", Output::null, Ending::parent, {SIGTERM}, 143, "timeout 1000"},
        Pipeline{"SlurmWarnsThenTerminates", "sh run.sh", Output::null, Ending::run, {SIGUSR2, SIGCONT, SIGTERM}},
        Pipeline{"GridEngineWarns", "sh run.sh", Output::null, Ending::run, {SIGUSR1, SIGUSR2}},
        Pipeline{"LsfInterruptsThenTerminates", "sh run.sh", Output::null, Ending::run, {SIGINT, SIGTERM}},
        Pipeline{"CpuTimeIsUp", "sh run.sh", Output::null, Ending::run, {SIGXCPU, SIGXCPU}},
        Pipeline{"PowerFails", "sh run.sh", Output::null, Ending::run, {SIGPWR}},
        Pipeline{"AnAlarm", "sh run.sh", Output::null, Ending::run, {SIGALRM}}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace windlass::cli
