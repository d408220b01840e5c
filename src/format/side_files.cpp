#include "format/side_files.h"

#include <filesystem>

#include "base/error.h"
#include "base/file_error.h"
#include "base/log.h"
#include "base/shell_word.h"
#include "base/units.h"
#include "format/manifest.h"

namespace windlass {
namespace {

bool has_suffix(std::string_view name, std::initializer_list<std::string_view> suffixes) {
    return std::ranges::any_of(suffixes, [&](std::string_view suffix) { return name.ends_with(suffix); });
}

constexpr std::string_view kMisleadingNames[] = {
    "adapter_config.json",      "quantize_config.json", "quant_config.json",
    "quantization_config.json", "hf_quant_config.json", "quant_model_description.json",
    "gptq_config.json",         "awq_config.json",      "smash_config.json"};

bool is_side_name(std::string_view name) {
    if (std::ranges::find(kMisleadingNames, name) != std::end(kMisleadingNames)) return false;
    if (name.starts_with('.') || name.starts_with("events.out.") || is_pickle(name)) return false;
    if (name == "config.json" || name == "trainer_state.json" || name == kManifestName) return false;
    return !has_suffix(name, {".safetensors", ".index.json", ".h5", ".msgpack", ".ot", ".gguf", ".onnx", ".tmp"});
}

// "" of a folder that is no snapshot; else where its cache keeps the model's files:
// models--owner--name/snapshots/<revision> links to models--owner--name/blobs/<hash>.
std::string blobs_of(const std::filesystem::path& folder) {
    const std::filesystem::path snapshots = folder.parent_path(), model = snapshots.parent_path();
    if (snapshots.filename() != "snapshots" || !model.filename().string().starts_with("models--")) return "";
    return (model / "blobs").string();
}

// Finds what may be taken of one folder.
class Finder {
  public:
    Finder(FileSystem& files, const std::string& folder)
        : files_(files), folder_(folder), root_(files.resolve(folder)), blobs_(blobs_of(root_)) {}
    SideFiles take() { return std::move(found_); }

    void look_at(const std::string& name) {
        const std::string reason = refusal(name);
        if (reason.empty()) return found_.names.push_back(name);
        found_.left_out.push_back(fmt::format("{} ({})", name, reason));
    }

    std::string refusal(const std::string& name) const {
        try {
            const std::string path = path_in(folder_, name);
            const FileStatus status = files_.status(path);
            if (!status.is_regular) return "no regular file";
            if (!is_ours(files_.resolve(path), name)) return "a link out of the model folder";
            if (status.bytes > kSideFileBytesMax)
                return fmt::format("{}, more than {}", format_bytes(status.bytes), format_bytes(kSideFileBytesMax));
            return "";
        } catch (const Error& error) {
            return error.what();
        }
    }

  private:
    // A hidden file, such as a repository's settings, is nobody's to publish.
    bool is_ours(const std::string& target, const std::string& name) const {
        if (target == path_in(root_, name)) return true;
        if (!blobs_.empty() && target.starts_with(blobs_ + "/")) return true;
        return target.starts_with(root_ + "/") && target.find("/.", root_.size()) == std::string::npos;
    }

    FileSystem& files_;
    const std::string& folder_;
    std::string root_;   // the folder without links
    std::string blobs_;  // its cache's, or nothing
    SideFiles found_;
};

bool is_folder(FileSystem& files, const std::string& path) {
    try {
        return files.status(path).is_folder;
    } catch (const Error&) {
        return false;  // a link that leads nowhere, for one: treated as a file, and named
    }
}

}  // namespace

bool is_pickle(std::string_view name) {
    return has_suffix(name, {".bin", ".pt", ".pth", ".ckpt", ".pkl"});
}

SideFiles find_side_files(FileSystem& files, const std::string& folder,
                          const std::set<std::string, std::less<>>& names) {
    Finder finder(files, folder);
    for (const std::string& name : names) {
        const std::string path = path_in(folder, name);
        if (!is_folder(files, path)) {
            if (is_side_name(name)) finder.look_at(name);
        } else if (name == kTemplatesName) {
            for (const std::string& inner : files.list(path)) {
                if (!is_folder(files, path_in(path, inner))) finder.look_at(path_in(name, inner));
            }
        }
    }
    return finder.take();
}

std::string why_not_copied(FileSystem& files, const std::string& folder, const std::string& name) {
    return Finder(files, folder).refusal(name);
}

void require_copyable(FileSystem& files, const std::string& folder, const std::string& name) {
    const std::string reason = why_not_copied(files, folder, name);
    if (reason.empty()) return;
    const std::string path = path_in(folder, name);
    throw UserError(ExitCode::model, path, "is {}, and its text would be written into another file", reason)
        .hint(fmt::format("cp --remove-destination \"$(readlink -f {0})\" {0}, if all of it may be published",
                          shell_word(path)));
}

void warn_of_side_files(FileSystem& files, const std::string& folder, const std::vector<std::string>& names,
                        std::vector<std::string> left_out) {
    for (const std::string& name : names) {
        try {
            files.open(path_in(folder, name), {.mode = OpenMode::read});
        } catch (const Error& error) {
            left_out.push_back(fmt::format("{} ({})", name, error.what()));
        }
    }
    if (left_out.empty()) return;
    log_warning("{}: a trained copy will not have these files: {}", folder, fmt::join(left_out, ", "));
}

}  // namespace windlass
