#include "schedule/kept_version.h"

#include <algorithm>
#include <span>
#include <vector>

#include "device/cpu/cpu_stream.h"
#include "method/recipe.h"
#include "schedule/layout.h"

namespace windlass {
namespace {

constexpr int64_t kPieceBytes = int64_t{1} << 20;  // what one worker copies at a time

// Bytes of a chunk where they are updated, and where they lie in its kept version.
struct Piece {
    std::byte* live = nullptr;
    std::byte* kept = nullptr;
    int64_t bytes = 0;
};

std::vector<Piece> pieces_of(const ParamCall& chunk) {
    const Recipe& recipe = *chunk.recipe;
    std::vector<Piece> pieces;
    const auto add = [&](void* live, int64_t offset, int64_t bytes) {
        for (int64_t begin = 0; begin < bytes; begin += kPieceBytes)
            pieces.push_back({static_cast<std::byte*>(live) + begin, chunk.kept + offset + begin,
                              std::min(kPieceBytes, bytes - begin)});
    };
    const int64_t behind_weights = aligned_weight_bytes(chunk.param, chunk.count);
    const std::vector<int64_t> sections = state_sections(recipe, chunk.param, chunk.first, chunk.count);
    add(chunk.hi, 0, weight_bytes(chunk.param, chunk.count));
    add(chunk.lo, behind_weights, chunk.count * 2);
    for (size_t s = 0; s < recipe.state.size(); ++s)
        add(chunk.state[s], behind_weights + sections[s + 1],
            state_bytes(recipe.state[s], chunk.param.spec, chunk.first, chunk.count));
    return pieces;
}

// A team shares the work; a device copies by itself.
void copy_pieces(std::span<const Piece> pieces, Stream& stream, void (*copy)(const Piece& piece, Stream& stream)) {
    if (stream.device() != DeviceKind::cpu) {
        for (const Piece& piece : pieces) copy(piece, stream);
        return;
    }
    cpu_team(stream).parallel_for(std::ssize(pieces),
                                  [&](int64_t index, int) { copy(pieces[static_cast<size_t>(index)], stream); });
}

void keep_version(const ParamCall& call, Stream& stream) {
    copy_pieces(pieces_of(call), stream,
                [](const Piece& piece, Stream& at) { at.copy(piece.kept, piece.live, piece.bytes); });
}

void restore_version(const ParamCall& call, Stream& stream) {
    copy_pieces(pieces_of(call), stream,
                [](const Piece& piece, Stream& at) { at.copy(piece.live, piece.kept, piece.bytes); });
}

ParamKernel version_kernel(std::string_view name, Access live, Access kept, ParamCell cell) {
    return {
        .name = name,
        .uses = {{ParamSlot::weights, live}, {ParamSlot::low, live}, {ParamSlot::state, live}, {ParamSlot::kept, kept}},
        .has_update_rate = true,
        .cells = {cell, nullptr, cell}};
}

}  // namespace

const ParamKernel kKeepVersion = version_kernel("keep", Access::read, Access::write, keep_version),
                  kRestoreVersion = version_kernel("restore", Access::update, Access::read, restore_version);

}  // namespace windlass
