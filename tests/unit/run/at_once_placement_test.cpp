// LOMO and AdaLomo, whose gradients are used up behind each block's backward: placement never changes a bit.
#include "tests/sanitizer.h"
#include "tests/unit/run/at_once_fixture.h"

namespace windlass {
namespace {

constexpr const char* kAtOnceMethods[] = {"lomo", "adalomo"};
// Of the plans, one of so many is looked at for each way and limit; all of them under slow.
const size_t kAtOnceStride = is_sanitized() ? 87 : 21;

// Method, model, type of its files and of what is computed with, masters or not.
using AtOnceWay = std::tuple<const char*, const char*, DType, DType, bool>;
class AtOncePlacement : public testing::TestWithParam<AtOnceWay> {};
class SlowAtOncePlacement : public AtOncePlacement {};

void expect_no_bit_changes_at_once(const AtOnceWay& parts, size_t stride) {
    const auto& [method, name, type, compute, split] = parts;
    const TempFolder folder;
    Golden golden(name);
    golden.folder = write_model(golden, type, folder);
    const std::array<TestBatch, 2> batches = batches_of(golden);
    const std::vector<Plan> plans = at_once_plans(tiny_model(name));
    const size_t way = static_cast<size_t>(type) * 4 + static_cast<size_t>(compute) * 2 + (split ? 1 : 0) +
                       (method == kAtOnceMethods[0] ? 0 : 3);
    // Without a limit, and with one that clips some of the steps, by a second backward.
    for (const double limit : {0.0, std::string_view(name) == "llama3" ? 5.4 : 4.0}) {
        EngineOptions options = at_once_options(method, split, limit);
        options.compute = compute;
        options.micro_batch_size = way % 2 == 0 ? 1 : 2;
        options.micro_batches = way % 2 == 0 ? 2 : 1;
        options.plan = at_once(memory_plan());
        const Outcome reference = run_steps(golden, batches, options);
        EXPECT_NE(reference.losses[0], reference.losses[2]) << "nothing was learnt";
        if (limit > 0) expect_some_clipped(reference);
        for (size_t index = (way + (limit > 0 ? 3 : 0)) % stride; index < plans.size(); index += stride) {
            options.plan = plans[index];
            options.plan.group_chunks = 1 + static_cast<int>(index % 3);
            options.emulation = {.jitter_seed = index, .jitter_ns = index % 3 == 0 ? 200'000 : 0};
            const Outcome outcome = run_steps(golden, batches, options);
            EXPECT_TRUE(outcome == reference)
                << describe(options.plan) << (options.plan.blocks.empty() ? "" : ", mixed") << ", losses "
                << (outcome.losses == reference.losses) << ", norms " << (outcome.norms == reference.norms)
                << ", state " << (outcome.state == reference.state);
        }
    }
}

TEST_P(AtOncePlacement, NeverChangesABit) {
    expect_no_bit_changes_at_once(GetParam(), kAtOnceStride);
}
TEST_P(SlowAtOncePlacement, NeverChangesABit) {
    expect_no_bit_changes_at_once(GetParam(), 1);
}

const auto kAtOnceWays = testing::Combine(testing::ValuesIn(kAtOnceMethods), testing::Values("gpt2", "llama"),
                                          testing::Values(DType::f32, DType::bf16),
                                          testing::Values(DType::f32, DType::bf16), testing::Bool());
INSTANTIATE_TEST_SUITE_P(Models, SlowAtOncePlacement, kAtOnceWays);
INSTANTIATE_TEST_SUITE_P(Models, AtOncePlacement, kAtOnceWays, [](const auto& info) {
    return fmt::format("{}_{}_{}_in_{}_{}", std::get<0>(info.param), std::get<1>(info.param),
                       dtype_name(std::get<2>(info.param)), dtype_name(std::get<3>(info.param)),
                       std::get<4>(info.param) ? "masters" : "as_file");
});
INSTANTIATE_TEST_SUITE_P(Half, AtOncePlacement,
                         testing::Combine(testing::ValuesIn(kAtOnceMethods), testing::Values("llama3"),
                                          testing::Values(DType::f16), testing::Values(DType::f32),
                                          testing::Values(false)));

}  // namespace
}  // namespace windlass
