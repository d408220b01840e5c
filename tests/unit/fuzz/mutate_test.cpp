#include "tests/fuzz/mutate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace windlass {
namespace {

using testing::ElementsAre;

TEST(FuzzMutation, FollowsItsSeedAlone) {
    const std::vector<std::string> corpus = {R"({"a": 12})", "second"};
    const std::vector<std::string_view> words = words_of(" null  [[]] ");
    EXPECT_THAT(words, ElementsAre("null", "[[]]"));
    FuzzRandom one(3), same(3);
    std::set<std::string> all;
    constexpr int kInputs = 500;
    for (int i = 0; i < kInputs; ++i) {
        const std::string input = mutated(corpus, words, 4096, one);
        EXPECT_EQ(input, mutated(corpus, words, 4096, same));
        all.insert(input);
    }
    EXPECT_GT(all.size(), kInputs / 2);
}

TEST(FuzzMutation, MakesWordsNumbersAndLongInputs) {
    const std::vector<std::string> corpus = {R"({"a": 12})"};
    const std::vector<std::string_view> words = {"null"};
    FuzzRandom random(3);
    bool has_word = false, has_number = false, has_long = false;
    for (int i = 0; i < 2000; ++i) {
        const std::string input = mutated(corpus, words, 4096, random);
        EXPECT_LE(input.size(), 4096U);
        has_word |= input.find("null") != input.npos;
        has_number |= input.find("9223372036854775807") != input.npos;
        has_long |= input.size() > 2048;
    }
    EXPECT_TRUE(has_word && has_number && has_long);
}

}  // namespace
}  // namespace windlass
