// hf_config_values.h: the keys of a config.json that decide what a model computes.
#pragma once

#include <map>
#include <string>

#include "format/hf_config.h"

namespace windlass {

// Key and value as text, "rms_norm_eps" and "1e-05"; "rope_scaling.factor" of a section; of a long value a checksum.
// For a configuration that a family has read to its end (HfConfig::finish): it leaves out the keys that have no effect
// there, so spaces, versions, token ids and dropouts change nothing here. The same number has the same text.
std::map<std::string, std::string> values_that_compute(const HfConfig& config);

}  // namespace windlass
