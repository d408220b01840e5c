// tree.h: the project's own files, as the tidy tests see them.
//
// Build outputs, stored reference values and whatever git ignores are not of the tree.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace windlass::tidy {

struct SourceFile {
    std::string path;  // from the project's root, with '/'
    std::string text;

    std::string_view name() const;    // "pool.h"
    std::string_view folder() const;  // "src/tier"
    bool is_header() const { return path.ends_with(".h"); }
    bool is_cpp() const { return is_header() || path.ends_with(".cpp") || path.ends_with(".cu"); }
    // Of the page of `windlass ui`, in the languages of browsers.
    bool is_page() const { return path.ends_with(".html") || path.ends_with(".css") || path.ends_with(".js"); }
    bool in(std::string_view folder) const { return path.starts_with(folder); }
    std::vector<std::string_view> lines() const;
};

// Every text file that a person wrote, sorted by path; read once.
const std::vector<SourceFile>& tree();
// nullptr when there is none of this path.
const SourceFile* find_file(std::string_view path);

// The code alone: comments, string and character literals become blanks, line by line as before.
std::string code_of(std::string_view text);
// The same with literals.
std::string without_comments(std::string_view text);
// What code_of and without_comments leave out, with blanks for the rest.
std::string comments_and_literals_of(std::string_view text);
std::string comments_of(std::string_view text);

// The identifiers and keywords of code, in order.
std::vector<std::string_view> words_of(std::string_view code);

struct FunctionSpan {
    int first_line = 0;  // where the body opens, from 1
    int lines = 0;
    std::string head;  // the words before the body
};
// Bodies of functions, by counting braces: good enough for lengths. Inner lambdas belong to their function.
std::vector<FunctionSpan> functions_of(std::string_view text);

// Offenders, one a line, for a failing expectation.
std::string listing(const std::vector<std::string>& offenders);

}  // namespace windlass::tidy
