// model_folder.h: a Hugging Face model folder, its weights over one file or many.
//
// Reading touches headers only until a tensor is asked for, and never writes into the folder. A folder is hostile
// input: file names from the index are plain names inside it, and every tensor is where the index says, once.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "format/hf_config.h"
#include "format/safetensors.h"
#include "format/side_files.h"

namespace windlass {

// Names of the weights' files: a single one, and the index that says which of several holds a tensor.
inline constexpr const char* kSingleName = "model.safetensors";
inline constexpr const char* kIndexName = "model.safetensors.index.json";

struct TensorPlace {
    std::string name;
    std::optional<DType> dtype;  // nothing for types that we list but do not compute with
    std::string dtype_name;      // as in the file, "BF16"
    Shape shape;
    int shard = 0;       // index into shard_files()
    int64_t offset = 0;  // of the first byte in that file
    int64_t bytes = 0;
};

struct FolderOptions {
    bool weights_may_be_absent = false;     // a folder without *.safetensors has no tensors then: enough to plan with
    std::vector<std::string> ignored_keys;  // of config.json
};

class ModelFolder {
  public:
    // Reads config.json, the index if there is one, and the header of every shard.
    static ModelFolder open(FileSystem& files, const std::string& folder, const FolderOptions& options = {});

    const std::string& path() const { return path_; }
    const HfConfig& config() const { return config_; }
    const std::vector<std::string>& shard_files() const { return shard_files_; }  // names inside the folder
    const std::vector<TensorPlace>& tensors() const { return tensors_; }          // sorted by name, bytewise
    const TensorPlace* find(std::string_view name) const;                         // nullptr when absent
    int64_t total_bytes() const { return total_bytes_; }                          // of all tensors

    // Which parts of their names were left out (_orig_mod. of torch.compile), for the user; empty where none was.
    const std::string& renaming_note() const { return renaming_note_; }

    // The dtype of a tensor that shall be computed with; throws by name for F8, U16 and their kind.
    DType weight_dtype(const TensorPlace& place) const;
    // The bytes [first_byte, first_byte + into.size()) of one tensor.
    void read(const TensorPlace& place, int64_t first_byte, std::span<std::byte> into) const;

    // Files that belong to a trained copy unchanged: tokenizer, chat template, generation_config.json, licence, ...
    // Relative to the folder; neither weights, nor their index, nor config.json, nor a trainer's state.
    const std::vector<std::string>& side_files() const { return side_files_.names; }
    // Says once, before hours of work, what of them a copy will lack: links that lead elsewhere, pipes, huge files.
    void warn_of_side_files(FileSystem& files) const;

  private:
    ModelFolder(std::string path, HfConfig config) : path_(std::move(path)), config_(std::move(config)) {}
    void add_shard(FileSystem& files, const std::string& name);
    void sort_tensors();
    void unwrap_names();
    void check_index(const std::map<std::string, std::string, std::less<>>& index) const;

    std::string path_, renaming_note_;
    HfConfig config_;
    std::vector<std::string> shard_files_;
    std::vector<SafetensorsReader> shards_;
    std::vector<TensorPlace> tensors_;
    SideFiles side_files_;
    int64_t total_bytes_ = 0;
};

}  // namespace windlass
