#include "run/first_masters.h"

#include "base/index.h"
#include "model/adapters/first_weights.h"

namespace windlass {
namespace {

// Split masters are kept as they are.
void round_as_kept(const Param& param, std::span<float> numbers) {
    if (param.storage.store == StoreType::split) return;
    std::vector<std::byte> kept(at(stored_bytes(param.storage.dtype, std::ssize(numbers))));
    encode_kept(param, numbers, kept);
    decode_kept(param.storage, kept, 0, numbers);
}

}  // namespace

ReadMasters first_masters(const ModelFolder& base, const TrainedModel& model, uint64_t seed,
                          const AdapterFolder* adapter) {
    return first_weights(base, model, seed, adapter, [&model](int param, int64_t /*first*/, std::span<float> numbers) {
        round_as_kept(model.param(param), numbers);
    });
}

}  // namespace windlass
