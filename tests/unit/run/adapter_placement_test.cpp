// Adapters: every plan gives the losses, norms, weights and moments of everything in memory, on a device that completes
// late too.
#include <cmath>

#include "tests/sanitizer.h"
#include "tests/unit/device/fake_async.h"
#include "tests/unit/run/adapter_fixture.h"

namespace windlass {
namespace {

// Ways take plans apart from each other's, so that over all of them each plan is met.
const size_t kAdapterStride = is_sanitized() ? 96 : 24;

class AdapterPlacement : public testing::TestWithParam<size_t> {};

TEST_P(AdapterPlacement, NeverChangesABit) {
    const size_t number = GetParam();
    const AdapterWay way = adapter_ways()[number];
    const AdapterRun known(way, number % 3 == 0 ? 1 : 2);
    const std::vector<Plan> plans = adapter_plans(way);
    const size_t stride = way.goes_forward_only() ? kAdapterStride / 4 : kAdapterStride;
    for (size_t index = number * 5 % stride; index < plans.size(); index += stride)
        EXPECT_TRUE(known.under(plans[index], index) == known.outcome)
            << describe(plans[index]) << (plans[index].blocks.empty() ? "" : ", mixed");
}

INSTANTIATE_TEST_SUITE_P(Ways, AdapterPlacement, testing::Range(size_t{0}, adapter_ways().size()),
                         [](const auto& info) { return adapter_ways()[info.param].text(); });

// ---- a device that completes late ----

void expect_no_bit_changes_late(size_t way_stride, size_t plan_stride, uint64_t seeds) {
    const std::vector<AdapterWay> ways = adapter_ways();
    int64_t waits = 0, ran_ahead = 0, runs = 0;
    for (size_t number = 0; number < ways.size(); number += way_stride) {
        const AdapterRun known(ways[number], 2);
        std::vector<Plan> plans = adapter_plans(ways[number]);
        std::erase_if(plans, [](const Plan& plan) { return !plan.own_memory(); });
        for (size_t index = number * 3 % plan_stride; index < plans.size(); index += plan_stride) {
            for (uint64_t seed = 1; seed <= seeds; ++seed, ++runs) {
                FakeAsync device({.seed = 1000 * index + seed});
                EXPECT_TRUE(known.under(plans[index], seed, &device) == known.outcome)
                    << ways[number].text() << ", " << describe(plans[index]) << ", seed " << seed;
                waits += device.waits(), ran_ahead += device.ran_ahead();
            }
        }
    }
    EXPECT_GT(waits, 0) << "no stream waited for another";
    EXPECT_GT(ran_ahead, 0) << "nothing ran ahead";
    fmt::print("{} runs: streams waited {} times, {} launches ran ahead\n", runs, waits, ran_ahead);
}

TEST(LateAdapter, NeverChangesABit) {
    expect_no_bit_changes_late(is_sanitized() ? 14 : 5, 31, 1);
}

TEST(SlowLateAdapter, NeverChangesABit) {
    expect_no_bit_changes_late(1, 3, 3);
}

// ---- accumulation ----

// Behind a first step with an epsilon beside which a gradient is nothing, AdamW has moved each weight by its gradient,
// times the ratio of rate and epsilon.
constexpr double kLargeEpsilon = 1e9, kGradientsMoved = 1e3;

// Both matrices of a pair have numbers, so that both have gradients.
double first_number(int param, int64_t element) {
    return 0.1 * std::sin(0.7 * static_cast<double>(element) + param);
}

struct OneStep {
    double loss = 0;
    std::vector<double> gradients;
};

OneStep one_step(const AdapterBase& base, const AdapterSettings& adapter, int micro_batches) {
    const TempFolder folder;
    Golden golden("llama3");
    golden.folder = write_model(golden, base.files, folder);
    const TestBatch batch(golden.ids("ids"), golden.ids("targets"), 8);
    const EngineOptions options{.compute = base.compute,
                                .method = {.epsilon = kLargeEpsilon, .weight_decay = 0, .max_grad_norm = 1e30},
                                .micro_batch_size = 8 / micro_batches,
                                .micro_batches = micro_batches,
                                .sequence_length = batch.sequence_length,
                                .in_4_bits = base.in_4_bits,
                                .adapter = adapter};
    const auto engine = make_engine(real_files(), golden.folder, options, /*load=*/false);
    const TrainedModel& model = engine->setup().model;
    ModelFolder files = ModelFolder::open(real_files(), golden.folder);
    engine->fill(0, "{}", [&](int param, int64_t first, std::span<float> out) {
        const ParamSpec& spec = model.params[static_cast<size_t>(param)];
        if (!spec.added) return load_elements(files, spec, first, out);
        if (!spec.added->trains) return void(std::ranges::fill(out, 0.5f));
        for (size_t i = 0; i < out.size(); ++i)
            out[i] = static_cast<float>(first_number(param, first + static_cast<int64_t>(i)));
    });
    OneStep step;
    const auto before = all_masters(*engine);
    step.loss = train_on(*engine, batch, 1, kGradientsMoved * kLargeEpsilon).loss_sum;
    const auto after = all_masters(*engine);
    for (size_t param = 0; param < after.size(); ++param) {
        if (!model.training[param].trains) {
            EXPECT_EQ(before[param], after[param]) << model.params[param].name;
            continue;
        }
        for (size_t i = 0; i < after[param].size(); ++i)
            step.gradients.push_back((double{before[param][i]} - after[param][i]) / kGradientsMoved);
    }
    return step;
}

double length_of(const std::vector<double>& values) {
    double sum = 0;
    for (const double value : values) sum += value * value;
    return std::sqrt(sum);
}

// Eight rows at once, or one by one: the same sums in another order. A weight that moved by a thousand of its gradients
// tells these to a rounding of f32.
TEST(AdapterMicroBatches, SplitChangesOnlyRounding) {
    for (const auto& [base, adapter] : {std::pair{kInF32, kLora4},
                                        {kInBf16, kLora4},
                                        {kNf4InF32, kLora4},
                                        {kNf4InBf16, kLora4},
                                        {kInF32, kLsp24},
                                        {kNf4InBf16, kLsp24}}) {
        const OneStep whole = one_step(base, adapter, 1), split = one_step(base, adapter, 8);
        EXPECT_NEAR(whole.loss, split.loss, 1e-6 * whole.loss) << base.name;
        ASSERT_EQ(whole.gradients.size(), split.gradients.size());
        std::vector<double> difference = whole.gradients;
        for (size_t i = 0; i < difference.size(); ++i) difference[i] -= split.gradients[i];
        EXPECT_GT(length_of(whole.gradients), 1e-3) << base.name;
        EXPECT_GT(length_of(difference), 0) << "nothing was summed otherwise";
        EXPECT_LE(length_of(difference), 1e-6 * length_of(whole.gradients)) << base.name;
        fmt::print("{}, {}: |dg| / |g| = {:.2e}\n", adapter.kind, base.name,
                   length_of(difference) / length_of(whole.gradients));
    }
}

}  // namespace
}  // namespace windlass
