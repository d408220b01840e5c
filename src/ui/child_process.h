// child_process.h: a verb of this program as a process of its own, whose events the page passes on.
//
// The child is a session of its own (setsid): Ctrl-C in the terminal of `windlass ui` does not reach it. It is ended by
// end(), and otherwise outlives this object and this process; a verb other than `train` then ends when it finds that
// its stdin has ended or that no one reads its stdout.
#pragma once

#include <sys/types.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ui/async.h"

namespace windlass {

// Longer lines are left out.
inline constexpr size_t kLineBytesMax = 4 << 20;

class ChildProcess {
  public:
    // words: the verb and what follows it. Its stdin is a pipe if it takes input, else /dev/null; so is its stderr,
    // which says to people what its events say. Throws MachineError.
    ChildProcess(asio::io_context& context, const std::vector<std::string>& words, const std::string& folder,
                 bool takes_input = false);
    ~ChildProcess();
    ChildProcess(const ChildProcess&) = delete;
    ChildProcess& operator=(const ChildProcess&) = delete;

    // The next line of its stdout, without its end; nothing after the last. One reader at a time.
    Task<std::optional<std::string>> read_line();
    // All of its stdout, if it is no longer than this; nothing else.
    Task<std::optional<std::string>> read_all(size_t bytes_max);
    // Reads and forgets what follows, so that a full pipe never stops a run; for as long as this process lives.
    static void drain(std::shared_ptr<ChildProcess> child);
    // False: it does not read, or has ended.
    Task<bool> write_line(std::string line);

    void interrupt();  // SIGINT
    void end();        // SIGTERM, and SIGKILL after five seconds
    bool is_running() const;

  private:
    struct Exit;
    struct Pipes;
    asio::io_context& context_;
    std::shared_ptr<Exit> exit_;
    std::unique_ptr<Pipes> pipes_;
};

}  // namespace windlass
