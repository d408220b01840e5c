// Adapters on CUDA devices: placement changes no bit, over weights as they are and in 4 bits, and what is learnt is
// what the CPU learns.
#include <map>

#include "tests/sanitizer.h"
#include "tests/simt/emulated.h"
#include "tests/unit/run/adapter_fixture.h"

namespace windlass {
namespace {

constexpr DeviceId kOnCuda{.kind = DeviceKind::cuda, .own_memory = true};

// A way to train, everything in the device's memory.
const AdapterRun& adapter_run(size_t number) {
    static std::map<size_t, AdapterRun> made;
    return made.try_emplace(number, adapter_ways()[number], 2, kOnCuda).first->second;
}

// The ways over a base of this name, by method and kind.
std::vector<size_t> ways_over(std::string_view base) {
    const std::vector<AdapterWay> ways = adapter_ways();
    std::vector<size_t> numbers;
    for (size_t number = 0; number < ways.size(); ++number)
        if (base == ways[number].base.name) numbers.push_back(number);
    return numbers;
}

// The first way of this name.
size_t way_named(std::string_view name) {
    const std::vector<AdapterWay> ways = adapter_ways();
    const auto way = std::ranges::find_if(ways, [&](const AdapterWay& each) { return each.name == name; });
    EXPECT_NE(way, ways.end()) << name;
    return static_cast<size_t>(way - ways.begin());
}

std::vector<Plan> cuda_plans(size_t number) {
    std::vector<Plan> plans = adapter_plans(adapter_ways()[number]);
    std::erase_if(plans, [](const Plan& plan) { return !plan.own_memory(); });
    for (Plan& plan : plans) plan.device.kind = DeviceKind::cuda;
    return plans;
}

void expect_adapter_keeps_its_bits(size_t number, size_t index) {
    const AdapterRun& known = adapter_run(number);
    const std::vector<Plan> plans = cuda_plans(number);
    const Plan& plan = plans[index % plans.size()];
    simt::emulate({.seed = index + 1, .late_ns = 20'000});
    EXPECT_TRUE(known.under(plan, index) == known.outcome) << adapter_ways()[number].text() << ", " << describe(plan);
    EXPECT_GT(simt::calls(), 100) << "the device was not asked";
    simt::emulate({});
}

// LoRA over weights as they are and over 4 bits, under a few plans; all ways, and more plans, on request.
TEST(CudaAdapter, NeverChangesABit) {
    size_t trial = 0;
    for (const char* const base : {"f32", "nf4_in_f32", "nf4_in_bf16"}) {
        if (is_sanitized() && trial == 2) break;
        expect_adapter_keeps_its_bits(ways_over(base).front(), 3 + 17 * trial++);
    }
}

TEST(CudaAdapter, OfTablesAndHeadsNeverChangesABit) {
    const std::vector<AdapterWay> ways = adapter_ways();
    const auto way = std::ranges::find_if(ways, [](const AdapterWay& each) { return each.has_tables; });
    ASSERT_NE(way, ways.end());
    const auto number = static_cast<size_t>(way - ways.begin());
    for (const size_t index : {5, 37}) {
        expect_adapter_keeps_its_bits(number, index);
        if (is_sanitized()) break;
    }
    const AdapterRun &card = adapter_run(number), cpu(*way, 2);
    for (size_t step = 0; step < cpu.outcome.losses.size(); ++step)
        EXPECT_NEAR(card.outcome.losses[step], cpu.outcome.losses[step], 1e-4 * cpu.outcome.losses[step]) << step;
}

TEST(CudaAdapter, MagnitudesNeverChangeABit) {
    expect_adapter_keeps_its_bits(way_named("dora"), 23);
}

// What the host refreshes comes from a device that completes late, and goes back there: weights that stay there,
// weights that stream, state on either side.
TEST(CudaAdapter, RefreshedProjectorsNeverChangeABit) {
    for (const size_t index : {2, 41, 63, 90}) {
        expect_adapter_keeps_its_bits(way_named("lsp_refreshed"), index);
        if (is_sanitized()) break;
    }
}

TEST(SlowCudaAdapter, NeverChangesABit) {
    for (size_t number = 0; number < adapter_ways().size(); ++number) {
        const size_t plans = cuda_plans(number).size();
        for (size_t index = number % 7; index < plans; index += 7) expect_adapter_keeps_its_bits(number, index);
    }
}

// Sums run in another order, and exponentials are another library's: losses differ by the rounding of f32, which four
// steps of training may enlarge.
TEST(CudaAdapter, LearnsWhatTheCpuLearns) {
    for (const size_t number : {ways_over("f32").front(), ways_over("nf4_in_f32").front(), way_named("dora")}) {
        const AdapterRun &card = adapter_run(number), cpu(adapter_ways()[number], 2);
        for (size_t step = 0; step < cpu.outcome.losses.size(); ++step)
            EXPECT_NEAR(card.outcome.losses[step], cpu.outcome.losses[step], 1e-4 * cpu.outcome.losses[step])
                << adapter_ways()[number].text() << ", step " << step;
    }
}

}  // namespace
}  // namespace windlass
