// What is claimed of cards is what tools/gpu-check tries, and each claim says whether a card has shown it.
#include <regex>
#include <sstream>

#include "tests/tidy/tree.h"

namespace windlass::tidy {
namespace {

TEST(GpuClaims, AreWhatIsTried) {
    const SourceFile *const tool = find_file("tools/gpu-check"), *const page = find_file("docs/results/gpu.md");
    ASSERT_TRUE(tool != nullptr && page != nullptr);
    std::smatch list;
    ASSERT_TRUE(std::regex_search(tool->text, list, std::regex("\nchecks=\"([a-z_ ]+)\"")));
    std::istringstream words(list[1]);
    const std::set<std::string> tried(std::istream_iterator<std::string>(words), {});
    std::set<std::string> claimed;
    static const std::regex kRow(R"(\n\| `(\w+)` \|[^\n]*\| ([^|\n]+) \|(?=\n))");
    static const std::regex kMeasured(R"(measured, \d{4}-\d\d-\d\d, [^,]+, [0-9a-f]{7,})");
    for (std::sregex_iterator row(page->text.begin(), page->text.end(), kRow), end; row != end; ++row) {
        claimed.insert((*row)[1]);
        const std::string verdict = (*row)[2];
        EXPECT_TRUE(verdict == "not yet run on a GPU" || std::regex_match(verdict, kMeasured)) << verdict;
    }
    EXPECT_EQ(claimed, tried);
}

}  // namespace
}  // namespace windlass::tidy
