#include "text/data_files.h"

#include <fnmatch.h>

#include <algorithm>

#include "base/error.h"
#include "base/log.h"
#include "base/plural.h"
#include "text/data_kind.h"

namespace windlass {
namespace {

constexpr size_t kNamedMost = 8;
constexpr int kFoldersMost = 64;  // inside of one, that are looked into for a hint

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
    log_info("{}: {}: {}{}", name, counted(std::ssize(found), "file"), list, found.size() > kNamedMost ? ", ..." : "");
}

// What to do with a folder without rows: where tables lie in it, or in a folder of it, how to make rows of them; where
// rows lie in a folder of it, that folder.
struct Advice {
    std::string found, hint;
};
std::optional<Advice> advice_for(FileSystem& files, const std::string& folder) {
    for (const std::string& name : files.list(folder)) {
        const size_t dot = std::min(name.rfind('.'), name.size());
        const std::string all = fmt::format("{}*{}", folder, name.substr(dot));
        if (const auto command = table_export(all))
            return Advice{fmt::format("only {} files, which are not read", name.substr(dot)),
                          fmt::format("make rows of them: {}", *command)};
    }
    return std::nullopt;
}

std::optional<Advice> advice_one_deeper(FileSystem& files, const std::string& folder) {
    int folders = 0;
    for (const std::string& name : files.list(folder)) {
        const std::string inner = folder + name + "/";
        if (name.starts_with('.') || !files.exists(inner) || ++folders > kFoldersMost) continue;
        if (!matching(files, inner, "*").empty())
            return Advice{fmt::format("no rows but in the folder {}", name), folder + name};
        if (std::optional<Advice> advice = advice_for(files, inner)) {
            advice->found += fmt::format(", in the folder {}", name);
            return advice;
        }
    }
    return std::nullopt;
}

std::vector<std::string> of_folder(FileSystem& files, const std::string& name) {
    const std::string folder = name.ends_with('/') ? name : name + "/";
    const std::vector<std::string> found = matching(files, folder, "*");
    if (!found.empty()) return found;
    std::optional<Advice> advice = advice_for(files, folder);
    if (!advice) advice = advice_one_deeper(files, folder);
    if (advice) throw UserError(ExitCode::data, name, "the folder holds {}", advice->found).hint(advice->hint);
    throw UserError(ExitCode::data, name, "the folder holds no file of a kind that is read: {}", kDataKinds)
        .hint("the files themselves, or the folder in which they lie");
}

std::vector<std::string> of_pattern(FileSystem& files, const std::string& name) {
    const size_t slash = name.rfind('/');
    const std::string folder = slash == std::string::npos ? "" : name.substr(0, slash + 1);
    if (folder.find_first_of("*?[") != std::string::npos)
        throw UserError(ExitCode::data, name, "a pattern is allowed only in the last part of a path")
            .hint("the same without quotes, so that the shell fills it in");
    const bool is_there = folder.empty() || files.exists(folder);
    const std::vector<std::string> found =
        is_there ? matching(files, folder, name.substr(folder.size())) : std::vector<std::string>();
    if (!found.empty()) return found;
    if (const auto command = table_export(name))
        throw UserError(ExitCode::data, name, "the kind of file \"{}\" is not read", data_ending(name))
            .hint(fmt::format("make rows of them: {}", *command));
    throw UserError(ExitCode::data, name, "no file of a kind that is read ({}) matches", kDataKinds)
        .hint("a pattern from the folder in which windlass was started, such as 'rows/*.jsonl'");
}

}  // namespace

bool has_rows_ending(std::string_view path) {
    return find_data_kind(path).has_value();
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
