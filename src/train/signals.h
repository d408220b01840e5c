// signals.h: Ctrl-C, SIGTERM and SIGUSR1 while a run goes.
//
// The first SIGINT or SIGTERM asks for the end of the run after this step, the second for its end now; SIGUSR1 asks for
// a checkpoint. One scope at a time; the old handlers come back at its end.
#pragma once

#include <csignal>

#include "run/engine.h"

namespace windlass {

class SignalScope {
  public:
    explicit SignalScope(Engine& engine);
    ~SignalScope();
    SignalScope(const SignalScope&) = delete;
    SignalScope& operator=(const SignalScope&) = delete;

    bool wants_stop() const;
    bool take_save_request();
    // 130 after SIGINT, 143 after SIGTERM.
    ExitCode exit_code() const;

  private:
    struct sigaction old_int_ {
    }, old_term_{}, old_usr1_{};
};

}  // namespace windlass
