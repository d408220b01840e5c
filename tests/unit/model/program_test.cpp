// Programs and segments print themselves, and stop mistakes where they are made.
#include "model/program.h"

#include "model/segment.h"
#include "model/sweep.h"
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

TEST(ProgramDeath, StopsAtAShapeThatDoesNotFit) {
    ProgramBuilder builder;
    const int x = builder.input("x", 8);
    EXPECT_DEATH(builder.apply(kLinear, "up", {x}, {builder.weight("up.weight", {8, 9})}, LinearAttrs{}), "linear");
    EXPECT_DEATH(builder.apply(kRmsNorm, "h", {x}, {builder.weight("w", {8})}, LinearAttrs{}),
                 "another op's attributes");
}

TEST(Segment, PrintsItsCallsAndSizes) {
    const auto program = std::make_shared<const Program>(small());
    const SweepOptions options{.size = {.rows = 1, .row_length = 16, .compute = DType::f32}, .save = true};
    const std::string forward = sweep_forward(program, options).to_string();
    EXPECT_THAT(forward, testing::StartsWith("forward+save: 1 x 16 tokens\n  forward rms_norm: input+0 -> saved+64\n"));
    EXPECT_THAT(forward, testing::HasSubstr("  input: 512 bytes\n"));
    const std::string reverse = sweep_reverse(program, options).to_string();
    EXPECT_THAT(reverse, testing::HasSubstr("  backward linear: grad_output+0 -> work+0\n"));
}

TEST(Segment, SaysWhichKernelADeviceLacks) {
    const auto program = std::make_shared<const Program>(small());
    const Segment forward = sweep_forward(program, {.size = {.rows = 1, .row_length = 16}});
    EXPECT_EQ(missing_kernel(forward, DeviceKind::cpu), "");
    EXPECT_EQ(missing_kernel(forward, DeviceKind::fake), "rms_norm: this build has no forward kernel for fake");
}

TEST(SegmentDeath, WantsItsRegionsBound) {
    const auto program = std::make_shared<const Program>(small());
    const Segment forward = sweep_forward(program, {.size = {.rows = 1, .row_length = 16}});
    const auto stream = make_stream(DeviceKind::cpu, 1);
    EXPECT_DEATH(run_segment(forward, {}, *stream), "region input is not bound");
}

TEST(OpProfile, AddsUpByOpAndDirection) {
    OpProfile profile;
    profile.add("linear", Direction::forward, 3);
    profile.add("linear", Direction::forward, 4);
    profile.add("linear", Direction::backward, 5);
    EXPECT_EQ(profile.ns().at({"linear", Direction::forward}), 7);
    EXPECT_EQ(profile.ns().at({"linear", Direction::backward}), 5);
    profile.clear();
    EXPECT_TRUE(profile.ns().empty());
}

}  // namespace
}  // namespace windlass
