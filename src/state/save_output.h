// save_output.h: what a run has made of its model, as a folder: the adapter alone where it trains one, in peft's
// layout, else the whole model.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/file.h"
#include "method/trained_model.h"
#include "model/save.h"

namespace windlass {

struct OutputSource {
    const TrainedModel& model;
    std::string base_folder;             // that the run was made from
    std::string base_checksum = {};      // empty where it is not known
    std::string chat_template = {};      // text of the one that rows were written by; empty: the base's
    std::string generation_config = {};  // text of one that stops where rows end; empty: the base's
};

// Of a run with an adapter: the adapter; or the whole model, what was learnt added to the base's own numbers, or to
// what the run computed with in their place (weight_storage), as it was evaluated. `usual`: the adapter, unless it is
// of a kind that tunes the whole model: then that (merged).
enum class OutputForm : uint8_t { usual, adapter, merged, merged_as_computed };

// "usual", "adapter", "merged", "merged_as_computed".
std::string_view output_form_name(OutputForm form);
std::optional<OutputForm> output_form_from_name(std::string_view name);

struct OutputOptions {
    SaveOptions save;
    OutputForm form = OutputForm::usual;
};

// UserError(usage) where an adapter is asked for of a run that was refreshed.
void require_no_delta(OutputForm form);
// UserError where what the adapter learned has no place in a whole model, or in a file for llama.cpp: of a tied table
// one end alone.
void require_merged(const ModelSpec& model, const std::string& base_folder, bool as_gguf);

// What a run of this model usually writes is an adapter's folder.
bool ends_as_adapter(const ModelSpec& model);

// UserError(usage) where an adapter is asked for in another type or in several files, and where a model without one is
// to be merged, or its adapter is needed. Masters of a merged model's own parameters are the base's.
void save_output(FileSystem& files, const OutputSource& source, const std::string& target, const OutputOptions& options,
                 const ReadMasters& masters);

// Bytes of the tensors in a folder that was written so, or of the whole file.
int64_t output_bytes(FileSystem& files, const std::string& folder);

}  // namespace windlass
