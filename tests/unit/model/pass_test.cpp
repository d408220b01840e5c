// Segments as data: what they keep, what they prune, and that no value is overwritten while it is still to be read.
#include "model/pass.h"

#include "op/ops.h"
#include "tests/unit/model/model_fixtures.h"
#include "tests/unit/model/segment_values.h"

namespace windlass {
namespace {

constexpr OpSize kSweptSize{.rows = 2, .sequence_length = 16, .compute = DType::f32};

using ProgramPtr = std::shared_ptr<const Program>;

class Passes : public testing::TestWithParam<std::string> {
  protected:
    void for_each_program(const std::function<void(const ProgramPtr&)>& body) {
        const ModelSpec model = build_text(golden_config(GetParam()));
        for (const Block& block : model.blocks) {
            SCOPED_TRACE(block.name);
            body(block.program);
        }
    }
};

PassOptions options_of(const Program& program, bool save) {
    return {.size = kSweptSize, .save = save, .want_grad_input = !program.inputs.empty()};
}

TEST_P(Passes, ForwardKeepsWhereReverseReads) {
    for_each_program([](const ProgramPtr& program) {
        const Segment forward = forward_pass(program, options_of(*program, true));
        const Segment backward = backward_pass(program, options_of(*program, true));
        EXPECT_EQ(forward.region_bytes(Region::saved), backward.region_bytes(Region::saved));
        const auto kept = saved_places(forward);
        for (const auto& [value, place] : saved_places(backward)) {
            ASSERT_TRUE(kept.contains(value)) << program->values[static_cast<size_t>(value)].name;
            EXPECT_EQ(kept.at(value), place);
        }
        // And recomputing keeps nothing at all.
        EXPECT_EQ(forward_pass(program, options_of(*program, false)).region_bytes(Region::saved), 0);
        EXPECT_EQ(backward_pass(program, options_of(*program, false)).region_bytes(Region::saved), 0);
    });
}

TEST_P(Passes, RecomputingGoesBackThroughTheSameCalls) {
    for_each_program([](const ProgramPtr& program) {
        const Segment kept = backward_pass(program, options_of(*program, true));
        const Segment again = backward_pass(program, options_of(*program, false));
        const auto a = calls_of(kept, DiffMode::vjp), b = calls_of(again, DiffMode::vjp);
        ASSERT_EQ(a.size(), b.size());
        EXPECT_EQ(a.size(), kept.calls.size());  // what was kept is not computed again
        for (size_t i = 0; i < a.size(); ++i) {
            EXPECT_EQ(a[i]->node, b[i]->node);
            EXPECT_EQ(a[i]->add_to_grad_in, b[i]->add_to_grad_in);
        }
        for (const Region region : {Region::input, Region::output, Region::grad_output, Region::grad_input})
            EXPECT_EQ(kept.region_bytes(region), again.region_bytes(region));
        EXPECT_EQ(kept.gradient_in_place, again.gradient_in_place);
        EXPECT_GE(again.cost.flops, kept.cost.flops);
    });
}

TEST_P(Passes, TheGradientOfTheInputHasOnePlace) {
    for_each_program([](const ProgramPtr& program) {
        const Segment backward = backward_pass(program, options_of(*program, true));
        if (program->inputs.empty()) return;
        EXPECT_EQ(backward.gradient_in_place, backward.region_bytes(Region::grad_input) == 0);
        EXPECT_GT(backward.region_bytes(Region::input), 0);
        if (backward.gradient_in_place) {
            EXPECT_EQ(backward.region_bytes(Region::grad_output), backward.region_bytes(Region::input));
        }
    });
}

TEST_P(Passes, ValuesLiveUntilTheyAreRead) {
    for_each_program([](const ProgramPtr& program) {
        for (const bool save : {false, true}) {
            expect_values_live_until_read(forward_pass(program, options_of(*program, save)));
            expect_values_live_until_read(backward_pass(program, options_of(*program, save)));
        }
    });
}

// With what it reads at hand, backward has work memory for gradients and scratch only.
TEST_P(Passes, ReverseMakesNoRoomForWhatItDoesNotRead) {
    for_each_program([](const ProgramPtr& program) {
        const Segment backward = backward_pass(program, options_of(*program, true));
        for (const SegmentCall& call : backward.calls) {
            for (const Slot& slot : call.in) EXPECT_NE(slot.region, Region::work) << call.node->op->name;
            for (const Slot& slot : call.out) EXPECT_NE(slot.region, Region::work) << call.node->op->name;
        }
    });
}

INSTANTIATE_TEST_SUITE_P(Models, Passes, testing::ValuesIn(golden_names()),
                         [](const auto& info) { return info.param; });

// ---- pruning, on a layer whose weights are known ----

struct SweptLayer {
    explicit SweptLayer(const std::string& model)
        : spec(build_text(golden_config(model))), program(spec.blocks[1].program) {}
    // Reverse where only weights whose role contains `part` are trained.
    Segment backward(std::string_view part, bool want_grad_input) const {
        PassOptions options{.size = kSweptSize, .save = true, .want_grad_input = want_grad_input};
        for (const ProgramWeight& weight : program->weights)
            options.trainable.push_back(!part.empty() && weight.role.find(part) != std::string::npos);
        return backward_pass(program, options);
    }
    ModelSpec spec;
    ProgramPtr program;
};

TEST(Pruning, NothingTrainedAndNothingAskedForIsNothingToDo) {
    EXPECT_TRUE(SweptLayer("llama").backward("", false).calls.empty());
}

TEST(Pruning, StopsBelowTheFirstTrainedWeight) {
    const SweptLayer layer("llama");
    const Segment last = layer.backward("down_proj", false);
    ASSERT_EQ(last.calls.size(), 1u);  // the sum behind it passes its gradient on
    EXPECT_EQ(last.calls[0].node->op, &kLinear);
    EXPECT_EQ(last.calls[0].grad_in[0].region, Region::none);
    const Segment mlp = layer.backward("gate_proj", false);
    EXPECT_EQ(mlp.calls.size(), 3u);  // down_proj, swiglu, gate_proj: not up_proj
    const Segment all = layer.backward("weight", true);
    EXPECT_GT(all.calls.size(), 8u);
}

TEST(Pruning, ChangesNoPlaceOfWhatIsSaved) {
    const SweptLayer layer("gpt2");
    const auto kept = saved_places(forward_pass(layer.program, {.size = kSweptSize, .save = true}));
    for (const char* part : {"c_attn", "mlp", "ln_1"}) {
        for (const auto& [value, place] : saved_places(layer.backward(part, true)))
            EXPECT_EQ(kept.at(value), place) << part;
    }
}

TEST(Pruning, AFrozenLayerStillHandsItsGradientDown) {
    const Segment frozen = SweptLayer("llama").backward("", true);
    EXPECT_FALSE(frozen.calls.empty());
    EXPECT_TRUE(frozen.gradient_in_place);
}

// Normalised behind the sum, the residual stream's gradient does not pass by: it goes to memory of its own.
TEST(PostNorm, WritesItsGradientElsewhere) {
    EXPECT_FALSE(SweptLayer("opt_post_norm").backward("weight", true).gradient_in_place);
    EXPECT_TRUE(SweptLayer("opt").backward("weight", true).gradient_in_place);
}

TEST(Head, ComputesItsLossOnTheWayBack) {
    const ModelSpec model = build_text(golden_config("llama"));
    EXPECT_TRUE(reverse_computes_output(*model.blocks.back().program));
    EXPECT_FALSE(reverse_computes_output(*model.blocks[1].program));
    const Segment backward = backward_pass(model.blocks.back().program, {.size = kSweptSize, .save = false});
    EXPECT_GE(backward.region_bytes(Region::output), kSweptSize.tokens() * int64_t{sizeof(float)});
    EXPECT_EQ(backward.region_bytes(Region::grad_output), 0);
}

}  // namespace
}  // namespace windlass
