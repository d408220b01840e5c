#include "state/store_masters.h"

#include <bit>
#include <map>

#include "base/error.h"
#include "base/math.h"
#include "format/checksum.h"
#include "model/load.h"
#include "schedule/numerics.h"
#include "tensor/dtype.h"
#include "tensor/nf4.h"

namespace windlass {
namespace {

constexpr int64_t kPassingBytes = kRequestBytesMax;  // of the moments, which are only summed

UserError damaged(Store& store, int64_t chunk, std::string_view part) {
    const ChunkRef ref = store.chunk(chunk);
    return UserError(ExitCode::storage, store.file().path(), "is damaged: {} elements [{}, {}): {}",
                     store.layout().params[static_cast<size_t>(ref.param)].name, ref.first, ref.first + ref.count,
                     part);
}

// By parameter of the model: its index in the store; -1 where it never changes.
std::vector<int64_t> params_in(Store& store, const TrainedModel& model) {
    std::map<std::string_view, int64_t> index;
    const std::vector<StoreParam>& params = store.layout().params;
    for (size_t i = 0; i < params.size(); ++i) index[params[i].name] = static_cast<int64_t>(i);
    std::vector<int64_t> found_at;
    for (const Param each : model.all_params()) {
        const ParamSpec& param = each.spec;
        if (!each.changes()) {
            found_at.push_back(-1);
            continue;
        }
        const auto found = index.find(param.name);
        if (found == index.end() || params[static_cast<size_t>(found->second)].numel != param.numel())
            throw UserError(ExitCode::storage, store.file().path(), "holds no {} of {} elements", param.name,
                            param.numel());
        found_at.push_back(found->second);
    }
    return found_at;
}

// Low halves are the first section, and a parameter has the first sections or none.
bool has_low(const Store& store, const StoreParam& param) {
    return !store.layout().sections.empty() && store.layout().sections[0].name == "low" && param.sections != 0;
}

}  // namespace

void keep_as_stored(Store& store, TrainedModel& model) {
    const std::vector<int64_t> index = params_in(store, model);
    for (size_t i = 0; i < index.size(); ++i) {
        if (index[i] < 0 || !model.training[i].trains) continue;  // what is refreshed is kept as all that is frozen
        const StoreParam& found = store.layout().params[static_cast<size_t>(index[i])];
        ParamStorage& storage = model.storage[i];
        storage = {.store = has_low(store, found) ? StoreType::split : StoreType::as_file};
        switch (store.layout().weight_bytes_of(found, kNf4Block)) {
            case nf4_bytes(kNf4Block):
                storage.dtype = DType::nf4;
                break;
            case kNf4Block:
                storage.dtype = DType::f8_e4m3;
                break;
            case 4 * kNf4Block:
                storage.dtype = DType::f32;
                break;
            default:
                if (storage.store == StoreType::as_file) storage.dtype = model.params[i].file_dtype;
        }
    }
}

StoreMasters::StoreMasters(Store& store, const TrainedModel& model, ReadMasters base)
    : store_(store), model_(model), base_(std::move(base)), store_param_(params_in(store, model)) {
    const std::vector<StoreParam>& params = store.layout().params;
    for (size_t i = 0; i < model.params.size(); ++i) {
        if (store_param_[i] < 0) continue;
        const StoreParam& found = params[static_cast<size_t>(store_param_[i])];
        // Of one number, of a block of nf4, and of one more.
        const auto takes = [&](int64_t count) {
            return store.layout().weight_bytes_of(found, count) == stored_bytes(model.storage[i].dtype, count);
        };
        const bool has_type = takes(1) && takes(kNf4Block) && takes(kNf4Block + 1);
        const bool is_split = model.storage[i].store == StoreType::split;
        if (!has_type || has_low(store, found) != is_split)
            throw UserError(ExitCode::storage, store.file().path(), "does not hold {} masters of {}",
                            is_split ? "split" : dtype_name(model.storage[i].dtype), found.name);
    }
}

void StoreMasters::read(int param, int64_t first, std::span<float> out) {
    if (store_param_[static_cast<size_t>(param)] < 0) {
        WINDLASS_CHECK(base_ != nullptr, "{} is not trained, and there is no base",
                       model_.params[static_cast<size_t>(param)].name);
        return base_(param, first, out);
    }
    const int64_t elements = store_.layout().chunk_elements;
    for (int64_t done = 0; done < std::ssize(out);) {
        const int64_t element = first + done;
        fetch(store_.first_chunk(store_param_[static_cast<size_t>(param)]) + element / elements);
        const int64_t begin = element % elements, count = std::min(std::ssize(out) - done, elements - begin);
        const ParamStorage& storage = model_.storage[static_cast<size_t>(param)];
        if (storage.store == StoreType::as_file) {
            decode_kept(storage, hi_.span(), begin, out.subspan(static_cast<size_t>(done), static_cast<size_t>(count)));
            done += count;
            continue;
        }
        const auto* hi = reinterpret_cast<const uint16_t*>(hi_.data()) + begin;
        const auto* lo = reinterpret_cast<const int16_t*>(lo_.data()) + begin;
        for (int64_t i = 0; i < count; ++i)
            out[static_cast<size_t>(done + i)] = std::bit_cast<float>(join_master({hi[i], lo[i]}));
        done += count;
    }
}

void StoreMasters::read_blocks(HugeBuffer& into, int64_t bytes, int64_t offset) {
    const int64_t whole = round_up(bytes, StoreMap::kAlignment);
    if (into.size() < whole) into = HugeBuffer(whole, false);
    store_.file().read_at(into.span().first(static_cast<size_t>(whole)), offset);
}

// The low halves head a chunk's state; the moments after them have the same sum, so they pass by.
void StoreMasters::fetch(int64_t chunk) {
    if (chunk == chunk_) return;
    chunk_ = -1;
    const int version = store_.current_version(chunk);
    const ChunkSums sums = store_.sums(chunk);
    const Extent weight = store_.weight_extent(chunk, version), state = store_.state_extent(chunk, version);
    read_blocks(hi_, weight.bytes, weight.offset);
    if (xxh3_64(hi_.span().first(static_cast<size_t>(weight.bytes))) != sums.weight)
        throw damaged(store_, chunk, "weights");
    if (state.bytes == 0) {
        chunk_ = chunk;
        return;
    }
    Xxh3Stream sum;
    const ChunkRef ref = store_.chunk(chunk);
    const int64_t low = has_low(store_, store_.layout().params[static_cast<size_t>(ref.param)]) ? ref.count * 2 : 0;
    WINDLASS_CHECK(low == 0 || store_.section_offset(chunk, 0) == 0, "the low halves do not head chunk {}'s state",
                   chunk);
    const int64_t head = std::min(state.bytes, round_up(low, StoreMap::kAlignment));
    if (head > 0) read_blocks(lo_, head, state.offset);
    sum.add(lo_.span().first(static_cast<size_t>(head)));
    for (int64_t done = head; done < state.bytes;) {
        const int64_t bytes = std::min(kPassingBytes, state.bytes - done);
        read_blocks(passing_, bytes, state.offset + done);
        sum.add(passing_.span().first(static_cast<size_t>(bytes)));
        done += bytes;
    }
    if (sum.sum() != sums.state) throw damaged(store_, chunk, "state");
    chunk_ = chunk;
}

int64_t export_memory_bytes(const ModelSpec& model) {
    constexpr int64_t kRecords = 4 * (int64_t{1} << 20);  // of the store: the newest commit, and room to read one
    int64_t elements = 0;
    for (const ParamSpec& param : model.params) elements = std::max(elements, std::min(kChunkElements, param.numel()));
    const int64_t halves = 2 * round_up(elements * 2, StoreMap::kAlignment);
    return halves + kPassingBytes + kSaveBufferBytes + kRecords;
}

}  // namespace windlass
