#include "schedule/lower.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/index.h"
#include "method/phase.h"
#include "schedule/builder.h"

namespace windlass {
namespace {

// The persistent buffers of a run, and where each parameter lies in them.
class PersistentWriter {
  public:
    PersistentWriter(const TrainedModel& model, const Recipe& recipe, const Numerics& numerics, const Plan& plan)
        : tiers(tiers_beside(plan.device.index)), model_(model), recipe_(recipe), numerics_(numerics), plan_(plan) {
        ids.params.resize(model.params.size());
    }

    PersistentIds ids;
    std::vector<BufferSpec> buffers;
    std::vector<TierId> tiers;

    void write(const std::vector<ScheduleRequest>& requests) {
        bool trains = false;
        int64_t cache_rows = 0;
        for (const ScheduleRequest& request : requests) {
            trains = trains || request.kind == ScheduleRequest::Kind::train;
            // All decoding schedules have one cache: one reads a prompt, another continues it.
            cache_rows = std::max(cache_rows, request.rows * request.cache_capacity);
        }
        // In the order of updates, so that the chunks of a group lie next to each other here as on disk.
        for (const int param : store_order(model_)) place(param, trains);
        if (trains && recipe_.needs_norm()) write_squares();
        if (cache_rows > 0) write_cache(cache_rows);
        write_staging();
    }

  private:
    // One buffer for each thing and tier; it grows as parameters are put into it.
    BufferSlice put(std::string_view name, MemoryTag tag, Home home, int64_t bytes) {
        // No buffer is how all other lowering sees that something lives on disk.
        if (home == Home::disk) return {};
        const auto tier = tier_of(plan_.own_memory() && home == Home::host ? TierKind::host : TierKind::device);
        auto buffer = std::find_if(buffers.begin(), buffers.end(), [&](const BufferSpec& each) {  // of a handful
            return each.tag == tag && each.tier == tier && each.name == name;
        });
        if (buffer == buffers.end())
            buffer = buffers.insert(buffer, {.name = std::string(name), .tag = tag, .tier = tier});
        const BufferSlice slice{static_cast<BufferId>(buffer - buffers.begin()), buffer->bytes};
        buffer->bytes += round_up(bytes, kParamAlignment);
        return slice;
    }
    void place(int index, bool trains) {
        const Param param = model_.param(index);
        const BlockPlan& plan = plan_.of(param.spec.block);
        ParamPlace& place = ids.params[at(index)];
        // bf16 computes with high halves alone: where nothing trains, only f32 needs the low ones.
        const bool is_trained = trains && param.trains(), is_split = param.storage.store == StoreType::split,
                   wants_low = is_split && (trains || numerics_.compute == DType::f32);
        // The master is where its update runs, next to the state. What the device computes with is then a copy of it,
        // which each update writes again.
        const bool is_updated_away = is_trained && plan_.own_memory() && recipe_.runs(PassKind::backward) &&
                                     plan.weights == Home::device && plan.state != Home::device;
        const Home master = is_updated_away ? plan.state : plan.weights;
        place.weights = put("weights", MemoryTag::weights, master, weight_bytes(param, param.numel()));
        if (is_updated_away) put_resident(param, place);
        // With a store memory keeps a chunk's low halves and state as the file does: a chunk is one transfer, and
        // nothing takes it apart on the way.
        if (plan_.store) {
            if (const int64_t bytes = trains && param.trains() ? all_blocks(param) : 0; bytes > 0)
                place.chunks = put("state", MemoryTag::state, plan.state, bytes);
        } else {
            if (wants_low)
                place.low =
                    put("low halves", MemoryTag::low_halves, is_trained ? plan.state : plan.weights, param.numel() * 2);
            if (trains && param.trains()) put_state(param, plan, place);
        }
        // Gradients that are used at once live within the step, as its own buffers.
        if (!trains || !param.trains() || !recipe_.runs(PassKind::backward) || recipe_.uses_gradients_at_once()) return;
        place.gradient_format = held_format(numerics_, plan_, plan);
        put_gradient(index, plan, place);
        // A store has the version before a wrong guess. Without a norm nothing is a guess.
        if (!plan_.store && recipe_.needs_norm() && plan.update == UpdateTime::in_backward)
            place.kept = put("kept", MemoryTag::kept, plan.state, all_kept(param));
    }
    void put_resident(const Param& param, ParamPlace& place) {
        place.resident = put("weights", MemoryTag::weights, Home::device, weight_bytes(param, param.numel()));
        if (param.storage.store == StoreType::split && numerics_.compute == DType::f32)
            place.resident_low = put("low halves", MemoryTag::low_halves, Home::device, param.numel() * 2);
    }
    int64_t all_kept(const Param& param) const {
        const int64_t full = param.numel() / kChunkElements * kChunkElements;
        const int64_t rest = param.numel() - full;
        return kept_offset(recipe_, param, full) + (rest > 0 ? kept_bytes(recipe_, param, full, rest) : 0);
    }
    int64_t all_blocks(const Param& param) const {
        const int64_t full = param.numel() / kChunkElements * kChunkElements;
        const int64_t rest = param.numel() - full;
        return state_block_offset(recipe_, param, full) +
               (rest > 0 ? state_block_bytes(recipe_, param, full, rest) : 0);
    }
    void put_gradient(int index, const BlockPlan& plan, ParamPlace& place) {
        // A gradient waits where its update will run, so what visits the device never crosses the link.
        if (plan_.device_groups > 0 && !plan_.store && place.resident.buffer != kNoBuffer)
            place.visits = visiting_chunks(index);
        int64_t visiting = 0, others = 0;
        if (place.visits.empty()) {
            others = gradient_param_bytes(place.gradient_format, model_.param(index).numel());
        } else {
            for (const ChunkSpan& chunk : chunks_of(model_, index)) {
                const bool visits = place.visits[at(chunk.first / kChunkElements)] != 0;
                (visits ? visiting : others) += gradient_chunk_bytes(place.gradient_format, chunk.count);
            }
        }
        if (others > 0) place.gradient = put("gradients", MemoryTag::gradients, plan.gradients, others);
        if (visiting > 0) place.visiting_gradient = put("gradients", MemoryTag::gradients, Home::device, visiting);
    }
    // By chunk of a parameter whether its state goes to the device to be updated.
    std::vector<uint8_t> visiting_chunks(int index) {
        std::vector<uint8_t> visits(chunks_of(model_, index).size(), 0);
        const int block = model_.param(index).spec.block;
        if (std::exchange(grouped_block_, block) != block) groups_ = chunk_groups(model_, recipe_, plan_, block);
        for (size_t group = 0; group < groups_.size(); ++group) {
            for (const ChunkSpan& chunk : groups_[group]) {
                if (chunk.param == index) visits[at(chunk.first / kChunkElements)] = visits_device(plan_, block, group);
            }
        }
        return visits;
    }
    void put_state(const Param& param, const BlockPlan& plan, ParamPlace& place) {
        for (const StateSpec& state : recipe_.state) {
            place.state.push_back(
                put(state.name, MemoryTag::state, plan.state, state_bytes(state, param.spec, 0, param.numel())));
        }
    }
    // Loading, checkpoints and export pass through here, one chunk at a time: as fp32, as weights, as state.
    void write_staging() {
        int64_t count = 0, state = 0;
        for (const Param param : model_.all_params()) {
            const int64_t elements = std::min(kChunkElements, param.numel());
            count = std::max(count, elements);
            state = std::max(state, state_block_bytes(recipe_, param, 0, elements));
        }
        ids.staging = add("chunk in transit", MemoryTag::staging, 2 * aligned_bytes(count, 4) + state,
                          plan_.own_memory() ? TierKind::host : TierKind::device);
    }
    // Packed: there may be thousands of vectors, of one sum each.
    void write_squares() {
        int64_t end = 0;
        for (int index = 0; index < model_.param_size(); ++index) {
            const Param param = model_.param(index);
            if (!param.trains()) continue;
            ids.params[at(index)].squares = {static_cast<BufferId>(buffers.size()), end};
            end += squares_bytes(param.numel());
        }
        ids.squares = add("sums of squares", MemoryTag::gradients, end, TierKind::device);
    }
    void write_cache(int64_t rows) {
        ids.cache_rows = rows;
        for (size_t block = 0; block < model_.blocks.size(); ++block) {
            const Home home = plan_.of(static_cast<int>(block)).cache;
            CachePlace place{
                .bytes = 2 * aligned_bytes(rows * cache_columns(model_.blocks[block]), dtype_bytes(numerics_.compute))};
            if (place.bytes > 0) place.memory = put("key-value cache", MemoryTag::cache, home, place.bytes);
            if (place.bytes > 0 && home == Home::disk)
                place.file_offset = std::exchange(ids.cache_file_bytes, ids.cache_file_bytes + place.bytes);
            ids.caches.push_back(place);
        }
    }
    int tier_of(TierKind kind) const { return find_tier(tiers, tier_beside(kind, plan_.device.index)); }
    BufferId add(std::string name, MemoryTag tag, int64_t bytes, TierKind tier) {
        buffers.push_back({.name = std::move(name), .tag = tag, .bytes = bytes, .tier = tier_of(tier)});
        return static_cast<BufferId>(buffers.size()) - 1;
    }

    const TrainedModel& model_;
    const Recipe& recipe_;
    const Numerics& numerics_;
    const Plan& plan_;
    int grouped_block_ = -1;  // parameters come block by block
    std::vector<ChunkGroup> groups_;
};

// What no schedule could do: these are our own errors, the planner's or a policy's.
void require_consistent(const TrainedModel& model, const Recipe& recipe, const Plan& plan) {
    WINDLASS_CHECK(plan.device_groups == 0 || (plan.own_memory() && !plan.store),
                   "state visits a device with its own memory, and not from a store");
    WINDLASS_CHECK(plan.blocks.empty() || plan.blocks.size() == model.blocks.size(), "a plan of {} blocks for {}",
                   plan.blocks.size(), model.blocks.size());
    for (int block = 0; block < static_cast<int>(model.blocks.size()); ++block) {
        const BlockPlan& each = plan.of(block);
        const bool uses_disk = each.weights == Home::disk || each.state == Home::disk || each.gradients == Home::disk ||
                               each.block_input == Home::disk || each.cache == Home::disk;
        WINDLASS_CHECK(plan.store || !uses_disk, "block {} lives on a disk that is not there", block);
        WINDLASS_CHECK(each.weights == Home::device || plan.order == MicroOrder::layer_first,
                       "micro_batch_first is for weights that stay");
        WINDLASS_CHECK(!recipe.probes() || each.update == UpdateTime::next_forward,
                       "block {}: updates without a backward pass are applied in the next forward", block);
        WINDLASS_CHECK(!recipe.probes() || !plan.own_memory() || !plan.store || each.weights != Home::device,
                       "block {}: weights on a device with its own memory cannot be written to disk", block);
        WINDLASS_CHECK(
            !recipe.runs(PassKind::backward) || recipe.uses_gradients_at_once() == (each.update == UpdateTime::at_once),
            "block {}: updates {}, by {}", block, update_time_name(each.update), recipe.name);
        WINDLASS_CHECK(each.update != UpdateTime::at_once ||
                           (plan.order == MicroOrder::layer_first && each.gradients != Home::disk),
                       "block {}: gradients that are used at once wait for no other block", block);
        if (!plan.own_memory() || !recipe.runs(PassKind::backward)) continue;
        const bool on_device = each.state == Home::device;
        WINDLASS_CHECK(on_device || plan.host_threads > 0, "block {}: an update on the host needs a host lane", block);
        WINDLASS_CHECK(!plan.store || !on_device,
                       "block {}: state on a device with its own memory cannot be written to disk", block);
        WINDLASS_CHECK(each.weights == Home::device || !on_device, "block {}: a device that updates weights has them",
                       block);
        WINDLASS_CHECK((each.gradients == Home::device) == on_device,
                       "block {}: gradients are where the state is, on the device or next to it", block);
    }
}

}  // namespace

int64_t cache_columns(const Block& block) {
    for (const Node& node : block.program->nodes) {
        if (node.op->cache_columns != nullptr) return node.op->cache_columns(node.spec);
    }
    return 0;
}

std::string schedule_name(const ScheduleRequest& request) {
    switch (request.kind) {
        case ScheduleRequest::Kind::train:
            return fmt::format("train/{}", request.sequence_length);
        case ScheduleRequest::Kind::eval:
            return fmt::format("eval/{}", request.sequence_length);
        case ScheduleRequest::Kind::decode:
            return fmt::format("decode/{}", request.sequence_length);
        case ScheduleRequest::Kind::phase:
            return fmt::format("{}/{}", request.phase->name, request.sequence_length);
        case ScheduleRequest::Kind::redo:
            return "redo";
        case ScheduleRequest::Kind::flush:
            return "flush";
    }
    return "?";
}

namespace {

Schedule lower_request(const LowerInput& input, const ScheduleRequest& request) {
    switch (request.kind) {
        case ScheduleRequest::Kind::train:
            WINDLASS_CHECK(input.recipe.probes() || input.recipe.runs(PassKind::backward), "{} learns nothing",
                           input.recipe.name);
            return input.recipe.probes() ? lower_probe(input, request) : lower_train(input, request);
        case ScheduleRequest::Kind::eval:
            return lower_eval(input, request);
        case ScheduleRequest::Kind::decode:
            return lower_decode(input, request);
        case ScheduleRequest::Kind::phase:
            return lower_phase(input, request);
        case ScheduleRequest::Kind::redo:
            return lower_redo(input);
        case ScheduleRequest::Kind::flush:
            break;
    }
    // A forward-only update is part of making what a pass reads, so its flush is such a step without passes.
    return input.recipe.probes() ? lower_probe(input, request) : lower_flush(input);
}

}  // namespace

std::vector<ScheduleRequest> update_requests(const Recipe& recipe, const Plan& plan,
                                             const std::vector<ScheduleRequest>& requests) {
    const bool trains = std::any_of(requests.begin(), requests.end(), [](const ScheduleRequest& each) {
        return each.kind == ScheduleRequest::Kind::train;
    });
    std::vector<ScheduleRequest> more;
    // Without a norm an update in backward is no guess: there is nothing to repeat.
    if (trains && recipe.needs_norm() && plan.any(UpdateTime::in_backward))
        more.push_back({.kind = ScheduleRequest::Kind::redo});
    if (trains && plan.any(UpdateTime::next_forward))
        more.push_back({.kind = ScheduleRequest::Kind::flush, .rows = 0, .sequence_length = 0, .micro_batches = 0});
    return more;
}

namespace {

// These schedules, next to the persistent buffers of `requests`.
ScheduleSet lower_beside(const TrainedModel& model, const Recipe& recipe, const Numerics& numerics, const Plan& plan,
                         const std::vector<ScheduleRequest>& requests, const std::vector<ScheduleRequest>& wanted,
                         bool joins_chunks) {
    require_consistent(model, recipe, plan);
    WINDLASS_CHECK(numerics.gradient_format == GradientFormat::f32 || !recipe.uses_gradients_at_once(),
                   "{} uses gradients as they were summed", recipe.name);
    PersistentWriter persistent(model, recipe, numerics, plan);
    persistent.write(requests);
    LowerInput input{model, recipe, numerics, plan, persistent.ids, static_cast<int>(persistent.buffers.size())};
    input.joins_chunks = joins_chunks;
    input.list_chunks();
    ScheduleSet set;
    for (const ScheduleRequest& request : wanted) set.schedules.push_back(lower_request(input, request));
    set.tiers = std::move(persistent.tiers);
    set.own_memory = plan.own_memory();
    set.persistent = std::move(persistent.buffers);
    set.ids = std::move(persistent.ids);
    return set;
}

}  // namespace

ScheduleSet lower(const TrainedModel& model, const Recipe& recipe, const Numerics& numerics, const Plan& plan,
                  const std::vector<ScheduleRequest>& requests) {
    std::vector<ScheduleRequest> wanted = requests;
    for (const ScheduleRequest& request : update_requests(recipe, plan, requests)) wanted.push_back(request);
    return lower_beside(model, recipe, numerics, plan, requests, wanted, /*joins_chunks=*/false);
}

ScheduleSet lower_one(const TrainedModel& model, const Recipe& recipe, const Numerics& numerics, const Plan& plan,
                      const std::vector<ScheduleRequest>& requests, const ScheduleRequest& wanted) {
    // Joined chunks change no byte and no second of an estimate, and leave a fraction of the pieces.
    return lower_beside(model, recipe, numerics, plan, requests, {wanted}, /*joins_chunks=*/true);
}

std::string persistent_key(const Plan& plan) {
    // Every field of a plan that PersistentWriter reads has to be here: bytes are kept by this key, and without one of
    // them a plan would get the bytes of another.
    std::string key = fmt::format("{} {} {} ", plan.own_memory(), plan.store, static_cast<int>(plan.order));
    // The size of groups decides which chunks visit the device, and with that in which memory their gradients wait.
    if (plan.device_groups > 0) key += fmt::format("{} {} ", plan.device_groups, plan.group_chunks);
    const auto add = [&key](const BlockPlan& block) {
        for (const Home home : {block.weights, block.state, block.gradients, block.cache})
            key += static_cast<char>('0' + static_cast<int>(home));
        key += static_cast<char>('0' + static_cast<int>(block.update));
    };
    if (plan.blocks.empty()) add(plan.common);
    for (const BlockPlan& block : plan.blocks) add(block);
    return key;
}

std::array<int64_t, kTierKinds> persistent_bytes(const TrainedModel& model, const Recipe& recipe,
                                                 const Numerics& numerics, const Plan& plan,
                                                 const std::vector<ScheduleRequest>& requests) {
    PersistentWriter persistent(model, recipe, numerics, plan);
    persistent.write(requests);
    std::array<int64_t, kTierKinds> bytes{};
    for (const BufferSpec& buffer : persistent.buffers)
        bytes[slot(persistent.tiers[at(buffer.tier)].kind)] += round_up(buffer.bytes, kParamAlignment);
    return bytes;
}

}  // namespace windlass
