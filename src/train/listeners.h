// listeners.h: the listeners of a loop that it asks for nothing: here they are listed, in the order in which they are
// told. Between the two lists come those that it does ask: evaluation, the best step, checkpoints.
#pragma once

#include <array>

#include "train/listener.h"

namespace windlass {

// Null: the run has no use for it.
using MakeListener = std::unique_ptr<StepListener> (*)(LoopState& loop);

std::unique_ptr<StepListener> make_machine_doubt(LoopState& loop);
std::unique_ptr<StepListener> make_watchdog(LoopState& loop);
std::unique_ptr<StepListener> make_sampler(LoopState& loop);
std::unique_ptr<StepListener> make_exports(LoopState& loop);
std::unique_ptr<StepListener> make_stop_request(LoopState& loop);

inline constexpr std::array<MakeListener, 2> kToldFirst = {make_machine_doubt, make_watchdog};
inline constexpr std::array<MakeListener, 3> kToldLast = {make_sampler, make_exports, make_stop_request};

}  // namespace windlass
