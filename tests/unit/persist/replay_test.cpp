// Weights out of a log: the bits of its steps taken one by one, whatever is asked for and in which order.
#include "persist/replay.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "device/cpu/isa.h"
#include "method/forward_only/materialize.h"
#include "model/load.h"
#include "persist/trajectory_log.h"
#include "state/trajectory_settings.h"
#include "tests/unit/base/temp_folder.h"
#include "tests/unit/method/lone_model.h"

namespace windlass {
namespace {

constexpr int64_t kSteps = 2'500;  // more than are in memory at once
constexpr int kDirections = 2;

TrainedModel small_model() {
    std::vector<LoneParam> params;
    for (const auto& [name, count] : {std::pair{"a", int64_t{37}}, {"b", int64_t{1030}}, {"c", int64_t{9}}})
        params.push_back(
            {.spec = {.name = name, .shape = {count}, .file_dtype = DType::bf16}, .training = {.decays = count > 10}});
    TrainedModel model = lone_model(params);
    set_store(model, StoreType::as_file);
    return model;
}

void base_masters(int param, int64_t first, std::span<float> out) {
    for (size_t i = 0; i < out.size(); ++i)
        out[i] = static_cast<float>((first + static_cast<int64_t>(i)) % 61 - 30) / 256 +
                 static_cast<float>(param) / 8;  // bf16 holds them
}

TrajectoryRecord record_of(int64_t step) {
    TrajectoryRecord record{.step = static_cast<uint32_t>(step),
                            .learning_rate = 1e-4 / static_cast<double>(1 + step % 10),
                            .decay = 1 - 1e-5,
                            .applied = step % 50 != 0,
                            .scalars = {static_cast<float>(step % 7) - 3.3f, 0.25f}};
    if (!record.applied) record.scalars[0] = std::numeric_limits<float>::quiet_NaN();
    return record;
}

class Replayed : public testing::Test {
  protected:
    Replayed() {
        TrajectoryWriter writer = TrajectoryWriter::create(real_files(), path_,
                                                           {.method = "zeroth_order",
                                                            .run_seed = 5,
                                                            .directions = kDirections,
                                                            .eps = 1e-3,
                                                            .storage = DType::bf16,
                                                            .stochastic_rounding = true,
                                                            .base = describe_base("here", model_, base_masters, 2),
                                                            .settings = trajectory_settings({}, model_)});
        for (int64_t step = 1; step <= kSteps; ++step) writer.append(record_of(step));
        writer.sync();
    }
    ~Replayed() override { set_cpu_isa(detected_isa()); }

    // The masters of a parameter behind this step, one step after the other.
    std::vector<float> step_by_step(int param, int64_t last_step) const {
        const Param each = model_.param(param);
        std::vector<float> masters(static_cast<size_t>(each.numel()));
        base_masters(param, 0, masters);
        std::vector<std::byte> weights(masters.size() * 2);
        encode_numbers(DType::bf16, masters, weights);
        const auto stream = make_stream(DeviceKind::cpu, 1);
        for (int64_t step = 1; step <= last_step; ++step) {
            const TrajectoryRecord record = record_of(step);
            if (!record.applied) continue;
            StepParams deferred{.seed = 5, .step = step, .learning_rate = record.learning_rate};
            deferred.method = PerturbStep{.decay = record.decay, .directions = static_cast<int>(record.scalars.size())};
            std::ranges::copy(record.scalars, deferred.perturb().scalars.begin());
            materialize_points({.param = each,
                                .element = global_offsets(model_)[static_cast<size_t>(param)],
                                .weights = weights.data(),
                                .steps = {&deferred, 1},
                                .deferred = 1,
                                .step = &deferred},
                               *stream);
        }
        decode_numbers(DType::bf16, weights, masters);
        return masters;
    }
    std::vector<float> replayed(Replay& replay, int param, int64_t first, int64_t count) const {
        std::vector<float> masters(static_cast<size_t>(count));
        replay.read(param, first, masters);
        return masters;
    }

    const TempFolder folder_;
    const std::string path_ = folder_ / "trajectory.wlt";
    const TrainedModel model_ = small_model();
};

TEST_F(Replayed, WeightsAreThoseOfTheStepsOneByOneOnEveryPath) {
    TrajectoryReader log = TrajectoryReader::open(real_files(), path_);
    for (const Isa isa : {Isa::baseline, Isa::avx2, Isa::avx512}) {
        if (isa > detected_isa()) continue;
        set_cpu_isa(isa);
        for (const int64_t last : {int64_t{0}, int64_t{1}, int64_t{1024}, int64_t{1025}, kSteps}) {
            Replay replay(log, 1, last, model_, base_masters, 2);
            for (int param = 0; param < 3; ++param) {
                const std::vector<float> expected = step_by_step(param, last);
                EXPECT_EQ(replayed(replay, param, 0, std::ssize(expected)), expected) << isa_name(isa) << " " << last;
            }
        }
    }
}

TEST_F(Replayed, PartsAreTheSameAsTheWhole) {
    TrajectoryReader log = TrajectoryReader::open(real_files(), path_);
    Replay replay(log, 1, kSteps, model_, base_masters, 1);
    const std::vector<float> whole = replayed(replay, 1, 0, 1030);
    for (const auto& [first, count] : {std::pair{511, 300}, {0, 1}, {1029, 1}, {3, 1027}}) {
        const std::vector<float> part = replayed(replay, 1, first, count);
        EXPECT_TRUE(std::equal(part.begin(), part.end(), whole.begin() + first)) << first;
    }
}

TEST_F(Replayed, GoesOnFromAnyStep) {
    TrajectoryReader log = TrajectoryReader::open(real_files(), path_);
    Replay first(log, 1, 1700, model_, base_masters, 1);
    Replay second(
        log, 1701, kSteps, model_,
        [&](int param, int64_t begin, std::span<float> out) { first.read(param, begin, out); }, 1);
    EXPECT_EQ(replayed(second, 1, 0, 1030), step_by_step(1, kSteps));
}

TEST_F(Replayed, OneChangedWeightIsAnotherBase) {
    const auto changed = [](int param, int64_t first, std::span<float> out) {
        base_masters(param, first, out);
        if (param == 2) out[3] += 0.5f;
    };
    const TrajectoryReader log = TrajectoryReader::open(real_files(), path_);
    EXPECT_NO_THROW(require_trajectory_base(log.header(), describe_base("x", model_, base_masters, 2), path_));
    EXPECT_THROW(require_trajectory_base(log.header(), describe_base("x", model_, changed, 2), path_), UserError);
    TrainedModel other = model_;
    other.training[0].decays = false;
    EXPECT_THROW(require_trajectory_base(log.header(), describe_base("x", other, base_masters, 2), path_), UserError);
}

void expect_refused(TrajectoryHeader header, const char* part) {
    try {
        noise_of(header, "log");
        FAIL() << part;
    } catch (const UserError& error) {
        EXPECT_THAT(error.what(), testing::HasSubstr(part));
    }
}

TEST_F(Replayed, RefusesNoiseThatIsNotDrawnHere) {
    TrajectoryReader log = TrajectoryReader::open(real_files(), path_);
    TrajectoryHeader header = log.header();
    EXPECT_EQ(noise_of(header, "log").noise.kind, NoiseKind::gaussian);
    header.noise.revision = 2;
    expect_refused(header, "revision 2");
    header = log.header();
    header.directions = kDirectionsMax + 1;
    expect_refused(header, "65 directions");
    header = log.header();
    header.noise = {.kind = TrajectoryNoiseKind::low_rank, .rank = kDirectionRankMax, .window = 50};
    EXPECT_EQ(noise_of(header, "log").noise.kind, NoiseKind::low_rank);
    ++header.noise.rank;
    expect_refused(header, "rank 65");
    header = log.header();
    header.method = "adamw";
    expect_refused(header, "adamw");
    TrainedModel other = model_;
    for (ParamSpec& param : other.params) param.file_dtype = DType::f32;
    set_store(other, StoreType::as_file);
    EXPECT_THROW(Replay(log, 1, kSteps, other, base_masters, 1), UserError);
}

// Types of few bits are rounded by all threads: what is summed are the same bytes.
TEST_F(Replayed, ABaseHasOneSumWhateverTheThreads) {
    for (const bool in_4_bits : {false, true}) {
        TrainedModel model = model_;
        for (ParamStorage& storage : model.storage) storage.dtype = in_4_bits ? DType::nf4 : DType::f8_e4m3;
        const TrajectoryBase alone = describe_base("x", model, base_masters, 1);
        EXPECT_NE(alone.weights_sum, describe_base("x", model_, base_masters, 1).weights_sum);
        EXPECT_EQ(alone.weights_sum, describe_base("x", model, base_masters, 3).weights_sum);
    }
}

}  // namespace
}  // namespace windlass
