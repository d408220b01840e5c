// Programs and segments print themselves, and stop mistakes where they are made.
#include "model/program.h"

#include "model/families/assembly.h"
#include "model/pass.h"
#include "model/segment.h"
#include "op/ops.h"

namespace windlass {
namespace {

Program small() {
    ProgramBuilder builder;
    const int x = builder.input("x", 8);
    const int h = builder.apply(kRmsNorm, "h", {x}, {builder.weight("norm.weight", {8})}, RmsNormAttrs{.eps = 1e-5});
    const int up = builder.apply(kLinear, "up", {h}, {builder.weight("up.weight", {8, 8})}, LinearAttrs{});
    return builder.finish({builder.apply(kAdd, "y", {x, up})});
}

TEST(Program, PrintsItself) {
    EXPECT_EQ(small().to_string(),
              "(%x:8)\n"
              "%h:8 = rms_norm eps=1e-05 (%x:8; norm.weight[8])\n"
              "%up:8 = linear out_in (%h:8; up.weight[8, 8])\n"
              "%y:8 = add (%x:8, %up:8; )\n"
              "-> (%y:8)\n");
    EXPECT_EQ(small().to_string(), small().to_string());
}

// Two tables of frequencies whose sums are equal, and two scales that print alike.
Program rotated(std::vector<double> frequencies, double scale = 0.25) {
    ProgramBuilder builder;
    const int x = builder.input("x", 8);
    const int q = builder.apply(kRope, "q", {x}, {}, RopeAttrs{.heads = 2, .frequencies = std::move(frequencies)});
    const AttentionAttrs attrs{.heads = 2, .key_heads = 2, .head_size = 4, .scale = scale};
    return builder.finish({builder.apply(kAttention, "a", {q, x, x}, {}, attrs)});
}

TEST(Program, IsEqualByItsAttributesAndNotByItsText) {
    const Program first = rotated({1, 0.5});
    EXPECT_TRUE(first == rotated({1, 0.5}));
    for (const Program& other : {rotated({0.5, 1}), rotated({1, 0.5}, 0.25 + 1e-9)}) {
        EXPECT_EQ(other.to_string(), first.to_string());
        EXPECT_FALSE(other == first);
    }
    EXPECT_FALSE(small() == first);
}

// Layers of equal text and other attributes do not compute with each other's.
TEST(Program, IsSharedByEqualBlocksOnly) {
    const HfConfig config = HfConfig::parse(R"({"model_type": "layers", "dtype": "float32"})", "config.json");
    ModelAssembly model("layers", {16, 8, 64}, config, {});
    const std::vector<std::vector<double>> tables = {{1, 0.5}, {0.5, 1}, {1, 0.5}};
    for (size_t i = 0; i < tables.size(); ++i) {
        BlockWriter layer(fmt::format("layers.{}", i), "");
        const int x = layer.input(8);
        const int y = layer.apply(kRope, "q", {x}, RopeAttrs{.heads = 2, .frequencies = tables[i]});
        model.add_block(std::move(layer), y);
    }
    const ModelSpec spec = model.finish();
    ASSERT_EQ(spec.blocks.size(), 3u);
    EXPECT_EQ(spec.blocks[0].program, spec.blocks[2].program);
    EXPECT_NE(spec.blocks[0].program, spec.blocks[1].program);
    EXPECT_EQ(spec.blocks[1].program->nodes[0].spec.get<RopeAttrs>().frequencies, tables[1]);
}

TEST(ProgramDeath, StopsAtAShapeThatDoesNotFit) {
    ProgramBuilder builder;
    const int x = builder.input("x", 8);
    EXPECT_DEATH(builder.apply(kLinear, "up", {x}, {builder.weight("up.weight", {8, 9})}, LinearAttrs{}), "linear");
    EXPECT_DEATH(builder.apply(kRmsNorm, "h", {x}, {builder.weight("w", {8})}, LinearAttrs{}),
                 "another op's attributes");
}

TEST(Segment, PrintsItsCallsAndSizes) {
    const auto program = std::make_shared<const Program>(small());
    const PassOptions options{.size = {.rows = 1, .sequence_length = 16, .compute = DType::f32}, .save = true};
    const std::string forward = forward_pass(program, options).to_string();
    EXPECT_THAT(forward, testing::StartsWith("forward+save: 1 x 16 tokens\n  forward rms_norm: input+0 -> saved+64\n"));
    EXPECT_THAT(forward, testing::HasSubstr("  input: 512 bytes\n"));
    const std::string backward = backward_pass(program, options).to_string();
    EXPECT_THAT(backward, testing::HasSubstr("  backward linear: grad_output+0 -> work+0\n"));
}

TEST(SegmentDeath, WantsItsRegionsBound) {
    const auto program = std::make_shared<const Program>(small());
    const Segment forward = forward_pass(program, {.size = {.rows = 1, .sequence_length = 16}});
    const auto stream = make_stream(DeviceKind::cpu, 1);
    EXPECT_DEATH(run_segment(forward, {}, *stream), "region input is not bound");
}

TEST(OpProfile, AddsUpByOpAndDirection) {
    OpProfile profile;
    profile.add("linear", DiffMode::forward, 3);
    profile.add("linear", DiffMode::forward, 4);
    profile.add("linear", DiffMode::vjp, 5);
    EXPECT_EQ(profile.ns().at({"linear", DiffMode::forward}), 7);
    EXPECT_EQ(profile.ns().at({"linear", DiffMode::vjp}), 5);
    profile.clear();
    EXPECT_TRUE(profile.ns().empty());
}

}  // namespace
}  // namespace windlass
