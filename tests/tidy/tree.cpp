#include "tests/tidy/tree.h"
#include "tests/place.h"

#include <filesystem>
#include <fstream>
#include <iterator>

namespace windlass::tidy {
namespace {

namespace fs = std::filesystem;

// What is read. Everything else at the root (build/, runs/, a checkout's own files) is somebody's working matter.
constexpr std::string_view kFolders[] = {".ci",     "bench", "cmake", "docs",  "examples",
                                         "presets", "src",   "tasks", "tests", "tools"};
constexpr std::string_view kSuffixes[] = {".h",   ".cpp",  ".cu",   ".md",      ".txt",  ".cmake", ".py", ".sh",
                                          ".yml", ".yaml", ".json", ".machine", ".html", ".css",   ".js"};
constexpr std::string_view kStoredFolders[] = {"tests/golden/", "tests/fuzz/corpus/", "examples/quickstart/model/"};
constexpr uintmax_t kFileBytesMax = uintmax_t{1} << 20;

bool is_ours(const fs::path& file, std::string_view path) {
    for (const std::string_view folder : kStoredFolders)
        if (path.starts_with(folder)) return false;
    if (path.find("__pycache__") != path.npos || fs::file_size(file) > kFileBytesMax) return false;
    const std::string suffix = file.extension().string();
    return suffix.empty() || std::find(std::begin(kSuffixes), std::end(kSuffixes), suffix) != std::end(kSuffixes);
}

void add(const fs::path& root, const fs::path& file, std::vector<SourceFile>& out) {
    const std::string path = file.lexically_relative(root).generic_string();
    if (!is_ours(file, path)) return;
    std::ifstream in(file, std::ios::binary);
    out.push_back({path, {std::istreambuf_iterator<char>(in), {}}});
}

std::vector<SourceFile> read_tree() {
    const fs::path root = source_dir();
    std::vector<SourceFile> files;
    for (const fs::directory_entry& entry : fs::directory_iterator(root)) {
        const std::string name = entry.path().filename().string();
        if (entry.is_regular_file() && name != "LICENSE" && name != ".git") add(root, entry.path(), files);
    }
    for (const std::string_view folder : kFolders) {
        if (!fs::exists(root / folder)) continue;
        for (const fs::directory_entry& entry : fs::recursive_directory_iterator(root / folder))
            if (entry.is_regular_file()) add(root, entry.path(), files);
    }
    std::sort(files.begin(), files.end(), [](const auto& a, const auto& b) { return a.path < b.path; });
    return files;
}

// Whether what is before `at` is a number, 1'000, rather than nothing or the prefix of a literal, U'x'.
bool is_in_number(std::string_view text, size_t at) {
    size_t first = at;
    while (first > 0 && (std::isalnum(static_cast<unsigned char>(text[first - 1])) != 0 || text[first - 1] == '\''))
        --first;
    return first < at && std::isdigit(static_cast<unsigned char>(text[first])) != 0;
}

// Where the literal or comment that begins at `at` ends (one past); `at` itself when none begins there.
size_t end_of_blank(std::string_view text, size_t at) {
    const auto past = [&](std::string_view closing, size_t from) {
        const size_t end = text.find(closing, from);
        return end == text.npos ? text.size() : end + closing.size();
    };
    if (text.substr(at, 2) == "//") return std::min(text.find('\n', at), text.size());
    if (text.substr(at, 2) == "/*") return past("*/", at + 2);
    if (text.substr(at, 2) == "R\"") {
        const size_t open = text.find('(', at);
        return past(")" + std::string(text.substr(at + 2, open - at - 2)) + "\"", open);
    }
    const char quote = text[at];
    if (quote != '"' && (quote != '\'' || is_in_number(text, at))) return at;
    for (size_t i = at + 1; i < text.size(); ++i) {
        if (text[i] == '\\')
            ++i;
        else if (text[i] == quote)
            return i + 1;
    }
    return text.size();
}

// Whether the words before a brace open a scope that holds functions, rather than a body or a list of values.
bool opens_scope(std::string_view head) {
    for (const std::string_view word : {"namespace", "struct ", "class ", "union ", "enum "})
        if (head.find(word) != head.npos && head.find('(') == head.npos) return true;
    return false;
}

// Blanks preprocessor lines: their parentheses head no function.
void blank_directives(std::string& code) {
    bool directive = false, line_start = true;
    for (size_t i = 0; i < code.size(); ++i) {
        if (code[i] == '\n') {
            directive = directive && i > 0 && code[i - 1] == '\\';
            line_start = true;
            continue;
        }
        directive |= line_start && code[i] == '#';
        line_start = line_start && code[i] == ' ';
        if (directive && code[i] != '\\') code[i] = ' ';
    }
}

// After the brace at `at`: whether it closed a member's initial value, so that the body is still to come.
bool is_initializer(std::string_view code, size_t at) {
    const size_t next = code.find_first_not_of(" \n", at + 1);
    return next != code.npos && (code[next] == ',' || code[next] == '{');
}

std::string trimmed(std::string_view words) {
    std::string out;
    for (const char c : words) {
        if (std::isspace(static_cast<unsigned char>(c)) == 0)
            out += c;
        else if (!out.empty() && out.back() != ' ')
            out += ' ';
    }
    return out;
}

}  // namespace

std::string_view SourceFile::name() const {
    const size_t slash = path.rfind('/');
    return std::string_view(path).substr(slash == path.npos ? 0 : slash + 1);
}

std::string_view SourceFile::folder() const {
    const size_t slash = path.rfind('/');
    return std::string_view(path).substr(0, slash == path.npos ? 0 : slash);
}

std::vector<std::string_view> SourceFile::lines() const {
    std::vector<std::string_view> out;
    for (size_t begin = 0; begin < text.size();) {
        const size_t end = std::min(text.find('\n', begin), text.size());
        out.push_back(std::string_view(text).substr(begin, end - begin));
        begin = end + 1;
    }
    return out;
}

const std::vector<SourceFile>& tree() {
    static const std::vector<SourceFile> kTree = read_tree();
    return kTree;
}

const SourceFile* find_file(std::string_view path) {
    for (const SourceFile& file : tree())
        if (file.path == path) return &file;
    return nullptr;
}

namespace {

// Blanks comments, and literals too where they are not kept.
std::string blanked(std::string_view text, bool keeps_literals) {
    std::string out(text);
    for (size_t i = 0; i < out.size();) {
        const size_t end = end_of_blank(text, i);
        const bool stays = keeps_literals && text[i] != '/';
        for (size_t j = i; j < end && !stays; ++j)
            if (out[j] != '\n') out[j] = ' ';
        i = std::max(end, i + 1);
    }
    return out;
}

// What is in the text and not in the part of it.
std::string rest_of(std::string_view text, const std::string& part) {
    std::string out(text);
    for (size_t i = 0; i < out.size(); ++i)
        if (out[i] == part[i] && out[i] != '\n') out[i] = ' ';
    return out;
}

bool is_of_word(char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

}  // namespace

std::string code_of(std::string_view text) {
    return blanked(text, false);
}

std::string comments_and_literals_of(std::string_view text) {
    return rest_of(text, code_of(text));
}

std::string comments_of(std::string_view text) {
    return rest_of(text, without_comments(text));
}

std::vector<std::string_view> words_of(std::string_view code) {
    std::vector<std::string_view> words;
    for (size_t i = 0; i < code.size(); ++i) {
        if (!is_of_word(code[i])) continue;
        const size_t begin = i;
        while (i < code.size() && is_of_word(code[i])) ++i;
        if (std::isdigit(static_cast<unsigned char>(code[begin])) == 0) words.push_back(code.substr(begin, i - begin));
    }
    return words;
}

std::string without_comments(std::string_view text) {
    return blanked(text, true);
}

std::vector<FunctionSpan> functions_of(std::string_view text) {
    std::string code = code_of(text);
    blank_directives(code);
    std::vector<FunctionSpan> out;
    int line = 1, depth = 0;  // depth: braces inside the open body
    size_t head = 0;
    for (size_t i = 0; i < code.size(); ++i) {
        const char c = code[i];
        if (c == '\n') ++line;
        if (depth > 0) {
            depth += c == '{' ? 1 : c == '}' ? -1 : 0;
            if (depth > 0) continue;
            out.back().lines = line - out.back().first_line + 1;
            if (!is_initializer(code, i))
                head = i + 1;
            else
                out.pop_back();
        } else if (c == '{' && !opens_scope(std::string_view(code).substr(head, i - head))) {
            out.push_back({line, 0, trimmed(std::string_view(code).substr(head, i - head))});
            depth = 1;
        } else if (c == ';' || c == '{' || c == '}') {
            head = i + 1;
        }
    }
    std::erase_if(out, [](const FunctionSpan& span) { return span.head.find('(') == std::string::npos; });
    return out;
}

std::string listing(const std::vector<std::string>& offenders) {
    return fmt::format("{} found:\n  {}", offenders.size(), fmt::join(offenders, "\n  "));
}

}  // namespace windlass::tidy
