// ours_report.h: what our planner gets beside the paper's rows, and the aims that we set ourselves: all simulated.
#pragma once

#include "schedule/machine.h"

namespace windlass {

// Takes a minute each: every number is a search for a plan.
void print_ours(const Machine& paper_machine);
// Gives whether every aim that was met when it was last looked at is met.
bool print_aims(const Machine& paper_machine);

}  // namespace windlass
