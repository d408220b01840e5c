#include "tests/simt/hopper.h"

#include <fmt/format.h>

#include "base/error.h"
#include "tests/simt/hopper_state.h"

namespace windlass::simt {
namespace {

constexpr uint64_t kBarrierWord = 0x626172726965723a;  // what a barrier's memory holds: nothing else may write there
constexpr uint64_t kBoxAlignment = 1024;
constexpr int kBoxRowsMax = 256;

BarrierState* find_barrier(Site site, const uint64_t* barrier) {
    auto& barriers = hopper_state().barriers;
    const auto found = barriers.find(barrier);
    if (found == barriers.end() || *barrier != kBarrierWord) {
        fail(place_of(site) + ": there is no barrier");
        return nullptr;
    }
    if (found->second.maker != this_thread().index.x && found->second.meetings == block_meetings())
        fail(place_of(site) + ": the block has not met since the barrier was made");
    return &found->second;
}

void end_phase_if_complete(BarrierState& state) {
    if (state.pending != 0 || state.bytes != 0) return;
    ++state.phase;
    state.pending = state.arrivals;
    release_all(state.waiters);
}

// Rows of a box to shared memory, and to what products see of it.
void move_box(const TensorBoxes& boxes, const BoxPlace& from, uint64_t offset) {
    std::byte* const shared = shared_memory();
    std::vector<std::byte>& shown = hopper_state().shown;
    for (int r = 0; r < boxes.box_tokens; ++r) {
        const int64_t token = from.token + r;
        const bool has_row = from.row >= 0 && from.row < boxes.rows && token >= 0 && token < boxes.tokens &&
                             from.head >= 0 && from.head < boxes.heads;
        const auto* const row = static_cast<const uint16_t*>(boxes.data) + from.row * boxes.row_stride +
                                token * boxes.token_stride + from.head * boxes.head_stride;
        for (int c = 0; c < kBoxColumns; ++c) {
            const int64_t column = from.column + c;
            const uint16_t bits = has_row && column >= 0 && column < boxes.columns ? row[column] : uint16_t{0};
            const uint64_t at = permuted(offset + static_cast<uint64_t>(r) * 128 + static_cast<uint64_t>(c) * 2);
            std::memcpy(shared + at, &bits, sizeof(bits));
            std::memcpy(shown.data() + at, &bits, sizeof(bits));
        }
    }
}

// A warp changes how many registers each of its threads has.
void set_registers(Site site, int count, bool takes) {
    HopperState& state = hopper_state();
    exchange(site, {});
    if (this_thread().lane == 0) {
        const auto started = static_cast<int>(65536 / block_threads() / 8 * 8);
        int& mine = state.warps[this_thread().index.x / kLanes].registers;
        const int now = mine == 0 ? std::min(started, 255) : mine;
        if (count % 8 != 0 || count < 24 || count > 256 || (takes ? count < now : count > now))
            return fail(fmt::format("{}: {} registers after {}", place_of(site), count, now));
        const int64_t wanted = int64_t{kLanes} * (count - now);
        while (wanted > state.free_registers) wait_in(state.registers_wanted, site);
        state.free_registers -= wanted;
        mine = count;
        release_all(state.registers_wanted);
    }
    exchange(site, {});
}

}  // namespace

HopperState::HopperState() : shown(shared_memory(), shared_memory() + shared_bytes()) {}

std::string HopperState::unfinished() const {
    for (const auto& [index, warp] : warps)
        if (!warp.held.empty()) return fmt::format("warp {} ended and has not waited for all of its products", index);
    for (const auto& [word, barrier] : barriers)
        if (barrier.with_bytes > barrier.waited_for) return "a block ended and has not waited for all of its copies";
    return "";
}

HopperState& hopper_state() {
    std::unique_ptr<BlockState>& kept = block_state();
    if (kept == nullptr) kept = std::make_unique<HopperState>();
    return static_cast<HopperState&>(*kept);
}

std::string place_of(Site site) {
    return fmt::format("{}:{}", site.file, site.line);
}

TensorMap make_tensor_map(const TensorBoxes& boxes) {
    static_assert(sizeof(TensorBoxes) <= sizeof(TensorMap));
    constexpr int kInvalidValue = 1;
    const bool fits = boxes.data != nullptr && reinterpret_cast<uintptr_t>(boxes.data) % 16 == 0 &&
                      boxes.head_stride % 8 == 0 && boxes.token_stride % 8 == 0 && boxes.row_stride % 8 == 0 &&
                      boxes.head_stride > 0 && boxes.token_stride > 0 && boxes.row_stride > 0 && boxes.columns > 0 &&
                      boxes.heads > 0 && boxes.tokens > 0 && boxes.rows > 0 && boxes.box_tokens > 0 &&
                      boxes.box_tokens <= kBoxRowsMax;
    if (!fits) throw DeviceError("cuTensorMapEncodeTiled", kInvalidValue, "CUDA_ERROR_INVALID_VALUE");
    TensorMap map{};
    std::memcpy(map.bytes, &boxes, sizeof(boxes));
    return map;
}

uint32_t shared_offset(const void* at) {
    return static_cast<uint32_t>(static_cast<const std::byte*>(at) - shared_memory());
}

// Of all threads: more than the instruction does, whose thread shows its own.
void show_stores() {
    hopper_state().shown.assign(shared_memory(), shared_memory() + shared_bytes());
}

void make_barrier(uint64_t* barrier, unsigned arrivals) {
    HopperState& state = hopper_state();
    state.barriers[barrier] = {
        .maker = this_thread().index.x, .meetings = block_meetings(), .arrivals = arrivals, .pending = arrivals};
    state.barriers_shown = false;
    *barrier = kBarrierWord;
}

void show_barriers() {
    hopper_state().barriers_shown = true;
}

void arrive(Site site, uint64_t* barrier, unsigned bytes) {
    BarrierState* const state = find_barrier(site, barrier);
    if (state == nullptr) return;
    if (state->pending == 0) return fail(place_of(site) + ": more threads arrive than the barrier counts");
    state->bytes += bytes;
    if (bytes > 0) state->with_bytes = state->phase + 1;
    --state->pending;
    end_phase_if_complete(*state);
}

// As mbarrier.try_wait.parity: it waits while the phase that is not yet complete has this parity.
void wait_for(Site site, uint64_t* barrier, unsigned parity) {
    BarrierState* const state = find_barrier(site, barrier);
    if (state == nullptr) return;
    while (state->phase % 2 == parity) wait_in(state->waiters, site);
    state->waited_for = state->phase;
}

void come_to(Site site, int number, int threads, bool waits) {
    exchange(site, {});  // a warp comes as one
    if (number < 1 || number > 15 || threads % kLanes != 0 || threads > static_cast<int>(block_threads()))
        return fail(fmt::format("{}: {} threads at barrier {}", place_of(site), threads, number));
    NumberedBarrier& barrier = hopper_state().numbered[static_cast<size_t>(number)];
    if (barrier.come == 0) barrier.threads = threads;
    if (barrier.threads != threads)
        return fail(
            fmt::format("{}: barrier {} is for {} threads, not {}", place_of(site), number, barrier.threads, threads));
    if (++barrier.come < threads) {
        if (waits) wait_in(barrier.waiters, site);
        return;
    }
    barrier.come = 0;
    release_all(barrier.waiters);
}

void load_box(Site site, void* to, const TensorMap& map, const BoxPlace& from, uint64_t* barrier) {
    TensorBoxes boxes;
    std::memcpy(&boxes, map.bytes, sizeof(boxes));
    BarrierState* const state = find_barrier(site, barrier);
    if (state == nullptr) return;
    const uint64_t offset = shared_offset(to), bytes = static_cast<uint64_t>(boxes.box_tokens) * kBoxColumns * 2;
    if (!hopper_state().barriers_shown)
        return fail(place_of(site) + ": the copy engine has not been shown the barrier");
    if (offset % kBoxAlignment != 0) return fail(place_of(site) + ": a box begins at no multiple of 1024 bytes");
    if (offset + bytes > shared_bytes()) return fail(place_of(site) + ": a box ends after shared memory");
    do_some_time([=] {
        move_box(boxes, from, offset);
        state->bytes -= static_cast<int64_t>(bytes);
        end_phase_if_complete(*state);
    });
}

void give_registers(Site site, int count) {
    set_registers(site, count, /*takes=*/false);
}
void take_registers(Site site, int count) {
    set_registers(site, count, /*takes=*/true);
}

}  // namespace windlass::simt
