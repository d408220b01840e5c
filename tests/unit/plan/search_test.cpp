// The search against trying everything, on spaces that are small enough for that.
#include "plan/search.h"

#include "plan/planner.h"
#include "tests/sanitizer.h"
#include "tests/unit/schedule/schedule_fixture.h"

namespace windlass {
namespace {

Machine machine_with_a_card() {
    return {.gemm_bf16_flops = 1e12,
            .gemm_f32_flops = 5e11,
            .memory_bytes_per_s = 2e10,
            .device_memory_bytes_per_s = 1e11,
            .link_up_bytes_per_s = 5e9,
            .link_down_bytes_per_s = 5e9,
            .link_both_bytes_per_s = 8e9,
            .disk_read_bytes_per_s = 3e9,
            .disk_write_bytes_per_s = 1e9,
            .disk_mixed_bytes_per_s = 2e9,
            .update_bytes_per_s = 2e10};
}

// Every knob keeps its first and last value, and some keep one between: a few thousand choices.
Space thinned(Space space) {
    for (size_t knob = 0; knob < kKnobs; ++knob) {
        std::vector<int>& values = space.values[knob];
        const bool between = knob == static_cast<size_t>(Knob::update) || knob == static_cast<size_t>(Knob::keep);
        if (values.size() > 2) {
            std::vector<int> few = {values.front()};
            if (between) few.push_back(values[values.size() / 2]);
            few.push_back(values.back());
            values = few;
        }
    }
    space.of(Knob::spill) = space.of(Knob::offload) = {0};
    space.of(Knob::group_chunks) = {1};
    space.of(Knob::deferred) = {0};
    return space;
}

class Search : public testing::TestWithParam<std::tuple<const char*, bool, int>> {};

// Whatever memory it takes, and soon.
void expect_fastest(const Space& space, const std::vector<Choice>& all, std::function<double(const Choice&)> seconds) {
    double least = std::numeric_limits<double>::infinity();
    for (const Choice& choice : all) least = std::min(least, seconds(choice));
    Evaluator evaluate([&](const Choice& choice) { return Evaluation{.seconds = seconds(choice)}; });
    EXPECT_LE(fastest_at_first_sight(space, evaluate).seconds, 1.03 * least);
    EXPECT_LT(std::ssize(evaluate.seen()), std::ssize(all) / 8);
    EXPECT_LE(fastest_without_limits(space, evaluate).seconds, 1.01 * least);
    EXPECT_LT(std::ssize(evaluate.seen()), std::ssize(all) / 2);
}

// With budgets between the least that a policy needs and all that it could use.
TEST_P(Search, IsWithinThreePercentOfTheBest) {
    const auto& [name, own_memory, tokens] = GetParam();
    const TrainedModel model = tiny_model(name);
    const Recipe recipe = make_recipe("adamw", {});
    const Numerics numerics = numerics_of(DType::bf16, 2, tokens, 2);
    PlanRequest request{.policy = "three_tier",
                        .device = {.own_memory = own_memory},
                        .threads = 4,
                        .budgets = {.ram = kPlenty, .disk = kPlenty, .device = kPlenty},
                        .schedules = {train_request(numerics)}};
    const SavedRanks ranks =
        rank_saved(model, request.schedules[0], request.device.kind, numerics, machine_with_a_card());
    const Policy* three_tier = all_policies()[2];
    const Space space = thinned(*three_tier->space(request, {.saved_most = most_saved(ranks), .block_chunks = 1}));
    std::map<Choice, Planned> planned;
    const auto plan = [&](const Choice& choice) -> const Planned& {
        const auto found = planned.find(choice);
        if (found != planned.end()) return found->second;
        Planned made = evaluate_plan(model, recipe, numerics, machine_with_a_card(), request,
                                     plan_of(space, choice, ranks, programs_of(model)));
        made.schedules = {};
        made.step.tasks = {};
        return planned.emplace(choice, std::move(made)).first->second;
    };
    // All of them.
    std::vector<Choice> all = {Choice{}};
    for (size_t knob = 0; knob < kKnobs; ++knob) {
        std::vector<Choice> longer;
        for (Choice choice : all) {
            for (const int value : space.values[knob]) choice[knob] = value, longer.push_back(choice);
        }
        all = std::move(longer);
    }
    ASSERT_EQ(std::ssize(all), space.size());
    int64_t least = kPlenty, most = 0;
    for (const Choice& choice : all) {
        least = std::min(least, plan(choice).memory_bytes);
        most = std::max(most, plan(choice).memory_bytes);
    }
    expect_fastest(space, all, [&](const Choice& choice) { return plan(choice).step.seconds; });
    for (const int tenth : {0, 1, 3, 6, 10}) {
        const int64_t ram = least + (most - least) * tenth / 10;
        const auto cost = [&](const Choice& choice) {
            const Planned& made = plan(choice);
            return Evaluation{.seconds = made.step.seconds + 0.1 * made.redo_seconds,
                              .memory_bytes = made.memory_bytes};
        };
        double best = std::numeric_limits<double>::infinity();
        for (const Choice& choice : all) {
            if (cost(choice).memory_bytes <= ram) best = std::min(best, cost(choice).seconds);
        }
        Evaluator evaluate(cost);
        const std::vector<Choice> found = search(space, evaluate, {.memory = ram});
        ASSERT_FALSE(found.empty());
        EXPECT_LE(cost(found[0]).memory_bytes, ram);
        EXPECT_LE(cost(found[0]).seconds, 1.03 * best) << "with " << tenth << "/10 of the memory";
        EXPECT_LT(std::ssize(evaluate.seen()), std::ssize(all) / 2);
    }
}

// What is found does not depend on the build; sanitizers look at how, which the first of the cases shows.
template <typename T>
std::vector<T> some(std::vector<T> cases) {
    if (is_sanitized()) cases.resize(1);
    return cases;
}

INSTANTIATE_TEST_SUITE_P(Cases, Search,
                         testing::Combine(testing::ValuesIn(some<const char*>({"llama", "gpt2"})), testing::Bool(),
                                          testing::ValuesIn(some<int>({8, 64}))));

TEST(Search, FindsNothingWhereNothingFits) {
    Space space;
    space.values.fill({0, 1});
    Evaluator evaluate([](const Choice&) { return Evaluation{.memory_bytes = 2}; });
    EXPECT_TRUE(search(space, evaluate, {.memory = 1}).empty());
}

// Where nothing fits, choices are compared by their bytes, and none is timed.
TEST(Search, TimesOnlyWhatMayBeTheAnswer) {
    Space space;
    space.values.fill({0});
    space.of(Knob::keep) = {0, 1, 2, 3, 4, 5};
    int timed = 0;
    const auto bytes = [](const Choice& choice) { return Evaluation{.memory_bytes = 10 + at(choice, Knob::keep)}; };
    const auto whole = [&](const Choice& choice) {
        ++timed;
        Evaluation evaluation = bytes(choice);
        evaluation.seconds = 10 - at(choice, Knob::keep);
        return evaluation;
    };
    Evaluator nothing(ChoiceCosts{.whole = whole, .bytes = bytes});
    EXPECT_FALSE(anything_fits(space, nothing, {.memory = 9}));
    EXPECT_GT(nothing.sized().size(), 0u);
    EXPECT_EQ(timed, 0);
    Evaluator some(ChoiceCosts{.whole = whole, .bytes = bytes});
    EXPECT_TRUE(anything_fits(space, some, {.memory = 10}));
    EXPECT_EQ(timed, 0);
    const std::vector<Choice> found = search(space, some, {.memory = 13});
    ASSERT_FALSE(found.empty());
    EXPECT_EQ(at(found.front(), Knob::keep), 3);
    EXPECT_EQ(std::ssize(some.seen()), timed);
}

TEST(Search, SizesNothingThatTakesTooMuchAtLeast) {
    Space space;
    space.values.fill({0});
    space.of(Knob::keep) = {0, 1, 2, 3, 4, 5};
    const auto bytes = [](const Choice& choice) { return Evaluation{.memory_bytes = 10 + at(choice, Knob::keep)}; };
    Evaluator evaluate(ChoiceCosts{.whole = bytes, .bytes = bytes, .least = bytes});
    descend_from(space.leanest(), space, evaluate, {.memory = 12});
    EXPECT_EQ(evaluate.sized().size(), 3u);
}

// What a rung of the ladder passes by, since it takes more than the rung, counts for larger budgets and is timed for
// them alone. Rungs are a third above one another here, and the first above the budget is searched, too.
TEST(Search, TimesForLargerBudgetsOnlyUnderThem) {
    Space space;
    space.values.fill({0});
    space.of(Knob::keep) = {0, 1, 2, 3, 4, 5};
    const auto bytes = [](const Choice& choice) {
        return Evaluation{.memory_bytes = 1000 * (1 + at(choice, Knob::keep))};
    };
    const auto whole = [&](const Choice& choice) {
        Evaluation evaluation = bytes(choice);
        evaluation.seconds = 10 - at(choice, Knob::keep);
        return evaluation;
    };
    for (const int64_t budget : {2100, 4100}) {
        Evaluator evaluate(ChoiceCosts{.whole = whole, .bytes = bytes});
        const std::vector<Choice> found = search(space, evaluate, {.memory = budget});
        EXPECT_EQ(at(found.at(0), Knob::keep), budget / 1000 - 1);
        for (const auto& [choice, evaluation] : evaluate.seen()) EXPECT_LE(evaluation.memory_bytes, budget * 4 / 3);
        EXPECT_GT(evaluate.sized().size(), evaluate.seen().size());
    }
}

TEST(Space, SharesAreSpreadEvenly) {
    for (int share = 0; share <= kShares; ++share) {
        int count = 0;
        for (int block = 0; block < 10 * kShares; ++block) {
            count += in_share(block, share) ? 1 : 0;
            EXPECT_LE(std::abs(count * kShares - (block + 1) * share), kShares) << share << " " << block;
        }
        EXPECT_EQ(count, 10 * share);
    }
}

// Each is nearly as fast as the next, with more slack, and the last is faster than the first.
TEST(SearchEnds, WhereEachChoiceIsNearlyAsGoodAsTheNext) {
    Space space;
    for (std::vector<int>& values : space.values) values = {0};
    space.of(Knob::keep) = {0, 1, 2};
    int evaluations = 0;
    Evaluator evaluate([&](const Choice& choice) {
        ++evaluations;
        const int step = choice[static_cast<size_t>(Knob::keep)];
        return Evaluation{.seconds = 1 - 0.00075 * step, .slack = 2 - step};
    });
    const std::vector<Choice> found = search(space, evaluate, {});
    ASSERT_FALSE(found.empty());
    EXPECT_LT(evaluate(found[0]).seconds, 1);
    EXPECT_EQ(evaluations, 3);
}

}  // namespace
}  // namespace windlass
