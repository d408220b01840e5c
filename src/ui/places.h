// places.h: what a user may choose from: models and rows of data beneath the root, and models of the Hugging Face
// cache.
#pragma once

#include "base/json_fwd.h"
#include "ui/root.h"

namespace windlass {

// {"models": [{"model", "from": "folder" or "cache"}], "data": [{"path", "bytes"}]}. Files of runs and of models are no
// data.
Json places_json(const Root& root, const std::string& hub_cache);

}  // namespace windlass
