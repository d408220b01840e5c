#include "ui/child_process.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <boost/asio/buffer.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/write.hpp>
#include <cerrno>
#include <csignal>

#include "base/error.h"
#include "ui/descriptor.h"

namespace windlass {
namespace {

using boost::system::error_code;
using Stream = asio::posix::stream_descriptor;

constexpr std::chrono::seconds kPatience(5);
constexpr const char* kProgram = "/proc/self/exe";  // in a child too, until it is replaced by itself

struct PipeEnds {
    Descriptor from, to;
};

PipeEnds make_pipe() {
    std::array<int, 2> ends = {};
    if (pipe2(ends.data(), O_CLOEXEC) != 0) throw MachineError("pipe2", "a child's output", errno);
    return {Descriptor(ends[0]), Descriptor(ends[1])};
}

// posix_spawn's records, which have to be destroyed.
class SpawnPlan {
  public:
    SpawnPlan() {
        posix_spawn_file_actions_init(&actions_);
        posix_spawnattr_init(&attributes_);
    }
    ~SpawnPlan() {
        posix_spawn_file_actions_destroy(&actions_);
        posix_spawnattr_destroy(&attributes_);
    }
    SpawnPlan(const SpawnPlan&) = delete;
    SpawnPlan& operator=(const SpawnPlan&) = delete;

    void read_from(int descriptor) { take(descriptor, STDIN_FILENO, O_RDONLY); }
    void write_to(int descriptor) { take(descriptor, STDOUT_FILENO, O_WRONLY); }
    void write_no_messages() { take(-1, STDERR_FILENO, O_WRONLY); }
    void work_in(const std::string& folder) { posix_spawn_file_actions_addchdir_np(&actions_, folder.c_str()); }

    // Signals do in it what they do to any program; here they are blocked (session/signals.h).
    // It gets no descriptor but the first three: a run that held the page's sockets would keep its port.
    pid_t start(std::vector<std::string> words) {
        posix_spawn_file_actions_addclosefrom_np(&actions_, STDERR_FILENO + 1);
        sigset_t none, all;
        sigemptyset(&none);
        sigfillset(&all);
        posix_spawnattr_setsigmask(&attributes_, &none);
        posix_spawnattr_setsigdefault(&attributes_, &all);
        posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
        std::vector<char*> pointers;
        for (std::string& word : words) pointers.push_back(word.data());
        pointers.push_back(nullptr);
        pid_t child = -1;
        const int error = posix_spawn(&child, kProgram, &actions_, &attributes_, pointers.data(), environ);
        if (error != 0) throw MachineError("posix_spawn", kProgram, error);
        return child;
    }

  private:
    void take(int descriptor, int as, int mode) {
        if (descriptor >= 0)
            posix_spawn_file_actions_adddup2(&actions_, descriptor, as);
        else
            posix_spawn_file_actions_addopen(&actions_, as, "/dev/null", mode, 0);
    }

    posix_spawn_file_actions_t actions_;
    posix_spawnattr_t attributes_;
};

}  // namespace

// Outlives the ChildProcess, until the process has ended and been waited for: its number is not used again before.
struct ChildProcess::Exit {
    Exit(asio::io_context& context, pid_t the_child) : child(the_child), ended(context, watch(the_child)) {}

    // A child that cannot be watched is not left alone.
    static int watch(pid_t child) {
        const auto descriptor = static_cast<int>(syscall(SYS_pidfd_open, child, 0));
        if (descriptor >= 0) return descriptor;
        const int error = errno;
        kill(child, SIGKILL);
        waitpid(child, nullptr, 0);
        throw MachineError("pidfd_open", kProgram, error);
    }

    Task<> wait() {
        error_code ignored;
        co_await ended.async_wait(Stream::wait_read, or_error(ignored));
        waitpid(child, nullptr, 0);
        is_over = true;
    }
    void signal(int number) {
        if (!is_over) kill(child, number);
    }

    const pid_t child;
    Stream ended;
    bool is_over = false;
};

struct ChildProcess::Pipes {
    explicit Pipes(asio::io_context& context) : input(context), output(context) {}
    Stream input, output;
    std::string text;  // that was read, from the next line on
};

ChildProcess::ChildProcess(asio::io_context& context, const std::vector<std::string>& words, const std::string& folder,
                           bool takes_input)
    : context_(context), pipes_(std::make_unique<Pipes>(context)) {
    PipeEnds output = make_pipe(), input;
    if (takes_input) input = make_pipe();
    SpawnPlan plan;
    plan.work_in(folder);
    plan.read_from(input.from.number());
    plan.write_to(output.to.number());
    plan.write_no_messages();
    std::vector<std::string> all = {"windlass"};
    all.insert(all.end(), words.begin(), words.end());
    exit_ = std::make_shared<Exit>(context, plan.start(std::move(all)));
    asio::co_spawn(
        context, [exit = exit_]() -> Task<> { co_await exit->wait(); }, asio::detached);
    pipes_->output.assign(output.from.release());
    if (takes_input) pipes_->input.assign(input.to.release());
}

ChildProcess::~ChildProcess() = default;

Task<std::optional<std::string>> ChildProcess::read_line() {
    std::string& text = pipes_->text;
    for (;;) {
        error_code error;
        const size_t bytes = co_await asio::async_read_until(pipes_->output, asio::dynamic_buffer(text, kLineBytesMax),
                                                             '\n', or_error(error));
        if (!error) {
            std::string line = text.substr(0, bytes - 1);
            text.erase(0, bytes);
            co_return line;
        }
        if (error != asio::error::not_found) co_return std::nullopt;
        while (text.find('\n') == std::string::npos) {  // too long
            text.resize(4096);
            const size_t more = co_await pipes_->output.async_read_some(asio::buffer(text), or_error(error));
            text.resize(more);
            if (more == 0) co_return std::nullopt;
        }
        text.erase(0, text.find('\n') + 1);
    }
}

Task<std::optional<std::string>> ChildProcess::read_all(size_t bytes_max) {
    error_code error;
    co_await asio::async_read(pipes_->output, asio::dynamic_buffer(pipes_->text, bytes_max), or_error(error));
    if (error != asio::error::eof) co_return std::nullopt;
    co_return std::move(pipes_->text);
}

void ChildProcess::drain(std::shared_ptr<ChildProcess> child) {
    asio::io_context& context = child->context_;
    const auto read = [child = std::move(child)]() -> Task<> {
        std::array<char, 4096> forgotten;
        error_code error;
        while (!error) co_await child->pipes_->output.async_read_some(asio::buffer(forgotten), or_error(error));
    };
    asio::co_spawn(context, read, asio::detached);
}

Task<bool> ChildProcess::write_line(std::string line) {
    line += '\n';
    error_code error;
    co_await asio::async_write(pipes_->input, asio::buffer(line), or_error(error));
    co_return !error;
}

void ChildProcess::interrupt() {
    exit_->signal(SIGINT);
}

void ChildProcess::end() {
    exit_->signal(SIGTERM);
    const auto insist = [exit = exit_]() -> Task<> {
        co_await pause(kPatience);
        exit->signal(SIGKILL);
    };
    asio::co_spawn(context_, insist, asio::detached);
}

bool ChildProcess::is_running() const {
    return !exit_->is_over;
}

}  // namespace windlass
