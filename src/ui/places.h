// places.h: what a user may choose from: models, rows of data and settings beneath the root, and models of the
// Hugging Face cache.
#pragma once

#include "base/json_fwd.h"
#include "ui/root.h"

namespace windlass {

// {"models": [{"model", "from": "folder" or "cache"}], "data": [{"path", "bytes"}], "settings": [paths of run.yaml]}
Json places_json(const Root& root, const std::string& hub_cache);

}  // namespace windlass
