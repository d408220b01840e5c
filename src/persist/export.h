// export.h: a model folder out of a run: from a checkpoint, from the working store of a run that was stopped, or from
// one that still trains, which is asked for it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "state/save_output.h"
#include "tensor/dtype.h"

namespace windlass {

// The types that weights are written in: "bf16", "f16", "f32".
std::optional<DType> export_type_from_name(std::string_view name);

struct ExportOptions {
    // A run's folder, "RUN:STEP", or a checkpoint's folder; for a GGUF file a model's folder too.
    std::string source;
    std::string model = {};  // in place of the base that the run or its adapter names; empty: that
    std::string target;      // a folder, or a GGUF file where the name ends so
    std::optional<DType> dtype;
    std::optional<GgufType> type;  // of a GGUF file, in place of dtype
    std::optional<int64_t> shard_bytes_max;
    OutputForm form = OutputForm::usual;
    bool overwrite = false;
};

struct ExportResult {
    std::string from;             // the store, or the model's folder, that was read
    std::optional<int64_t> step;  // nothing: a model's folder that does not say
    int64_t bytes = 0;            // of the tensors
};

// Whether this target is one file for llama.cpp.
bool is_gguf_target(std::string_view target);

// UserError(usage) where the options' types are those of another kind of target.
void check_types(const ExportOptions& options);

// What a writer of this target needs besides the model; nothing where it is a folder. The tokenizer is the base's, and
// so is the chat template where `chat_template` is empty.
std::optional<GgufOutput> gguf_output(FileSystem& files, const ExportOptions& options, const std::string& base_folder,
                                      const ModelSpec& model, const std::string& chat_template = {});

// The models that a run names in its run.yaml: folders that no export of it may replace. Empty where `folder` is no
// run.
std::vector<std::string> models_of_run(FileSystem& files, const std::string& folder);

// Reads masters chunk by chunk, each against its checksum, and writes the folder whole or not at all.
// Waits while a run that still trains writes it (export_request.h). UserError(usage) when the source is no run,
// UserError(storage) for damage.
ExportResult export_model(FileSystem& files, const ExportOptions& options);

}  // namespace windlass
