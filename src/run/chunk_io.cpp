#include "run/chunk_io.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/activity.h"
#include "base/index.h"
#include "format/checksum.h"
#include "model/load.h"

namespace windlass {
namespace {

// A direct transfer covers whole blocks; the store reserves them after every extent.
std::span<std::byte> blocks(std::byte* data, int64_t bytes) {
    return {data, at(round_up(bytes, kParamAlignment))};
}

}  // namespace

ChunkIo::ChunkIo(const EngineSetup& setup, const Arenas& arenas, WorkingStore* store)
    : setup_(setup), arenas_(arenas), store_(store) {
    staging_ = arenas.lease(setup.schedules.persistent[at(setup.schedules.ids.staging)], /*write=*/true);
    int64_t count = 0;
    for (const ParamSpec& param : setup.model.params) count = std::max(count, std::min(kChunkElements, param.numel()));
    // As the lowering sizes this buffer: weights take at most as much as their masters in f32.
    weights_at_ = aligned_bytes(count, 4);
    state_at_ = 2 * weights_at_;
}

void ChunkIo::for_each(std::span<const int> params, const std::function<void(const ChunkSpan&)>& body) const {
    for (const int param : params) {
        for (const ChunkSpan& chunk : chunks_of(setup_.model, param)) {
            body(chunk);
            // Loading and saving a large model take minutes: the terminal shows these counts.
            count_engine_work();
        }
    }
}

bool ChunkIo::keeps_in_memory() const {
    const auto keeps = [](const ParamPlace& place) {
        return place.weights.buffer != kNoBuffer || place.low.buffer != kNoBuffer || place.chunks.buffer != kNoBuffer ||
               place.resident.buffer != kNoBuffer;
    };
    return std::any_of(setup_.schedules.ids.params.begin(), setup_.schedules.ids.params.end(), keeps);
}

std::span<float> ChunkIo::floats(const ChunkSpan& chunk) {
    return {reinterpret_cast<float*>(staging_.data()), at(chunk.count)};
}

void ChunkIo::split(const ChunkSpan& chunk, std::span<const float> masters, Team* team) {
    const Param param = param_of(chunk);
    if (param.storage.store == StoreType::as_file) {
        encode_kept(param, masters, {weights(), at(weight_bytes(param, std::ssize(masters)))}, team);
        return;
    }
    auto* hi = reinterpret_cast<uint16_t*>(weights());
    auto* lo = reinterpret_cast<int16_t*>(state());
    for (size_t i = 0; i < masters.size(); ++i) {
        const Split halves = split_master(std::bit_cast<uint32_t>(masters[i]));
        hi[i] = halves.hi;
        lo[i] = halves.lo;
    }
}

void ChunkIo::join(const ChunkSpan& chunk, int64_t first, std::span<float> masters) const {
    const Param param = param_of(chunk);
    if (param.storage.store == StoreType::as_file) {
        decode_kept(param.storage, {weights(), at(weight_bytes(param, chunk.count))}, first, masters);
        return;
    }
    const auto* hi = reinterpret_cast<const uint16_t*>(weights()) + first;
    const auto* lo = reinterpret_cast<const int16_t*>(state()) + first;
    for (size_t i = 0; i < masters.size(); ++i) masters[i] = std::bit_cast<float>(join_master({hi[i], lo[i]}));
}

void ChunkIo::clear_state(const ChunkSpan& chunk) {
    const std::vector<int64_t> sections = state_sections(setup_.recipe, param_of(chunk), chunk.first, chunk.count);
    // The section before holds low halves, which are a part of the masters and no state.
    std::memset(state() + sections[1], 0, at(sections.back() - sections[1]));
}

void ChunkIo::with_memory(const ChunkSpan& chunk, const PartVisitor& visit) const {
    const ParamPlace& place = setup_.schedules.ids.params[at(chunk.param)];
    const Param param = param_of(chunk);
    const std::vector<int64_t> sections = state_sections(setup_.recipe, param_of(chunk), chunk.first, chunk.count);
    const auto part = [&](const BufferSlice& slice, int64_t behind, std::byte* staged, int64_t bytes) {
        if (slice.buffer == kNoBuffer || bytes == 0) return;
        visit(setup_.schedules.persistent[at(slice.buffer)], slice.offset + behind, {staged, at(bytes)});
    };
    part(place.weights, weight_bytes(param, chunk.first), weights(), weight_bytes(param, chunk.count));
    part(place.low, chunk.first * 2, state(), chunk.count * 2);
    // State is in arrays, or with a store in blocks; only one of the two has buffers.
    for (size_t s = 0; s < place.state.size(); ++s) {
        const StateSpec& spec = setup_.recipe.state[s];
        part(place.state[s], state_offset(spec, chunk.first), state() + sections[s + 1],
             state_bytes(spec, param.spec, chunk.first, chunk.count));
    }
    if (place.chunks.buffer != kNoBuffer)
        part(place.chunks, state_block_offset(setup_.recipe, param, chunk.first), state(), sections.back());
}

// The device's copies of weights that the host updates: they are never read back.
void ChunkIo::with_resident(const ChunkSpan& chunk, const PartVisitor& visit) const {
    const ParamPlace& place = setup_.schedules.ids.params[at(chunk.param)];
    const auto part = [&](const BufferSlice& slice, int64_t behind, std::byte* staged, int64_t bytes) {
        if (slice.buffer != kNoBuffer)
            visit(setup_.schedules.persistent[at(slice.buffer)], slice.offset + behind, {staged, at(bytes)});
    };
    const Param param = param_of(chunk);
    part(place.resident, weight_bytes(param, chunk.first), weights(), weight_bytes(param, chunk.count));
    part(place.resident_low, chunk.first * 2, state(), chunk.count * 2);
}

void ChunkIo::store_in_memory(const ChunkSpan& chunk) {
    const auto write = [this](const BufferSpec& home, int64_t begin, std::span<std::byte> staged) {
        arenas_.write(home, begin, staged);
    };
    with_memory(chunk, write);
    with_resident(chunk, write);
}

void ChunkIo::fetch(const ChunkSpan& chunk) {
    // A store has every chunk, whatever memory has as well, and its checksums prove what is read.
    if (store_ != nullptr) {
        fetch_from(store_->store(), store_->chunk_index(chunk.param, chunk.first), chunk);
        return;
    }
    // What memory does not hold (the low halves of a model that is only evaluated in bf16) reads as zero.
    std::memset(state(), 0, at(state_sections(setup_.recipe, param_of(chunk), chunk.first, chunk.count).back()));
    with_memory(chunk, [this](const BufferSpec& home, int64_t begin, std::span<std::byte> staged) {
        arenas_.read(home, begin, staged);
    });
}

void ChunkIo::fetch_from(Store& source, int64_t index, const ChunkSpan& chunk) {
    const int version = source.current_version(index);
    const Extent weight = source.weight_extent(index, version), rest = source.state_extent(index, version);
    source.file().read_at(blocks(weights(), weight.bytes), weight.offset);
    source.file().read_at(blocks(state(), rest.bytes), rest.offset);
    const ChunkSums sums = source.sums(index);
    if (xxh3_64({weights(), at(weight.bytes)}) == sums.weight && xxh3_64({state(), at(rest.bytes)}) == sums.state)
        return;
    throw UserError(ExitCode::storage, source.file().path(), "{}, elements [{}, {}), does not match its checksum",
                    setup_.model.params[at(chunk.param)].name, chunk.first, chunk.first + chunk.count)
        .hint("resume from another checkpoint; the drive may be failing");
}

void ChunkIo::read(int param, int64_t first, std::span<float> out, const ReadPart& part) {
    for (const ChunkSpan& chunk : chunks_of(setup_.model, param)) {
        const int64_t begin = std::max(first, chunk.first);
        const int64_t end = std::min(first + std::ssize(out), chunk.first + chunk.count);
        if (begin >= end) continue;
        if (read_param_ != chunk.param || read_first_ != chunk.first) {
            read_param_ = -1;  // until it is there
            fetch(chunk);
            read_param_ = chunk.param;
            read_first_ = chunk.first;
        }
        part(chunk, begin - chunk.first, out.subspan(at(begin - first), at(end - begin)));
    }
}

ChunkSums ChunkIo::write_to(Store& target, int64_t index) {
    const Extent weight = target.weight_extent(index, 0), rest = target.state_extent(index, 0);
    target.file().write_at(blocks(weights(), weight.bytes), weight.offset);
    target.file().write_at(blocks(state(), rest.bytes), rest.offset);
    return {xxh3_64({weights(), at(weight.bytes)}), xxh3_64({state(), at(rest.bytes)})};
}

}  // namespace windlass
