#include "config/run_place.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <vector>

#include "base/error.h"
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

std::string absolute(const std::string& path) {
    return without_slashes(std::filesystem::absolute(path).lexically_normal().string());
}

// Where the run was started whose output_dir, a relative one, leads to `run`; empty if it was moved since.
std::string start_of_run(FileSystem& files, const std::string& run) {
    std::string output;
    try {
        output =
            YAML::Load(read_text(files, path_in(run, kRunFile), kConfigBytesMax))["output_dir"].as<std::string>("");
    } catch (const YAML::Exception&) {
        return "";
    }
    output = without_slashes(std::filesystem::path(output).lexically_normal().string());
    const bool leads_down = !output.empty() && output != "." && !output.starts_with('/') && !output.starts_with("..");
    if (!leads_down || !run.ends_with("/" + output)) return "";
    return without_slashes(run.substr(0, run.size() - output.size()));
}

// The folder; and of the run that it is, or that it is part of, the folder and where it was started.
std::vector<std::string> origins_of(FileSystem& files, const std::string& folder) {
    constexpr int kDepthMax = 3;  // RUN/checkpoint-5/adapter
    std::vector<std::string> origins = {folder};
    std::string run = absolute(folder);
    for (int depth = 0; depth < kDepthMax; ++depth, run = parent_folder(run)) {
        if (!is_run_folder(files, run)) continue;
        origins.push_back(run);
        if (const std::string start = start_of_run(files, run); !start.empty()) origins.push_back(start);
        break;
    }
    return origins;
}

// Up to the first character that a pattern has.
std::string literal_part(const std::string& path) {
    const size_t pattern = path.find_first_of("*?[");
    return pattern == path.npos ? path : path.substr(0, path.rfind('/', pattern) + 1);
}

// The number in a line that begins with kRunConfigHead.
std::optional<int64_t> run_format_in(const std::string& yaml) {
    const size_t at = ("\n" + yaml).find(fmt::format("\n{}", kRunConfigHead));
    if (at == yaml.npos) return std::nullopt;
    int64_t format = 0;
    const char* const digits = yaml.data() + at + kRunConfigHead.size();
    const bool is_number = std::from_chars(digits, yaml.data() + yaml.size(), format).ec == std::errc();
    return is_number ? std::optional(format) : std::nullopt;
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

void require_run_format(std::optional<int64_t> recorded, std::string_view where) {
    if (recorded == kRunFormat) return;
    const std::string writer = recorded ? fmt::format("a version of Windlass whose runs are of format {}", *recorded)
                                        : "an older build of Windlass, which recorded no format";
    throw UserError(ExitCode::storage, where, "was written by {}; this program reads format {}", writer, kRunFormat)
        .hint("a configuration of your own and another output_dir, to train again; or the version that wrote it");
}

void require_run_format(FileSystem& files, const std::string& folder) {
    const std::string yaml = path_in(folder, kRunFile);
    if (files.exists(yaml)) require_run_format(run_format_in(read_text(files, yaml, kConfigBytesMax)), yaml);
}

bool require_run_format_in(const std::string& yaml, std::string_view where) {
    const std::optional<int64_t> format = run_format_in(yaml);
    if (!format && !has_run_id("\n" + yaml)) return false;
    require_run_format(format, where);
    return true;
}

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

std::string found_from(FileSystem& files, const std::string& path, const std::string& folder) {
    const std::string literal = literal_part(path);
    if (literal.empty() || path.starts_with('/') || path.starts_with('~') || files.exists(literal)) return path;
    for (const std::string& origin : origins_of(files, folder)) {
        if (files.exists(path_in(origin, literal))) return path_in(origin, path);
    }
    return path;
}

}  // namespace windlass
