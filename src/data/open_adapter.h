// open_adapter.h: the adapter that a configuration asks for, put next to its model before anything is allocated.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/file.h"
#include "config/config.h"
#include "format/adapter_folder.h"
#include "format/model_folder.h"
#include "model/spec.h"

namespace windlass {

// Rewrites `model`, of the folder `base`, where config.adapter is set. Returns the folder that has the adapter's first
// numbers; nothing where they are drawn. Every complaint is a UserError with a place, before a weight is read but for
// the base's checksum: of settings that fit no layer, of a folder that belongs to another base or that holds what this
// version does not know.
std::optional<AdapterFolder> put_adapter(FileSystem& files, const Config& config, const ModelFolder& base,
                                         ModelSpec& model);

}  // namespace windlass
