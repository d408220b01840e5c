// kept.h: what a speculative update overwrites, kept in memory where no store has it, and taken back.
#pragma once

#include "device/cpu/team.h"
#include "method/recipe.h"

namespace windlass {

// The chunk's weights, low halves and state to `kept`, kept_bytes (schedule/layout.h) of it. The team shares the work.
void keep_version(const Recipe& recipe, const UpdateCall& chunk, std::byte* kept, Team& team);
// The way back.
void restore_version(const Recipe& recipe, const UpdateCall& chunk, const std::byte* kept, Team& team);

}  // namespace windlass
