// signals.h: Ctrl-C, SIGTERM, SIGHUP and SIGUSR1.
//
// No handler of ours ever runs: the kernel would put its frame on the stack of whichever thread computes, where code
// that a library generates keeps data below the stack pointer. The four are blocked in every thread, and one thread
// that computes nothing takes them. While a run goes, the first SIGINT, SIGTERM or SIGHUP asks for its end after this
// step, the second for its end now; SIGUSR1 asks for a checkpoint, and is kept for a run that has not begun. While none
// goes, SIGINT, SIGTERM and SIGHUP do what they do to any program.
#pragma once

#include "run/engine.h"

namespace windlass {

// To be called once, while the process has one thread: later ones inherit what is blocked. A SIGHUP that was ignored
// before (nohup) stays ignored. SIGXFSZ is ignored from here on, so that a write beyond a limit is an error that says
// so. Without this call signals do what they do to any program, and no scope sees one.
void take_signals();

// For a child after fork(), which has no thread that takes signals: they do again what they did before take_signals.
void give_back_signals();

// The run that signals are meant for; one at a time.
class SignalScope {
  public:
    explicit SignalScope(Engine& engine);
    ~SignalScope();
    SignalScope(const SignalScope&) = delete;
    SignalScope& operator=(const SignalScope&) = delete;

    bool wants_stop() const;
    bool take_save_request();
    // 130 after SIGINT, 143 after SIGTERM and SIGHUP.
    ExitCode exit_code() const;
};

// Work that Ctrl-C ends early, and keeps: while this lives the first SIGINT is only remembered, and the second does
// what it does to any program, as do SIGTERM and SIGHUP. One at a time, and not during a run.
class InterruptScope {
  public:
    InterruptScope();
    ~InterruptScope();
    InterruptScope(const InterruptScope&) = delete;
    InterruptScope& operator=(const InterruptScope&) = delete;

    bool was_interrupted() const;  // from any thread
};

}  // namespace windlass
