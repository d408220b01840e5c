// Functions that headers of src/ declare are called in src/, and headers are included: what tests alone use lies with
// them.
#include <algorithm>
#include <regex>

#include "tests/tidy/tree.h"

namespace windlass::tidy {
namespace {

struct Exception {
    std::string_view name, reason;
};
// The list only shrinks: a name goes when something calls it.
constexpr Exception kUncalled[] = {
    {"all_ops", "the list whose every entry tests try"},
    {"all_weight_ops", "the list whose every entry tests try"},
    {"allocate_shared", "memory in which tests read what kernels of CUDA devices wrote"},
    {"release_shared", "likewise"},
    {"config_reference", "a page of the guide, which a test writes and compares"},
    {"set_cpu_isa", "one process tries every instruction set"},
};
// A file system that fails on request, for tests of all that write files.
constexpr std::string_view kFaults = "src/base/file_fault";

bool is_word(char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

bool ends_statement_word(std::string_view word) {
    constexpr std::string_view kWords[] = {"return", "case", "else",      "throw",   "new",
                                           "delete", "do",   "co_return", "co_await"};
    return std::ranges::find(kWords, word) != std::end(kWords);
}

// Whether the name at `begin`, which a parenthesis follows, is declared or defined there and not called: a type is
// before it, and before its class where it has one. The layout separates "T& f(" from "a & f(".
bool is_declared(std::string_view code, size_t begin) {
    const auto back_over_blanks = [&](size_t end) {
        while (end > 0 && std::isspace(static_cast<unsigned char>(code[end - 1])) != 0) --end;
        return end;
    };
    size_t end = begin;
    while (end >= 2 && code.substr(end - 2, 2) == "::") {
        end -= 2;
        if (end > 0 && code[end - 1] == '>') return false;  // std::numeric_limits<T>::f()
        while (end > 0 && is_word(code[end - 1])) --end;
    }
    const size_t before = back_over_blanks(end);
    if (before == 0 || before == end) return false;
    const char last = code[before - 1];
    if (last == '>' || last == '&' || last == '*') {
        const size_t type = code.find_last_not_of(">&*", before - 1);
        return type != code.npos && code[type] != ' ' && code[type] != '-';
    }
    if (!is_word(last)) return code.substr(0, before).ends_with("]]");
    size_t first = before;
    while (first > 0 && is_word(code[first - 1])) --first;
    return !ends_statement_word(code.substr(first, before - first));
}

std::string without_directives(const std::string& text) {
    std::string out;
    const SourceFile code{"", text};
    for (const std::string_view line : code.lines()) {
        if (!line.starts_with("#include") && !line.starts_with("#pragma") && !line.starts_with("#if") &&
            !line.starts_with("#e"))
            out += line;
        out += '\n';
    }
    return out;
}

struct Uses {
    std::map<std::string, std::string, std::less<>> declared;  // in headers, with the first of them
    std::set<std::string, std::less<>> used;
};

void add_uses(const std::string& path, std::string_view code, bool is_header, Uses& uses) {
    for (const std::string_view word : words_of(code)) {
        const auto begin = static_cast<size_t>(word.data() - code.data());
        size_t next = begin + word.size();
        while (next < code.size() && code[next] == ' ') ++next;
        const bool is_function = next < code.size() && code[next] == '(' && word.front() != '_';
        if (!is_function || !is_declared(code, begin))
            uses.used.emplace(word);
        else if (is_header)
            uses.declared.emplace(word, path);
    }
}

TEST(Callers, OfFunctionsInHeadersAreInTheSources) {
    Uses uses;
    for (const SourceFile& file : tree()) {
        if (!file.in("src/") || !file.is_cpp()) continue;
        add_uses(file.path, without_directives(code_of(file.text)), file.is_header(), uses);
    }
    EXPECT_GT(uses.declared.size(), 1000u) << "functions are not found any more";
    std::set<std::string_view> excepted;
    for (const Exception& each : kUncalled) excepted.insert(each.name);
    std::vector<std::string> found;
    for (const auto& [name, path] : uses.declared) {
        if (uses.used.contains(name) || path.starts_with(kFaults)) continue;
        if (excepted.erase(name) == 0) found.push_back(fmt::format("{}: nothing in src/ calls {}", path, name));
    }
    for (const std::string_view name : excepted) found.push_back(fmt::format("{} is called: no exception", name));
    EXPECT_TRUE(found.empty()) << "Try: delete it, or move it next to the test that needs it. " << listing(found);
}

TEST(Callers, AreToldFromDeclarations) {
    Uses uses;
    add_uses("x.h", R"(
int64_t bytes_of(DType type);
const Shape& shape() const;
virtual std::vector<int> rows(int) = 0;
inline double Pool::free_share(int) { return share(1) + std::numeric_limits<double>::infinity(); }
[[nodiscard]] bool is_open();
template <typename T> T* items(T) { if (a && ready(b)) run(); return Pool::find(c); }
const Table kTable = {left, &right};
)",
             true, uses);
    std::vector<std::string> declared;
    for (const auto& [name, path] : uses.declared) declared.push_back(name);
    EXPECT_THAT(declared, testing::ElementsAre("bytes_of", "free_share", "is_open", "items", "rows", "shape"));
    for (const char* name : {"share", "infinity", "ready", "run", "find", "left", "right"})
        EXPECT_TRUE(uses.used.contains(name)) << name;
    for (const char* name : {"bytes_of", "free_share", "rows", "items"}) EXPECT_FALSE(uses.used.contains(name)) << name;
}

TEST(Callers, IncludeEveryHeader) {
    static const std::regex kInclude(R"rx(\n *# *include "([^"]+)")rx");
    std::set<std::string, std::less<>> included;
    for (const SourceFile& file : tree()) {
        const std::string text = "\n" + file.text;
        for (std::sregex_iterator it(text.begin(), text.end(), kInclude), end; it != end; ++it) {
            const std::string path = (*it)[1];
            const std::string name = path.substr(path.rfind('/') + 1);
            // Its own source alone keeps no header alive.
            if (file.name() != name.substr(0, name.rfind('.')) + ".cpp") included.insert(name);
        }
    }
    std::vector<std::string> found;
    for (const SourceFile& file : tree()) {
        const bool by_build = file.name() == "pch.h" || file.path == "tests/simt/language.h";
        if (file.is_header() && !by_build && !included.contains(file.name())) found.push_back(file.path);
    }
    EXPECT_TRUE(found.empty()) << listing(found);
}

}  // namespace
}  // namespace windlass::tidy
