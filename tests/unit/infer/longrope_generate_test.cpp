// Text from a model whose long texts turn by a second table (longrope): behind each prompt, and on both sides of the
// length at which tables change, tokens are those of a pass over the whole text.
#include <gtest/gtest.h>

#include <numeric>

#include "base/index.h"
#include "infer/generate.h"
#include "model/families.h"
#include "tests/place.h"
#include "tests/unit/base/temp_folder.h"

namespace windlass {
namespace {

constexpr int64_t kShortTokens = 16;  // original_max_position_embeddings of the golden model
constexpr int64_t kTextTokens = 40;
constexpr int64_t kVocab = 96;
using Text = std::vector<int32_t>;

class LongropeText : public testing::Test {
  protected:
    LongropeText() {
        ModelFolder folder =
            ModelFolder::open(real_files(), fmt::format("{}/tests/golden/phi4_mini/model", source_dir()));
        HfConfig config = folder.config();
        EngineSetup setup{.model = TrainedModel(build_model(config, folder.tensors())), .recipe = forward_recipe()};
        setup.numerics = {.compute = DType::f32, .micro_batch_size = 1, .sequence_lengths = {kTextTokens}};
        setup.plan = {.policy = "test"};
        std::vector<ScheduleRequest> requests = decode_requests(kTextTokens, kTextTokens);
        requests.push_back({ScheduleRequest::Kind::eval, 1, kTextTokens, 1});
        // Prompts of these lengths are fed as they come, in one pass each.
        for (const int64_t tokens : {5, 14, 15, 16, 17, 20})
            requests.push_back({ScheduleRequest::Kind::decode, 1, tokens, 1, kTextTokens});
        setup.schedules = lower(setup.model, setup.recipe, setup.numerics, setup.plan, requests);
        check(setup.schedules);
        engine_ = std::make_unique<Engine>(real_files(), std::move(setup));
        engine_->load(folder, "{}");
    }

    // The likeliest token behind a text, by a pass over all of it: what stands behind it in the row is padding, a
    // document of its own.
    int32_t next(const Text& text) {
        Text ids(at(kTextTokens), 0), positions(ids.size()), doc_start(ids.size(), 0), targets(ids.size(), kIgnored);
        std::ranges::copy(text, ids.begin());
        std::iota(positions.begin(), positions.end(), 0);
        std::fill(doc_start.begin() + std::ssize(text), doc_start.end(), static_cast<int32_t>(text.size()));
        targets[text.size() - 1] = 0;
        const Batch row{.rows = 1,
                        .sequence_length = kTextTokens,
                        .tokens = ids.data(),
                        .positions = positions.data(),
                        .doc_start = doc_start.data(),
                        .targets = targets.data()};
        StepInput input{.micro = {row}};
        input.params.head = {.result = HeadResult::argmax, .id_count = kVocab};
        const Schedule& eval = *engine_->setup().schedules.find(fmt::format("eval/{}", kTextTokens));
        return static_cast<int32_t>(engine_->evaluate(eval, input, true).token_losses[text.size() - 1]);
    }
    Text continued(Text text, int64_t count) {
        const size_t prompt = text.size();
        for (int64_t i = 0; i < count; ++i) text.push_back(next(text));
        return {text.begin() + static_cast<std::ptrdiff_t>(prompt), text.end()};
    }
    static Text prompt(int64_t tokens) {
        Text text;
        for (int64_t i = 0; i < tokens; ++i) text.push_back(static_cast<int32_t>(3 + i * 37 % 90));
        return text;
    }
    static GenerateOptions options(int64_t count) { return {.max_new_tokens = count, .vocab = kVocab}; }
    static bool go_on(int32_t /*id*/) { return true; }

    std::unique_ptr<Engine> engine_;
};

TEST_F(LongropeText, IsThatOfPassesOverTheWholeText) {
    for (const int64_t tokens : {int64_t{1}, int64_t{5}, kShortTokens - 2, kShortTokens - 1, kShortTokens,
                                 kShortTokens + 1, kShortTokens + 4}) {
        const int64_t count = kTextTokens - tokens;
        EXPECT_EQ(generate(*engine_, prompt(tokens), options(count), go_on).ids, continued(prompt(tokens), count))
            << "behind a prompt of " << tokens;
    }
}

// Keys that are kept from one reply to the next are of use as long as both texts turn by the same table.
TEST_F(LongropeText, GoesOnInAConversation) {
    Conversation conversation(*engine_);
    Text text = prompt(5);
    int64_t reused = 0;
    for (const int64_t asked : {0, 3, 4, 3, 1}) {
        for (int64_t i = 0; i < asked; ++i) text.push_back(static_cast<int32_t>(7 + i));
        const Text answer = conversation.reply(text, options(4), go_on).ids;
        EXPECT_EQ(answer, continued(text, 4)) << "behind " << text.size();
        reused += conversation.reused() > 0;
        text.insert(text.end(), answer.begin(), answer.end());
    }
    EXPECT_EQ(reused, 3) << "of five replies the first has nothing before it, and one is the first of the second table";
    // Turns are taken back: the text is short again.
    EXPECT_EQ(conversation.reply(prompt(9), options(4), go_on).ids, continued(prompt(9), 4));
    EXPECT_EQ(conversation.reused(), 0);
}

}  // namespace
}  // namespace windlass
