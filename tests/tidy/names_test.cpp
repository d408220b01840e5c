// What comments, pages, help and errors name is there: files, folders, types and functions.
#include <algorithm>
#include <array>
#include <filesystem>
#include <regex>

#include "tests/place.h"
#include "tests/tidy/tree.h"

namespace windlass::tidy {
namespace {

constexpr std::string_view kRoots[] = {"src/",   "tests/", "tools/",    "docs/", "presets/",
                                       "bench/", "cmake/", "examples/", "tasks/"};
// Files of other projects, and what names of any file begin with.
constexpr std::string_view kForeign[] = {"llama.cpp", "src/llama-arch.cpp", "src/llama-vocab.cpp"};
constexpr std::string_view kAnyName[] = {"x.", "x_", "name.", "name_"};

bool mentions(std::string_view text, std::string_view word) {
    return text.find(word) != text.npos;
}

bool is_any_of(std::string_view text, std::span<const std::string_view> all) {
    return std::ranges::find(all, text) != all.end();
}

// A word that is a path of ours: a file of code, a page, or what is below a folder of the root.
bool is_path(std::string_view word) {
    const auto begins = [&](std::string_view root) { return word.starts_with(root) && word.size() > root.size(); };
    const std::string_view name = word.substr(word.rfind('/') + 1);
    const bool is_code = word.ends_with(".h") || word.ends_with(".cpp") || word.ends_with(".cu");
    const bool is_page = word.ends_with(".md") || word.ends_with(".cmake");
    if (name.size() < 3 || name.front() == '.' || word.starts_with('/') || is_any_of(word, kForeign)) return false;
    if (std::ranges::any_of(kAnyName, [&](std::string_view any) { return name.starts_with(any); })) return false;
    return is_code || is_page || std::ranges::any_of(kRoots, begins);
}

// Words of letters, digits and "_-./" that are paths, unless a sign for other text is next to them.
std::vector<std::string_view> paths_in(std::string_view text) {
    const auto belongs = [](char c) {
        return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
               std::string_view("_-./").find(c) != std::string::npos;
    };
    const auto completes = [&](size_t at) {
        return at < text.size() && std::string_view("*<>{}$~@%=+").find(text[at]) != std::string::npos;
    };
    std::vector<std::string_view> paths;
    for (size_t i = 0; i < text.size(); ++i) {
        if (!belongs(text[i])) continue;
        const size_t begin = i;
        while (i < text.size() && belongs(text[i])) ++i;
        std::string_view word = text.substr(begin, i - begin);
        if ((begin > 0 && completes(begin - 1)) || completes(i)) continue;
        while (!word.empty() && (word.back() == '.' || word.back() == '-' || word.back() == '/')) word.remove_suffix(1);
        while (word.starts_with("./") || word.starts_with("../")) word.remove_prefix(word.find('/') + 1);
        if (is_path(word)) paths.push_back(word);
    }
    return paths;
}

// A path from the root or its end: "tier/pool.h", "pool.h", "unit/tier", and without a suffix a program's source.
bool exists(std::string_view path) {
    static const auto kEnds = [] {
        std::set<std::string, std::less<>> ends;
        const auto add = [&](std::string_view whole) {
            for (size_t at = 0; at != whole.npos; at = whole.find('/', at)) {
                if (at > 0) ++at;
                ends.emplace(whole.substr(at));
            }
        };
        for (const SourceFile& file : tree()) {
            add(file.path);
            const size_t suffix = file.path.rfind('.');
            if (suffix != file.path.npos) add(std::string_view(file.path).substr(0, suffix));
            for (size_t at = file.path.find('/'); at != file.path.npos; at = file.path.find('/', at + 1))
                add(std::string_view(file.path).substr(0, at));
        }
        return ends;
    }();
    return kEnds.contains(path) || std::filesystem::exists(std::filesystem::path(source_dir()) / path);
}

// Of tests the comments alone: their texts name files that they make.
std::string said_in(const SourceFile& file) {
    if (file.path.ends_with(".md")) return file.text;
    if (file.is_cpp()) return file.in("tests/") ? comments_of(file.text) : comments_and_literals_of(file.text);
    std::string said;
    for (const std::string_view line : file.lines())
        said += line.substr(std::min(line.find('#'), line.size())), said += '\n';
    return file.path.ends_with(".json") || file.path.ends_with(".yaml") ? "" : said;
}

TEST(Names, OfFilesAndFoldersExist) {
    std::set<std::string> found;
    size_t looked_at = 0;
    for (const SourceFile& file : tree())
        for (const std::string said = said_in(file); const std::string_view path : paths_in(said)) {
            ++looked_at;
            if (!exists(path)) found.insert(fmt::format("{} names {}", file.path, path));
        }
    EXPECT_GT(looked_at, 2000u) << "paths are not found any more";
    EXPECT_TRUE(found.empty()) << listing({found.begin(), found.end()});
}

TEST(Names, OfFilesAreTakenFromTextAsItIsWritten) {
    EXPECT_EQ(paths_in("the arena (tier/pool.h), `tests/unit/tier/`; ./tools/format. src/op/x_cuda.cu, a/b, _cuda.h"),
              (std::vector<std::string_view>{"tier/pool.h", "tests/unit/tier", "tools/format", "_cuda.h"}));
    EXPECT_EQ(paths_in("src/<floor>/all.cpp schedule/lower_*.cpp *_isa.cpp src/op/op.{h,cpp} DIR/op.h.").size(), 1u);
    for (const char* path : {"tier/pool.h", "pool.h", "src/tier", "unit/tier", "bench/step_bench", "tests/golden"})
        EXPECT_TRUE(exists(path)) << path;
    for (const char* path : {"train/pool.h", "ool.h", "tier/pool.cp", "src/tie", "bench/step"})
        EXPECT_FALSE(exists(path)) << path;
}

// ---- names of the code ----

// Every word of code and of scripts, and the names of files without suffix, which are those of programs and tests.
const std::set<std::string, std::less<>>& words_of_code() {
    static const auto kWords = [] {
        std::set<std::string, std::less<>> words;
        for (const SourceFile& file : tree()) {
            if (file.path.ends_with(".md")) continue;
            const std::string code = file.is_cpp() ? without_comments(file.text) : file.text;
            for (const std::string_view word : words_of(code)) words.emplace(word);
            words.emplace(file.name().substr(0, file.name().rfind('.')));
        }
        return words;
    }();
    return kWords;
}

// "Pool::lease" where a file that declares a type Pool has the word lease.
bool is_member(std::string_view type, std::string_view member) {
    static const auto kTypes = [] {
        std::map<std::string, std::set<std::string, std::less<>>, std::less<>> members;
        static const std::regex kType(R"(\b(?:struct|class|enum|union|namespace|using)\s+(?:class\s+)?(\w+))");
        for (const SourceFile& file : tree()) {
            if (!file.is_header()) continue;
            const std::string code = code_of(file.text);
            const std::vector<std::string_view> words = words_of(code);
            for (std::sregex_iterator it(code.begin(), code.end(), kType), end; it != end; ++it)
                members[(*it)[1]].insert(words.begin(), words.end());
        }
        return members;
    }();
    const auto at = kTypes.find(type);
    return at != kTypes.end() && (at->second.contains(member) || member == "operator");
}

// "Pool::lease" and "lease()" whose type or function is not there.
void look_at_names(std::string_view place, std::string_view said, std::set<std::string>& found) {
    static const std::regex kMember(R"(\b([A-Z]\w+)::(\w+)(\*?))"), kCall(R"((^|[^\w.:>])([a-z]\w+)\(\))");
    constexpr std::string_view kElsewhere[] = {"repr"};  // of Python
    using Match = std::regex_iterator<std::string_view::const_iterator>;
    for (Match it(said.begin(), said.end(), kMember), end; it != end; ++it)
        if ((*it)[3].length() == 0 && !is_member((*it)[1].str(), (*it)[2].str()))
            found.insert(fmt::format("{}: {}", place, it->str()));
    for (Match it(said.begin(), said.end(), kCall), end; it != end; ++it)
        if (const std::string name = (*it)[2]; !words_of_code().contains(name) && !is_any_of(name, kElsewhere))
            found.insert(fmt::format("{}: {}()", place, name));
}

bool is_page_of_code(const SourceFile& file) {
    const bool is_page = file.in("docs/dev/") || file.in("src/") || file.folder().empty() || !mentions(file.path, "/");
    return is_page && file.path.ends_with(".md");
}

TEST(Names, OfMembersAndFunctionsExist) {
    std::set<std::string> found;
    for (const SourceFile& file : tree()) {
        if (file.is_cpp()) look_at_names(file.path, comments_of(file.text), found);
        if (is_page_of_code(file)) look_at_names(file.path, file.text, found);
    }
    EXPECT_TRUE(found.empty()) << listing({found.begin(), found.end()});
}

// The parts of a line in code quotes.
std::vector<std::string_view> quoted(std::string_view line) {
    std::vector<std::string_view> parts;
    if (line.starts_with("```")) return parts;
    for (size_t open = line.find('`'); open != line.npos;) {
        const size_t close = line.find('`', open + 1);
        if (close == line.npos) break;
        parts.push_back(line.substr(open + 1, close - open - 1));
        open = line.find('`', close + 1);
    }
    return parts;
}

// "row_length", "StepBatch": not a word of prose, nor one that only begins or ends a name.
bool is_name_of_code(std::string_view word) {
    if (word.starts_with("name_")) return false;  // the name of anything
    if (word.front() == '_' || word.back() == '_') return false;
    const auto is_upper = [](char c) { return std::isupper(static_cast<unsigned char>(c)) != 0; };
    const auto is_lower = [](char c) { return std::islower(static_cast<unsigned char>(c)) != 0; };
    const bool has_lower = std::any_of(word.begin(), word.end(), is_lower);
    const bool is_camel = std::any_of(word.begin() + 1, word.end(), is_upper) && has_lower;
    return is_camel || (mentions(word, "_") && has_lower);
}

TEST(Names, QuotedOnPagesOfTheCodeExist) {
    // Examples of how names are made, names of other projects, and a program that CMake makes of another.
    constexpr std::string_view kNoNames[] = {
        "CamelCase", "snake_case",  "kCamel",        "block_bytes",      "RefusesBytesOutsideTheArena",
        "Conv1D",    "trim_blocks", "lstrip_blocks", "unit_op_sanitized"};
    const auto begins_a_name = [](std::string_view word) {
        const auto at = words_of_code().lower_bound(word);
        return at != words_of_code().end() && at->starts_with(word);
    };
    std::set<std::string> found;
    for (const SourceFile& file : tree()) {
        if (!is_page_of_code(file)) continue;
        for (const std::string_view line : file.lines())
            for (const std::string_view part : quoted(line))
                for (const std::string_view word : words_of(part))
                    if (is_name_of_code(word) && !begins_a_name(word) && !is_any_of(word, kNoNames))
                        found.insert(fmt::format("{}: {}", file.path, word));
    }
    EXPECT_TRUE(found.empty()) << listing({found.begin(), found.end()});
}

}  // namespace
}  // namespace windlass::tidy
