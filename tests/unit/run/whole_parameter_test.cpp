// A kernel that takes whole parameters finds their low halves and state in pieces, and their gradients in one.
#include "tests/sanitizer.h"
#include "tests/unit/run/forward_only_fixture.h"
#include "tests/unit/schedule/schedule_fixture.h"

namespace windlass {
namespace {

const ParamKernel& adamw_update() {
    static const Recipe adamw = make_recipe("adamw", {});
    return *adamw.update();
}

// AdamW works on each number alone: given a whole parameter, it makes of it what it makes of chunks.
void update_piece_by_piece(const ParamCall& call, Stream& stream) {
    ASSERT_EQ(call.first, 0);
    ASSERT_EQ(call.count, call.param.numel());
    ASSERT_EQ(call.states.size(), call.state.size() * call.lows.size());
    for (size_t piece = 0; piece < call.lows.size(); ++piece) {
        const int64_t begin = static_cast<int64_t>(piece) * call.low_elements;
        ParamCall chunk = call;
        chunk.first = begin, chunk.element += begin;
        chunk.count = std::min(call.low_elements, call.count - begin);
        chunk.hi += begin, chunk.lo = call.lows[piece], chunk.gradient += begin;
        chunk.state = call.states.subspan(piece * call.state.size(), call.state.size());
        adamw_update().cells[static_cast<size_t>(stream.device())](chunk, stream);
    }
}

void take_whole_parameters(Recipe& recipe) {
    static const ParamKernel kWhole = [] {
        ParamKernel kernel = adamw_update();
        kernel.grain = Grain::parameter;
        for (ParamCell& cell : kernel.cells) cell = cell == nullptr ? nullptr : update_piece_by_piece;
        return kernel;
    }();
    for (Act& act : recipe.acts) {
        if (act.kernel == &adamw_update()) act.kernel = &kWhole;
    }
}

class WholeParameters : public testing::TestWithParam<GradientFormat> {
  protected:
    WholeParameters() {
        options_.compute = DType::bf16;
        options_.method = {.weight_decay = 0.1, .max_grad_norm = 3.2};
        options_.gradient_format = GetParam();
    }
    void expect_the_bits_of_chunks(const Golden& golden, const std::vector<Plan>& plans) {
        const std::array<TestBatch, 2> batches = batches_of(golden);
        const Outcome reference = run_steps(golden, batches, options_);
        options_.alter_recipe = take_whole_parameters;
        for (const Plan& plan : plans) {
            options_.plan = plan;
            EXPECT_TRUE(run_steps(golden, batches, options_) == reference) << describe(plan);
        }
    }
    EngineOptions options_;
};

TEST_P(WholeParameters, HaveTheBitsOfTheirChunks) {
    const size_t stride = is_sanitized() ? 62 : 31;
    const std::vector<Plan> all = with_mixed(all_plans(), tiny_model("llama"));
    std::vector<Plan> plans;
    for (size_t index = static_cast<size_t>(GetParam()); index < all.size(); index += stride)
        plans.push_back(all[index]);
    expect_the_bits_of_chunks(Golden("llama"), plans);
}

TEST_P(WholeParameters, OfSeveralChunksHaveTheirBits) {
    if (is_sanitized()) GTEST_SKIP() << "millions of parameters, several times";
    const TempFolder folder;
    Golden golden("llama");
    golden.folder = with_a_long_table(golden, folder);
    const Plan visiting{
        .policy = "host_stream",
        .device = {.own_memory = true},
        .host_threads = 1,
        .update_ahead = 1,
        .device_groups = 2,
        .common = {
            .weights = Home::device, .state = Home::host, .gradients = Home::host, .update = UpdateTime::in_backward}};
    expect_the_bits_of_chunks(golden, {memory_plan(), visiting, disk_plan(Home::disk, Home::disk)});
}

INSTANTIATE_TEST_SUITE_P(Formats, WholeParameters, testing::Values(GradientFormat::f32, GradientFormat::i4));

}  // namespace
}  // namespace windlass
