// model_folder_writer.h: writes a Hugging Face model folder so that it appears whole or not at all.
//
// Everything goes into "<target>.tmp-writing", is synced, and is renamed at the end. A writer destroyed before
// finish() removes what it made; what a killed one left is removed by the next writer of the same target.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "format/model_folder.h"
#include "format/safetensors.h"

namespace windlass {

inline constexpr int64_t kShardBytesMax = 5'000'000'000;  // what huggingface_hub cuts at

// Which file holds each tensor of a list.
struct ShardSplit {
    std::vector<std::string> files;
    std::vector<int> file_of;  // one entry a tensor
};

// Greedy in list order, as huggingface_hub fills shards; a tensor above the limit gets a file of its own.
ShardSplit split_by_size(std::span<const TensorSpec> tensors, int64_t shard_bytes_max = kShardBytesMax);
// Each tensor in the file where `base` has it; one that base lacks is our bug.
ShardSplit split_like(const ModelFolder& base, std::span<const TensorSpec> tensors);

struct ModelFolderContent {
    std::string config_text;
    std::vector<TensorSpec> tensors;
    ShardSplit shards;
    const ModelFolder* base = nullptr;                 // its side files are copied byte for byte; outlives the writer
    std::vector<std::string> never_replaced = {};      // folders, besides the base's; they need not exist
    std::map<std::string, std::string> metadata = {};  // of each file of tensors
    std::string config_name = "config.json";
    std::string chat_template = {};      // text, instead of the base's; empty: the base's
    std::string generation_config = {};  // the same
    std::string card = {};               // of README.md, the same
};

class ModelFolderWriter {
  public:
    // Checks the target and the free space, then writes the headers. An existing target that is not an empty folder
    // is UserError(storage), unless `overwrite` and it may be replaced (replaceable_folder.h); too little space is
    // UserError(storage) with both numbers.
    ModelFolderWriter(FileSystem& files, const std::string& target, ModelFolderContent content, bool overwrite = false);
    ModelFolderWriter(const ModelFolderWriter&) = delete;
    ModelFolderWriter& operator=(const ModelFolderWriter&) = delete;
    ~ModelFolderWriter();

    // Puts these bytes at first_byte of the tensor; any order, each byte once.
    void write(std::string_view name, int64_t first_byte, std::span<const std::byte> bytes);
    // Writes index, config and side files, syncs all and renames. The folder is durable when it returns.
    void finish();

  private:
    ModelFolderWriter(ModelFolderContent content, FileSystem& files, std::string target);
    int64_t bytes_needed() const;
    void check_target();
    void copy_side_files();
    void publish();

    FileSystem& files_;
    std::string target_;
    std::string temporary_;
    bool overwrite_ = false;
    ModelFolderContent content_;
    std::vector<std::unique_ptr<SafetensorsWriter>> shards_;
    std::map<std::string, int, std::less<>> shard_of_;  // by tensor name
    bool finished_ = false;
};

}  // namespace windlass
