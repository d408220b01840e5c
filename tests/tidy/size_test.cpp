// Files and functions stay small. ratchet.txt names what is larger still; its numbers only fall.
#include <sstream>

#include "tests/tidy/tree.h"

namespace windlass::tidy {
namespace {

constexpr int kFileLinesMax = 400;
constexpr int kFunctionLinesMax = 60;
constexpr std::string_view kRatchet = "tests/tidy/ratchet.txt";

// "file 431 src/x.cpp" or "function 72 src/x.cpp": how large the largest of that kind may be there.
std::map<std::string, int> read_ratchet(const std::string& wanted) {
    std::map<std::string, int> allowed;
    const SourceFile* const file = find_file(kRatchet);
    if (file == nullptr) return allowed;
    for (const std::string_view line : file->lines()) {
        std::istringstream words{std::string(line)};
        std::string kind, path;
        int lines = 0;
        if (words >> kind >> lines >> path && kind == wanted) allowed[path] = lines;
    }
    return allowed;
}

struct Size {
    int lines = 0;
    std::string what;
};

void expect_small(const std::string& kind, int limit, const std::map<std::string, Size>& sizes) {
    std::map<std::string, int> allowed = read_ratchet(kind);
    std::vector<std::string> found;
    for (const auto& [path, size] : sizes) {
        const auto ratchet = allowed.find(path);
        const int most = ratchet == allowed.end() ? limit : ratchet->second;
        if (size.lines > most) found.push_back(fmt::format("{} has {} lines, limit {}", size.what, size.lines, most));
        if (ratchet == allowed.end()) continue;
        if (size.lines < most)
            found.push_back(fmt::format("{}: {} says {}, it is {}", path, kRatchet, most, size.lines));
        allowed.erase(ratchet);
    }
    for (const auto& [path, lines] : allowed) found.push_back(fmt::format("{} names {}: gone", kRatchet, path));
    EXPECT_TRUE(found.empty()) << listing(found);
}

bool is_measured(const SourceFile& file) {
    return file.is_cpp() || file.path.ends_with(".py") || file.path.ends_with(".cmake");
}

TEST(Size, FilesStaySmall) {
    std::map<std::string, Size> sizes;
    for (const SourceFile& file : tree())
        if (is_measured(file)) sizes[file.path] = {static_cast<int>(file.lines().size()), file.path};
    expect_small("file", kFileLinesMax, sizes);
}

TEST(Size, FunctionsStaySmall) {
    std::map<std::string, Size> largest;
    for (const SourceFile& file : tree()) {
        if (!file.is_cpp()) continue;
        Size& size = largest[file.path];
        for (const FunctionSpan& span : functions_of(file.text))
            if (span.lines > size.lines) size = {span.lines, fmt::format("{}:{}", file.path, span.first_line)};
    }
    expect_small("function", kFunctionLinesMax, largest);
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
