#include "base/markdown.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace windlass {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

std::string plain(std::string_view page, size_t width = 40) {
    return render_markdown(page, {.width = width});
}

TEST(Markdown, UnderlinesHeadings) {
    EXPECT_EQ(plain("# The page\n\n## A `part`\n### Below\ntext\n"),
              "The page\n========\n\nA part\n------\n\nBelow\n\ntext\n");
}

TEST(Markdown, WrapsTextAtTheWidthAndJoinsItsLines) {
    EXPECT_EQ(plain("one two three\nfour five\n\nnext", 13), "one two three\nfour five\n\nnext\n");
    EXPECT_EQ(plain("ä ö ü ß", 7), "ä ö ü ß\n") << "a character is a column, whatever its bytes";
    EXPECT_EQ(plain("a-word-longer-than-a-line b", 8), "a-word-longer-than-a-line\nb\n");
}

TEST(Markdown, KeepsTheTextOfLinksAndTheAddressOfOtherHosts) {
    EXPECT_EQ(plain("See [the plan](planning.md#words), ![a picture](a.svg)."), "See the plan, a picture.\n");
    EXPECT_EQ(plain("[CUDA](https://a.b/c), [https://a.b](https://a.b)"), "CUDA (https://a.b/c), https://a.b\n");
    EXPECT_EQ(plain("a [list] (of) things"), "a [list] (of) things\n");
}

TEST(Markdown, TakesEmphasisAndLeavesPatterns) {
    EXPECT_EQ(plain("**Rows**: *one* a line"), "Rows: one a line\n");
    EXPECT_EQ(plain("rows/*.jsonl and *.safetensors"), "rows/*.jsonl and *.safetensors\n");
    EXPECT_EQ(plain("[\"*lora_B* scale=16\"] and 2 * 3 * 4"), "[\"*lora_B* scale=16\"] and 2 * 3 * 4\n");
    EXPECT_EQ(plain("`*a* **b**` and \\*c\\*"), "`*a* **b**` and *c*\n");
    EXPECT_EQ(plain("ends in `` Ctrl-` ``"), "ends in `Ctrl-``\n");
    EXPECT_EQ(plain("one ` alone"), "one ` alone\n");
}

TEST(Markdown, HangsItemsOfLists) {
    EXPECT_EQ(plain("- one two three\n- four\n\n1. five\n   six\n2. seven\n  - eight\n", 9),
              "- one two\n  three\n- four\n\n1. five\n   six\n2. seven\n  - eight\n");
    EXPECT_EQ(plain("text:\n- item"), "text:\n- item\n");
}

TEST(Markdown, IndentsCodeAndLeavesItAsItIs) {
    EXPECT_EQ(plain("```sh\na  --b   | c\n\n# d\n```\ntext"), "    a  --b   | c\n\n    # d\n\ntext\n");
    EXPECT_EQ(plain("text\n\n    a  **b**\n\n    c\n\nmore"), "text\n\n    a  **b**\n\n    c\n\nmore\n");
    EXPECT_EQ(plain("- item\n\n  ```\n  a\n    b\n  ```\n"), "- item\n\n      a\n        b\n");
    EXPECT_EQ(plain("```\nnever closed"), "    never closed\n");
}

TEST(Markdown, LeavesOutComments) {
    EXPECT_EQ(plain("a\n\n<!-- printed by:\nb -->\nc\n<!-- end -->\n"), "a\n\nc\n");
}

constexpr std::string_view kTable =
    "| key | meaning | n |\n| --- | --- | ---: |\n| `a` | one two | 5 |\n| b \\| c | | 10 |\n";

TEST(Markdown, AlignsTheColumnsOfATable) {
    EXPECT_EQ(plain(kTable),
              "key    meaning   n\n"
              "-----  -------  --\n"
              "a      one two   5\n"
              "b | c           10\n");
}

TEST(Markdown, WrapsTheCellsOfATableThatIsTooWide) {
    EXPECT_EQ(plain("| key | meaning |\n| --- | --- |\n| a | one two three four five six |\n| b | seven |\n", 24),
              "key  meaning\n"
              "---  -------------------\n"
              "a    one two three four\n"
              "     five six\n"
              "b    seven\n");
}

TEST(Markdown, StacksTheCellsOfATableWhoseColumnsWouldBeTooNarrow) {
    EXPECT_EQ(plain("| key | meaning | default |\n| --- | --- | --- |\n"
                    "| a_long_name | one two three four five six | seven eight nine ten |\n| b | eleven | |\n",
                    32),
              "a_long_name\n"
              "    meaning: one two three four\n"
              "    five six\n"
              "    default: seven eight nine\n"
              "    ten\n"
              "b\n"
              "    meaning: eleven\n");
}

TEST(Markdown, EveryLineOfTextAndTablesFits) {
    const std::string words = "| some words that are longer | and more words of the second cell |\n";
    for (size_t width = 20; width < 90; ++width) {
        const std::string text =
            plain("| a | b |\n|---|---|\n" + words + "\nsome words of a text that is long\n", width);
        size_t begin = 0;
        for (size_t end = text.find('\n'); end != text.npos; begin = end + 1, end = text.find('\n', begin))
            EXPECT_LE(end - begin, width) << text;
    }
}

TEST(Markdown, HasEscapeSequencesOnlyIfItIsStyled) {
    const std::string page = "# Head\n\n**bold** and `code`\n\n| `a` | b |\n| --- | --- |\n| c | d |\n";
    EXPECT_THAT(plain(page), Not(HasSubstr("\x1b")));
    const std::string styled = render_markdown(page, {.width = 40, .is_styled = true});
    EXPECT_THAT(styled, testing::StartsWith("\x1b[1;4mHead\x1b[0m\n\n"));
    EXPECT_THAT(styled, HasSubstr("\x1b[1mbold\x1b[22m and \x1b[1mcode\x1b[22m\n"));
    EXPECT_THAT(styled, HasSubstr("\x1b[1ma\x1b[22m  b\n-  -\nc  d\n")) << "marks take no column";
}

TEST(FirstSentence, IsOfTheFirstParagraph) {
    EXPECT_EQ(first_sentence("# A\n\n```\ncode.\n```\n\nUse `--ram 8.5GiB` or\n[more](b.md). Not this.\n"),
              "Use --ram 8.5GiB or more.");
    EXPECT_EQ(first_sentence("# A\n\n- item\n\n| a |\n| --- |\n| b |\n\nRows that say it:\n\n- item\n"),
              "Rows that say it.");
    EXPECT_EQ(first_sentence("# A\n"), "");
}

TEST(LinkTargets, AreNamedOnceWithoutTheirAnchors) {
    EXPECT_THAT(link_targets("[a](b.md#c) [d](b.md) [e](#f) ![g](h.svg)\n[i](../j.md)"),
                ElementsAre("b.md", "h.svg", "../j.md"));
}

}  // namespace
}  // namespace windlass
