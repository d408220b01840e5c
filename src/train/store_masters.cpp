#include "train/store_masters.h"

#include <bit>

#include "base/error.h"
#include "base/math.h"
#include "format/checksum.h"
#include "model/load.h"
#include "model/save.h"
#include "schedule/numerics.h"
#include "tensor/dtype.h"
#include "tensor/nf4_levels.h"

namespace windlass {
namespace {

constexpr int64_t kPassingBytes = kRequestBytesMax;  // of the moments, which are only summed

UserError damaged(Store& store, int64_t chunk, std::string_view part) {
    const ChunkRef ref = store.chunk(chunk);
    return UserError(ExitCode::storage, store.file().path(), "is damaged: {} elements [{}, {}): {}",
                     store.layout().params[static_cast<size_t>(ref.param)].name, ref.first, ref.first + ref.count,
                     part);
}

}  // namespace

StoreMasters::StoreMasters(Store& store, const TrainedModel& model) : store_(store), model_(model) {
    std::map<std::string_view, int64_t> index;
    const std::vector<StoreParam>& params = store.layout().params;
    for (size_t i = 0; i < params.size(); ++i) index[params[i].name] = static_cast<int64_t>(i);
    for (const ParamSpec& param : model.params) {
        const auto found = index.find(param.name);
        if (found == index.end() || params[static_cast<size_t>(found->second)].numel != param.numel())
            throw UserError(ExitCode::storage, store.file().path(), "holds no {} of {} elements", param.name,
                            param.numel());
        store_param_.push_back(found->second);
    }
    split_ = model.storage.at(0).store == StoreType::split;
    const bool has_low = !store.layout().sections.empty() && store.layout().sections[0].bytes == 2;
    for (size_t i = 0; i < model.params.size(); ++i) {
        const StoreParam& found = params[static_cast<size_t>(store_param_[i])];
        // Of one number, of a block of nf4, and of one more.
        const auto takes = [&](int64_t count) {
            return store.layout().weight_bytes_of(found, count) == stored_bytes(model.storage[i].dtype, count);
        };
        const bool has_type = takes(1) && takes(kNf4Block) && takes(kNf4Block + 1);
        if (!has_type || has_low != split_)
            throw UserError(ExitCode::storage, store.file().path(), "does not hold {} masters of {}",
                            split_ ? "split" : dtype_name(model.storage[i].dtype), found.name);
    }
}

void StoreMasters::read(int param, int64_t first, std::span<float> out) {
    const int64_t elements = store_.layout().chunk_elements;
    for (int64_t done = 0; done < std::ssize(out);) {
        const int64_t element = first + done;
        fetch(store_.first_chunk(store_param_[static_cast<size_t>(param)]) + element / elements);
        const int64_t begin = element % elements, count = std::min(std::ssize(out) - done, elements - begin);
        if (!split_) {
            const ParamStorage& storage = model_.storage[static_cast<size_t>(param)];
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

// The low halves head a chunk's state; the moments behind them have the same sum, so they pass by.
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
    WINDLASS_CHECK(store_.section_offset(chunk, 0) == 0, "the low halves do not head chunk {}'s state", chunk);
    Xxh3Stream sum;
    const int64_t head = std::min(state.bytes, round_up(store_.chunk(chunk).count * 2, StoreMap::kAlignment));
    read_blocks(lo_, head, state.offset);
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
