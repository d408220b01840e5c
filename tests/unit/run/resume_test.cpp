// Going on from what a store or a snapshot holds: the same bits as never having stopped.
#include "tests/unit/run/engine_fixture.h"

namespace windlass {
namespace {

constexpr int64_t kResumedSteps = 6;

class Resumed : public testing::TestWithParam<std::tuple<const char*, Home, Home, StateFormat>> {
  protected:
    Resumed()
        : golden_(std::get<0>(GetParam())),
          a_(golden_.ids("ids"), golden_.ids("targets"), 2),
          b_(golden_.ids("ids_b"), golden_.ids("targets_b"), 2) {}

    EngineOptions options(Plan plan, const std::string& store) const {
        return {.plan = std::move(plan),
                .method = {.weight_decay = 0.1, .state_format = std::get<3>(GetParam())},
                .micro_batch_size = 1,
                .micro_batches = 2,
                .store_path = folder_ / store};
    }
    Plan disk() const { return disk_plan(std::get<1>(GetParam()), std::get<2>(GetParam())); }
    std::unique_ptr<Engine> engine(const EngineOptions& options, bool load) const {
        return make_engine(real_files(), golden_.folder, options, load);
    }
    // Steps [first, last], each on its batch; returns the losses and norms.
    std::vector<double> train(Engine& engine, int64_t first, int64_t last) const {
        std::vector<double> numbers;
        for (int64_t step = first; step <= last; ++step) {
            const StepReport report = train_on(engine, step % 2 == 1 ? a_ : b_, step, 1e-2);
            numbers.insert(numbers.end(), {report.loss_sum, report.grad_norm});
        }
        return numbers;
    }
    std::string state(Engine& engine) const { return state_bytes(engine, real_files(), folder_ / "state.wls"); }
    // What six steps in memory end in.
    std::string reference() const {
        const auto never_stopped = engine(options(memory_plan(), ""), true);
        train(*never_stopped, 1, kResumedSteps);
        return state(*never_stopped);
    }

    TempFolder folder_;
    Golden golden_;
    TestBatch a_, b_;
};

TEST_P(Resumed, AReopenedStoreGoesOnToTheBit) {
    const std::string expected = reference();
    const EngineOptions on_disk = options(disk(), "store.wls");
    std::vector<double> numbers;
    for (int64_t step = 1; step <= kResumedSteps; step += 2) {
        const auto part = engine(on_disk, step == 1);
        if (step > 1) {
            EXPECT_EQ(part->reopen(), run_state_of(step - 1));
        }
        for (const double number : train(*part, step, step + 1)) numbers.push_back(number);
        if (step + 1 == kResumedSteps) {
            EXPECT_TRUE(state(*part) == expected);
        }
    }
    const auto never_stopped = engine(options(memory_plan(), ""), true);
    EXPECT_EQ(numbers, train(*never_stopped, 1, kResumedSteps));
}

TEST_P(Resumed, ASnapshotGoesOnUnderAnyPolicy) {
    const std::string expected = reference();
    const std::string snapshot = folder_ / "snapshot.wls";
    for (const bool into_disk : {true, false}) {
        real_files().remove_tree(snapshot);
        {
            const auto first = engine(options(into_disk ? memory_plan() : disk(), "first.wls"), true);
            train(*first, 1, 3);
            first->snapshot(snapshot, 3, run_state_of(3));
        }
        const EngineOptions second = options(into_disk ? disk() : memory_plan(), "second.wls");
        {
            const auto rest = engine(second, false);
            Store store = Store::open(real_files(), snapshot, OpenMode::read);
            EXPECT_EQ(rest->restore(store, {}), run_state_of(3));
            if (!into_disk) {
                train(*rest, 4, kResumedSteps);
                EXPECT_TRUE(state(*rest) == expected);
            }
        }
        if (!into_disk) continue;
        const auto again = engine(second, false);  // what restore wrote is a store like any other
        EXPECT_EQ(again->reopen(), run_state_of(3));
        train(*again, 4, kResumedSteps);
        EXPECT_TRUE(state(*again) == expected);
    }
}

// A step that was computed and not committed leaves nothing behind.
TEST_P(Resumed, AnUncommittedStepIsForgotten) {
    const EngineOptions on_disk = options(disk(), "store.wls");
    {
        const auto first = engine(on_disk, true);
        train(*first, 1, 2);
        first->train_step(train_schedule(*first, a_), step_input(*first, a_, 3, 0.5));
    }
    const auto rest = engine(on_disk, false);
    EXPECT_EQ(rest->reopen(), run_state_of(2));
    train(*rest, 3, kResumedSteps);
    EXPECT_TRUE(state(*rest) == reference());
}

TEST_P(Resumed, EvaluationLeavesNoTrace) {
    const auto watched = engine(options(disk(), "store.wls"), true);
    const Schedule& eval = *watched->setup().schedules.find("eval/24");
    std::vector<double> losses;
    for (int64_t step = 1; step <= kResumedSteps; ++step) {
        StepInput input = step_input(*watched, b_, step, 0);
        input.micro.resize(1);
        const StepReport report = watched->evaluate(eval, input, true);
        EXPECT_EQ(report.token_losses.size(), 24u);
        double sum = 0;
        for (const double loss : report.token_losses) sum += loss;
        EXPECT_EQ(sum, report.loss_sum);
        train(*watched, step, step);
    }
    EXPECT_TRUE(state(*watched) == reference());
}

INSTANTIATE_TEST_SUITE_P(Homes, Resumed,
                         testing::Combine(testing::Values("gpt2", "llama3"), testing::Values(Home::device, Home::disk),
                                          testing::Values(Home::device, Home::disk),
                                          testing::Values(StateFormat::fp32)));
INSTANTIATE_TEST_SUITE_P(Formats, Resumed,
                         testing::Combine(testing::Values("gpt2"), testing::Values(Home::device, Home::disk),
                                          testing::Values(Home::device),
                                          testing::Values(StateFormat::bf16, StateFormat::int8)));

TEST(Resume, RefusesTheStateOfAnotherFormat) {
    const TempFolder folder;
    EngineOptions options{.plan = disk_plan(Home::disk, Home::disk), .store_path = folder / "store.wls"};
    make_engine(real_files(), Golden("gpt2").folder, options);
    options.method.state_format = StateFormat::bf16;
    const auto other = make_engine(real_files(), Golden("gpt2").folder, options, false);
    try {
        other->reopen();
        FAIL();
    } catch (const UserError& error) {
        EXPECT_EQ(error.code(), ExitCode::storage);
        EXPECT_THAT(error.what(), testing::HasSubstr("m with 4 bytes for every 1 elements"));
    }
}

TEST(Resume, RefusesTheStoreOfAnotherModel) {
    const TempFolder folder;
    EngineOptions options{.plan = disk_plan(Home::disk, Home::disk), .store_path = folder / "store.wls"};
    make_engine(real_files(), Golden("gpt2").folder, options);
    const auto other = make_engine(real_files(), Golden("llama").folder, options, false);
    try {
        other->reopen();
        FAIL();
    } catch (const UserError& error) {
        EXPECT_EQ(error.code(), ExitCode::storage);
        EXPECT_THAT(error.what(), testing::HasSubstr("holds the state of another run"));
    }
}

}  // namespace
}  // namespace windlass
