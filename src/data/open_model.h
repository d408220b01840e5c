// open_model.h: a model folder and its tokenizer, before anything is allocated for them.
#pragma once

#include <optional>
#include <string>

#include "base/file.h"
#include "config/config.h"
#include "format/adapter_folder.h"
#include "format/model_folder.h"
#include "method/trained_model.h"
#include "model/save.h"
#include "tokenizer/tokenizer.h"

namespace windlass {

// A model that was opened, and what is known of it before anything is allocated.
struct OpenModel {
    ModelFolder folder;
    std::optional<AdapterFolder> adapter;  // whose numbers the model's added parameters have
    TrainedModel model;
    Tokenizer tokenizer;

    // Of all parameters, with those of the adapter. The object outlives it.
    ReadMasters weights() const;
};
// The model's tables have this many rows. Prints a note where the tokenizer has more ids, as many published ones do:
// only a text that uses one of them is refused.
void limit_rows(Tokenizer& tokenizer, const std::string& path, int64_t rows);
Tokenizer open_tokenizer(FileSystem& files, const std::string& path, const ModelSpec& model);
// The configuration's model with its adapter, which must be a folder's. Warns of keys of config.json that are unknown
// or ignored.
OpenModel open_model(FileSystem& files, const Config& config);

}  // namespace windlass
