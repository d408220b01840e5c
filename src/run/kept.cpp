#include "run/kept.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "schedule/layout.h"

namespace windlass {
namespace {

constexpr int64_t kPieceBytes = int64_t{1} << 20;  // what one worker copies at a time

// Bytes of a chunk where they are updated, and where they lie in its kept version.
struct Piece {
    std::byte* live = nullptr;
    int64_t kept = 0;
    int64_t bytes = 0;
};

std::vector<Piece> pieces_of(const Recipe& recipe, const UpdateCall& chunk) {
    std::vector<Piece> pieces;
    const auto add = [&](void* live, int64_t kept, int64_t bytes) {
        for (int64_t begin = 0; begin < bytes; begin += kPieceBytes)
            pieces.push_back(
                {static_cast<std::byte*>(live) + begin, kept + begin, std::min(kPieceBytes, bytes - begin)});
    };
    const int64_t behind_weights = aligned_weight_bytes(chunk.param, chunk.count);
    const std::vector<int64_t> sections = state_sections(recipe, chunk.param, chunk.count);
    add(chunk.hi, 0, weight_bytes(chunk.param, chunk.count));
    add(chunk.lo, behind_weights, chunk.count * 2);
    for (size_t s = 0; s < recipe.state.size(); ++s)
        add(chunk.state[s], behind_weights + sections[s + 1], state_bytes(recipe.state[s], chunk.count));
    return pieces;
}

}  // namespace

void keep_version(const Recipe& recipe, const UpdateCall& chunk, std::byte* kept, Team& team) {
    const std::vector<Piece> pieces = pieces_of(recipe, chunk);
    team.parallel_for(std::ssize(pieces), [&](int64_t index, int) {
        const Piece& piece = pieces[static_cast<size_t>(index)];
        std::memcpy(kept + piece.kept, piece.live, static_cast<size_t>(piece.bytes));
    });
}

void restore_version(const Recipe& recipe, const UpdateCall& chunk, const std::byte* kept, Team& team) {
    const std::vector<Piece> pieces = pieces_of(recipe, chunk);
    team.parallel_for(std::ssize(pieces), [&](int64_t index, int) {
        const Piece& piece = pieces[static_cast<size_t>(index)];
        std::memcpy(piece.live, kept + piece.kept, static_cast<size_t>(piece.bytes));
    });
}

}  // namespace windlass
