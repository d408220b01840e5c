// More of anything never makes a plan slower: random models on the machines that come along, under budgets that rise.
#include "base/rng.h"
#include "base/units.h"
#include "plan/planner.h"
#include "schedule/machine_profiles.h"
#include "tests/sanitizer.h"
#include "tests/unit/schedule/schedule_fixture.h"

namespace windlass {
namespace {

constexpr double kRiseMax = 1.005;

class Dice {
  public:
    explicit Dice(uint64_t seed) : random_(seed, RandomStream::search) {}
    template <typename T>
    T of(std::initializer_list<T> values) {
        return values.begin()[random_.below(values.size())];
    }
    double between(double low, double high) {
        return low + (high - low) * static_cast<double>(random_.below(1 << 20)) / (1 << 20);
    }

  private:
    Random random_;
};

// A few layers of the width of small models, as deep as the planner lowers whole, so that its estimates are exact; and
// some that it does not.
TrainedModel some_model(Dice& dice) {
    const int heads = dice.of({4, 8, 12}), layers = dice.of({1, 2, 3, 4, 24});
    return model_of(fmt::format(R"({{"model_type": "llama", "hidden_size": {}, "intermediate_size": {},
        "num_hidden_layers": {}, "num_attention_heads": {}, "num_key_value_heads": 4, "vocab_size": {},
        "max_position_embeddings": 2048, "tie_word_embeddings": {}}})",
                                heads * 64, heads * dice.of({128, 192, 256}), layers, heads,
                                dice.of({8000, 32000, 49152}), dice.of({true, false})));
}

// What a plan is made for: everything but the budgets.
struct Question {
    Machine machine;
    TrainedModel model;
    Recipe recipe;
    Numerics numerics;

    std::optional<Planned> plan(const Budgets& budgets) const {
        const PlanRequest request{.device = {.kind = DeviceKind::fake, .own_memory = !machine.unified_memory},
                                  .threads = machine.threads,
                                  .budgets = budgets,
                                  .schedules = {train_request(numerics)}};
        try {
            return make_plan(model, recipe, numerics, machine, request);
        } catch (const UserError& error) {
            EXPECT_EQ(error.code(), ExitCode::no_fit) << error.what();
            return std::nullopt;
        }
    }
};

Question some_question(Dice& dice) {
    static constexpr std::array<const char*, 6> kMachines = {"rtx4090-desktop",   "rtx4090-server-12gen4",
                                                             "rtx5090-desktop",   "a100-server-4gen4",
                                                             "h200-server-8gen5", "laptop"};
    const std::string name = kMachines[static_cast<size_t>(dice.of({0, 1, 2, 3, 4, 5}))];
    const Machine laptop{.name = name,
                         .threads = 8,
                         .memory_bytes = 32 * kGiB,
                         .disk_bytes = int64_t{1} << 40,
                         .gemm_bf16_flops = 8e11,
                         .memory_bytes_per_s = 4e10,
                         .disk_read_bytes_per_s = 3e9,
                         .disk_write_bytes_per_s = 1.5e9};
    const StateFormat format = dice.of({StateFormat::fp32, StateFormat::bf16, StateFormat::int8});
    Question question{.machine = name == "laptop" ? completed(laptop) : find_machine(real_files(), name),
                      .recipe = make_recipe("adamw", {.state_format = format}),
                      .numerics = numerics_of(DType::bf16, dice.of({1, 4}), dice.of({64, 512}), dice.of({1, 2, 8}))};
    question.model = stored_as(some_model(dice), question.recipe);
    question.numerics.state_format = format;
    return question;
}

// Budgets between the least that anything fits into and all that can be used. Nothing where less than the whole of it
// was not found.
Budgets some_budgets(const Question& question, Dice& dice) {
    const double parameters = static_cast<double>(question.model.param_count());
    Budgets budgets;
    budgets.ram = static_cast<int64_t>(parameters * dice.between(2, 20));
    budgets.device = static_cast<int64_t>(parameters * dice.between(1, 12)) + 64 * kMiB;
    budgets.disk = static_cast<int64_t>(parameters * dice.between(28, 60)) + 16 * kMiB;
    if (dice.of({true, false})) budgets.step_disk_writes = static_cast<int64_t>(parameters * dice.between(16, 30));
    return budgets;
}

// One budget, a little or a lot larger.
std::string raise(Budgets& budgets, Dice& dice) {
    const double factor = dice.of({1.02, 1.2, 1.6, 2.5});
    const auto more = [&](int64_t& bytes) { bytes = static_cast<int64_t>(static_cast<double>(bytes) * factor); };
    switch (dice.of({0, 1, 2, 3, 4, 5})) {
        case 0:
        case 1:
            more(budgets.ram);
            return fmt::format("{} times the host's memory", factor);
        case 2:
        case 3:
            more(budgets.device);
            return fmt::format("{} times the device's memory", factor);
        case 4:
            more(budgets.disk);
            return fmt::format("{} times the disk", factor);
        default:
            more(budgets.step_disk_writes);
            return fmt::format("{} times the writes", factor);
    }
}

struct Climbed {
    int compared = 0;
    double worst = 0;  // a step with more over the step with less

    void add(const Climbed& more) {
        compared += more.compared;
        worst = std::max(worst, more.worst);
    }
};

// From random budgets up, one of them at a time, so many times.
Climbed climb(uint64_t seed, int raises) {
    Dice dice(seed);
    const Question question = some_question(dice);
    Budgets budgets = some_budgets(question, dice);
    std::optional<Planned> before = question.plan(budgets);
    Climbed climbed;
    for (int raised = 0; raised < raises; ++raised) {
        const std::string what = raise(budgets, dice);
        std::optional<Planned> after = question.plan(budgets);
        if (before) {
            EXPECT_TRUE(after) << what << " and nothing fits, seed " << seed;
            if (!after) return climbed;
            climbed.add({1, after->mean_seconds / before->mean_seconds});
            EXPECT_LE(after->mean_seconds, kRiseMax * before->mean_seconds)
                << what << " on " << question.machine.name << ", seed " << seed << ": " << describe(before->plan)
                << " became " << describe(after->plan);
        }
        before = std::move(after);
    }
    return climbed;
}

// So many times a budget that something fitted was raised.
void climb_until(int wanted) {
    Climbed climbed;
    uint64_t seed = 1;
    for (; climbed.compared < wanted; ++seed) climbed.add(climb(seed, 5));
    EXPECT_GE(climbed.compared, wanted);
    fmt::print("{} raises of {} questions; the worst made a step {:+.2f} % longer\n", climbed.compared, seed - 1,
               100 * (climbed.worst - 1));
}

TEST(Monotone, MoreOfAnythingIsNeverSlower) {
    climb_until(is_second_run() ? 2 : is_sanitized() ? 4 : 20);
}

TEST(SlowMonotone, MoreOfAnythingIsNeverSlower) {
    climb_until(200);
}

}  // namespace
}  // namespace windlass
