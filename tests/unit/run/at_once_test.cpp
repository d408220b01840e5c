// LOMO and AdaLomo: clipping by a second backward, what is not finite, going on, and how rows are split.
#include <cmath>
#include <limits>

#include "tests/sanitizer.h"
#include "tests/unit/device/fake_async.h"
#include "tests/unit/run/at_once_fixture.h"

namespace windlass {
namespace {

constexpr double kRate = 1e-2;

// Method, and masters or not.
class AtOnce : public testing::TestWithParam<std::tuple<const char*, bool>> {
  protected:
    AtOnce() : golden_("gpt2"), batches_(batches_of(golden_)) {  // a tied table
        golden_.folder = write_model(golden_, DType::bf16, folder_);
    }

    EngineOptions options(Plan plan, double max_grad_norm = 0) const {
        EngineOptions made = at_once_options(std::get<0>(GetParam()), std::get<1>(GetParam()), max_grad_norm);
        made.plan = at_once(std::move(plan));
        made.micro_batch_size = 1;
        made.micro_batches = 2;
        made.store_path = folder_ / "store.wls";
        return made;
    }
    std::unique_ptr<Engine> engine(const EngineOptions& options, bool load = true) const {
        real_files().remove_tree(load ? options.store_path : options.store_path + ".none");
        return make_engine(real_files(), golden_.folder, options, load);
    }
    void train(Engine& engine, int64_t first, int64_t last) const {
        for (int64_t step = first; step <= last; ++step) {
            const StepReport report = train_on(engine, batches_[static_cast<size_t>(step % 2)], step, kRate);
            EXPECT_TRUE(report.applied);
            EXPECT_FALSE(report.spoiled);
        }
    }
    // A step whose gradients overflow on their way down, while its loss is finite.
    StepReport overflow(Engine& engine, int64_t step) const {
        StepInput input = step_input(engine, batches_[0], step, kRate);
        input.params.head.loss_scale = 1e38;
        return engine.train_step(train_schedule(engine, batches_[0]), input);
    }
    std::string state(Engine& engine) const { return state_bytes(engine, real_files(), folder_ / "state.wls"); }
    std::string in_memory(int64_t steps, double max_grad_norm = 0) const {
        const auto made = engine(options(memory_plan(), max_grad_norm));
        train(*made, 1, steps);
        return state(*made);
    }

    TempFolder folder_;
    Golden golden_;
    std::array<TestBatch, 2> batches_;
};

// ---- clipping ----

TEST_P(AtOnce, ALimitThatNothingReachesChangesNothing) {
    EXPECT_TRUE(in_memory(3, 1e6) == in_memory(3));
    EXPECT_FALSE(in_memory(3, 1.0) == in_memory(3));
}

// The first backward finds the norm that AdamW's would, and whether everything is finite before anything changes.
TEST_P(AtOnce, TheFirstBackwardFindsTheNorm) {
    const auto clipping = engine(options(memory_plan(), 1.0));
    const auto adamw = make_engine(real_files(), golden_.folder, {.micro_batch_size = 1, .micro_batches = 2});
    const StepReport report = train_on(*clipping, batches_[0], 1, kRate),
                     plain = train_on(*adamw, batches_[0], 1, kRate);
    EXPECT_EQ(report.grad_norm, plain.grad_norm);
    EXPECT_EQ(report.clip_scale, plain.clip_scale);
    EXPECT_EQ(report.loss_sum, plain.loss_sum);
    const std::string before = state(*clipping);
    const StepReport bad = overflow(*clipping, 2);
    EXPECT_FALSE(bad.applied);
    EXPECT_FALSE(bad.spoiled);
    EXPECT_TRUE(state(*clipping) == before);
}

// ---- what is not finite ----

TEST_P(AtOnce, ALossThatIsNotFiniteIsKnownBeforeAnythingChanges) {
    golden_.folder = write_model(golden_, DType::f32, folder_, [](const std::string& name, std::span<float> values) {
        if (name == "transformer.ln_f.weight") std::ranges::fill(values, std::numeric_limits<float>::max());
    });
    const auto made = engine(options(memory_plan()));
    const std::string before = state(*made);
    const StepReport report = train_on(*made, batches_[0], 1, kRate);
    EXPECT_FALSE(std::isfinite(report.loss_sum));
    EXPECT_FALSE(report.applied);
    EXPECT_FALSE(report.spoiled);
    EXPECT_TRUE(state(*made) == before);
}

TEST_P(AtOnce, WithAStoreAGradientThatIsNotFiniteLeavesTheStepBefore) {
    const std::string expected = in_memory(4);
    for (const Home home : {Home::device, Home::disk}) {
        Plan plan = disk_plan(home, Home::device);
        plan.common.state = home;
        const auto made = engine(options(plan));
        train(*made, 1, 2);
        const std::string before = state(*made);
        const StepReport bad = overflow(*made, 3);
        EXPECT_TRUE(bad.spoiled);
        EXPECT_FALSE(bad.applied);
        EXPECT_TRUE(std::isfinite(bad.loss_sum));
        made->commit(2, run_state_of(2), bad);
        EXPECT_TRUE(state(*made) == before);
        train(*made, 3, 4);
        EXPECT_TRUE(state(*made) == expected);
    }
}

TEST_P(AtOnce, WithoutOneTheStateIsLostAndSaidToBe) {
    const auto made = engine(options(memory_plan()));
    train(*made, 1, 1);
    const StepReport bad = overflow(*made, 2);
    EXPECT_TRUE(bad.spoiled);
    EXPECT_FALSE(bad.applied);
    EXPECT_DEATH(made->commit(2, run_state_of(2), bad), "the state before step 2 is lost");
}

// ---- going on ----

TEST_P(AtOnce, AReopenedStoreGoesOnToTheBit) {
    const std::string expected = in_memory(6);
    for (const Home home : {Home::device, Home::disk}) {
        Plan plan = disk_plan(home, Home::device);
        plan.common.state = home;
        const EngineOptions on_disk = options(plan);
        {
            const auto first = engine(on_disk);
            train(*first, 1, 3);
            // A step that was computed and not committed leaves nothing behind.
            first->train_step(train_schedule(*first, batches_[0]), step_input(*first, batches_[0], 4, 0.5));
        }
        const auto rest = engine(on_disk, false);
        EXPECT_EQ(rest->reopen(), run_state_of(3));
        train(*rest, 4, 6);
        EXPECT_TRUE(state(*rest) == expected);
    }
}

TEST_P(AtOnce, ASnapshotGoesOnUnderAnyPolicy) {
    const std::string expected = in_memory(4), snapshot = folder_ / "snapshot.wls";
    const Plan disk = disk_plan(Home::disk, Home::device);
    for (const bool into_disk : {true, false}) {
        real_files().remove_tree(snapshot);
        {
            const auto first = engine(options(into_disk ? memory_plan() : disk));
            train(*first, 1, 2);
            first->snapshot(snapshot, 2, run_state_of(2));
        }
        const EngineOptions second = options(into_disk ? disk : memory_plan());
        real_files().remove_tree(second.store_path);
        const auto rest = engine(second, false);
        Store store = Store::open(real_files(), snapshot, OpenMode::read);
        EXPECT_EQ(rest->restore(store, {}), run_state_of(2));
        train(*rest, 3, 4);
        EXPECT_TRUE(state(*rest) == expected);
    }
}

// ---- on devices that complete late, and where parameters are many chunks ----

TEST_P(AtOnce, LateDevicesChangeNoBit) {
    const size_t stride = is_second_run() ? 14 : 7;
    for (const double limit : {0.0, 4.0}) {
        EngineOptions asked = options(memory_plan(), limit);
        const Outcome expected = run_steps(golden_, batches_, asked);
        std::vector<Plan> plans = at_once_plans(tiny_model("gpt2"));
        std::erase_if(plans, [](const Plan& plan) { return !plan.own_memory(); });
        for (size_t index = limit > 0 ? 0 : 3; index < plans.size(); index += stride) {
            FakeAsync device({.seed = index + 1});
            asked.device = &device;
            asked.plan = plans[index];
            asked.emulation = {.jitter_seed = index, .jitter_ns = index % 2 == 0 ? 50'000 : 0};
            EXPECT_TRUE(run_steps(golden_, batches_, asked) == expected)
                << describe(asked.plan) << (asked.plan.blocks.empty() ? "" : ", mixed") << ", " << limit;
        }
    }
}

// The same model with so many words that its tables are two chunks.
std::string with_many_words(const Golden& golden, const TempFolder& folder) {
    constexpr int64_t kWords = 140'001;
    std::vector<TestTensor> tensors = read_tensors(ModelFolder::open(real_files(), golden.folder));
    for (TestTensor& tensor : tensors) {
        if (tensor.spec.shape.rank() != 2 || tensor.spec.shape[0] != 96 ||
            tensor.spec.name.find("mlp") != std::string::npos)
            continue;
        const int64_t cols = tensor.spec.shape[1];
        tensor.spec.shape = {kWords, cols};
        const std::vector<std::byte> few = tensor.bytes;
        tensor.bytes.clear();
        while (std::ssize(tensor.bytes) < kWords * cols * 4)
            tensor.bytes.insert(tensor.bytes.end(), few.begin(), few.end());
        tensor.bytes.resize(static_cast<size_t>(kWords * cols * 4));
    }
    std::string config = read_text(real_files(), golden.folder + "/config.json", 1 << 20);
    const size_t at = config.find("\"vocab_size\": 96");
    WINDLASS_CHECK(at != std::string::npos, "no vocabulary of 96 words");
    config.replace(at, 16, fmt::format("\"vocab_size\": {}", kWords));
    const std::string path = folder / "many_words";
    write_folder(path, config, tensors);
    return path;
}

TEST_P(AtOnce, ParametersOfManyChunksAreUpdatedAlike) {
    Golden llama("llama");
    llama.folder = with_many_words(llama, folder_);
    EngineOptions asked = options(memory_plan());
    const Outcome expected = run_steps(llama, batches_of(llama), asked);
    std::vector<Plan> plans = {disk_plan(Home::disk, Home::device, 2)};
    plans.push_back({.policy = "three_tier",
                     .device = {.own_memory = true},
                     .host_threads = 2,
                     .store = true,
                     .common = {.weights = Home::host, .state = Home::host, .gradients = Home::host}});
    plans.push_back({.policy = "host_stream",
                     .device = {.own_memory = true},
                     .host_threads = 1,
                     .common = {.weights = Home::host, .state = Home::host, .gradients = Home::host}});
    for (const Plan& plan : plans) {
        asked.plan = at_once(plan);
        EXPECT_TRUE(run_steps(llama, batches_of(llama), asked) == expected) << describe(asked.plan);
    }
}

// ---- rows split otherwise: the same sums in another order ----

TEST_P(AtOnce, OneMicroBatchOfEightRowsIsEightOfOne) {
    std::vector<int32_t> ids, targets;
    for (int copy = 0; copy < 2; ++copy) {
        for (const char* const each : {"ids", "ids_b"}) {
            for (int32_t id : golden_.ids(each)) ids.push_back((id + 7 * copy) % 96);
            for (int32_t id : golden_.ids(std::string("targets") + (each == std::string("ids") ? "" : "_b")))
                targets.push_back(id == kIgnored ? id : (id + 7 * copy) % 96);
        }
    }
    const TestBatch batch(ids, targets, 8);
    std::vector<std::vector<std::vector<float>>> masters;
    const TrainedModel model = tiny_model("gpt2");
    for (const int micro_batches : {1, 8}) {
        EngineOptions asked = options(memory_plan());
        asked.method.split_masters = true;
        asked.micro_batches = micro_batches;
        asked.micro_batch_size = 8 / micro_batches;
        const auto made = engine(asked);
        if (masters.empty()) masters.push_back(all_masters(*made));
        train_on(*made, batch, 1, 1.0);
        masters.push_back(all_masters(*made));
    }
    // AdaLomo's first step of a vector is the sign of its gradient, which where that is zero but for rounding is
    // chance.
    const bool is_lomo = std::get<0>(GetParam()) == std::string("lomo");
    double step = 0, difference = 0, size = 0;
    for (size_t param = 0; param < masters[0].size(); ++param) {
        if (!is_lomo && model.params[param].shape.rank() == 1) continue;
        for (size_t i = 0; i < masters[0][param].size(); ++i) {
            const double from = masters[0][param][i], a = masters[1][param][i], b = masters[2][param][i];
            step += (a - from) * (a - from);
            difference += (a - b) * (a - b);
            size += a * a;
        }
    }
    // 1e-6 of the gradient, as AdamW's test has it, of AdaLomo's also of what it is divided by, which are two roots of
    // means of its squares and a mean of those; and each weight's own rounding to fp32.
    const double bound = is_lomo ? 1e-6 : 4e-6;
    EXPECT_GT(difference, 0) << "nothing was summed otherwise";
    EXPECT_LE(std::sqrt(difference), bound * std::sqrt(step) + 0x1p-24 * std::sqrt(size));
    fmt::print("|difference| / |step| = {:.2e}\n", std::sqrt(difference / step));
}

INSTANTIATE_TEST_SUITE_P(Methods, AtOnce, testing::Combine(testing::Values("lomo", "adalomo"), testing::Bool()),
                         [](const auto& info) {
                             return fmt::format("{}_{}", std::get<0>(info.param),
                                                std::get<1>(info.param) ? "masters" : "as_file");
                         });

}  // namespace
}  // namespace windlass
