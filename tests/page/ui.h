// ui.h: `windlass ui` as a user starts it, in the folder of a sandbox, and requests with its token.
//
// Runs that it starts are processes of their own and outlive it. At the end of the scope every process that works in
// the sandbox's folder is ended.
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/json_fwd.h"
#include "tests/cli/sandbox.h"
#include "tests/page/http_client.h"

namespace windlass::page {

class Ui {
  public:
    // `more`: words of its command line next to --root.
    explicit Ui(const cli::Sandbox& sandbox, const std::vector<std::string>& more = {},
                const std::map<std::string, std::string>& environment = {});
    ~Ui();
    Ui(const Ui&) = delete;
    Ui& operator=(const Ui&) = delete;

    static cli::Command command(const cli::Sandbox& sandbox, const std::vector<std::string>& more = {});

    const std::string& address() const { return address_; }  // as printed: with the token
    const std::string& token() const { return token_; }
    int port() const { return port_; }
    std::string origin() const;
    cli::Process& process() { return *process_; }
    void restart();  // kill -9, and the same command again

    // A request with everything that the server asks for; a body is JSON.
    Request request(const std::string& method, const std::string& path, const std::string& body = "") const;
    // Its answer. None within the time: a failure of the test, and an empty answer.
    Answer ask(const Request& request) const;
    Answer get(const std::string& path) const { return ask(request("GET", path)); }
    Answer post(const std::string& path, const Json& body) const;
    Json get_json(const std::string& path) const;  // of an answer that must be 200

  private:
    void start();

    const cli::Sandbox& sandbox_;
    cli::Command command_;
    std::unique_ptr<cli::Process> process_;
    std::string address_, token_;
    int port_ = 0;
};

// The events of a stream.
std::vector<Json> events_of(const Answer& answer);
// Processes that work in this folder or below it.
std::vector<pid_t> processes_in(const std::string& folder);
// Inodes of the sockets that a process has open, as in /proc/PID/net.
std::set<std::string> sockets_of(pid_t process);
// A number of /proc/PID/status, in bytes: "VmHWM".
int64_t memory_of(pid_t process, const std::string& name);

}  // namespace windlass::page
