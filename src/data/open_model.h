// open_model.h: a model folder and its tokenizer, before anything is allocated for them.
#pragma once

#include <string>
#include <vector>

#include "base/file.h"
#include "format/model_folder.h"
#include "method/trained_model.h"
#include "text/tokenizer.h"

namespace windlass {

// A model that was opened, and what is known of it before anything is allocated.
struct OpenModel {
    ModelFolder folder;
    TrainedModel model;
    Tokenizer tokenizer;
};
// UserError(model) where it has ids for which the model has no row.
Tokenizer open_tokenizer(FileSystem& files, const std::string& path, const ModelSpec& model);
// Keys of config.json that nobody reads, or that are ignored, are warned of.
OpenModel open_model(FileSystem& files, const std::string& path, const std::vector<std::string>& ignored_keys = {});

}  // namespace windlass
