// Decoding through an engine: the logits of a row's last token are those of evaluation, however its tokens come.
#include <gmock/gmock.h>

#include <cmath>
#include <numeric>

#include "base/index.h"
#include "model/pass.h"
#include "op/ops.h"
#include "tests/unit/run/engine_fixture.h"

namespace windlass {
namespace {

constexpr int64_t kLength = 24;
using DecodeKind = ScheduleRequest::Kind;

struct DecodeCase {
    std::string model;
    DType compute;
    Home weights;
    int64_t rows;
};
void PrintTo(const DecodeCase& c, std::ostream* out) {
    *out << c.model << " in " << dtype_name(c.compute) << ", " << c.rows << " rows";
}

// New tokens of each row behind `cached` earlier ones.
struct DecodeBatch {
    DecodeBatch(const TestBatch& from, int64_t rows, int64_t cached, int64_t count)
        : positions(static_cast<size_t>(rows * count)), doc_start(positions.size(), 0), targets(positions.size(), -1) {
        for (int64_t row = 0; row < rows; ++row) {
            const auto begin = from.tokens.begin() + row * from.sequence_length + cached;
            tokens.insert(tokens.end(), begin, begin + count);
            std::iota(positions.begin() + row * count, positions.begin() + (row + 1) * count,
                      static_cast<int32_t>(cached));
        }
        batch = {.rows = rows,
                 .sequence_length = count,
                 .tokens = tokens.data(),
                 .positions = positions.data(),
                 .doc_start = doc_start.data(),
                 .targets = targets.data(),
                 .cached = cached};
    }
    std::vector<int32_t> tokens, positions, doc_start, targets;
    Batch batch;
};

class Decode : public testing::TestWithParam<DecodeCase> {
  protected:
    Decode() : golden_(GetParam().model), text_(golden_.ids("ids"), golden_.ids("targets"), 2) {
        // What follows each token is its target, so that evaluation says something of every place of a row.
        for (size_t i = 0; i < text_.targets.size(); ++i)
            text_.targets[i] = text_.tokens[(i + 1) % text_.tokens.size()];
        const Home home = GetParam().weights;
        engine_ = engine_for(
            {.policy = "test", .threads = 2, .store = home == Home::disk, .common = {.weights = home, .state = home}});
    }

    std::unique_ptr<Engine> engine_for(const Plan& plan) {
        ModelFolder model = ModelFolder::open(real_files(), golden_.folder);
        HfConfig config = model.config();
        EngineSetup setup{.model = TrainedModel(build_model(config, model.tensors())), .recipe = forward_recipe()};
        setup.numerics = {.compute = GetParam().compute, .micro_batch_size = rows(), .sequence_lengths = {kLength}};
        setup.plan = plan;
        std::vector<ScheduleRequest> requests = {{DecodeKind::eval, rows(), kLength, 1}};
        for (const int64_t length : {kLength, int64_t{7}, int64_t{1}})
            requests.push_back({DecodeKind::decode, rows(), length, 1, kLength});
        setup.schedules = lower(setup.model, setup.recipe, setup.numerics, setup.plan, requests);
        check(setup.schedules);
        setup.store_path = fmt::format("{}/{}.wls", folder_.path(), stores_++);
        auto engine = std::make_unique<Engine>(real_files(), std::move(setup));
        engine->load(model, "{}");
        return engine;
    }
    int64_t rows() const { return GetParam().rows; }
    const Schedule& schedule(int64_t length) const {
        return *engine_->setup().schedules.find(fmt::format("decode/{}", length));
    }
    std::vector<float> decode(int64_t length, int64_t cached, int64_t count) {
        return decode(*engine_, length, cached, count);
    }
    std::vector<float> decode(Engine& engine, int64_t length, int64_t cached, int64_t count) {
        const DecodeBatch batch(text_, rows(), cached, count);
        return engine.decode(*engine.setup().schedules.find(fmt::format("decode/{}", length)), {.micro = {batch.batch}})
            .logits;
    }
    // -log p of what follows `count` tokens of each row, from the logits.
    void expect_losses(const std::vector<float>& logits, int64_t count) {
        const int64_t vocab = engine_->setup().model.vocab;
        ASSERT_EQ(std::ssize(logits), rows() * vocab);
        if (losses_.empty())
            losses_ =
                engine_->evaluate(*engine_->setup().schedules.find("eval/24"), {.micro = {text_.rows(0, rows())}}, true)
                    .token_losses;
        for (int64_t row = 0; row < rows(); ++row) {
            const float* const of = logits.data() + row * vocab;
            double sum = 0, greatest = 0;
            for (int64_t id = 0; id < vocab; ++id) {
                sum += std::exp(static_cast<double>(of[id]));
                greatest = std::max(greatest, std::abs(static_cast<double>(of[id])));
            }
            const size_t at = static_cast<size_t>(row * kLength + count - 1);
            // Sums in another order. In bf16 every value between two ops is rounded, and so are the logits, which
            // evaluation has in f32: a few times half a unit in the last place of the greatest.
            const double tolerance = GetParam().compute == DType::f32 ? 1e-5 : 4 * greatest * 0x1p-9;
            EXPECT_NEAR(std::log(sum) - static_cast<double>(of[text_.targets[at]]), losses_[at], tolerance)
                << "row " << row << " of " << count << " tokens";
        }
    }

    const TempFolder folder_;
    const Golden golden_;
    TestBatch text_;
    int stores_ = 0;
    std::unique_ptr<Engine> engine_;
    std::vector<double> losses_;
};

TEST_P(Decode, LogitsAreThoseOfEvaluationHoweverManyTokensComeAtOnce) {
    for (int64_t count = 2; count <= kLength; ++count) expect_losses(decode(kLength, 0, count), count);
}

TEST_P(Decode, LogitsAreThoseOfEvaluationBehindACache) {
    decode(kLength, 0, 5);
    expect_losses(decode(7, 5, 7), 12);
    expect_losses(decode(7, 12, 4), 16);
    for (int64_t cached = 16; cached < kLength; ++cached) expect_losses(decode(1, cached, 1), cached + 1);
}

// Beside a device that has memory of its own, in that of the host, or on a disk: behind either, and in turn.
TEST_P(Decode, NoBitDependsOnWhereTheCacheIs) {
    constexpr DeviceId kApart{.own_memory = true};
    Plan mixed{.policy = "test", .device = kApart, .threads = 2, .store = true, .read_ahead = 2};
    for (int block = 0; block < static_cast<int>(engine_->setup().model.blocks.size()); ++block) {
        constexpr std::array kHomes = {Home::host, Home::disk, Home::device};
        mixed.blocks.push_back(
            {.weights = Home::host, .state = Home::host, .gradients = Home::host, .cache = kHomes[at(block % 3)]});
    }
    const std::vector<Plan> plans = {
        {.policy = "test", .threads = 2, .store = true, .common = {.cache = Home::disk}},
        {.policy = "test", .device = kApart, .threads = 2, .common = {.weights = Home::host, .cache = Home::host}},
        mixed};
    for (const Plan& plan : plans) {
        const std::unique_ptr<Engine> elsewhere = engine_for(plan);
        for (const auto& [length, cached, count] : {std::array{24, 0, 5}, {7, 5, 7}, {1, 12, 1}, {7, 13, 4}})
            EXPECT_EQ(decode(*elsewhere, length, cached, count), decode(length, cached, count)) << cached;
    }
}

// A schedule serves fewer tokens than it was made for, and nobody can tell.
TEST_P(Decode, FewerTokensGiveTheBitsOfAScheduleForThem) {
    for (const int64_t cached : {0, 3}) {
        decode(kLength, 0, 3);
        const std::vector<float> shorter = decode(kLength, cached, 7);
        decode(kLength, 0, 3);
        EXPECT_EQ(decode(7, cached, 7), shorter);
    }
}

// The head is the largest matrix of a small model.
TEST_P(Decode, TheHeadSeesTheLastTokenOfEachRowAlone) {
    for (const int64_t length : {int64_t{1}, kLength}) {
        const Schedule& made = schedule(length);
        int64_t heads = 0;
        for (const RunTask& run : made.runs) {
            if (run.block != static_cast<int>(engine_->setup().model.blocks.size())) continue;
            EXPECT_EQ(made.segments[static_cast<size_t>(run.segment)].size.tokens(), 1);
            ++heads;
        }
        EXPECT_EQ(heads, rows());
    }
}

// A hand-over to threads takes a good part of the time that a small matrix is read in.
TEST(DecodedLayer, MultipliesQueriesKeysAndValuesAtOnce) {
    const Golden golden("qwen2");
    ModelFolder folder = ModelFolder::open(real_files(), golden.folder);
    HfConfig config = folder.config();
    const TrainedModel model(build_model(config, folder.tensors()));
    const auto runs = [&](int64_t tokens) {
        std::vector<int64_t> together;
        const Segment layer =
            forward_pass(model.blocks[1].program,
                         {.size = {.rows = 1, .sequence_length = tokens, .compute = DType::bf16}, .save = false});
        for (const SegmentCall& call : layer.calls) {
            if (call.node->op == &kLinear) together.push_back(call.together);
        }
        return together;
    };
    EXPECT_THAT(runs(1), testing::ElementsAre(3, 1, 1, 1, 2, 1, 1)) << "q k v, o, gate up, down";
    EXPECT_THAT(runs(2), testing::Each(1));
}

TEST_P(Decode, RefusesMoreTokensThanTheScheduleIsFor) {
    EXPECT_DEATH(decode(7, 0, 8), "rows of 8 tokens in a schedule for . of 7");
}

INSTANTIATE_TEST_SUITE_P(
    Models, Decode,
    testing::Values(DecodeCase{"llama", DType::f32, Home::device, 1}, DecodeCase{"llama", DType::bf16, Home::device, 2},
                    DecodeCase{"qwen3", DType::f32, Home::disk, 2}, DecodeCase{"qwen2", DType::bf16, Home::device, 1},
                    DecodeCase{"gpt2", DType::f32, Home::device, 2}, DecodeCase{"gpt2", DType::bf16, Home::device, 1},
                    DecodeCase{"opt", DType::f32, Home::device, 1}, DecodeCase{"gemma2", DType::f32, Home::device, 1},
                    DecodeCase{"gemma3", DType::bf16, Home::disk, 2}));

}  // namespace
}  // namespace windlass
