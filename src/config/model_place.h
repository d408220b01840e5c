// model_place.h: which folder a model's name means.
//
// A name is the path of a model folder, of a run or a checkpoint of ours (their model folders are taken), or of a
// model in the Hugging Face cache; or the id that a model has there, "Qwen/Qwen3-0.6B"; or the folder of an adapter,
// which names the model that it belongs to. A path that exists is never an
// id. Nothing is fetched: the error of an id that is not in the cache says how to download it.
#pragma once

#include <optional>
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

// A model of the Hugging Face Hub.
struct HubModel {
    std::string id, revision;  // "Qwen/Qwen3-0.6B"; empty: its main branch
};
// The model that has to be in the cache before find_model finds what this name means: the id itself, a snapshot's path
// in the cache, or the base that an adapter's folder names. Nothing for any other path that is there. UserError(usage)
// for a name that is neither a path nor an id.
std::optional<HubModel> hub_model_of(FileSystem& files, const std::string& name);

enum class HubFiles : uint8_t { configuration, weights };
// Whether the cache has config.json of this model; `weights`: and every file that holds some.
bool is_in_cache(FileSystem& files, const HubModel& model, HubFiles which);

// HF_HUB_CACHE, else HUGGINGFACE_HUB_CACHE, else HF_HOME/hub, else huggingface/hub in XDG_CACHE_HOME or ~/.cache: as
// huggingface_hub does. Empty where there is no home.
std::string hub_cache_folder();

}  // namespace windlass
