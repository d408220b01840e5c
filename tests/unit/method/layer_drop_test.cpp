// Layers that a step leaves alone: which they are, and that neither their points nor their updates differ from nothing.
#include "perturb/layer_drop.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/rng.h"
#include "method/forward_only/materialize.h"

namespace windlass {
namespace {

TEST(LayerDrop, LeavesOutTheShareThatWasAskedFor) {
    constexpr int kSteps = 2'000, kLayers = 24;
    for (const double share : {0.1, 0.5, 0.75}) {
        int dropped = 0, both = 0;
        for (int step = 1; step <= kSteps; ++step) {
            for (int layer = 0; layer < kLayers; ++layer) {
                const bool is_dropped = is_layer_dropped(11, step, layer, share);
                dropped += is_dropped ? 1 : 0;
                both += is_dropped && is_layer_dropped(11, step, (layer + 1) % kLayers, share) ? 1 : 0;
            }
        }
        // Four deviations of a mean of 48,000; a layer says nothing of the next one.
        const double draws = kSteps * kLayers, pair = share * share;
        EXPECT_NEAR(dropped / draws, share, 4 * std::sqrt(share * (1 - share) / draws));
        EXPECT_NEAR(both / draws, pair, 4 * std::sqrt(2 * pair * (1 - pair) / draws));
    }
}

TEST(LayerDrop, FollowsFromSeedStepAndLayer) {
    int other_seed = 0, other_step = 0;
    for (int layer = 0; layer < 200; ++layer) {
        const bool first = is_layer_dropped(5, 9, layer, 0.5);
        EXPECT_EQ(is_layer_dropped(5, 9, layer, 0.5), first);
        EXPECT_TRUE(!first || is_layer_dropped(5, 9, layer, 0.6)) << "a larger share drops more, not others";
        other_seed += is_layer_dropped(6, 9, layer, 0.5) != first ? 1 : 0;
        other_step += is_layer_dropped(5, 10, layer, 0.5) != first ? 1 : 0;
    }
    EXPECT_GT(other_seed, 60);
    EXPECT_GT(other_step, 60);
}

TEST(LayerDrop, NeverLeavesOutEmbeddingOrHead) {
    for (int step = 1; step < 100; ++step) {
        EXPECT_FALSE(is_layer_dropped(5, step, -1, 0.99));
        EXPECT_FALSE(is_layer_dropped(5, step, 3, 0));
    }
}

// ---- what arrives of them ----

constexpr int64_t kDropCount = 5'001;

class DroppedArrival : public testing::Test {
  protected:
    DroppedArrival() {
        Random random(3, RandomStream::test);
        for (float& each : weights_) each = random.normal();
        // A step that leaves the layer out, and the next one that does not.
        while (!is_layer_dropped(7, step_, param_.spec.layer, kShare) ||
               is_layer_dropped(7, step_ + 1, param_.spec.layer, kShare))
            ++step_;
        before_ = weights_;
    }
    StepParams params(int64_t step) const {
        StepParams made{.seed = 7, .step = step, .learning_rate = 0.1};
        set_noise({.weight_decay = 0.1, .zo_eps = 1e-2, .directions = 2, .layer_drop = kShare}, made);
        made.perturb().scalars[0] = 1.5f;
        made.perturb().scalars[1] = -0.5f;
        return made;
    }
    MaterializeCall call(const StepParams* deferred, const StepParams& step) {
        return {.param = param_,
                .element = 256,
                .weights = reinterpret_cast<std::byte*>(weights_.data()),
                .steps = deferred == nullptr ? std::span<const StepParams>() : std::span(deferred, 1),
                .deferred = deferred == nullptr ? 0 : 1,
                .step = &step,
                .probes = reinterpret_cast<std::byte*>(probes_.data())};
    }
    std::span<const float> probe(size_t index) const {
        return std::span(probes_).subspan(index * kDropCount, kDropCount);
    }

    static constexpr double kShare = 0.5;
    const std::unique_ptr<Stream> stream_ = make_stream(DeviceKind::cpu, 2);
    LoneParam param_{.spec = {.name = "w", .shape = Shape{kDropCount}, .layer = 4},
                     .storage = {.store = StoreType::as_file, .dtype = DType::f32}};
    std::vector<float> weights_ = std::vector<float>(kDropCount), before_,
                       probes_ = std::vector<float>(2 * kDropCount, 99.0f);
    int64_t step_ = 1;
};

TEST_F(DroppedArrival, PointsAreTheWeightsAndDirectionsAreZero) {
    const StepParams dropped = params(step_), kept = params(step_ + 1);
    materialize_points(call(nullptr, dropped), *stream_);
    for (const size_t point : {0, 1}) EXPECT_TRUE(std::ranges::equal(probe(point), before_));
    materialize_points(call(nullptr, kept), *stream_);
    for (const size_t point : {0, 1}) EXPECT_FALSE(std::ranges::equal(probe(point), before_));
    materialize_point(call(nullptr, dropped), *stream_);
    EXPECT_TRUE(std::ranges::equal(probe(0), before_));
    EXPECT_FALSE(std::ranges::equal(probe(1), before_)) << "one point is one copy";
    materialize_tangents(call(nullptr, dropped), *stream_);
    EXPECT_EQ(std::ranges::count(probes_, 0.0f), 2 * kDropCount);
    EXPECT_EQ(weights_, before_);
}

// The update of a step is over the layers that this step probed, not those of the step that applies it.
TEST_F(DroppedArrival, AnUpdateLeavesOutWhatItsOwnStepLeftOut) {
    const StepParams dropped = params(step_), kept = params(step_ + 1);
    materialize_points(call(&dropped, kept), *stream_);
    EXPECT_EQ(weights_, before_);
    materialize_points(call(&kept, dropped), *stream_);
    EXPECT_NE(weights_, before_);
    const std::vector<float> updated = weights_;
    weights_ = before_;
    const std::vector<StepParams> steps = {dropped, kept, dropped};
    update_by_steps({param_, 256, kDropCount, reinterpret_cast<std::byte*>(weights_.data())}, steps, 3, *stream_);
    EXPECT_EQ(weights_, updated);
    param_.spec.layer = -1;
    weights_ = before_;
    update_by_steps({param_, 256, kDropCount, reinterpret_cast<std::byte*>(weights_.data())}, steps, 3, *stream_);
    EXPECT_NE(weights_, updated);
}

// Moments see nothing of a step along the layers that it left out.
TEST_F(DroppedArrival, AStepThatLeftItOutIsNoPartOfItsMoments) {
    const auto moved = [&](NoiseMoments moments, int64_t first, double learning_rate) {
        std::vector<StepParams> steps;
        for (int64_t number = first; number <= step_ + 1; ++number) {
            StepParams made{.seed = 7, .step = number, .learning_rate = learning_rate};
            set_noise({.beta1 = 0.5, .layer_drop = kShare, .moments = moments, .replay_window = 2}, made);
            made.perturb().scalars[0] = 1.5f;
            steps.push_back(made);
        }
        std::vector<float> weights = before_;
        update_by_steps({param_, 256, kDropCount, reinterpret_cast<std::byte*>(weights.data())}, steps, 1, *stream_);
        return weights;
    };
    // Shares of 2/3 and 1/3, the second of nothing.
    const std::vector<float> momentum = moved(NoiseMoments::first, step_, 0.75);
    EXPECT_EQ(momentum, moved(NoiseMoments::none, step_ + 1, 0.75 * (2.0 / 3.0)));
    EXPECT_NE(momentum, before_);
    EXPECT_NE(moved(NoiseMoments::both, step_, 0.75), before_);
}

TEST_F(DroppedArrival, StepsKeepTheShare) {
    const StepParams dropped = params(step_);
    EXPECT_EQ(dropped.perturb().layer_drop, kShare);
}

}  // namespace
}  // namespace windlass
