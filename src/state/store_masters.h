// store_masters.h: fp32 masters out of a working store or a snapshot, one chunk in memory at a time; what is not
// trained comes from the base, whose numbers it has, and which a snapshot leaves it to.
//
// What is handed out is what was summed: each byte is read once and checked against the commit that the store was
// opened at, so a store that another file handle writes gives that commit or an error, never a mix.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/file.h"
#include "format/store.h"
#include "method/trained_model.h"
#include "model/save.h"

namespace windlass {

// Trained parameters are kept as this store has them: split masters, or numbers of the type that their bytes say, of
// two bytes the one in the model's files. UserError(storage) where it lacks one of them, or has it in a way that this
// version does not know.
void keep_as_stored(Store& store, TrainedModel& model);

class StoreMasters {
  public:
    // Throws UserError(storage) for a store that does not hold this model's masters. Both outlive it. `base`: reads
    // frozen parameters; empty if all are trained.
    StoreMasters(Store& store, const TrainedModel& model, ReadMasters base = {});

    // Masters of elements [first, first + out.size()) of a parameter. UserError(storage) naming a damaged chunk.
    void read(int param, int64_t first, std::span<float> out);

  private:
    void fetch(int64_t chunk);
    void read_blocks(HugeBuffer& into, int64_t bytes, int64_t offset);

    Store& store_;
    const TrainedModel& model_;
    ReadMasters base_;
    std::vector<int64_t> store_param_;  // by parameter of the model; -1: the base's
    HugeBuffer hi_, lo_, passing_;
    int64_t chunk_ = -1;
};

// Memory that an export from a store takes besides everything else: a chunk's halves, and what save_model uses.
int64_t export_memory_bytes(const ModelSpec& model);

}  // namespace windlass
