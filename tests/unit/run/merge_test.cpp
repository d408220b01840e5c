// Updates that stay beside weights (Merge): what is written back and when, and what evaluations, snapshots and runs
// that go on find meanwhile.
#include "tests/sanitizer.h"
#include "tests/unit/run/forward_only_fixture.h"
#include "tests/unit/schedule/schedule_fixture.h"

namespace windlass {
namespace {

constexpr const char* kStore = "/image/store.wls";
constexpr int kWindow = 3;

MethodOptions options_of(Merge merge) {
    const bool never = merge == Merge::never;
    return {.weight_decay = 0.1,
            .directions = 2,
            .noise = NoiseKind::low_rank,
            .noise_window = never ? 0 : kWindow,
            .noise_keeps_left = never,
            .merge = merge};
}

// Of a model with a tied table, in bf16.
class MergedRun : public testing::TestWithParam<std::tuple<Plan, Merge>> {
  protected:
    MergedRun() { golden_.folder = write_model(golden_, DType::bf16, folder_); }

    Merge merge() const { return std::get<1>(GetParam()); }
    std::unique_ptr<Engine> engine(bool load = true) {
        EngineOptions options = forward_only_options("zeroth_order", options_of(merge()));
        options.plan = std::get<0>(GetParam());
        options.store_path = kStore;
        if (load) image_.remove_tree(kStore);
        return make_engine(image_, golden_.folder, options, load);
    }
    StepReport train(Engine& engine, int64_t step) {
        const StepReport report = train_on(engine, batches_[static_cast<size_t>(step % 2)], step, 1e-2);
        if (report.applied) applied_.push_back(report.params);
        return report;
    }
    double loss(Engine& engine) {
        return engine.evaluate(*engine.setup().schedules.find("eval/24"), step_input(engine, batches_[0], 1, 0))
            .loss_sum;
    }
    // The weights as they are kept.
    std::string kept(Engine& engine) { return state_bytes(engine, image_, "/image/state.wls"); }

    FaultFiles image_{"/image"};
    TempFolder folder_;
    Golden golden_{"gpt2"};
    const std::array<TestBatch, 2> batches_ = batches_of(golden_);
    std::vector<StepParams> applied_;
};

// Masters have every step; what is kept changes behind windows alone, or for vectors alone.
TEST_P(MergedRun, StoresBehindWindowsOnly) {
    const auto engine = this->engine();
    std::vector<std::string> states = {kept(*engine)};
    auto before = all_masters(*engine);
    for (int64_t step = 1; step <= 7; ++step) {
        train(*engine, step);
        const auto masters = all_masters(*engine);
        EXPECT_FALSE(masters == before) << step;
        before = masters;
        states.push_back(kept(*engine));
        const bool is_stored = states[static_cast<size_t>(step)] != states[static_cast<size_t>(step - 1)];
        EXPECT_EQ(is_stored, merge() == Merge::never || step % kWindow == 0) << step;
    }
    EXPECT_EQ(engine->durable_step(), merge() == Merge::never ? 7 : 6);
}

// What a step has made of tables and matrices is to be seen at once, but is not on disk.
TEST_P(MergedRun, NeverWritesWhatIsNeverFolded) {
    if (merge() != Merge::never || !std::get<0>(GetParam()).store) GTEST_SKIP() << "nothing is read only";
    const auto engine = this->engine();
    const TrainedModel& model = engine->setup().model;
    train(*engine, 1);
    for (const Schedule& schedule : engine->setup().schedules.schedules) {
        for (const MoveTask& move : schedule.moves) {
            if (move.kind != MoveKind::disk_write && move.kind != MoveKind::down) continue;
            for (const MovePiece& piece : move.pieces)
                EXPECT_LT(model.params[static_cast<size_t>(piece.param)].shape.rank(), 2) << schedule.name;
        }
    }
}

// Looking changes nothing.
TEST_P(MergedRun, ShowsTheSameToEverybody) {
    const auto run = [&](bool looks) {
        const auto engine = this->engine();
        std::vector<double> losses;
        for (int64_t step = 1; step <= 8; ++step) {
            losses.push_back(train(*engine, step).loss_sum);
            if (looks) {
                EXPECT_TRUE(std::isfinite(loss(*engine)));
                all_masters(*engine);
                kept(*engine);
            }
        }
        losses.push_back(loss(*engine));
        return std::pair(losses, all_masters(*engine));
    };
    EXPECT_TRUE(run(false) == run(true));
}

// The loss that an evaluation finds is that of the masters.
TEST_P(MergedRun, EvaluatesTheMasters) {
    const auto engine = this->engine();
    const double first = loss(*engine);
    for (int64_t step = 1; step <= 4; ++step) train(*engine, step);
    EngineOptions plain = forward_only_options("zeroth_order");
    TempFolder folder;
    Golden golden("gpt2");
    golden.folder = write_model(golden, DType::f32, folder);
    const auto reference = make_engine(real_files(), golden.folder, plain);
    const auto masters = all_masters(*engine);
    reference->fill(0, "{}", [&](int param, int64_t from, std::span<float> out) {
        std::copy_n(masters[static_cast<size_t>(param)].begin() + from, out.size(), out.begin());
    });
    EXPECT_NE(loss(*engine), first);
    EXPECT_EQ(loss(*engine), loss(*reference));
}

TEST_P(MergedRun, GoesOnFromASnapshotAndTheSteps) {
    const auto straight = engine();
    std::vector<double> expected;
    for (int64_t step = 1; step <= 8; ++step) expected.push_back(train(*straight, step).loss_sum);
    const auto masters = all_masters(*straight);
    for (const int64_t last : {2, 3, 4, 6}) {
        applied_.clear();
        {
            const auto run = engine();
            for (int64_t step = 1; step <= last; ++step) train(*run, step);
            run->snapshot("/image/snapshot.wls", last, run_state_of(last));
        }
        const std::vector<StepParams> applied = applied_;
        image_.remove_tree(kStore);
        const auto run = engine(false);
        Store snapshot = Store::open(image_, "/image/snapshot.wls", OpenMode::read);
        EXPECT_EQ(run->restore(snapshot, {}), run_state_of(last));
        const int64_t home = run->durable_step();
        EXPECT_EQ(home, merge() == Merge::never ? last : last - last % kWindow);
        const auto deferred = std::span(applied).subspan(static_cast<size_t>(home));
        run->recall({deferred.begin(), deferred.end()}, static_cast<int>(deferred.size()), last, run_state_of(last));
        if (merge() == Merge::never)
            for (const StepParams& step : applied) run->recall_sums(step);
        for (int64_t step = last + 1; step <= 8; ++step)
            EXPECT_EQ(train(*run, step).loss_sum, expected[static_cast<size_t>(step - 1)]) << last << ", " << step;
        EXPECT_TRUE(all_masters(*run) == masters) << last;
        image_.remove_tree("/image/snapshot.wls");
    }
}

std::vector<Plan> some_plans() {
    std::vector<Plan> plans = {forward_only_memory_plan()};
    const std::vector<Plan> all = forward_only_plans(DeviceKind::cpu, tiny_model("gpt2").blocks.size(), 1);
    int found = 0;
    for (const Plan& plan : all) {
        const bool is_written_back = plan.store || (plan.own_memory() && plan.common.weights == Home::host);
        if (!is_written_back || plan.read_ahead != 1) continue;
        if (!is_sanitized() || found++ % 2 == 0) plans.push_back(plan);  // every other one shows how they are executed
    }
    return plans;
}
INSTANTIATE_TEST_SUITE_P(Plans, MergedRun,
                         testing::Combine(testing::ValuesIn(some_plans()),
                                          testing::Values(Merge::per_window, Merge::never)));

}  // namespace
}  // namespace windlass
