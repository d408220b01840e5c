// binding.h: what a planned step waits for most, and what would make it shorter.
#pragma once

#include "plan/planner.h"

namespace windlass {

// Simulates the leading schedule again with one thing of the machine twice as good, one after the other.
Binding find_binding(const Planned& planned, const Machine& machine);

}  // namespace windlass
