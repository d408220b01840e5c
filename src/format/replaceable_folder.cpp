#include "format/replaceable_folder.h"

#include "base/error.h"
#include "base/file_error.h"
#include "format/adapter_folder.h"
#include "format/manifest.h"
#include "format/side_files.h"

namespace windlass {
namespace {

// What transformers writes next to the weights of a language model, so what any base may have brought along.
constexpr std::string_view kModelNames[] = {"config.json",
                                            kAdapterConfigName,
                                            "model.safetensors.index.json",
                                            "generation_config.json",
                                            "tokenizer.json",
                                            "tokenizer.model",
                                            "tokenizer_config.json",
                                            "special_tokens_map.json",
                                            "added_tokens.json",
                                            "vocab.json",
                                            "vocab.txt",
                                            "merges.txt",
                                            "chat_template.jinja",
                                            "chat_template.json"};

bool is_model_name(std::string_view name) {
    return name.ends_with(".safetensors") || std::ranges::find(kModelNames, name) != std::end(kModelNames);
}

// The manifest in a run's final/; others may use that name too.
bool is_ours(FileSystem& files, const std::string& folder) {
    try {
        read_manifest(files, folder);
        return true;
    } catch (const Error&) {
        return false;
    }
}

// Not one that a user has written or edited.
bool is_our_card(FileSystem& files, const std::string& path) {
    constexpr int64_t kCardBytesMax = int64_t{64} << 10;
    try {
        return read_text(files, path, kCardBytesMax).find(kCardMark) != std::string::npos;
    } catch (const Error&) {
        return false;
    }
}

FileStatus status_or_none(FileSystem& files, const std::string& path) {
    try {
        return files.status(path);
    } catch (const Error&) {
        return {.is_regular = false};  // a link that leads nowhere
    }
}

// The first name in the folder, or in its folder of templates, that no model folder of ours has; "" without one.
std::string first_foreign(FileSystem& files, const std::string& folder, const std::vector<std::string>& side_files) {
    const auto is_side = [&](const std::string& name) {
        return std::ranges::find(side_files, name) != side_files.end();
    };
    for (const std::string& name : files.list(folder)) {
        const std::string path = fmt::format("{}/{}", folder, name);
        const FileStatus status = status_or_none(files, path);
        if (status.is_regular && (is_model_name(name) || is_side(name))) continue;
        if (status.is_regular && name == kManifestName && is_ours(files, folder)) continue;
        if (status.is_regular && name == kCardName && is_our_card(files, path)) continue;
        if (!status.is_folder || name != kTemplatesName) return name;
        for (const std::string& inner : files.list(path)) {
            const std::string inner_name = fmt::format("{}/{}", name, inner);
            const bool is_template = inner.ends_with(".jinja") || is_side(inner_name);
            if (!is_template || !status_or_none(files, fmt::format("{}/{}", path, inner)).is_regular) return inner_name;
        }
    }
    return "";
}

}  // namespace

void check_replaceable(FileSystem& files, const std::string& folder, const std::vector<std::string>& side_files) {
    constexpr const char* kWayOut = "another folder, or move what it holds away first";
    const std::vector<std::string> names = files.list(folder);
    if (names.empty()) return;
    if (files.exists(fmt::format("{}/../{}", folder, kManifestName)))
        throw UserError(ExitCode::storage, folder, "belongs to a checkpoint, which is never written")
            .hint("another folder");
    const bool has_weights =
        std::ranges::any_of(names, [](const auto& name) { return name.ends_with(".safetensors"); });
    const bool is_model = has_weights && std::ranges::any_of(names, [](const auto& name) {
                              return name == "config.json" || name == kAdapterConfigName;
                          });
    const std::string foreign = first_foreign(files, folder, side_files);
    if (!foreign.empty())
        throw UserError(ExitCode::storage, folder,
                        "holds \"{}\", which is not part of a model folder, and only a model folder is replaced",
                        foreign)
            .hint(kWayOut);
    if (!is_model)
        throw UserError(
            ExitCode::storage, folder,
            "is not a model folder (config.json or adapter_config.json, and *.safetensors), and only such a folder is "
            "replaced")
            .hint(kWayOut);
}

void check_not_among(FileSystem& files, const std::string& folder, const std::vector<std::string>& bases) {
    if (!files.exists(folder)) return;
    const FileStatus target = files.status(folder);
    for (const std::string& base : bases) {
        if (base.empty() || !files.exists(base) || !files.status(base).is_same(target)) continue;
        throw UserError(ExitCode::usage, folder, "is {}, a model that the run was made from, which is never written",
                        base)
            .hint("another folder");
    }
}

}  // namespace windlass
