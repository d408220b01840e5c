// watchdog.h: what is told of a step that was not applied.
#pragma once

#include "train/listener.h"

namespace windlass {

// Weights in memory were updated before a gradient was seen not to be finite. Throws UserError(diverged).
[[noreturn]] void stop_without_state(LoopState& loop, const StepDone& step);

}  // namespace windlass
