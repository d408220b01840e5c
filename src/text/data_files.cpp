#include "text/data_files.h"

#include <fnmatch.h>

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/log.h"

namespace windlass {
namespace {

constexpr std::array<std::string_view, 5> kEndings = {".jsonl", ".ndjson", ".json", ".tsv", ".txt"};
constexpr const char* kKinds = ".jsonl, .json, .tsv or .txt";
constexpr size_t kNamedMost = 8;

// The files of this folder that match and that rows can be read from.
std::vector<std::string> matching(FileSystem& files, const std::string& folder, const std::string& pattern) {
    std::vector<std::string> found;
    for (const std::string& name : files.list(folder.empty() ? "." : folder)) {
        const std::string path = folder + name;
        if (fnmatch(pattern.c_str(), name.c_str(), FNM_PERIOD) != 0 || !has_rows_ending(name)) continue;
        if (!files.status(path).is_folder) found.push_back(path);
    }
    return found;
}

void say_found(const std::string& name, const std::vector<std::string>& found) {
    std::string list;
    for (size_t i = 0; i < std::min(found.size(), kNamedMost); ++i) list += (i == 0 ? "" : ", ") + found[i];
    log_info("{}: {} files: {}{}", name, found.size(), list, found.size() > kNamedMost ? ", ..." : "");
}

std::vector<std::string> of_folder(FileSystem& files, const std::string& name) {
    const std::string folder = name.ends_with('/') ? name : name + "/";
    const std::vector<std::string> found = matching(files, folder, "*");
    if (found.empty())
        throw UserError(ExitCode::data, name, "the folder holds no file of a kind that is read: {}", kKinds)
            .hint("the files themselves, or the folder in which they lie");
    return found;
}

std::vector<std::string> of_pattern(FileSystem& files, const std::string& name) {
    const size_t slash = name.rfind('/');
    const std::string folder = slash == std::string::npos ? "" : name.substr(0, slash + 1);
    if (folder.find_first_of("*?[") != std::string::npos)
        throw UserError(ExitCode::data, name, "a pattern may stand in the last part of a path alone")
            .hint("the same without quotes, so that the shell fills it in");
    const bool is_there = folder.empty() || files.exists(folder);
    const std::vector<std::string> found =
        is_there ? matching(files, folder, name.substr(folder.size())) : std::vector<std::string>();
    if (found.empty())
        throw UserError(ExitCode::data, name, "no file of a kind that is read ({}) matches", kKinds)
            .hint("a pattern from the folder in which windlass was started, such as 'rows/*.jsonl'");
    return found;
}

}  // namespace

bool has_rows_ending(std::string_view path) {
    const size_t name = path.rfind('/') + 1;  // 0 without a slash
    const size_t dot = path.rfind('.');
    return dot != std::string_view::npos && dot >= name &&
           std::find(kEndings.begin(), kEndings.end(), path.substr(dot)) != kEndings.end();
}

std::vector<std::string> find_data_files(FileSystem& files, const std::vector<std::string>& names) {
    std::vector<std::string> all;
    for (const std::string& name : names) {
        const bool exists = files.exists(name);
        const bool is_folder = exists && files.status(name).is_folder;
        if (!is_folder && (exists || name.find_first_of("*?[") == std::string::npos)) {
            all.push_back(name);
            continue;
        }
        const std::vector<std::string> found = is_folder ? of_folder(files, name) : of_pattern(files, name);
        say_found(name, found);
        all.insert(all.end(), found.begin(), found.end());
    }
    return all;
}

}  // namespace windlass
