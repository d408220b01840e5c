// first_masters.h: what the parameters of a run begin with.
#pragma once

#include <cstdint>

#include "format/adapter_folder.h"
#include "format/model_folder.h"
#include "method/trained_model.h"
#include "model/save.h"

namespace windlass {

// first_weights() (model/adapters/first_weights.h), where what an adapter takes from its base's weights is taken from
// them as this run keeps them: in few bits, perhaps. Arguments outlive what is returned.
ReadMasters first_masters(const ModelFolder& base, const TrainedModel& model, uint64_t seed,
                          const AdapterFolder* adapter = nullptr);

}  // namespace windlass
