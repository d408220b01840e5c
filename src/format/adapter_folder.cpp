#include "format/adapter_folder.h"

#include "base/file_error.h"
#include "base/json.h"
#include "format/side_files.h"

namespace windlass {
namespace {

constexpr int64_t kConfigBytesMax = int64_t{4} << 20;

[[noreturn]] void refuse_without_weights(FileSystem& files, const std::string& folder) {
    const std::vector<std::string> names = files.list(folder);
    const auto pickle = std::ranges::find_if(names, is_pickle);
    if (pickle == names.end())
        throw UserError(ExitCode::model, folder, "has no {}", kAdapterWeightsName).hint("fetch the adapter again");
    throw UserError(ExitCode::model, path_in(folder, *pickle), "is a pickle, which can run code when read")
        .hint(fmt::format("python -c \"from peft import AutoPeftModelForCausalLM as M; "
                          "M.from_pretrained('{0}').save_pretrained('{0}-safetensors')\"",
                          folder));
}

}  // namespace

AdapterFolder AdapterFolder::open(FileSystem& files, const std::string& folder) {
    std::string path = folder;
    while (path.size() > 1 && path.ends_with('/')) path.pop_back();
    if (!files.exists(path) || !files.status(path).is_folder)
        throw UserError(ExitCode::model, path, "there is no such adapter folder")
            .hint("a folder with adapter_config.json and adapter_model.safetensors");
    const std::string config_path = path_in(path, kAdapterConfigName), weights = path_in(path, kAdapterWeightsName);
    if (!files.exists(config_path))
        throw UserError(ExitCode::model, path, "has no {}", kAdapterConfigName)
            .hint("a folder with adapter_config.json and adapter_model.safetensors");
    auto config = std::make_shared<const Json>(
        parse_json(read_text(files, config_path, kConfigBytesMax), config_path, ExitCode::model));
    if (!config->is_object())
        throw UserError(ExitCode::model, config_path, "is not a JSON object of settings")
            .hint("fetch the adapter again");
    if (!files.exists(weights)) refuse_without_weights(files, path);
    SafetensorsReader reader = SafetensorsReader::open(files, weights);
    if (reader.entries().empty())
        throw UserError(ExitCode::model, weights, "holds no tensor").hint("fetch the adapter again");
    return {std::move(path), std::move(config), std::move(reader)};
}

std::string AdapterFolder::config_path() const {
    return path_in(path_, kAdapterConfigName);
}

const TensorEntry* AdapterFolder::find(std::string_view name) const {
    const auto found = std::ranges::find(tensors(), name, &TensorEntry::name);
    return found == tensors().end() ? nullptr : &*found;
}

std::string AdapterFolder::base_checksum() const {
    const auto found = weights_.metadata().find(kBaseChecksumKey);
    return found == weights_.metadata().end() ? "" : found->second;
}

void AdapterFolder::read(const TensorEntry& tensor, int64_t first_byte, std::span<std::byte> into) const {
    weights_.read(tensor, first_byte, into);
}

bool is_adapter_folder(FileSystem& files, const std::string& folder) {
    return files.exists(path_in(folder, kAdapterConfigName)) && !files.exists(path_in(folder, "config.json"));
}

}  // namespace windlass
