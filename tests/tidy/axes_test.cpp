// What is computed, how it is trained and where it lies are told apart: words that a floor's code may not hold.
#include <regex>

#include "tests/tidy/tree.h"

namespace windlass::tidy {
namespace {

bool is_of_device(const SourceFile& file) {
    return file.path.find("_cuda.") != std::string::npos;
}

// Lines of code in src/ that hold the pattern, of files that `looks_at` says.
template <typename LooksAt>
std::vector<std::string> lines_with(const std::regex& pattern, LooksAt looks_at, bool in_literals = false) {
    std::vector<std::string> found;
    int files = 0;
    for (const SourceFile& file : tree()) {
        if (!file.in("src/") || !file.is_cpp() || !looks_at(file)) continue;
        ++files;
        const SourceFile code{file.path, in_literals ? without_comments(file.text) : code_of(file.text)};
        int number = 0;
        for (const std::string_view line : code.lines()) {
            ++number;
            if (std::regex_search(line.begin(), line.end(), pattern))
                found.push_back(fmt::format("{}:{}: {}", file.path, number, line));
        }
    }
    EXPECT_GT(files, 0) << "nothing was looked at";
    return found;
}

TEST(Axes, ModelsAndOpsKnowNeitherPlacesNorMethods) {
    static const std::regex kWords(R"(\b(host|disk|tier|offload|merge|perturb|noise)\b)");
    const auto found = lines_with(kWords, [](const SourceFile& file) {
        return (file.in("src/model/") || file.in("src/op/")) && !is_of_device(file);
    });
    EXPECT_TRUE(found.empty()) << listing(found);
}

// A program is written in ops; who runs, places and prices it asks their records.
TEST(Axes, OnlyModelsNameOps) {
    static const std::regex kOps("#include \"op/ops.h\"");
    const auto found = lines_with(
        kOps,
        [](const SourceFile& file) {
            const bool measures = file.in("src/run/calibrate_");
            return !file.in("src/op/") && !file.in("src/model/") && !measures;
        },
        true);
    EXPECT_TRUE(found.empty()) << listing(found);
}

// Configuration says which method is meant, calibration which one is measured; all others ask a recipe.
TEST(Axes, OnlyConfigurationNamesMethods) {
    std::string names;
    static const std::regex kMethod(R"rx(const Method k\w+ = \{"(\w+)")rx");
    for (const SourceFile& file : tree()) {
        std::smatch match;
        if (!file.in("src/method/") || !std::regex_search(file.text, match, kMethod)) continue;
        names += (names.empty() ? "" : "|") + match[1].str();
    }
    ASSERT_NE(names, "");
    const auto found = lines_with(
        std::regex("\"(" + names + ")\""),
        [](const SourceFile& file) {
            const bool may = file.in("src/method/") || file.in("src/config/config") || file.in("src/run/calibrate_");
            return !may;
        },
        true);
    EXPECT_TRUE(found.empty()) << listing(found);
}

TEST(Axes, ExecutionIncludesNothingOfMethods) {
    static const std::regex kMethods("#include \"method/");
    const auto found = lines_with(
        kMethods, [](const SourceFile& file) { return file.in("src/run/execute."); }, true);
    EXPECT_TRUE(found.empty()) << listing(found);
}

}  // namespace
}  // namespace windlass::tidy
