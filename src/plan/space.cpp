#include "plan/space.h"

#include <algorithm>
#include <numeric>

#include "model/saved.h"
#include "schedule/pass_bytes.h"

namespace windlass {
namespace {

double recompute_seconds(const SavedValue& value, const Machine& machine, DType compute) {
    const double flops = machine.gemm_flops(compute);
    const double memory =
        machine.device_memory_bytes_per_s > 0 ? machine.device_memory_bytes_per_s : machine.memory_bytes_per_s;
    return (flops > 0 ? value.recompute_flops / flops : 0) +
           (memory > 0 ? static_cast<double>(value.recompute_bytes) / memory : 0);
}

std::vector<SaveChoice> saved_choices(const Choice& choice, const std::vector<int>& rank) {
    std::vector<SaveChoice> saved(rank.size(), SaveChoice::recompute);
    const size_t keep = static_cast<size_t>(at(choice, Knob::keep));
    const size_t offload = keep + static_cast<size_t>(at(choice, Knob::offload));
    const size_t spill = offload + static_cast<size_t>(at(choice, Knob::spill));
    for (size_t place = 0; place < rank.size(); ++place) {
        SaveChoice& value = saved[static_cast<size_t>(rank[place])];
        if (place < keep)
            value = SaveChoice::keep;
        else if (place < offload)
            value = kKeepOnHost;
        else if (place < spill)
            value = kKeepOnDisk;
    }
    return saved;
}

}  // namespace

Choice Space::leanest() const {
    Choice choice{};
    for (size_t knob = 0; knob < kKnobs; ++knob) choice[knob] = values[knob].front();
    return choice;
}

Choice Space::middle() const {
    Choice choice{};
    for (size_t knob = 0; knob < kKnobs; ++knob) choice[knob] = values[knob][values[knob].size() / 2];
    return choice;
}

Choice Space::richest() const {
    Choice choice{};
    for (size_t knob = 0; knob < kKnobs; ++knob) choice[knob] = values[knob].back();
    for (const Knob knob : {Knob::update_ahead, Knob::group_chunks}) at(choice, knob) = of(knob)[of(knob).size() / 2];
    return choice;
}

Choice Space::canonical(Choice choice) const {
    // An evaluation lowers a schedule: choices that are the same plan must be one choice.
    if (at(choice, Knob::update) != static_cast<int>(UpdateTime::in_backward)) at(choice, Knob::deferred) = 0;
    if (at(choice, Knob::held_weights) == 0) at(choice, Knob::device_groups) = 0;
    int left =
        std::max({of(Knob::keep).back(), of(Knob::offload).back(), of(Knob::spill).back()});  // as a block may have
    for (const Knob knob : {Knob::keep, Knob::offload, Knob::spill})
        left -= at(choice, knob) = std::min(at(choice, knob), left);
    return choice;
}

Space Space::recomputing() const {
    Space space = *this;
    for (const Knob knob : {Knob::keep, Knob::offload, Knob::spill}) {
        if (of(knob).front() != 0) return *this;
        space.of(knob) = {0};
    }
    return space;
}

int64_t Space::size() const {
    int64_t product = 1;
    for (const std::vector<int>& knob : values) product *= std::ssize(knob);
    return product;
}

namespace {

// Each step's update is applied again until it is written back, so that the longer the period, the more random numbers
// are drawn: half as many a step as it has steps. Signs cost little; hundreds of normal numbers for a weight never
// pay.
std::vector<int> writeback_choices(const Space& space, const TrainedModel& model, const Recipe& recipe, int wanted) {
    // Weights that are updated where they live are never stale.
    const bool is_written_back = space.base.store || (space.base.own_memory() && space.near != Home::device);
    if (recipe.merge == Merge::per_window) return {static_cast<int>(recipe.merge_window)};
    if (!is_written_back) return {1};
    if (wanted > 0) return {wanted};
    std::vector<int> choices = {1, 2, 4, 8, 16};
    const auto all = model.all_params();
    const bool is_cheap = std::ranges::all_of(all, [&](const Param& param) { return recipe.draws(param, -1, 1) < 1; });
    if (is_cheap) choices.insert(choices.end(), {64, 256});
    return choices;
}

}  // namespace

std::vector<Space> by_residence(const Space& space) {
    std::vector<Space> spaces;
    for (const int share : space.of(Knob::resident)) {
        spaces.push_back(space);
        spaces.back().of(Knob::resident) = {share};
    }
    return spaces;
}

Space forward_only(Space space, const TrainedModel& model, const Recipe& recipe, int writeback_steps) {
    for (const Knob knob : {Knob::state, Knob::gradients}) space.of(knob) = {kShares};
    for (const Knob knob : {Knob::held_weights, Knob::device_groups, Knob::deferred, Knob::keep, Knob::offload,
                            Knob::spill, Knob::update_ahead, Knob::host_threads})
        space.of(knob) = {0};
    space.of(Knob::update) = {static_cast<int>(UpdateTime::next_forward)};
    space.of(Knob::block_input) = {static_cast<int>(Home::device)};
    // Each block is fetched once a step, for all micro-batches and directions.
    space.of(Knob::order) = {static_cast<int>(MicroOrder::layer_first)};
    space.of(Knob::group_chunks) = {1};
    // A forward-only step is often bound by its link, and has few knobs: a search for each sixteenth that might fit is
    // cheap.
    if (std::vector<int>& shares = space.of(Knob::resident); shares.size() > 1) {
        shares.resize(kResidentShares);
        std::iota(shares.begin(), shares.end(), 0);
    }
    const bool has_pairs = std::any_of(recipe.passes.begin(), recipe.passes.end(), [](const RecipePass& pass) {
        return pass.kind == PassKind::forward && pass.k > 1;
    });
    // Least memory first, as for every knob: one probed copy instead of one for each point.
    if (has_pairs) space.of(Knob::one_probe) = {1, 0};
    space.of(Knob::writeback_steps) = writeback_choices(space, model, recipe, writeback_steps);
    if (space.base.own_memory() && space.of(Knob::read_ahead).size() > 1) {
        space.of(Knob::upload_ahead) = {0, 1, 2, 3, 4};
        if (!space.base.store) space.of(Knob::read_ahead) = {0};  // nothing is read
    }
    return space;
}

Space at_once(Space space) {
    space.of(Knob::gradients) = {kShares};
    space.of(Knob::deferred) = space.of(Knob::held_weights) = space.of(Knob::device_groups) = {0};
    space.of(Knob::update) = {static_cast<int>(UpdateTime::at_once)};
    // A block's gradient is complete, and can be used up, only once all micro-batches have passed the block.
    space.of(Knob::order) = {static_cast<int>(MicroOrder::layer_first)};
    return space;
}

SavedRanks rank_saved(const TrainedModel& model, const ScheduleRequest& largest, DeviceKind device,
                      const Numerics& numerics, const Machine& machine) {
    SavedRanks ranks;
    const OpSize size{.rows = largest.rows,
                      .sequence_length = largest.sequence_length,
                      .device = device,
                      .compute = numerics.compute};
    for (const Block& block : model.blocks) {
        if (ranks.contains(block.program.get())) continue;
        // One ranking for each program turns a choice of subsets into three numbers, which a search can turn one at a
        // time.
        const std::vector<SavedValue> values = saved_values(*block.program, size, trainable_of(model, block));
        std::vector<int> rank(values.size());
        std::iota(rank.begin(), rank.end(), 0);
        const auto worth = [&](int value) {
            const SavedValue& saved = values[static_cast<size_t>(value)];
            return recompute_seconds(saved, machine, numerics.compute) /
                   static_cast<double>(std::max<int64_t>(1, saved.bytes));
        };
        std::stable_sort(rank.begin(), rank.end(), [&](int a, int b) { return worth(a) > worth(b); });
        ranks[block.program.get()] = std::move(rank);
    }
    return ranks;
}

int most_saved(const SavedRanks& ranks) {
    size_t most = 0;
    for (const auto& [program, rank] : ranks) most = std::max(most, rank.size());
    return static_cast<int>(most);
}

bool in_share(int block, int share, int shares) {
    // Spread over the depth, so that a link or a drive has about as much to do in each part of a pass.
    return (block + 1) * share / shares > block * share / shares;
}

std::vector<const Program*> programs_of(const ModelSpec& model) {
    return programs_of(model, static_cast<int>(model.blocks.size()));
}

std::vector<const Program*> programs_of(const ModelSpec& model, int blocks) {
    std::vector<const Program*> programs;
    for (int block = 0; block + 1 < blocks; ++block)
        programs.push_back(model.blocks[static_cast<size_t>(block)].program.get());
    programs.push_back(model.blocks.back().program.get());
    return programs;
}

int period_of(const Choice& choice) {
    int period = kResidentShares / std::gcd(kResidentShares, at(choice, Knob::resident));
    for (const Knob knob : {Knob::held_weights, Knob::weights, Knob::state, Knob::gradients, Knob::deferred})
        period = std::lcm(period, kShares / std::gcd(kShares, at(choice, knob)));
    return std::lcm(period, std::max(1, at(choice, Knob::device_groups)));
}

Plan plan_of(const Space& space, const Choice& choice, const SavedRanks& ranks,
             const std::vector<const Program*>& programs) {
    Plan plan = space.base;
    plan.host_threads = at(choice, Knob::host_threads);
    // The processors that update are not there to compute; a device of its own computes by itself.
    if (plan.device.kind == DeviceKind::cpu) plan.threads = std::max(1, plan.threads - plan.host_threads);
    plan.order = static_cast<MicroOrder>(at(choice, Knob::order));
    plan.read_ahead = at(choice, Knob::read_ahead);
    plan.update_ahead = at(choice, Knob::update_ahead);
    plan.group_chunks = at(choice, Knob::group_chunks);
    plan.device_groups = at(choice, Knob::device_groups);
    plan.upload_ahead = at(choice, Knob::upload_ahead);
    // One knob turns both: weights that go up early must have been read early, and a search that turns one knob at a
    // time would find neither.
    plan.read_ahead = std::max(plan.read_ahead, plan.upload_ahead);  // what goes up was read
    plan.one_probe = at(choice, Knob::one_probe) == 1;
    plan.writeback_steps = std::max(1, at(choice, Knob::writeback_steps));
    const auto home = [&](Knob knob, int block) {
        if (in_share(block, at(choice, Knob::resident), kResidentShares)) return Home::device;
        if (knob == Knob::weights && in_share(block, at(choice, Knob::held_weights))) return Home::device;
        return in_share(block, at(choice, knob)) ? space.near : space.far;
    };
    for (int block = 0; block < static_cast<int>(programs.size()); ++block) {
        BlockPlan each{.weights = home(Knob::weights, block),
                       .state = home(Knob::state, block),
                       .gradients = home(Knob::gradients, block),
                       .block_input = static_cast<Home>(at(choice, Knob::block_input)),
                       .cache = static_cast<Home>(at(choice, Knob::cache)),
                       .update = static_cast<UpdateTime>(at(choice, Knob::update))};
        // Guesses and deferred updates gain little without each other, so a plan may have both.
        if (each.update == UpdateTime::in_backward && in_share(block, at(choice, Knob::deferred)))
            each.update = UpdateTime::next_forward;
        const std::vector<int>& rank = ranks.at(programs[static_cast<size_t>(block)]);
        each.saved = saved_choices(choice, rank);
        each.recompute = at(choice, Knob::keep) + at(choice, Knob::offload) + at(choice, Knob::spill) == 0;
        plan.blocks.push_back(std::move(each));
    }
    return plan;
}

}  // namespace windlass
