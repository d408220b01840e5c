// What is computed, how it is trained and where it lies are told apart: what a floor may not include or name.
#include <algorithm>
#include <regex>
#include <set>

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

// Types that the files of these floors declare, of which `looks_at` says so.
template <typename LooksAt>
std::set<std::string> types_of(std::initializer_list<std::string_view> floors, LooksAt looks_at) {
    static const std::regex kType(R"(\b(?:struct|class|union|using)\s+(\w+)\b(?!\s*;))");
    std::set<std::string> types;
    for (const SourceFile& file : tree()) {
        const bool is_of_them = std::any_of(floors.begin(), floors.end(), [&](std::string_view floor) {
            return file.in("src/" + std::string(floor) + "/");
        });
        if (!is_of_them || !file.is_cpp() || !looks_at(file)) continue;
        const std::string code = code_of(file.text);
        for (std::sregex_iterator it(code.begin(), code.end(), kType), end; it != end; ++it) types.insert((*it)[1]);
    }
    return types;
}

// Lower floors hold the files of other axes, too: the working store, logs, memory of tiers.
TEST(Axes, ModelsAndOpsIncludeNothingOfPlacesOrMethods) {
    static const std::regex kOther(
        "#include \"(tier/|perturb/|method/|schedule/|plan/|format/(store|trajectory|manifest)|"
        "device/(host_memory|fake)).*");
    const auto found = lines_with(
        kOther,
        [](const SourceFile& file) { return (file.in("src/model/") || file.in("src/op/")) && !is_of_device(file); },
        true);
    EXPECT_TRUE(found.empty()) << listing(found);
}

TEST(Axes, ModelsAndOpsNameNoTypeOfPlacesOrMethods) {
    const auto theirs =
        types_of({"base", "tensor", "device", "format", "jinja", "tokenizer", "rows", "task", "op", "model"},
                 [](const SourceFile&) { return true; });
    auto others = types_of({"tier", "perturb", "method", "schedule", "plan"}, [](const SourceFile& file) {
        return file.is_header() && !file.path.ends_with("_vector.h") && !is_of_device(file);
    });
    EXPECT_TRUE(others.contains("Plan") && others.contains("Recipe")) << "types are declared otherwise now";
    std::erase_if(others, [&](const std::string& type) { return theirs.contains(type); });
    std::vector<std::string> found;
    for (const SourceFile& file : tree()) {
        if (!file.is_cpp() || !(file.in("src/model/") || file.in("src/op/"))) continue;
        for (const std::string_view word : words_of(code_of(file.text)))
            if (others.contains(std::string(word))) found.push_back(fmt::format("{}: {}", file.path, word));
    }
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

// Schedules, plans and their execution know kernels and phases by their records, and no method's folder. The engine
// alone reads weights whose updates are kept apart from them.
TEST(Axes, SchedulesIncludeNoMethodsFolder) {
    static const std::regex kFolder("#include \"method/\\w+/");
    const auto found = lines_with(
        kFolder,
        [](const SourceFile& file) {
            const bool executes = file.in("src/run/") && file.path != "src/run/engine.cpp";
            return file.in("src/schedule/") || file.in("src/plan/") || executes;
        },
        true);
    EXPECT_TRUE(found.empty()) << listing(found);
}

// Keys that have a list of choices, by the table of keys.
std::string keys_with_choices() {
    std::string names;
    for (const SourceFile& file : tree()) {
        if (!file.in("src/config/config_keys")) continue;
        size_t begin = 0;
        while ((begin = file.text.find(".name = \"", begin)) != std::string::npos) {
            begin += 9;
            const size_t end = std::min(file.text.find(".name = \"", begin), file.text.size());
            const std::string_view key = std::string_view(file.text).substr(begin, end - begin);
            if (key.find(".choices = ") != key.npos) names += "|" + std::string(key.substr(0, key.find('"')));
        }
    }
    return names.empty() ? names : names.substr(1);
}

// A choice is a word in configuration and a type everywhere else (config/choices.h).
TEST(Axes, OnlyConfigurationComparesItsWords) {
    const std::string keys = keys_with_choices();
    ASSERT_NE(keys.find("weight_storage"), std::string::npos) << keys;
    const auto found = lines_with(
        std::regex("\\b(" + keys + ") *(==|!=) *\""), [](const SourceFile& file) { return !file.in("src/config/"); },
        true);
    EXPECT_TRUE(found.empty()) << listing(found);
}

// What a run is follows from values, each made of the one before (session/session.h).
TEST(Axes, NobodyIsGivenASessionToChange) {
    auto found =
        lines_with(std::regex("\\b(Session|RunSpec|Sources)& \\w+[,)]"), [](const SourceFile&) { return true; });
    std::erase_if(found, [](const std::string& line) {
        static const std::regex kFree("(^|[^t]) (Session|RunSpec|Sources)& |\\((Session|RunSpec|Sources)& ");
        return !std::regex_search(line, kFree);
    });
    EXPECT_TRUE(found.empty()) << listing(found);
}

TEST(Axes, ExecutionIncludesNothingOfMethods) {
    static const std::regex kMethods("#include \"method/");
    const auto found = lines_with(
        kMethods, [](const SourceFile& file) { return file.in("src/run/execute."); }, true);
    EXPECT_TRUE(found.empty()) << listing(found);
}

// Placement and methods rest on this bijection: it is written twice, and a test compares the two on all patterns.
TEST(Axes, TheSplitMasterIsWrittenInItsTwoHeaders) {
    static const std::regex kHalves(R"(\+ 0x8000u?\b|<< 16\)? \+ static_cast<uint32_t>\(|\(lo\w* >> 15\))");
    const auto is_its = [](const SourceFile& file) {
        return file.path == "src/tensor/dtype.h" || file.path == "src/tensor/master_vector.h";
    };
    EXPECT_EQ(lines_with(kHalves, is_its).size(), 6u) << "it is written otherwise now";
    const auto found = lines_with(kHalves, [&](const SourceFile& file) { return !is_its(file); });
    EXPECT_TRUE(found.empty()) << listing(found);
}

}  // namespace
}  // namespace windlass::tidy
