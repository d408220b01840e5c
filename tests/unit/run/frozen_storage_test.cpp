// What is not trained beside split masters: it is kept in its own type in the files, or in f8 or nf4, without low
// halves.
#include <gtest/gtest.h>

#include "base/index.h"
#include "model/families.h"
#include "run/working_store.h"
#include "tests/sanitizer.h"
#include "tests/unit/run/forward_only_fixture.h"
#include "tests/unit/run/placement_fixture.h"
#include "tests/unit/schedule/schedule_fixture.h"

namespace windlass {
namespace {

// Of a llama the table, the first layer and some matrices of the others.
bool trains(const ParamSpec& param) {
    return param.name.find("embed_tokens") == std::string::npos && param.name.find(".layers.0.") == std::string::npos &&
           param.name.find("up_proj") == std::string::npos;
}

class FrozenStorage : public testing::TestWithParam<std::tuple<DType, DType>> {};

// Reading a parameter in its own type and joining the two halves of its master are the same numbers.
TEST_P(FrozenStorage, ComputesWhatItsMastersWould) {
    const auto [files, compute] = GetParam();
    const TempFolder folder;
    Golden golden("llama");
    golden.folder = write_model(golden, files, folder);
    const std::array<TestBatch, 2> batches = batches_of(golden);
    EngineOptions options{.compute = compute, .micro_batch_size = 1, .micro_batches = 2, .trains = trains};
    const auto run = [&](bool frozen_is_split) {
        options.frozen_is_split = frozen_is_split;
        const auto engine = make_engine(real_files(), golden.folder, options);
        std::vector<double> found;
        for (int64_t step = 1; step <= 3; ++step) {
            const StepReport report = train_on(*engine, batches[at(step % 2)], step, 1e-2);
            found.insert(found.end(), {report.loss_sum, report.grad_norm});
        }
        return std::pair(found, all_masters(*engine));
    };
    const auto split = run(true), as_file = run(false);
    EXPECT_EQ(as_file.first, split.first);
    EXPECT_TRUE(as_file.second == split.second);
    EXPECT_NE(as_file.first[0], as_file.first[4]) << "nothing was learnt";
}

INSTANTIATE_TEST_SUITE_P(Types, FrozenStorage,
                         testing::Combine(testing::Values(DType::f32, DType::bf16, DType::f16),
                                          testing::Values(DType::f32, DType::bf16)),
                         [](const auto& info) {
                             return fmt::format("{}_in_{}", dtype_name(std::get<0>(info.param)),
                                                dtype_name(std::get<1>(info.param)));
                         });

class NarrowFrozen : public testing::TestWithParam<std::tuple<bool, DType>> {};

// AdamW over a base in 4 or 8 bits: every placement gives the bits of memory, and the base is not touched.
TEST_P(NarrowFrozen, NeverChangesABit) {
    const auto [in_4_bits, compute] = GetParam();
    const Golden golden("llama");
    const std::array<TestBatch, 2> batches = batches_of(golden);
    EngineOptions options{.compute = compute, .micro_batch_size = 1, .micro_batches = 2, .trains = trains};
    const Outcome plain = run_steps(golden, batches, options);
    (in_4_bits ? options.in_4_bits : options.in_8_bits) = true;
    const Outcome reference = run_steps(golden, batches, options);
    EXPECT_NE(reference.losses, plain.losses) << "nothing was kept in fewer bits";
    EXPECT_NEAR(reference.losses[0], plain.losses[0], 0.1 * plain.losses[0]);
    EXPECT_NE(reference.losses[0], reference.losses[2]) << "nothing was learnt";
    const std::vector<Plan> plans = plans_on(DeviceKind::cpu);
    for (size_t index = (in_4_bits ? 1 : 0) + (compute == DType::f32 ? 2 : 0); index < plans.size();
         index += is_sanitized() ? 16 : 4) {
        options.plan = plans[index];
        options.plan.threads = 1 + static_cast<int>(index % 2);
        options.emulation = {.jitter_seed = index, .jitter_ns = index % 3 == 0 ? 100'000 : 0};
        EXPECT_TRUE(run_steps(golden, batches, options) == reference) << describe(options.plan);
    }
}

INSTANTIATE_TEST_SUITE_P(Types, NarrowFrozen,
                         testing::Combine(testing::Bool(), testing::Values(DType::f32, DType::bf16)),
                         [](const auto& info) {
                             return fmt::format("{}_in_{}", std::get<0>(info.param) ? "nf4" : "f8",
                                                dtype_name(std::get<1>(info.param)));
                         });

// In memory and in stores: low halves and state are of what is trained, and of nothing else.
TEST(FrozenLayout, HasNoLowHalves) {
    const Golden golden("llama");
    const auto engine = make_engine(real_files(), golden.folder, {.compute = DType::f32, .trains = trains});
    const EngineSetup& setup = engine->setup();
    const StoreLayout layout = store_layout(setup.model, setup.recipe, 1, "");
    ASSERT_EQ(layout.sections.size(), 3u);
    std::vector<int> order = store_order(setup.model);
    for (size_t i = 0; i < order.size(); ++i) {
        const Param param = setup.model.param(order[i]);
        const ParamPlace& place = setup.schedules.ids.params[at(order[i])];
        EXPECT_EQ(layout.params[i].sections, param.trains() ? StoreParam::kAllSections : 0) << param.spec.name;
        EXPECT_EQ(place.low.buffer != kNoBuffer, param.trains()) << param.spec.name;
        EXPECT_EQ(layout.params[i].weight_bytes == 0, !param.trains()) << "bf16 halves beside f32 numbers";
    }
}

}  // namespace
}  // namespace windlass
