// refresh.h: one projected layer as a run keeps it: what S has learnt is written into W, P and Q are fitted to W's
// gradient, and S's moments are carried over. Where the fit is no better than what was there nothing changes.
#pragma once

#include "method/phase.h"

namespace windlass {

extern const Phase kProjectorRefresh;

}  // namespace windlass
