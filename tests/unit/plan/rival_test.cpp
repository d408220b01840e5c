// The same step in several micro-batches: whole searches that a first look, which knows the larger ones' plan, spares.
#include "base/units.h"
#include "plan/planner.h"
#include "schedule/machine_profiles.h"
#include "tests/sanitizer.h"
#include "tests/unit/schedule/schedule_fixture.h"

namespace windlass {
namespace {

// What is found for 8 rows in so many micro-batches.
struct Found {
    int64_t rows = 0;
    double seconds = 0;
    int searches = 0;
    int evaluations = 0;
};

class Rivals : public testing::Test {
  protected:
    void SetUp() override {
        if (is_second_run()) GTEST_SKIP() << "long searches, which the first run has";
    }
    std::optional<Planned> plan(const PlanRequest& wanted, int64_t rows, const std::optional<Rival>& rival) {
        const Numerics numerics = numerics_of(DType::bf16, rows, 512, static_cast<int>(kRows / rows));
        PlanRequest request = wanted;
        request.schedules = {train_request(numerics)};
        PlanOutcome outcome = find_plan(model_, recipe_, numerics, machine_, request, rival);
        if (std::holds_alternative<NoFit>(outcome)) return std::nullopt;
        return std::get<Planned>(std::move(outcome));
    }

    Found fastest(const PlanRequest& request, bool with_rivals) {
        Found best;
        std::optional<Rival> rival;
        for (int64_t rows = kRows; rows > 0; rows /= 2) {
            const std::optional<Planned> planned = plan(request, rows, with_rivals ? rival : std::nullopt);
            if (!planned) continue;
            ++best.searches;
            best.evaluations += planned->evaluations;
            if (best.rows > 0 && planned->mean_seconds >= best.seconds) continue;
            best.rows = rows, best.seconds = planned->mean_seconds;
            rival = Rival{planned->plan.policy, planned->choice, planned->mean_seconds};
        }
        return best;
    }

    static constexpr int64_t kRows = 8;
    const TrainedModel model_ = model_of(R"({"model_type": "llama", "hidden_size": 512, "intermediate_size": 1408,
        "num_hidden_layers": 3, "num_attention_heads": 8, "num_key_value_heads": 8, "vocab_size": 4000,
        "max_position_embeddings": 2048, "tie_word_embeddings": true})");
    const Recipe recipe_ = make_recipe("adamw", {});
    Machine machine_ = find_machine(real_files(), "rtx4090-desktop");
};

// Under this budget micro-batches of half the rows are the fastest, and those of all rows fit.
TEST_F(Rivals, LoseNothingToWholeSearches) {
    const PlanRequest request{.device = {.kind = DeviceKind::fake, .own_memory = true},
                              .threads = machine_.threads,
                              .budgets = {.ram = 2 * kGiB, .device = 212 * kMiB}};
    const Found whole = fastest(request, false), found = fastest(request, true);
    EXPECT_EQ(whole.rows, 4);
    EXPECT_EQ(whole.searches, 4);
    EXPECT_EQ(found.rows, whole.rows);
    EXPECT_LE(found.seconds, 1.03 * whole.seconds);  // a first look that gains less than a tenth is the answer
    EXPECT_LT(found.evaluations, whole.evaluations / 2);
}

// In memory fits one row only. Fewer rows are to be tried, however slow another policy is with these.
TEST_F(Rivals, AreLookedForWhereAFasterPolicyMayFitFewerRows) {
    PlanRequest request{.device = {.kind = DeviceKind::fake, .own_memory = true},
                        .threads = machine_.threads,
                        .budgets = {.ram = 2 * kGiB, .device = 16 * kGiB}};
    request.policy = "in_memory";
    // As little as one row takes.
    while (const std::optional<Planned> planned = plan(request, 1, std::nullopt))
        request.budgets.device = planned->device_bytes * 31 / 32;
    request.budgets.device = request.budgets.device * 33 / 31;
    ASSERT_TRUE(plan(request, 1, std::nullopt));
    ASSERT_FALSE(plan(request, kRows / 2, std::nullopt));
    request.policy.clear();
    const std::optional<Planned> more = plan(request, kRows, std::nullopt);
    ASSERT_TRUE(more);
    const Rival rival{more->plan.policy, more->choice, 0.8 * more->mean_seconds};  // what no look reaches
    const Numerics numerics = numerics_of(DType::bf16, kRows / 2, 512, 2);
    request.schedules = {train_request(numerics)};
    const PlanOutcome outcome = find_plan(model_, recipe_, numerics, machine_, request, rival);
    ASSERT_TRUE(std::holds_alternative<NoFit>(outcome));
    EXPECT_EQ(std::get<NoFit>(outcome).slower_seconds, 0);
}

// A comparison starts from the plan that it compares with: a fraction of the search, and nearly as good.
TEST_F(Rivals, ComparisonsAreFirstLooks) {
    const PlanRequest request{.device = {.kind = DeviceKind::fake, .own_memory = true},
                              .threads = machine_.threads,
                              .budgets = {.ram = 2 * kGiB, .device = 200 * kMiB}};
    const std::optional<Planned> larger = plan(request, 8, std::nullopt), whole = plan(request, 4, std::nullopt);
    ASSERT_TRUE(larger && whole);
    for (const FoundChoice& start : {FoundChoice{larger->plan.policy, larger->choice}, FoundChoice{}}) {
        PlanRequest compared = request;
        compared.start = start;
        const std::optional<Planned> look = plan(compared, 4, std::nullopt);
        ASSERT_TRUE(look);
        EXPECT_LT(look->evaluations, whole->evaluations / 2);
        EXPECT_LE(look->mean_seconds, 1.1 * whole->mean_seconds);
        compared.budgets.device = kMiB;
        EXPECT_FALSE(plan(compared, 4, std::nullopt)) << "what a first look does not find, the search refuses";
    }
}

// What is faster of another policy is found, too: fewer rows at a time fit into memory.
TEST_F(Rivals, MayHaveAnotherPolicy) {
    machine_ = completed({.name = "laptop",
                          .threads = 8,
                          .gemm_bf16_flops = 5e11,
                          .memory_bytes_per_s = 4e10,
                          .disk_read_bytes_per_s = 5e8,
                          .disk_write_bytes_per_s = 5e8});
    const PlanRequest request{.threads = machine_.threads, .budgets = {.ram = 300 * kMiB, .disk = int64_t{1} << 40}};
    const std::optional<Planned> larger = plan(request, 8, std::nullopt);
    ASSERT_TRUE(larger);
    EXPECT_EQ(larger->plan.policy, "three_tier");
    // With a store a step of 4 rows at a time takes longer than this, in memory 0.753 s.
    const std::optional<Planned> found = plan(request, 4, Rival{"three_tier", larger->choice, 0.76});
    ASSERT_TRUE(found);
    EXPECT_EQ(found->plan.policy, "in_memory");
}

}  // namespace
}  // namespace windlass
