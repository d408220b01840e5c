#include "config/run_place.h"

#include <algorithm>

#include "base/file_error.h"
#include "config/config.h"

namespace windlass {
namespace {

constexpr std::string_view kRunFile = "run.yaml", kRunLock = ".lock";
constexpr std::string_view kIdHead = "\n# run ";  // and the id (persist/run_identity.h)
constexpr size_t kIdDigits = 32;

bool is_a_folder(FileSystem& files, const std::string& path) {
    return files.exists(path) && files.status(path).is_folder;
}

std::string without_slashes(std::string path) {
    while (path.size() > 1 && path.ends_with('/')) path.pop_back();
    return path;
}

bool has_run_id(const std::string& text) {
    for (size_t at = text.find(kIdHead); at != text.npos; at = text.find(kIdHead, at + 1)) {
        const size_t id = at + kIdHead.size();
        const size_t end = std::min(text.find_first_not_of("0123456789abcdef", id), text.size());
        if (end - id >= kIdDigits) return true;
    }
    return false;
}

}  // namespace

bool is_run_folder(FileSystem& files, const std::string& folder) {
    const std::string yaml = path_in(folder, kRunFile);
    if (!files.exists(yaml) || !files.status(yaml).is_regular) return false;
    if (files.exists(path_in(folder, kRunLock))) return true;
    return has_run_id("\n" + read_text(files, yaml, kConfigBytesMax));
}

std::string config_file_of(FileSystem& files, const std::string& path) {
    if (!is_a_folder(files, path)) return path;
    std::string yaml = path_in(without_slashes(path), kRunFile);
    if (files.exists(yaml)) return yaml;
    throw UserError(ExitCode::usage, path, "is a folder without a run.yaml, expected a configuration file or a run")
        .hint("the file itself, such as config.yaml; a model is given as --model DIR");
}

std::string run_folder_of(FileSystem& files, const std::string& path) {
    std::string folder = without_slashes(path);
    const bool names_file = folder == kRunFile || folder.ends_with(fmt::format("/{}", kRunFile));
    if (!names_file || !files.exists(folder) || files.status(folder).is_folder) return folder;
    folder = parent_folder(folder);
    return is_run_folder(files, folder) ? folder : path;
}

}  // namespace windlass
