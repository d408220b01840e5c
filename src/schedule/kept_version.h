// kept_version.h: what a speculative update overwrites, kept in memory where no store has it, and taken back.
#pragma once

#include "method/param_kernel.h"

namespace windlass {

// A chunk's weights, low halves and state to ParamSlot::kept, kept_bytes (schedule/layout.h) of it; and the way back.
extern const ParamKernel kKeepVersion;
extern const ParamKernel kRestoreVersion;

}  // namespace windlass
