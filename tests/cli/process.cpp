#include "tests/cli/process.h"

#include <fcntl.h>
#include <grp.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstddef>
#include <thread>

#include "base/error.h"

namespace windlass::cli {
namespace {

constexpr auto kPause = std::chrono::milliseconds(2);

int memory_file(const std::string& text) {
    const int file = ::memfd_create("windlass-cli", MFD_CLOEXEC);
    WINDLASS_CHECK(file >= 0, "memfd_create: errno {}", errno);
    for (size_t done = 0; done < text.size();) {
        const ssize_t count = ::pwrite(file, text.data() + done, text.size() - done, static_cast<off_t>(done));
        WINDLASS_CHECK(count > 0, "writing to memory: errno {}", errno);
        done += static_cast<size_t>(count);
    }
    return file;
}

std::string text_of(int file) {
    std::string text(static_cast<size_t>(::lseek(file, 0, SEEK_END)), '\0');
    const ssize_t count = ::pread(file, text.data(), text.size(), 0);
    text.resize(count > 0 ? static_cast<size_t>(count) : 0);
    return text;
}

std::vector<std::string> environment_of(const Command& command) {
    std::vector<std::string> list;
    for (const char* name : {"PATH", "WINDLASS_CPU"})
        if (const char* value = std::getenv(name); value != nullptr && !command.environment.contains(name))
            list.push_back(fmt::format("{}={}", name, value));
    for (const auto& [name, value] : command.environment) list.push_back(fmt::format("{}={}", name, value));
    return list;
}

std::vector<char*> pointers(std::vector<std::string>& words) {
    std::vector<char*> list;
    for (std::string& word : words) list.push_back(word.data());
    list.push_back(nullptr);
    return list;
}

// In this process and in what it becomes, the kernel answers calls for locks with an error where the command says so,
// and ends a process that opens a socket of a network. Not one of its own machine: the C library may ask for users so.
// Whether the kernel agreed to.
bool filter_calls(const Command& command) {
    constexpr uint32_t kNumber = offsetof(seccomp_data, nr), kFirst = offsetof(seccomp_data, args[0]),
                       kSecond = offsetof(seccomp_data, args[1]);
    const auto answer = [](const std::optional<int>& error) {
        return error ? SECCOMP_RET_ERRNO | static_cast<uint32_t>(*error) : SECCOMP_RET_ALLOW;
    };
    sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, kNumber),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_flock, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, answer(command.flock_error)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_socket, 0, 4),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, kFirst),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AF_UNIX, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_fcntl, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, kSecond),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, F_OFD_SETLK, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, answer(command.fcntl_lock_error)),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const sock_fprog program{.len = std::size(rules), .filter = rules};
    return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

// Between fork and exec: only calls that are safe there. Never returns.
[[noreturn]] void become(const Command& command, char* const* words, char* const* environment, int in, int out,
                         int err) {
    if (command.file_bytes_max) {
        const rlimit limit{static_cast<rlim_t>(*command.file_bytes_max), static_cast<rlim_t>(*command.file_bytes_max)};
        ::setrlimit(RLIMIT_FSIZE, &limit);
    }
    // Whoever runs the tests in the background has had these ignored, and what is ignored stays so.
    for (const int number : {SIGINT, SIGQUIT, SIGHUP}) ::signal(number, SIG_DFL);
    ::dup2(in, STDIN_FILENO);
    ::dup2(out, STDOUT_FILENO);
    ::dup2(err, STDERR_FILENO);
    const bool is_refused =
        command.user && (::setgroups(0, nullptr) != 0 || ::setgid(*command.user) != 0 || ::setuid(*command.user) != 0);
    const bool must_filter = command.flock_error || command.fcntl_lock_error;
    const bool is_filtered = !command.may_open_sockets && filter_calls(command);
    if (!is_refused && (is_filtered || !must_filter)) ::execve(words[0], words, environment);
    ::_exit(127);
}

}  // namespace

double clock_seconds() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

Process::Process(const Command& command) : deadline_(clock_seconds() + command.seconds_max) {
    const int in = memory_file(command.input);
    out_ = memory_file("");
    err_ = memory_file("");
    std::vector<std::string> words = command.words, environment = environment_of(command);
    const std::vector<char*> word_list = pointers(words), environment_list = pointers(environment);
    pid_ = ::fork();
    WINDLASS_CHECK(pid_ >= 0, "fork: errno {}", errno);
    if (pid_ == 0) become(command, word_list.data(), environment_list.data(), in, out_, err_);
    ::close(in);
}

Process::~Process() {
    if (!status_) {
        ::kill(pid_, SIGKILL);
        reap(0);
    }
    ::close(out_);
    ::close(err_);
}

void Process::send(int signal) {
    if (is_running()) ::kill(pid_, signal);
}

void Process::reap(int options) {
    int status = 0;
    if (!status_ && ::waitpid(pid_, &status, options) == pid_) status_ = status;
}

bool Process::is_running() {
    reap(WNOHANG);
    return !status_;
}

std::string Process::output() const {
    return text_of(out_);
}

std::string Process::messages() const {
    return text_of(err_);
}

Finished Process::wait() {
    Finished finished;
    while (is_running()) {
        if (clock_seconds() > deadline_) {
            finished.timed_out = true;
            ::kill(pid_, SIGKILL);
            reap(0);
        }
        std::this_thread::sleep_for(kPause);
    }
    if (WIFEXITED(*status_)) finished.code = WEXITSTATUS(*status_);
    if (WIFSIGNALED(*status_)) finished.signal = WTERMSIG(*status_);
    finished.out = text_of(out_);
    finished.err = text_of(err_);
    return finished;
}

Finished run(const Command& command) {
    return Process(command).wait();
}

bool wait_until(const std::function<bool()>& holds, double seconds) {
    for (const double end = clock_seconds() + seconds; !holds(); std::this_thread::sleep_for(kPause))
        if (clock_seconds() > end) return false;
    return true;
}

std::string describe(const Finished& finished) {
    return fmt::format(
        "{}{}\n--- stderr\n{}--- stdout\n{}---",
        finished.signal != 0 ? fmt::format("signal {}", finished.signal) : fmt::format("exit {}", finished.code),
        finished.timed_out ? " after the time limit" : "", finished.err, finished.out);
}

}  // namespace windlass::cli
