// signals.h: Ctrl-C, SIGTERM, SIGHUP, SIGUSR1, and the signals with which queue systems warn.
//
// No handler of ours ever runs: the kernel would put its frame on the stack of whichever thread computes, where code
// that a library generates keeps data below the stack pointer. The signals are blocked in every thread, and one thread
// that computes nothing takes them. SIGUSR1 asks a run for a checkpoint, and is kept for a run that has not begun. Each
// other one asks for its end after this step; outside a run it does what it does to any program:
//
//   SIGINT, SIGTERM                      a second one of the same kind, but not at once, asks for the end now
//   SIGHUP                               a terminal that hangs up may send several
//   SIGUSR2, SIGXCPU, SIGPWR, SIGALRM    a warning before the end, maybe repeated
//
// Shells, timeout(1) and launchers deliver one request twice, and a queue sends SIGTERM after its warning: neither may
// cost the run the step that it saves.
#pragma once

#include "session/run_control.h"

namespace windlass {

// To be called once, while the process has one thread: later ones inherit what is blocked. A SIGHUP that was ignored
// before (nohup) stays ignored. SIGXFSZ is ignored from here on, so that a write beyond a limit is an error that says
// so. Without this call signals do what they do to any program, and no scope sees one.
void take_signals();

// For a child after fork(), which has no thread that takes signals: they do again what they did before take_signals.
void give_back_signals();

// The control that signals reach while this lives; one at a time. Where it has no run, they do what they do to any
// program, but SIGUSR1, which is kept for the next one.
class SignalScope {
  public:
    explicit SignalScope(RunControl& control);
    ~SignalScope();
    SignalScope(const SignalScope&) = delete;
    SignalScope& operator=(const SignalScope&) = delete;
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

// For a program that drives this one: while this lives, a SIGINT that finds no run does nothing, since it was meant for
// one that has just ended. One at a time.
class LateInterruptScope {
  public:
    LateInterruptScope();
    ~LateInterruptScope();
    LateInterruptScope(const LateInterruptScope&) = delete;
    LateInterruptScope& operator=(const LateInterruptScope&) = delete;
};

}  // namespace windlass
