// What every file keeps to, and what pages and headers say about other files.
#include <cstdio>
#include <filesystem>
#include <regex>

#include "tests/place.h"
#include "tests/tidy/tree.h"

namespace windlass::tidy {
namespace {

// Lines in which `is_bad` holds.
template <typename IsBad>
std::vector<std::string> bad_lines(IsBad is_bad) {
    std::vector<std::string> found;
    for (const SourceFile& file : tree()) {
        int number = 0;
        for (const std::string_view line : file.lines())
            if (++number; is_bad(file, line)) found.push_back(fmt::format("{}:{}: {}", file.path, number, line));
    }
    return found;
}

bool has(std::string_view line, std::string_view word) {
    return line.find(word) != line.npos;
}

TEST(Text, HasNoTabsAndNoTrailingBlanks) {
    const auto found = bad_lines([](const SourceFile&, std::string_view line) {
        return has(line, "\t") || line.ends_with(' ') || line.ends_with('\r');
    });
    EXPECT_TRUE(found.empty()) << listing(found);
}

TEST(Text, EndsWithOneNewline) {
    std::vector<std::string> found;
    for (const SourceFile& file : tree())
        if (!file.text.empty() && (!file.text.ends_with('\n') || file.text.ends_with("\n\n")))
            found.push_back(file.path);
    EXPECT_TRUE(found.empty()) << listing(found);
}

// base/vector_register.h says why. Wider ones belong to a branch of one instruction set, where kVectorBytes says the
// same.
TEST(Text, VectorsFitARegister) {
    const std::regex wider("vector_size[(](32|64|128)[)]");
    const auto found = bad_lines([&](const SourceFile& file, std::string_view line) {
        return file.path.starts_with("src/") && has(line, "vector_size") &&
               std::regex_search(line.begin(), line.end(), wider);
    });
    EXPECT_TRUE(found.empty()) << listing(found);
}

// Words are put together here, so that this file does not find itself.
TEST(Text, LeavesNothingForLater) {
    const auto found = bad_lines([](const SourceFile&, std::string_view line) {
        return has(line,
                   "TO"
                   "DO") ||
               has(line,
                   "FIX"
                   "ME") ||
               has(line,
                   "X"
                   "XX");
    });
    EXPECT_TRUE(found.empty()) << listing(found);
}

// Objects of tests are linked with floors as released and with instrumented ones.
TEST(Text, OfTestsAsksTheProgramWhetherItIsSanitized) {
    const auto found = bad_lines([](const SourceFile& file, std::string_view line) {
        const bool may = file.path == "tests/main.cpp" || file.path == "tests/sanitizer.cpp" ||
                         file.path == "tests/simt/switches.h";  // compiled twice, as floors are
        return !may && file.path.starts_with("tests/") && line.starts_with("#if") && has(line, "__SANITIZE");
    });
    EXPECT_TRUE(found.empty()) << "include tests/sanitizer.h instead" << listing(found);
}

TEST(Text, NamesNoMachineOfOurs) {
    const auto found = bad_lines([](const SourceFile&, std::string_view line) {
        return has(line,
                   "/wo"
                   "rk/") ||
               has(line,
                   "/ro"
                   "ot/") ||
               has(line,
                   "/ho"
                   "me/");
    });
    EXPECT_TRUE(found.empty()) << listing(found);
}

TEST(Text, NoFileIsCalledUtils) {
    static const std::regex kDrawer("(.*_)?utils?(_.*)?\\..*");
    for (const SourceFile& file : tree()) {
        const std::string name(file.name());
        EXPECT_FALSE(std::regex_match(name, kDrawer)) << file.path << ": name it after what it holds";
    }
}

TEST(Text, HeadersOpenWithWhatTheyPromise) {
    std::vector<std::string> found;
    for (const SourceFile& file : tree())
        if (file.is_header() && !file.text.starts_with("// " + std::string(file.name()))) found.push_back(file.path);
    EXPECT_TRUE(found.empty()) << listing(found);
}

TEST(Text, HeadersGuardThemselves) {
    std::vector<std::string> found;
    for (const SourceFile& file : tree())
        if (file.is_header() && !has(file.text, "\n#pragma once\n")) found.push_back(file.path);
    EXPECT_TRUE(found.empty()) << listing(found);
}

// Relative links of the pages, without their anchors.
TEST(Text, LinksOfPagesLeadSomewhere) {
    static const std::regex kLink(R"(\]\(([^)#:\s]+)(#[^)]*)?\))");
    const std::filesystem::path root = source_dir();
    std::set<std::string> found;
    for (const SourceFile& file : tree()) {
        if (!file.path.ends_with(".md")) continue;
        for (std::sregex_iterator it(file.text.begin(), file.text.end(), kLink), end; it != end; ++it)
            if (!std::filesystem::exists(root / file.folder() / (*it)[1].str()))
                found.insert(fmt::format("{} links {}", file.path, (*it)[1].str()));
    }
    EXPECT_TRUE(found.empty()) << listing({found.begin(), found.end()});
}

// What a command prints.
std::string output_of(const std::string& command) {
    std::string out;
    FILE* const pipe = popen(command.c_str(), "r");
    if (pipe == nullptr) return out;
    char piece[4096];
    while (const size_t count = std::fread(piece, 1, sizeof piece, pipe)) out.append(piece, count);
    pclose(pipe);
    return out;
}

TEST(Text, IsFormatted) {
    const std::string version = output_of("clang-format --version 2>&1");
    if (!has(version, "version 14."))
        GTEST_SKIP()
            << "needs clang-format 14, which Debian 12 has and 13 has not: other versions lay out otherwise. Here: "
            << version;
    std::string command = fmt::format("cd '{}' && clang-format --dry-run --ferror-limit=1", source_dir());
    for (const SourceFile& file : tree())
        if (file.is_cpp()) command += " " + file.path;
    std::vector<std::string> found;
    const SourceFile warnings{"", output_of(command + " 2>&1")};
    for (const std::string_view line : warnings.lines())
        if (has(line, "Wclang-format-violations")) found.emplace_back(line.substr(0, line.find(": ")));
    EXPECT_TRUE(found.empty()) << "Try: clang-format -i on these. " << listing(found);
}

}  // namespace
}  // namespace windlass::tidy
