// run_warnings.h: what a user should know before the first step, since the run would end without it being seen.
#pragma once

#include <string>
#include <vector>

#include "session/session.h"

namespace windlass {

// One if the learning rate of every step is 0. One for each frozen table in which rows of the chat template's special
// tokens are zero, or equal to the rows of several other special tokens, as rows are that were reserved and never
// trained; only rows of special tokens are read.
std::vector<std::string> run_warnings(const Session& session);

}  // namespace windlass
