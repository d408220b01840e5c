// adapter_folder.h: a folder with an adapter in the layout of Hugging Face's peft: adapter_config.json and
// adapter_model.safetensors (docs/format/adapter.md).
//
// Opening reads the configuration and the header, and no tensor. The folder is hostile input: sizes are bounded before
// anything is allocated; the meaning of fields and tensors is checked once the model is known.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/json_fwd.h"
#include "format/safetensors.h"

namespace windlass {

inline constexpr const char* kAdapterConfigName = "adapter_config.json";
inline constexpr const char* kAdapterWeightsName = "adapter_model.safetensors";
// Of the file's metadata: the checksum of the base that the adapter was trained over (base_checksum).
inline constexpr const char* kBaseChecksumKey = "windlass_base_checksum";

class AdapterFolder {
  public:
    // UserError(model) where a file is missing, malformed or a pickle, UserError(storage) where it is too large.
    static AdapterFolder open(FileSystem& files, const std::string& folder);

    const std::string& path() const { return path_; }
    std::string config_path() const;
    const std::string& weights_path() const { return weights_.path(); }
    const Json& config() const { return *config_; }  // an object
    const std::vector<TensorEntry>& tensors() const { return weights_.entries(); }
    const TensorEntry* find(std::string_view name) const;  // nullptr when absent
    std::string base_checksum() const;                     // empty where the file has none

    // The bytes [first_byte, first_byte + into.size()) of one tensor.
    void read(const TensorEntry& tensor, int64_t first_byte, std::span<std::byte> into) const;

  private:
    AdapterFolder(std::string path, std::shared_ptr<const Json> config, SafetensorsReader weights)
        : path_(std::move(path)), config_(std::move(config)), weights_(std::move(weights)) {}

    std::string path_;
    std::shared_ptr<const Json> config_;
    SafetensorsReader weights_;
};

// Whether the folder is one by its names: it has an adapter_config.json and no config.json.
bool is_adapter_folder(FileSystem& files, const std::string& folder);

}  // namespace windlass
