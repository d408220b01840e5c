// model_place.h: which folder a model's name means.
//
// A name is the path of a model folder, of a run or a checkpoint of ours (their model folders are taken), or of a
// model in the Hugging Face cache; or the id that a model has there, "Qwen/Qwen3-0.6B"; or the folder of an adapter,
// which names the model that it belongs to. A path that exists is never an
// id. Nothing is fetched: of an id that is not in the cache the error says how to.
#pragma once

#include <string>
#include <vector>

#include "base/file.h"

namespace windlass {

struct ModelPlace {
    std::string folder;        // of an id: the snapshot, so that what is written down names the revision
    std::string note;          // what was taken for the name; empty where that is the name itself
    std::string adapter = {};  // the name's, where it is an adapter's: `folder` is its base
};

// UserError(model) for an id that is not in the cache, and for folders that hold no model but somewhere inside. Any
// other name is given back: opening it says what is missing.
ModelPlace find_model(FileSystem& files, const std::string& name);

// What others call a model in this folder: of a snapshot in a Hugging Face cache the id, and its revision; else the
// path.
struct ModelName {
    std::string name, revision;
};
ModelName name_of_model(const std::string& folder);

// HF_HUB_CACHE, else HUGGINGFACE_HUB_CACHE, else HF_HOME/hub, else huggingface/hub in XDG_CACHE_HOME or ~/.cache: as
// huggingface_hub does. Empty where there is no home.
std::string hub_cache_folder();

}  // namespace windlass
