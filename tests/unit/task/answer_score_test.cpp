#include "task/answer_score.h"

#include <gtest/gtest.h>

namespace windlass {
namespace {

double score(TaskMetric metric, std::string_view answer, const std::vector<std::string>& right) {
    return answer_score(metric, answer, right);
}

TEST(AnswerScore, NormalisesAsSquadDoes) {
    EXPECT_EQ(normalized_answer("  The  Eiffel-Tower, (Paris)\n"), "eiffeltower paris");
    EXPECT_EQ(normalized_answer("A cat; an owl. THE END"), "cat owl end");
    EXPECT_EQ(normalized_answer("another anthem"), "another anthem") << "articles are words of their own";
    EXPECT_EQ(normalized_answer("\xC3\x89T\xC3\x89\xC2\xA0the\xE2\x80\x94"
                                "a b"),
              "\xC3\xA9t\xC3\xA9 \xE2\x80\x94 b")
        << "letters beyond ASCII, a space that does not break, an article before a dash";
    EXPECT_EQ(normalized_answer("the"), "");
}

TEST(AnswerScore, F1CountsSharedWordsAsOftenAsTheyStand) {
    EXPECT_EQ(score(TaskMetric::f1, "the Denver Broncos", {"Denver Broncos"}), 1);
    EXPECT_DOUBLE_EQ(score(TaskMetric::f1, "Denver", {"Denver Broncos"}), 2.0 / 3);  // precision 1, recall 1/2
    EXPECT_DOUBLE_EQ(score(TaskMetric::f1, "x x y", {"x z"}), 2.0 / 5);              // one x is shared
    EXPECT_DOUBLE_EQ(score(TaskMetric::f1, "Denver", {"no", "Denver Broncos", "Carolina"}), 2.0 / 3);
    EXPECT_EQ(score(TaskMetric::f1, "", {"a"}), 1) << "nothing is left of either";
    EXPECT_EQ(score(TaskMetric::f1, "", {"b"}), 0);
}

TEST(AnswerScore, ExactMatchIsOfNormalisedTexts) {
    EXPECT_EQ(score(TaskMetric::exact_match, " The Broncos! ", {"panthers", "broncos"}), 1);
    EXPECT_EQ(score(TaskMetric::exact_match, "Broncos won", {"broncos"}), 0);
}

TEST(AnswerScore, TakesTheLastNumber) {
    EXPECT_EQ(last_number("9 + 9 = 18."), 18);
    EXPECT_EQ(last_number("about $1,234.50, I think"), 1234.5);
    EXPECT_EQ(last_number("1, 2, 3"), 3);
    EXPECT_EQ(last_number("it is -7"), -7);
    EXPECT_EQ(last_number(".5"), 0.5);
    EXPECT_EQ(last_number("1.2.3"), std::nullopt);
    EXPECT_EQ(last_number("none"), std::nullopt);
}

TEST(AnswerScore, NumbersAreEqualHoweverTheyAreWritten) {
    EXPECT_EQ(score(TaskMetric::number, "The answer is 8.", {"8.0"}), 1);
    EXPECT_EQ(score(TaskMetric::number, "8 or 9", {"8.0"}), 0);
    EXPECT_EQ(score(TaskMetric::number, "no idea", {"none"}), 0) << "two texts without a number are not equal";
}

}  // namespace
}  // namespace windlass
