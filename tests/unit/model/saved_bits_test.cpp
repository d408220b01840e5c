// Whatever a block keeps, wherever it lies meanwhile, gradients are the same bits.
//
// Regions lie in memory of their own, which starts as NaN; what was kept is moved between forward and backward, and
// backward may not write to it (model_runner.h): a value that nobody made, or that lies elsewhere, is not overlooked.
#include <cstring>

#include "tests/unit/model/choice_models.h"

namespace windlass {
namespace {

constexpr int64_t kRows = 2, kRowLength = 12;
constexpr uint64_t kSeedOfBits = 11;

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
    return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

void expect_same_bits(const GradientResult& a, const GradientResult& b) {
    EXPECT_TRUE(same_bits(a.losses, b.losses));
    EXPECT_EQ(a.grad_inputs, b.grad_inputs);
    ASSERT_EQ(a.gradients.size(), b.gradients.size());
    for (size_t i = 0; i < a.gradients.size(); ++i) EXPECT_TRUE(same_bits(a.gradients[i], b.gradients[i])) << i;
}

bool all_finite(const GradientResult& result) {
    const auto finite = [](const std::vector<float>& values) {
        return std::ranges::all_of(values, [](float value) { return std::isfinite(value); });
    };
    return std::ranges::all_of(result.gradients, finite) && finite(result.losses);
}

class SavedBits : public testing::TestWithParam<std::string> {
  protected:
    OpSize size(DType compute) const { return {.rows = kRows, .sequence_length = kRowLength, .compute = compute}; }

    // How many values each block that runs forward has a choice for.
    std::vector<size_t> counts(const std::vector<uint8_t>& trainable = {}) const {
        std::vector<size_t> counts;
        for (size_t b = 0; b + 1 < model_.blocks.size(); ++b) {
            std::vector<uint8_t> of_block;
            for (const int param : model_.blocks[b].params) {
                if (!trainable.empty()) of_block.push_back(trainable[static_cast<size_t>(param)]);
            }
            counts.push_back(saved_values(*model_.blocks[b].program, size(DType::f32), of_block).size());
        }
        return counts;
    }
    GradientResult gradients(RunnerOptions options) const {
        return ModelRunner(model_, masters_, std::move(options)).gradients(batch_);
    }

    // Sets of values to compute again, each layer another one: all of them in order, where there are not more than the
    // runs have room for, else a sample.
    void try_sets(uint64_t runs) const {
        const std::vector<size_t> of_blocks = counts();
        for (const DType compute : {DType::f32, DType::bf16}) {
            const GradientResult kept = gradients({.compute = compute});
            ASSERT_TRUE(all_finite(kept));
            Random random(kSeedOfBits, RandomStream::test, static_cast<uint32_t>(compute));
            uint64_t serial = 0;
            for (uint64_t run = 0; run < runs && !HasFailure(); ++run) {
                SCOPED_TRACE(fmt::format("{}, run {}", dtype_name(compute), run));
                RunnerOptions options{.compute = compute};
                for (const size_t count : of_blocks) {
                    const uint64_t sets = uint64_t{1} << count;
                    const uint64_t set = sets <= 2 * runs ? serial % sets : random.below(sets);
                    options.choices.push_back(choices_of(set, count, random));
                    if (count > 0) ++serial;
                }
                expect_same_bits(kept, gradients(options));
            }
        }
    }

    ModelSpec model_ = choice_model(GetParam());
    ParamValues masters_ = random_masters(model_, kSeedOfBits);
    TokenBatch batch_ = random_batch(model_, kRows, kRowLength, kSeedOfBits);
};

TEST_P(SavedBits, ChangeNoBit) {
    try_sets(16);
}

using SlowChoices = SavedBits;
TEST_P(SlowChoices, ChangeNoBit) {
    try_sets(GetParam() == "gpt2" ? 512 : 96);  // every set of a GPT-2 layer
}

// One value at a time, the same in every layer: so that each is seen to be made again from all others.
TEST_P(SavedBits, OneValueAtATimeChangesNoBit) {
    const std::vector<size_t> of_blocks = counts();
    const size_t most = std::ranges::max(of_blocks);
    ASSERT_LE(most, 20u);
    const GradientResult kept = gradients({.compute = DType::bf16});
    for (size_t value = 0; value < most; ++value) {
        for (const bool is_kept : {false, true}) {
            RunnerOptions options{.compute = DType::bf16};
            for (const size_t count : of_blocks) {
                const SaveChoice others = is_kept ? SaveChoice::recompute : SaveChoice::keep;
                std::vector<SaveChoice>& choices = options.choices.emplace_back(count, others);
                if (value < count) choices[value] = is_kept ? SaveChoice::keep_third : SaveChoice::recompute;
            }
            SCOPED_TRACE(value);
            expect_same_bits(kept, gradients(options));
        }
    }
}

// Which parameters are trained changes what is read, kept and made again, but no bit of what is still wanted.
TEST_P(SavedBits, NorDoTheyWhereOnlySomeParametersAreTrained) {
    const GradientResult all = gradients({});
    Random random(kSeedOfBits + 1, RandomStream::test);
    for (int run = 0; run < 24; ++run) {
        RunnerOptions options;
        for (size_t i = 0; i < model_.params.size(); ++i) options.trainable.push_back(random.below(3) == 0);
        for (const size_t count : counts(options.trainable))
            options.choices.push_back(choices_of(random.next(), count, random));
        SCOPED_TRACE(run);
        const GradientResult some = gradients(options);
        EXPECT_EQ(all.grad_inputs, some.grad_inputs);
        for (size_t i = 0; i < model_.params.size(); ++i) {
            const bool trained = options.trainable[i] != 0;
            EXPECT_TRUE(same_bits(some.gradients[i], trained ? all.gradients[i] : std::vector<float>()))
                << model_.params[i].name;
        }
    }
}

const auto kModels = testing::Values("gpt2", "llama", "qwen3", "opt_post_norm", "llama_biases", "norms_around");
INSTANTIATE_TEST_SUITE_P(Models, SavedBits, kModels, [](const auto& info) { return info.param; });
INSTANTIATE_TEST_SUITE_P(Models, SlowChoices, kModels, [](const auto& info) { return info.param; });

}  // namespace
}  // namespace windlass
