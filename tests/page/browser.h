// browser.h: a real browser without a window, driven through its debugging pipe.
//
// Chromium's headless shell with a profile of its own that is removed at the end, and no way to any host but 127.0.0.1.
// tests/page/tab.h has its tabs. Every wait has a limit. Failures throw BrowserError, which says what was waited for; a
// test fails by it. Not for several threads.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/json_fwd.h"
#include "tests/unit/base/temp_folder.h"

namespace windlass::page {

struct BrowserError : std::runtime_error {
    using std::runtime_error::runtime_error;
};

// Path of the browser's program; empty if this machine has none.
std::string browser_program();

class Browser {
  public:
    explicit Browser(const std::string& program);
    ~Browser();  // ends all processes of the browser
    Browser(const Browser&) = delete;
    Browser& operator=(const Browser&) = delete;

    // One for all tests of this program; ended when the program exits.
    static Browser& shared();

    // A command of the debugging protocol, and its result. Events that come meanwhile are kept for their session.
    Json call(const std::string& method, const Json& params, const std::string& session = "");
    // Reads messages until `holds`. `wanted` is for the error.
    void read_until(const std::function<bool()>& holds, double seconds, const std::string& wanted);

    bool read_for(int milliseconds);  // whether anything came

    // Gets every event of this session.
    using Listener = std::function<void(const std::string& method, const Json& params)>;
    void listen(const std::string& session, Listener listener);
    void forget(const std::string& session);
    pid_t id() const { return pid_; }

  private:
    [[noreturn]] void become(char* const* words, char* const* environment, int commands, int answers) const;
    void send(const std::string& message);
    void take(const std::string& message);

    TempFolder profile_;
    pid_t pid_ = -1;
    int to_ = -1, from_ = -1;
    int64_t next_id_ = 1;
    std::string unread_;
    struct Inner;  // holds JSON
    std::unique_ptr<Inner> inner_;
};

}  // namespace windlass::page
