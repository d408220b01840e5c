// process.h: runs a program as a user would, and tells what came of it.
//
// The program gets an environment of its own (none of the test's variables but PATH and WINDLASS_CPU), stdin from a
// given text, and stdout and stderr into files, so that neither side ever waits for the other. Where the kernel allows
// it, it is killed as soon as it opens a socket of a network: only `windlass ui` may, which the tests of tests/page
// say.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace windlass::cli {

struct Command {
    std::vector<std::string> words;                  // path of the program, arguments
    std::map<std::string, std::string> environment;  // in addition to PATH and WINDLASS_CPU, or in their place
    std::string input;                               // what stdin holds
    std::optional<uid_t> user;                       // runs as this user; for root only
    std::optional<int64_t> file_bytes_max;           // writes beyond it fail with EFBIG (RLIMIT_FSIZE)
    std::optional<int> flock_error;                  // its calls of flock fail so, as on a file system without it
    std::optional<int> fcntl_lock_error;             // and its open file description locks
    bool may_open_sockets = false;                   // of a network
    double seconds_max = 120;                        // then it is killed
};

struct Finished {
    int code = -1;   // exit code, -1 after a signal
    int signal = 0;  // that ended it, 0 for an exit
    bool timed_out = false;
    std::string out, err;
};

// A running program; killed at the end of its scope.
class Process {
  public:
    explicit Process(const Command& command);
    ~Process();
    Process(const Process&) = delete;
    Process& operator=(const Process&) = delete;

    void send(int signal);
    bool is_running();
    pid_t id() const { return pid_; }
    // What it wrote to stdout and to stderr until now.
    std::string output() const;
    std::string messages() const;
    Finished wait();

  private:
    void reap(int options);

    pid_t pid_ = -1;
    int out_ = -1, err_ = -1;  // memory files
    double deadline_ = 0;
    std::optional<int> status_;
};

Finished run(const Command& command);

// Waits until `holds`, or until the time is over: then false.
bool wait_until(const std::function<bool()>& holds, double seconds);

// Seconds since some start.
double clock_seconds();

// The end of a process in words: "exit 2", "signal 9", "exit -1 after the time limit", with what it wrote.
std::string describe(const Finished& finished);

}  // namespace windlass::cli
