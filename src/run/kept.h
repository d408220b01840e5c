// kept.h: what a speculative update overwrites, kept in memory where no store has it, and taken back.
#pragma once

#include "method/recipe.h"

namespace windlass {

// The chunk's weights, low halves and state to `kept`, kept_bytes (schedule/layout.h) of it. By work of this stream,
// while it is launched.
void keep_version(const Recipe& recipe, const UpdateCall& chunk, std::byte* kept, Stream& stream);
// The way back.
void restore_version(const Recipe& recipe, const UpdateCall& chunk, std::byte* kept, Stream& stream);

}  // namespace windlass
