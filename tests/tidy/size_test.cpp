// Files and functions stay small, and a class lies in one file. ratchet.txt names the exceptions, each with its reason;
// its numbers only fall.
#include <regex>
#include <set>

#include "tests/tidy/tree.h"

namespace windlass::tidy {
namespace {

constexpr int kFileLinesMax = 400;
constexpr int kFunctionLinesMax = 60;
constexpr std::string_view kRatchet = "tests/tidy/ratchet.txt";

// "file 431 src/op/op.h: it holds one thing" or "class 2 TrainLoop: ...": how large what is named may be, and why.
std::map<std::string, int> read_ratchet(const std::string& wanted) {
    std::map<std::string, int> allowed;
    const SourceFile* const file = find_file(kRatchet);
    if (file == nullptr) return allowed;
    static const std::regex kLine(R"((\w+) (\d+) ([^ ]+): [^ ].+)");
    for (const std::string_view line : file->lines()) {
        std::match_results<std::string_view::const_iterator> match;
        if (line.starts_with('#')) continue;
        if (!std::regex_match(line.begin(), line.end(), match, kLine))
            ADD_FAILURE() << kRatchet << ": \"" << line << "\" is not \"KIND NUMBER NAME: REASON\"";
        else if (match[1] == wanted)
            allowed[match[3]] = std::stoi(match[2]);
    }
    return allowed;
}

struct Size {
    int size = 0;
    std::string what;
};

void expect_small(const std::string& kind, const std::string& unit, int limit,
                  const std::map<std::string, Size>& sizes) {
    std::map<std::string, int> allowed = read_ratchet(kind);
    std::vector<std::string> found;
    for (const auto& [name, size] : sizes) {
        const auto ratchet = allowed.find(name);
        const int most = ratchet == allowed.end() ? limit : ratchet->second;
        if (size.size > most)
            found.push_back(fmt::format("{} has {} {}, limit {}. If it must: a line with the reason in {}", size.what,
                                        size.size, unit, most, kRatchet));
        if (ratchet == allowed.end()) continue;
        if (size.size < most) found.push_back(fmt::format("{}: {} says {}, it is {}", name, kRatchet, most, size.size));
        allowed.erase(ratchet);
    }
    for (const auto& [name, size] : allowed) found.push_back(fmt::format("{} names {}: gone", kRatchet, name));
    EXPECT_TRUE(found.empty()) << listing(found);
}

bool is_measured(const SourceFile& file) {
    return file.is_cpp() || file.is_page() || file.path.ends_with(".py") || file.path.ends_with(".cmake");
}

TEST(Size, FilesStaySmall) {
    std::map<std::string, Size> sizes;
    for (const SourceFile& file : tree())
        if (is_measured(file)) sizes[file.path] = {static_cast<int>(file.lines().size()), file.path};
    expect_small("file", "lines", kFileLinesMax, sizes);
}

TEST(Size, FunctionsStaySmall) {
    std::map<std::string, Size> largest;
    for (const SourceFile& file : tree()) {
        if (!file.is_cpp()) continue;
        Size& size = largest[file.path];
        for (const FunctionSpan& span : functions_of(file.text))
            if (span.lines > size.size) size = {span.lines, fmt::format("{}:{}", file.path, span.first_line)};
    }
    expect_small("function", "lines", kFunctionLinesMax, largest);
}

// A class whose members are defined in two files is two things, or its file is too long: that is not mended by a cut.
TEST(Size, AClassLiesInOneFile) {
    static const std::regex kMember(R"(^[^(]*?\b(\w+)::(\w+::)*~?\w+ ?\()");
    std::map<std::string, std::set<std::string>> files;
    for (const SourceFile& file : tree()) {
        if (!file.in("src/") || !file.is_cpp() || file.is_header() || file.path.ends_with("_isa.cpp")) continue;
        for (const FunctionSpan& span : functions_of(file.text)) {
            std::smatch match;
            if (std::regex_search(span.head, match, kMember)) files[match[1]].insert(file.path);
        }
    }
    std::map<std::string, Size> sizes;
    for (const auto& [name, paths] : files)
        sizes[name] = {static_cast<int>(paths.size()), fmt::format("{} ({})", name, fmt::join(paths, ", "))};
    EXPECT_GT(sizes.size(), 50u) << "classes are not found any more";
    expect_small("class", "files", 1, sizes);
}

TEST(Size, LiteralsAreLeftOutOfCode) {
    EXPECT_EQ(code_of("a = U'x'; b = 1'000; c = 'y'; d = \"e\";"), "a = U   ; b = 1'000; c =    ; d =    ;");
}

TEST(Size, BracesAreCountedRight) {
    const auto spans = functions_of(R"(#pragma x(y)
namespace a {
struct S {
    int f() const { return "{"[0]; }
};
constexpr int kTable[] = {1, 2};
S::S(int x) : x_{x} {
    // {
    if (x) {
    }
}
}  // namespace a
)");
    ASSERT_EQ(spans.size(), 2u);
    EXPECT_EQ(spans[0].lines, 1);
    EXPECT_EQ(spans[1].first_line, 7);
    EXPECT_EQ(spans[1].lines, 5);
}

}  // namespace
}  // namespace windlass::tidy
