// What check promises, deferred against an independent reading of the same schedules.
#include <ranges>

#include "base/index.h"
#include "base/math.h"
#include "schedule/layout.h"
#include "tests/unit/schedule/ordering.h"
#include "tests/unit/schedule/param_tasks.h"
#include "tests/unit/schedule/schedule_fixture.h"

namespace windlass {
namespace {

class Checked : public testing::TestWithParam<std::tuple<const char*, const char*>> {
  protected:
    // Calls `body` with the checked training schedule of every plan.
    void for_each_plan(const std::function<void(ScheduleSet&, const Plan&)>& body) {
        const auto& [name, method] = GetParam();
        const Recipe recipe = make_recipe(method, {});
        const TrainedModel model = stored_as(tiny_model(name), recipe);
        for (const DType compute : {DType::f32, DType::bf16}) {
            for (const Plan& plan : plans_for(recipe, model, DeviceKind::fake)) {
                SCOPED_TRACE(fmt::format("{}, {}", dtype_name(compute), describe(plan)));
                ScheduleSet set = checked(model, recipe, numerics_of(compute, 1, 8, 2), plan);
                body(set, plan);
                if (HasFailure()) return;
            }
        }
    }
};

// First and last task that touch each buffer, from the tasks alone; results are read after the last task.
std::vector<std::pair<int, int>> lifetimes(const ScheduleSet& set, const Schedule& schedule) {
    const int count = static_cast<int>(schedule.tasks.size());
    std::vector<std::pair<int, int>> lives(schedule.buffers.size(), {count, -1});
    for (int index = 0; index < count; ++index) {
        for (const BufferUse& use : schedule.uses_of(schedule.tasks[static_cast<size_t>(index)])) {
            const auto own = use.buffer - static_cast<int>(set.persistent.size());
            if (own < 0) continue;
            auto& [first, last] = lives[static_cast<size_t>(own)];
            first = std::min(first, index);
            last = std::max(last, index);
        }
    }
    for (const BufferSlice& output : schedule.outputs)
        lives[static_cast<size_t>(output.buffer) - set.persistent.size()].second = count;
    return lives;
}

TEST_P(Checked, BuffersAliveTogetherDoNotOverlap) {
    for_each_plan([](const ScheduleSet& set, const Plan&) {
        std::vector<int64_t> ends(set.tiers.size(), 0);
        for (const BufferSpec& buffer : set.persistent) {
            int64_t& end = ends[at(buffer.tier)];
            EXPECT_GE(buffer.offset, end) << buffer.name;
            end = buffer.offset + buffer.bytes;
        }
        for (size_t tier = 0; tier < ends.size(); ++tier) EXPECT_LE(ends[tier], set.persistent_bytes[tier]);
        const Schedule& schedule = set.schedules[0];
        const auto lives = lifetimes(set, schedule);
        for (size_t a = 0; a < lives.size(); ++a) {
            const BufferSpec& x = schedule.buffers[a];
            EXPECT_GE(x.offset, set.persistent_bytes[at(x.tier)]) << x.name;
            EXPECT_LE(x.offset + x.bytes, set.arena_bytes[at(x.tier)]) << x.name;
            EXPECT_EQ(x.offset % kParamAlignment, 0) << x.name;
            for (size_t b = 0; b < a; ++b) {
                const BufferSpec& y = schedule.buffers[b];
                if (x.tier != y.tier) continue;
                if (lives[a].second < lives[b].first || lives[b].second < lives[a].first) continue;
                EXPECT_TRUE(x.offset + x.bytes <= y.offset || y.offset + y.bytes <= x.offset)
                    << x.name << ", " << y.name;
            }
        }
    });
}

// The peak is what lives at one time; placement adds little to it.
TEST_P(Checked, ReportedPeakIsTheLargestSumOfLiveBytes) {
    for_each_plan([](const ScheduleSet& set, const Plan&) {
        const Schedule& schedule = set.schedules[0];
        const auto lives = lifetimes(set, schedule);
        for (int tier = 0; tier < std::ssize(set.tiers); ++tier) {
            int64_t peak = 0, transient = 0;
            for (int index = 0; index <= static_cast<int>(schedule.tasks.size()); ++index) {
                int64_t alive = 0;
                for (size_t buffer = 0; buffer < lives.size(); ++buffer) {
                    const bool lives_now = lives[buffer].first <= index && index <= lives[buffer].second;
                    if (lives_now && schedule.buffers[buffer].tier == tier)
                        alive += round_up(schedule.buffers[buffer].bytes, kParamAlignment);
                }
                peak = std::max(peak, alive);
            }
            EXPECT_GE(schedule.transient_bytes[at(tier)], peak);
            EXPECT_LE(static_cast<double>(schedule.transient_bytes[at(tier)]), 1.3 * static_cast<double>(peak));
            for (const Schedule& each : set.schedules) transient = std::max(transient, each.transient_bytes[at(tier)]);
            EXPECT_EQ(set.arena_bytes[at(tier)], set.persistent_bytes[at(tier)] + transient);
            int64_t owned = 0;
            for (const int64_t bytes : peak_by_tag(set, tier)) owned += bytes;
            EXPECT_LE(owned, set.arena_bytes[at(tier)]);
        }
    });
}

TEST_P(Checked, TasksThatTouchTheSameBytesAreOrdered) {
    for_each_plan([](const ScheduleSet& set, const Plan&) {
        for (const Schedule& schedule : set.schedules) {
            const auto found = hazards(set, schedule);
            EXPECT_TRUE(found.empty()) << schedule.name << ": " << found.size() << ", the first between tasks "
                                       << found[0].first << " and " << found[0].second;
        }
    });
}

// A wait that other waits do not imply is there for a reason: without it two tasks meet in the same bytes, or in places
// of two buffers that overlap.
TEST_P(Checked, NoWaitMayBeLeftOut) {
    int left_out = 0;
    for_each_plan([&](ScheduleSet& set, const Plan& plan) {
        if (plan.read_ahead == 2) return;
        Schedule& schedule = set.schedules[0];
        ASSERT_TRUE(hazards(set, schedule, Meeting::buffers).empty());
        for (size_t index = 0; index < schedule.tasks.size(); ++index) {
            // These wait for what they report, and for the clip factor: no bytes of a buffer.
            const Task& task = schedule.tasks[index];
            if (is_mark(schedule, task) || param_of(schedule, task, is_update) != nullptr) continue;
            Waits& after = schedule.tasks[index].after;
            for (const Waits all = after; const Wait& wait : all) {
                after.drop(wait.lane);
                if (TaskOrder(schedule).before(index)[at(wait.lane)] < wait.count) {
                    ++left_out;
                    EXPECT_FALSE(hazards(set, schedule, Meeting::buffers).empty())
                        << "task " << index << " waits for nothing in lane " << wait.lane;
                }
                after = all;
            }
        }
    });
    EXPECT_GT(left_out, 0);
}

INSTANTIATE_TEST_SUITE_P(Models, Checked,
                         testing::Combine(testing::Values("llama", "gpt2"), testing::ValuesIn(method_names())),
                         [](const auto& info) {
                             return fmt::format("{}_{}", std::get<0>(info.param), std::get<1>(info.param));
                         });

// All schedules of a run share its persistent buffers; evaluation and generation are deferred to the same.
TEST(Check, EvaluationAndGenerationAreOrderedToo) {
    const TrainedModel model = tiny_model("qwen3");
    for (const Plan& plan : plans_on(DeviceKind::cpu)) {
        const Numerics numerics = numerics_of(DType::f32, 1, 8, 2);
        ScheduleSet set = lower(model, make_recipe("adamw", {}), numerics, plan,
                                {train_request(numerics),
                                 {ScheduleRequest::Kind::eval, 1, 8, 2},
                                 {ScheduleRequest::Kind::decode, 1, 8, 1, 32},
                                 {ScheduleRequest::Kind::decode, 1, 1, 1, 32}});
        check(set);
        ASSERT_GE(set.schedules.size(), 4u);
        for (const Schedule& schedule : set.schedules) {
            EXPECT_TRUE(hazards(set, schedule).empty()) << schedule.name << ": " << describe(plan);
            EXPECT_EQ(set.find(schedule.name), &schedule);
        }
        EXPECT_GT(set.ids.caches[1].bytes, 0);
        EXPECT_EQ(set.ids.cache_rows, 32);
    }
}

// A schedule of two buffers, written by hand.
ScheduleSet by_hand(const std::vector<BufferUse>& first, const std::vector<BufferUse>& second) {
    ScheduleSet set;
    Schedule schedule{.name = "by hand"};
    schedule.buffers = {{.name = "a", .bytes = 10}, {.name = "b", .bytes = 10}};
    schedule.params = {{.kernel = &kSumSquares, .chunks = {{.param = 0}}}};
    for (const std::vector<BufferUse>& uses : {first, second}) {
        schedule.tasks.push_back({.verb = Verb::param,
                                  .payload = 0,
                                  .first_use = static_cast<int>(schedule.uses.size()),
                                  .use_count = static_cast<int>(uses.size())});
        schedule.uses.insert(schedule.uses.end(), uses.begin(), uses.end());
    }
    set.schedules.push_back(std::move(schedule));
    return set;
}

TEST(CheckDeath, RefusesAReadOfWhatNobodyWrote) {
    ScheduleSet set = by_hand({{0, true}, {1, false}}, {{1, true}});
    EXPECT_DEATH(check(set), "by hand reads b, which no task wrote");
}

TEST(CheckDeath, RefusesABufferThatNobodyUses) {
    ScheduleSet set = by_hand({{0, true}}, {{0, false}});
    EXPECT_DEATH(check(set), "no task uses b");
}

TEST(CheckDeath, RefusesATaskWithoutItsBuffer) {
    ScheduleSet set = by_hand({{0, true}}, {{kNoBuffer, true}});
    EXPECT_DEATH(check(set), "uses a buffer that was never made");
}

// Everything in memory, updated before the norm is known.
ScheduleSet guessing_set() {
    const Numerics numerics = numerics_of(DType::bf16, 1, 8, 1);
    const Plan plan{.policy = "guess", .common = {.update = UpdateTime::in_backward}};
    return lower(tiny_model("llama"), make_recipe("adamw", {}), numerics, plan, {train_request(numerics)});
}

// Takes uses of kept versions from a task of the training step that has some.
void forget_to_keep(ScheduleSet& set, bool all) {
    for (Task& task : set.schedules[0].tasks) {
        const auto keeps = [&](const BufferUse& use) { return set.persistent[at(use.buffer)].tag == MemoryTag::kept; };
        const auto persistent = [&](const BufferUse& use) { return at(use.buffer) < set.persistent.size(); };
        const std::span<BufferUse> uses = set.schedules[0].uses_of(task);
        const auto kept = std::remove_if(uses.begin(), uses.end(),
                                         [&](const BufferUse& use) { return persistent(use) && keeps(use); });
        task.use_count = static_cast<int>(kept - uses.begin());
        if (kept != uses.end() && !all) return;
    }
}

TEST(CheckDeath, RefusesToGoBackToWhatWasNotKept) {
    for (const bool all : {false, true}) {
        ScheduleSet set = guessing_set();
        forget_to_keep(set, all);
        EXPECT_DEATH(check(set), "redo goes back to bytes .* of kept, which train/8 did not keep");
    }
}

TEST(CheckDeath, RefusesToGoBackWhereNobodyGuesses) {
    ScheduleSet set = guessing_set();
    for (ParamTask& task : set.schedules[0].params) task.speculative = false;
    EXPECT_DEATH(check(set), "redo goes back to what no schedule kept");
}

TEST(CheckDeath, RefusesAGuessThatCannotBeTakenBack) {
    ScheduleSet set = guessing_set();
    // The last task that keeps something keeps a chunk less.
    for (ParamTask& task : std::views::reverse(set.schedules[0].params)) {
        if (!task.kernel->writes(ParamSlot::kept)) continue;
        task.chunks.pop_back();
        break;
    }
    EXPECT_DEATH(check(set), "train/8 speculates an update of parameter .* and keeps nothing to go back to");
}

TEST(Check, TakesOverAddressesOnlyFromTheDead) {
    ScheduleSet set = by_hand({{0, true}}, {{1, true}});
    set.schedules[0].tasks[1].lane = lane_number(LaneKind::disk_read);
    check(set);
    const Schedule& schedule = set.schedules[0];
    EXPECT_EQ(schedule.buffers[0].offset, schedule.buffers[1].offset);
    EXPECT_EQ(schedule.transient_bytes[slot(TierKind::device)], kParamAlignment);
    EXPECT_EQ(schedule.tasks[1].after, (Waits{{lane_number(LaneKind::compute), 1}}));
    EXPECT_TRUE(schedule.tasks[0].after.empty());
}

}  // namespace
}  // namespace windlass
