// Answers that are written greedily with guesses: they are what a token at a time gives, in fewer rounds.
#include "run/generated_answers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "base/rng.h"

namespace windlass {
namespace {

using testing::ElementsAre;

constexpr int64_t kPromptLength = 12, kAnswerTokens = 5;
constexpr int32_t kEnd = 0, kStop = 1;
constexpr float kNoNumber = std::numeric_limits<float>::quiet_NaN();

// A model: what it says behind the tokens of a row so far.
using Model = std::function<float(std::span<const int32_t> tokens)>;

// Mixes all tokens that it sees.
float mixed(std::span<const int32_t> tokens, uint32_t point) {
    uint32_t sum = point;
    for (const int32_t token : tokens) sum = (sum ^ static_cast<uint32_t>(token)) * 2654435761u + (sum >> 15);
    return static_cast<float>(2 + (sum >> 16) % 40);
}

// Two micro-batches of two rows: prompts of 3, 4, 5 and 6 tokens, and guesses behind them.
struct AnswerRows {
    explicit AnswerRows(const std::vector<int32_t>& guess)
        : tokens(4 * kPromptLength, 9), targets(tokens.size(), kIgnored) {
        for (int64_t row = 0; row < 4; ++row) {
            const auto begin = static_cast<size_t>(row * kPromptLength + 3 + row);
            for (size_t i = 0; i < guess.size(); ++i) {
                tokens[begin + i] = guess[i];
                targets[begin + i - 1] = guess[i];
            }
        }
    }
    std::vector<Batch> micro() const {
        const auto part = [&](int64_t first) {
            return Batch{.rows = 2,
                         .sequence_length = kPromptLength,
                         .tokens = tokens.data() + first * kPromptLength,
                         .targets = targets.data() + first * kPromptLength};
        };
        return {part(0), part(2)};
    }
    std::vector<int32_t> tokens, targets;
};

ObjectiveRows answer_rules() {
    ObjectiveRows rows{.kind = Objective::f1, .examples = {{.first_row = 0}, {.first_row = 2}, {.first_row = 3}}};
    rows.answers = AnswerRules{.max_new_tokens = kAnswerTokens,
                               .id_count = 50,
                               .end_ids = {kEnd},
                               .is_whole = [](std::span<const int32_t> ids) { return ids.back() == kStop; },
                               .loss =
                                   [](int64_t example, std::span<const int32_t> ids) {
                                       return static_cast<double>(example) + 0.125 * static_cast<double>(ids.size());
                                   }};
    return rows;
}

// What a point's rows make the model say, of every token.
std::vector<float> say(const GeneratedAnswers& answers, int point, const Model& model) {
    std::vector<float> said;
    for (int micro = 0; micro < 2; ++micro) {
        const Batch& batch = answers.batch(point, micro);
        for (int64_t token = 0; token < batch.count(); ++token) {
            const int64_t row_begin = token / kPromptLength * kPromptLength;
            const std::span seen(batch.tokens + row_begin, static_cast<size_t>(token - row_begin + 1));
            said.push_back(batch.targets[token] == kIgnored ? 0 : model(seen));
        }
    }
    return said;
}

// Rounds until all is written.
int rounds_of(GeneratedAnswers& answers, const std::vector<Model>& models) {
    int rounds = 0;
    for (; !answers.is_done(); ++rounds)
        for (size_t point = 0; point < models.size(); ++point)
            answers.take(static_cast<int>(point), say(answers, static_cast<int>(point), models[point]));
    return rounds;
}

// A token at a time.
std::vector<int32_t> greedy(int64_t row, const Model& model) {
    std::vector<int32_t> tokens(static_cast<size_t>(3 + row), 9), ids;
    while (std::ssize(ids) < kAnswerTokens) {
        const auto id = static_cast<int32_t>(model(tokens));
        if (id == kEnd) break;
        ids.push_back(id);
        tokens.push_back(id);
        if (id == kStop) break;
    }
    return ids;
}

TEST(GeneratedAnswers, AreThoseOfGreedyDecodingWhateverIsGuessed) {
    const std::vector<Model> models = {[](std::span<const int32_t> tokens) { return mixed(tokens, 1); },
                                       [](std::span<const int32_t> tokens) { return mixed(tokens, 2); }};
    const ObjectiveRows rows = answer_rules();
    Random random(3, RandomStream::test);
    for (int trial = 0; trial < 20; ++trial) {
        std::vector<int32_t> guess = greedy(2, models[0]);  // right up to some token
        for (size_t i = random.below(6); i < guess.size(); ++i) guess[i] = static_cast<int32_t>(random.below(50));
        const AnswerRows batch(guess);
        GeneratedAnswers answers(rows, batch.micro(), 2);
        EXPECT_LE(rounds_of(answers, models), kAnswerTokens);
        for (int point = 0; point < 2; ++point) {
            for (size_t example = 0; example < rows.examples.size(); ++example) {
                const std::span<const int32_t> ids = answers.ids(point, static_cast<int64_t>(example));
                EXPECT_EQ(std::vector(ids.begin(), ids.end()),
                          greedy(rows.examples[example].first_row, models[static_cast<size_t>(point)]));
            }
        }
    }
}

// Says what stands so far behind a prompt of nines: 20, 21, 22 and so on.
float counting(std::span<const int32_t> tokens) {
    return static_cast<float>(20 + std::ranges::count_if(tokens, [](int32_t token) { return token != 9; }));
}

TEST(GeneratedAnswers, TakeOneRoundWhereAllWasGuessed) {
    const auto rounds = [](const std::vector<int32_t>& guess) {
        const ObjectiveRows rows = answer_rules();
        const AnswerRows batch(guess);
        GeneratedAnswers answers(rows, batch.micro(), 1);
        return rounds_of(answers, {counting});
    };
    EXPECT_EQ(rounds({20, 21, 22, 23, 24}), 1);
    EXPECT_EQ(rounds({20, 21, 22, 23, 30}), 1) << "nothing stands behind the last token";
    EXPECT_EQ(rounds({20, 21, 30, 30, 30}), 2) << "the first round says the rest, as if the third had been right";
    EXPECT_EQ(rounds({9, 9, 9, 9, 9}), 3) << "what is said behind wrong guesses may be right";
}

TEST(GeneratedAnswers, EndAtTheEndOfTextAndBehindTheStop) {
    const ObjectiveRows rows = answer_rules();
    const AnswerRows batch({5, 5, 5, 5, 5});
    GeneratedAnswers answers(rows, batch.micro(), 3);
    const auto third = [](int32_t id) {
        return [id](std::span<const int32_t> tokens) {
            const auto written = std::ranges::count(tokens, 5);
            return static_cast<float>(written == 2 ? id : 5);
        };
    };
    EXPECT_EQ(rounds_of(answers, {third(kEnd), third(kStop), third(5)}), 1);
    EXPECT_THAT(answers.ids(0, 0), ElementsAre(5, 5));
    EXPECT_THAT(answers.ids(1, 1), ElementsAre(5, 5, kStop));
    EXPECT_THAT(answers.ids(2, 2), ElementsAre(5, 5, 5, 5, 5)) << "as many as may be written";
    EXPECT_THAT(answers.losses(), ElementsAre(3 + 0.75, 3 + 1.125, 3 + 1.875)) << "of three examples, as judged";
}

TEST(GeneratedAnswers, ALogitThatIsNoNumberIsNoAnswer) {
    const ObjectiveRows rows = answer_rules();
    const AnswerRows batch({9, 9, 9, 9, 9});
    GeneratedAnswers answers(rows, batch.micro(), 2);
    const Model wrong = [](std::span<const int32_t> tokens) {
        return tokens.back() == 21 ? kNoNumber : counting(tokens);
    };
    EXPECT_EQ(rounds_of(answers, {counting, wrong}), 3);
    EXPECT_TRUE(std::isnan(answers.losses()[1]));
    EXPECT_FALSE(std::isnan(answers.losses()[0]));
}

TEST(WrittenAnswersDeath, WantRoomForAllOfThem) {
    const ObjectiveRows rows = answer_rules();
    const AnswerRows batch({5, 5, 5, 5});
    EXPECT_DEATH(GeneratedAnswers(rows, batch.micro(), 1), "4 targets in one run, and its answer 5 tokens");
}

}  // namespace
}  // namespace windlass
