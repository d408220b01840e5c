#include "rows/data_files.h"

#include <fnmatch.h>

#include <algorithm>
#include <functional>
#include <optional>

#include "base/error.h"
#include "base/log.h"
#include "base/plural.h"
#include "rows/data_kind.h"
#include "rows/split_names.h"

namespace windlass {
namespace {

constexpr size_t kNamedMost = 8;
constexpr int kFoldersMost = 64;  // inside of one, that are looked into

using Paths = std::vector<std::string>;

std::string_view last_part(std::string_view path) {
    while (path.ends_with('/')) path.remove_suffix(1);
    return path.substr(path.rfind('/') + 1);
}

std::string listed(const Paths& paths, const std::function<std::string(const std::string&)>& shown) {
    std::string list;
    for (size_t i = 0; i < std::min(paths.size(), kNamedMost); ++i) list += (i == 0 ? "" : ", ") + shown(paths[i]);
    return paths.size() > kNamedMost ? list + ", ..." : list;
}
std::string listed(const Paths& paths) {
    return listed(paths, [](const std::string& path) { return path; });
}

// Files of a folder that match and end as rows do; and those that hold rows in a form that is not read.
struct Matching {
    Paths rows, descriptions, unread;
};

bool is_unread(std::string_view name) {
    constexpr std::string_view kArchives[] = {".zip", ".bz2", ".tar", ".tgz", ".7z"};
    return table_export(name) ||
           std::ranges::any_of(kArchives, [&](std::string_view ending) { return name.ends_with(ending); });
}

Matching matching(FileSystem& files, const std::string& folder, const std::string& pattern) {
    Matching found;
    for (const std::string& name : files.list(folder.empty() ? "." : folder)) {
        const std::string path = folder + name;
        const bool has_ending = has_rows_ending(name);
        if (fnmatch(pattern.c_str(), name.c_str(), FNM_PERIOD) != 0 || (!has_ending && !is_unread(name))) continue;
        if (!files.exists(path))
            throw UserError(ExitCode::data, path, "is a link to a file that is not there")
                .hint("the file where the link points to, or no link");
        if (files.status(path).is_folder) continue;
        if (!has_ending) {
            found.unread.push_back(path);
            continue;
        }
        (is_description_name(name) ? found.descriptions : found.rows).push_back(path);
    }
    return found;
}

Paths folders_in(FileSystem& files, const std::string& folder) {
    Paths found;
    for (const std::string& name : files.list(folder)) {
        if (name.starts_with('.') || std::ssize(found) == kFoldersMost) continue;
        if (files.exists(folder + name + "/")) found.push_back(folder + name + "/");
    }
    return found;
}

// ---- splits ----

// Of a file the split that its name says, else that of its folder's.
std::optional<DataSplit> split_of_path(std::string_view path) {
    if (const auto split = split_of_name(last_part(path))) return split;
    const size_t slash = path.rfind('/');
    return slash == std::string_view::npos ? std::nullopt : split_of_name(last_part(path.substr(0, slash)));
}

// Of a folder that is called test or dev and no more: "my_test_run" says nothing of its files.
std::optional<DataSplit> split_named_alone(std::string_view name) {
    const bool is_word = std::ranges::all_of(name, [](unsigned char c) { return std::isalpha(c) != 0; });
    return is_word ? split_of_name(name) : std::nullopt;
}

// Sets of splits, the most wanted first; nothing: names of none. `named`: the split that the user's own name says. A
// folder that is called dev may hold train files, so it decides only between the others.
using SplitSet = std::vector<std::optional<DataSplit>>;
std::vector<SplitSet> wanted_splits(RowsUse use, std::optional<DataSplit> named) {
    std::vector<SplitSet> wanted = {{DataSplit::validation}, {DataSplit::test}, {std::nullopt}, {DataSplit::train}};
    if (use == RowsUse::train) wanted = {{DataSplit::train}, {std::nullopt}};
    if (named && *named != DataSplit::train)
        wanted.insert(wanted.begin() + (use == RowsUse::train ? 1 : 0), SplitSet{named, std::nullopt});
    return wanted;
}

// Those of the first set that any name belongs to; empty where none does.
Paths of_wanted_split(const Paths& paths, RowsUse use, std::optional<DataSplit> named) {
    for (const SplitSet& set : wanted_splits(use, named)) {
        Paths chosen;
        std::ranges::copy_if(paths, std::back_inserter(chosen), [&](const std::string& path) {
            return std::ranges::find(set, split_of_name(last_part(path))) != set.end();
        });
        if (!chosen.empty()) return chosen;
    }
    return {};
}

std::string with_split(const std::string& path) {
    const std::optional<DataSplit> split = split_of_name(last_part(path));
    return split ? fmt::format("{} ({})", path, name_of(*split)) : path;
}

void say_left(const std::string& name, const Paths& all, const Paths& taken, RowsUse use) {
    Paths left;
    std::ranges::set_difference(all, taken, std::back_inserter(left));
    if (left.empty()) return;
    std::string also;
    const auto held_out = std::ranges::find_if(
        left, [](const std::string& path) { return split_of_name(last_part(path)) == DataSplit::validation; });
    if (use == RowsUse::train && held_out != left.end()) also = fmt::format("; to evaluate: --eval-data {}", *held_out);
    log_info("{}: left out because of {}: {}; to use one, name the file{}", name,
             left.size() == 1 ? "its name" : "their names", listed(left, with_split), also);
}

// The way to rows of a file that is not read.
std::string way_to_rows(const std::string& path) {
    const auto command = table_export(path);
    return command ? fmt::format("make rows of it: {}", *command) : fmt::format("unpack {}", path);
}

// The files of the split that is meant, with lines that say so.
Paths of_one_split(const std::string& name, const Matching& found, std::optional<DataSplit> named, RowsUse use) {
    const Paths taken = of_wanted_split(found.rows, use, named);
    if (taken.empty() && !found.unread.empty())
        throw UserError(ExitCode::data, name, "holds {}, which is not read, and validation and test files: {}",
                        found.unread.front(), listed(found.rows, with_split))
            .hint(way_to_rows(found.unread.front()));
    if (taken.empty())
        throw UserError(ExitCode::data, name, "holds validation and test files alone: {}",
                        listed(found.rows, with_split))
            .hint(fmt::format("{}, if it is to be trained on", found.rows.front()));
    log_info("{}: {}: {}", name, counted(std::ssize(taken), "file"), listed(taken));
    say_left(name, found.rows, taken, use);
    if (!found.unread.empty())
        log_warning("{}: not read, though it may hold rows: {}. To use it, {}", name, listed(found.unread),
                    way_to_rows(found.unread.front()));
    const auto is_train = [](const std::string& path) { return split_of_name(last_part(path)) == DataSplit::train; };
    if (use == RowsUse::evaluate && std::ranges::all_of(taken, is_train))
        log_warning("{}: evaluates train files, since it holds no others", name);
    if (!found.descriptions.empty())
        log_info("{}: left out, since a file of this name describes data: {}", name, listed(found.descriptions));
    return taken;
}

// ---- advice ----

// What to do with a folder without rows: where tables lie in it, or in a folder of it, how to make rows of them; where
// rows lie in a folder of it, that folder.
struct Advice {
    std::string found, hint;
};

// Of a folder that save_to_disk wrote: of one table, or of several in a folder each.
std::optional<Advice> advice_for_saved(FileSystem& files, const std::string& folder, RowsUse use) {
    const auto has = [&](std::string_view name) { return files.exists(fmt::format("{}{}", folder, name)); };
    constexpr const char* kFound = "a data set in Arrow's format, as save_to_disk writes it, which is not read";
    const std::string path = folder.substr(0, folder.size() - 1);
    if (!has("dataset_dict.json")) {
        if (!has("state.json") || !has("dataset_info.json")) return std::nullopt;
        return Advice{kFound, fmt::format("make rows of it: {}", saved_export(path, ""))};
    }
    const Paths parts = folders_in(files, folder);
    Paths meant = of_wanted_split(parts, use, std::nullopt);
    if (meant.empty()) meant = parts;
    return Advice{kFound, fmt::format("make rows of one part: {}",
                                      saved_export(path, meant.empty() ? "train" : last_part(meant.front())))};
}

std::optional<Advice> advice_for(FileSystem& files, const std::string& folder, RowsUse use) {
    if (std::optional<Advice> saved = advice_for_saved(files, folder, use)) return saved;
    for (const std::string& name : files.list(folder)) {
        const size_t dot = std::min(name.rfind('.'), name.size());
        const std::string all = fmt::format("{}*{}", folder, name.substr(dot));
        if (const auto command = table_export(all))
            return Advice{fmt::format("only {} files, which are not read", name.substr(dot)),
                          fmt::format("make rows of them: {}", *command)};
    }
    return std::nullopt;
}

// Folders inside a folder, at most `levels` deep, that hold rows; each with a slash at its end.
Paths folders_with_rows(FileSystem& files, const std::string& folder, int levels) {
    Paths found;
    for (const std::string& inner : folders_in(files, folder)) {
        if (!matching(files, inner, "*").rows.empty()) found.push_back(inner);
        const Paths deeper = levels > 1 ? folders_with_rows(files, inner, levels - 1) : Paths();
        found.insert(found.end(), deeper.begin(), deeper.end());
    }
    return found;
}

// As a list has it.
std::string list_item(const std::string& path) {
    return path.find_first_of(",[]{}#\"' ") == path.npos ? path : fmt::format("\"{}\"", path);
}

// What names these folders: a folder inside of `folder` with splits by itself, once.
std::string way_to_folders(const std::string& folder, const Paths& folders) {
    Paths ways;
    for (std::string way : folders) {
        way.pop_back();
        const std::string in = way.substr(0, way.rfind('/'));
        if (in.size() > folder.size() && split_of_name(last_part(way))) way = in;
        if (std::ranges::find(ways, way) == ways.end()) ways.push_back(std::move(way));
    }
    return ways.size() == 1 ? ways.front() : fmt::format("{}; or several: [{}]", ways.front(), listed(ways, list_item));
}

std::optional<Advice> advice_deeper(FileSystem& files, const std::string& folder, RowsUse use) {
    const Paths found = folders_with_rows(files, folder, 2);
    const auto name_in_folder = [&](const std::string& inner) {
        return inner.substr(folder.size(), inner.size() - folder.size() - 1);
    };
    if (!found.empty())
        return Advice{fmt::format("no rows but in {} {}", found.size() == 1 ? "the folder" : "folders",
                                  listed(found, name_in_folder)),
                      way_to_folders(folder, found)};
    for (const std::string& inner : folders_in(files, folder)) {
        if (std::optional<Advice> advice = advice_for(files, inner, use)) {
            advice->found += fmt::format(", in the folder {}", last_part(inner));
            return advice;
        }
    }
    return std::nullopt;
}

// ---- folders and patterns ----

// The rows in the folders of a folder that are named for the split that is meant; empty where none is.
Paths in_split_folders(FileSystem& files, const std::string& folder, RowsUse use) {
    Paths folders;
    for (const std::string& inner : folders_in(files, folder)) {
        if (split_of_name(last_part(inner)) && !matching(files, inner, "*").rows.empty()) folders.push_back(inner);
    }
    const Paths meant = of_wanted_split(folders, use, std::nullopt);
    if (meant.empty()) return {};
    Paths rows;
    for (const std::string& inner : meant) {
        const Matching found = matching(files, inner, "*");
        rows.insert(rows.end(), found.rows.begin(), found.rows.end());
    }
    log_info("{}: {}: {}", folder, counted(std::ssize(rows), "file"), listed(rows));
    say_left(folder, folders, meant, use);
    return rows;
}

Paths of_folder(FileSystem& files, const std::string& name, RowsUse use) {
    const std::string folder = name.ends_with('/') ? name : name + "/";
    const Matching found = matching(files, folder, "*");
    if (!found.rows.empty()) return of_one_split(name, found, split_named_alone(last_part(name)), use);
    std::optional<Advice> advice = advice_for(files, folder, use);
    if (!advice) {
        if (Paths rows = in_split_folders(files, folder, use); !rows.empty()) return rows;
        advice = advice_deeper(files, folder, use);
    }
    if (advice) throw UserError(ExitCode::data, name, "the folder holds {}", advice->found).hint(advice->hint);
    throw UserError(ExitCode::data, name, "the folder holds no file of a kind that is read: {}", kDataKinds)
        .hint("the files themselves, or the folder in which they lie");
}

Paths of_pattern(FileSystem& files, const std::string& name, RowsUse use) {
    const size_t slash = name.rfind('/');
    const std::string folder = slash == std::string::npos ? "" : name.substr(0, slash + 1);
    if (folder.find_first_of("*?[") != std::string::npos)
        throw UserError(ExitCode::data, name, "a pattern is allowed only in the last part of a path")
            .hint("the same without quotes, so that the shell fills it in");
    const bool is_there = folder.empty() || files.exists(folder);
    const Matching found = is_there ? matching(files, folder, name.substr(folder.size())) : Matching();
    if (!found.rows.empty()) return of_one_split(name, found, split_of_path(name), use);
    if (const auto command = table_export(name))
        throw UserError(ExitCode::data, name, "the kind of file \"{}\" is not read", data_ending(name))
            .hint(fmt::format("make rows of them: {}", *command));
    throw UserError(ExitCode::data, name, "no file of a kind that is read ({}) matches", kDataKinds)
        .hint("a pattern from the folder in which windlass was started, such as 'rows/*.jsonl'");
}

// A shell fills in patterns before anyone can say which files were meant.
void warn_of_held_out(const Paths& named) {
    Paths held_out;
    bool has_train = false;
    for (const std::string& path : named) {
        const std::optional<DataSplit> split = split_of_path(path);
        has_train |= split == DataSplit::train;
        if (split && split != DataSplit::train) held_out.push_back(path);
    }
    if (has_train && !held_out.empty())
        log_warning("train_data names validation and test files next to train files, and all are trained on: {}",
                    listed(held_out));
}

}  // namespace

bool has_rows_ending(std::string_view path) {
    return find_data_kind(path).has_value();
}

std::vector<std::string> find_data_files(FileSystem& files, const std::vector<std::string>& names, RowsUse use) {
    Paths all, named;
    for (const std::string& name : names) {
        const bool exists = files.exists(name);
        const bool is_folder = exists && files.status(name).is_folder;
        if (!is_folder && (exists || name.find_first_of("*?[") == std::string::npos)) {
            all.push_back(name);
            named.push_back(name);
            continue;
        }
        const Paths found = is_folder ? of_folder(files, name, use) : of_pattern(files, name, use);
        all.insert(all.end(), found.begin(), found.end());
    }
    if (use == RowsUse::train) warn_of_held_out(named);
    return all;
}

}  // namespace windlass
