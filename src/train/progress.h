// progress.h: what a run says while it goes: a line per logged step, and a bar where a person watches.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "schedule/schedule.h"
#include "state/metrics.h"

namespace windlass {

// What the terminal at stderr can show.
struct TerminalStyle {
    bool interactive = false;  // a terminal that can redraw a line: not a pipe, not TERM=dumb
    bool color = false;        // interactive, and NO_COLOR is not set
    int columns = 80;          // COLUMNS, else what the terminal says
};
TerminalStyle terminal_style(int descriptor);

// What keeps the step from being faster, from how long each lane worked: "compute 93%", "disk read: waited 41%".
std::string bottleneck(const std::array<double, kLaneKinds>& busy_seconds, double seconds);

// "step 120/900  epoch 0.27  loss 1.842  lr 9.8e-06  gnorm 0.71  624 tok/s  mfu 34%  1.20 s (plan 1.18 s)  ram 2.1 GiB
// ..."
std::string step_line(const StepMetrics& metrics, int64_t total_steps, const std::string& bottleneck_text);

// "[######------]  60/100  loss 1.842  eta 00:01:12" in at most `columns` characters.
std::string bar_line(const StepMetrics& metrics, int64_t total_steps, int columns);

// Draws the bar in place on stderr; lines of the log go above it, and what a step is doing is shown after it.
class Progress {
  public:
    Progress(TerminalStyle style, int64_t total_steps) : style_(style), total_steps_(total_steps) {}
    ~Progress() { clear(); }
    Progress(const Progress&) = delete;
    Progress& operator=(const Progress&) = delete;

    void step(const StepMetrics& metrics);
    void clear();

  private:
    TerminalStyle style_;
    int64_t total_steps_;
};

}  // namespace windlass
