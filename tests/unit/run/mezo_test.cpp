// MeZO's own program, which moves the weights of a whole model in place, against steps that never do.
#include "perturb/noise.h"
#include "tests/unit/method/mezo_walk.h"
#include "tests/unit/run/forward_only_fixture.h"

namespace windlass {
namespace {

constexpr uint64_t kMezoSeed = 7;  // of the fixture's engines

// Weights in f32 that are perturbed, looked at, perturbed, looked at, restored and updated.
class InPlace {
  public:
    InPlace(Engine& engine, const MethodOptions& options)
        : engine_(engine), options_(options), starts_(global_offsets(engine.setup().model)) {
        for (const std::vector<float>& values : all_masters(engine)) {
            Stored& stored = weights_.emplace_back(WeightType::f32, std::ssize(values));
            for (size_t i = 0; i < values.size(); ++i) stored.set(static_cast<int64_t>(i), values[i]);
        }
    }

    // Returns what was found.
    double step(const TestBatch& batch, int64_t number, double rate) {
        draw(number);
        perturb(1);
        const double plus = loss(batch);
        perturb(-2);
        const double minus = loss(batch);
        perturb(1);
        const double found = (plus - minus) / static_cast<double>(batch.target_count()) / (2 * options_.zo_eps);
        for (size_t param = 0; param < weights_.size(); ++param) {
            if (engine_.setup().model.training[param].decays)
                walk_.update(z_[param], rate, found, options_.weight_decay, weights_[param]);
            else
                walk_.update_without_decay(z_[param], rate, found, weights_[param]);
        }
        return found;
    }
    std::vector<float> numbers(size_t param) const {
        std::vector<float> numbers;
        for (int64_t i = 0; i < weights_[param].count(); ++i) numbers.push_back(weights_[param][i]);
        return numbers;
    }

  private:
    void draw(int64_t step) {
        z_.clear();
        for (size_t param = 0; param < weights_.size(); ++param) {
            const NoiseRun run{
                .seed = kMezoSeed, .kind = options_.noise, .element = starts_[param], .count = weights_[param].count()};
            std::vector<float>& z = z_.emplace_back(static_cast<size_t>(run.count));
            write_direction(run, {.step = static_cast<uint32_t>(step), .coefficient = 1}, WeightType::f32, z.data(),
                            *stream_);
        }
    }
    void perturb(double scale) {
        for (size_t param = 0; param < weights_.size(); ++param)
            walk_.perturb(z_[param], scale, options_.zo_eps, weights_[param]);
    }
    // Of the weights as they stand, as evaluation finds it.
    double loss(const TestBatch& batch) {
        engine_.fill(0, "{}", [&](int param, int64_t first, std::span<float> out) {
            const std::vector<float> all = numbers(static_cast<size_t>(param));
            std::copy_n(all.begin() + first, out.size(), out.begin());
        });
        const StepInput input{.micro = {batch.rows(0, batch.row_count)}};
        return engine_.evaluate(*engine_.setup().schedules.find("eval/24"), input).loss_sum;
    }

    Engine& engine_;
    MethodOptions options_;
    std::vector<int64_t> starts_;
    std::vector<Stored> weights_;        // by parameter
    std::vector<std::vector<float>> z_;  // of this step, by parameter
    MezoWalk walk_{WeightType::f32};
    std::unique_ptr<Stream> stream_ = make_stream(DeviceKind::cpu, 1);
};

// gpt2's table is tied: moved once a step in place, used twice. A loss of 4.6 in f32 is rounded by up to 2.4e-7, which
// over 2 eps is 1.2e-4 of the first step's derivative; the walk's drift is of that order, and each step carries on what
// the ones before it differ by.
TEST(Mezo, ItsOwnProgramFindsTheSameAndGoesTheSameWay) {
    constexpr int64_t kSteps = 6;
    constexpr double kRate = 1e-2, kClose = 2e-3;
    for (const char* name : {"gpt2", "llama"}) {
        for (const NoiseKind noise : {NoiseKind::gaussian, NoiseKind::rademacher}) {
            const Golden golden(name);
            const std::array<TestBatch, 2> batches = batches_of(golden);
            const EngineOptions options = forward_only_options("zeroth_order", {.weight_decay = 10, .noise = noise});
            const auto beside = make_engine(real_files(), golden.folder, options);
            const auto engine = make_engine(real_files(), golden.folder, options);
            InPlace in_place(*beside, options.method);
            const auto first = all_masters(*engine);
            double largest_found = 0, worst = 0;
            for (int64_t step = 1; step <= kSteps; ++step) {
                const TestBatch& batch = batches[static_cast<size_t>(step % 2)];
                const double expected = in_place.step(batch, step, kRate);
                const double found = train_on(*engine, batch, step, kRate).params.perturb().scalars[0];
                largest_found = std::max(largest_found, std::abs(expected));
                worst = std::max(worst, std::abs(found - expected));
            }
            double moved = 0, apart = 0;
            const auto masters = all_masters(*engine);
            for (size_t param = 0; param < masters.size(); ++param) {
                const std::vector<float> walked = in_place.numbers(param);
                for (size_t i = 0; i < walked.size(); ++i) {
                    moved = std::max(moved, std::abs(double{walked[i]} - first[param][i]));
                    apart = std::max(apart, std::abs(double{walked[i]} - masters[param][i]));
                }
            }
            EXPECT_LT(worst, kClose * largest_found) << name;
            EXPECT_LT(apart, kClose * moved) << name;
        }
    }
}

}  // namespace
}  // namespace windlass
