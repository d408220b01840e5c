#include "run/working_store.h"

#include "base/log.h"
#include "format/checksum.h"

namespace windlass {
namespace {

// Data position, schedule, the tail of the loss history: a few kilobytes; the store keeps room in two records.
constexpr int64_t kRunStateBytesMax = int64_t{1} << 20;

size_t at(int64_t index) {
    return static_cast<size_t>(index);
}

}  // namespace

StoreLayout store_layout(const ModelSpec& model, const Recipe& recipe, int versions, std::string meta) {
    StoreLayout layout{.chunk_elements = kChunkElements,
                       .versions = versions,
                       .weight_bytes = 2,
                       .run_state_bytes_max = kRunStateBytesMax,
                       .meta = std::move(meta)};
    for (const int param : store_order(model))
        layout.params.push_back({model.params[at(param)].name, model.params[at(param)].numel()});
    layout.sections.push_back({"low", 2});
    for (const StateSpec& state : recipe.state) layout.sections.push_back({state.name, dtype_bytes(state.dtype)});
    return layout;
}

void require_layout(const StoreLayout& found, const StoreLayout& expected, const std::string& path) {
    const auto refuse = [&](std::string_view what, const auto& got, const auto& want) {
        return UserError(ExitCode::storage, path, "holds the state of another run: {} is {}, expected {}", what, got,
                         want);
    };
    if (found.params.size() != expected.params.size())
        throw refuse("the number of parameters", found.params.size(), expected.params.size());
    for (size_t i = 0; i < found.params.size(); ++i) {
        if (found.params[i].name != expected.params[i].name)
            throw refuse("a parameter", found.params[i].name, expected.params[i].name);
        if (found.params[i].numel != expected.params[i].numel)
            throw refuse("the size of " + found.params[i].name, found.params[i].numel, expected.params[i].numel);
    }
    if (found.sections.size() != expected.sections.size())
        throw refuse("the number of state sections", found.sections.size(), expected.sections.size());
    for (size_t i = 0; i < found.sections.size(); ++i) {
        if (found.sections[i].name != expected.sections[i].name ||
            found.sections[i].bytes != expected.sections[i].bytes)
            throw refuse("a state section", found.sections[i].name, expected.sections[i].name);
    }
    if (found.chunk_elements != expected.chunk_elements)
        throw refuse("the chunk size", found.chunk_elements, expected.chunk_elements);
}

WorkingStore::WorkingStore(FileSystem& files, Store store, const ModelSpec& model, const Recipe& recipe,
                           std::string spill_path, bool spills_gradients)
    : files_(files),
      store_(std::move(store)),
      model_(model),
      store_param_(model.params.size()),
      gradient_offset_(model.params.size()),
      spill_path_(std::move(spill_path)) {
    const std::vector<int> order = store_order(model);
    int64_t end = 0;
    for (size_t index = 0; index < order.size(); ++index) {
        store_param_[at(order[index])] = static_cast<int>(index);
        gradient_offset_[at(order[index])] = end;
        end += aligned_bytes(model.params[at(order[index])].numel(), 4);
    }
    if (spills_gradients) {
        spill_ = files_.open(spill_path_, {OpenMode::create, /*direct=*/true});
        spill_->preallocate(end);
    }
    sums_.resize(at(store_.chunk_count()));
    has_weight_.assign(sums_.size(), 0);
    has_state_.assign(sums_.size(), 0);
    const std::vector<int64_t> sections = state_sections(recipe, store_.chunk(0).count);
    WINDLASS_CHECK(store_.state_extent(0, 0).bytes == sections.back(),
                   "schedule and store disagree on a chunk's state: {} and {} bytes", sections.back(),
                   store_.state_extent(0, 0).bytes);
}

WorkingStore::~WorkingStore() {
    if (spill_ == nullptr) return;
    spill_.reset();
    try {
        files_.remove_file(spill_path_);
    } catch (const Error& error) {
        log_warning("{}", error.what());
    }
}

int64_t WorkingStore::chunk_index(int param, int64_t first) const {
    return store_.first_chunk(store_param_[at(param)]) + first / kChunkElements;
}

int64_t WorkingStore::exact_bytes(DiskPlace place, int64_t chunk) const {
    const int64_t count = store_.chunk(chunk).count;
    switch (place) {
        case DiskPlace::weight:
            return store_.weight_extent(chunk, 0).bytes;
        case DiskPlace::state:
            return store_.state_extent(chunk, 0).bytes;
        case DiskPlace::low:
            return count * 2;
        case DiskPlace::gradient:
            return count * 4;
    }
    return 0;
}

std::vector<DiskRange> WorkingStore::ranges(const MoveTask& task, std::byte* buffer) {
    std::vector<DiskRange> ranges;
    for (const MovePiece& piece : task.pieces) {
        const int64_t chunk = chunk_index(piece.param, piece.first);
        const int64_t bytes = round_up(exact_bytes(task.place, chunk), kParamAlignment);
        const std::span<std::byte> memory(buffer + piece.offset, at(bytes));
        const int version = task.to_disk ? store_.next_version(chunk) : store_.current_version(chunk);
        switch (task.place) {
            case DiskPlace::weight:
                ranges.push_back({&store_.file(), store_.weight_extent(chunk, version).offset, memory});
                break;
            case DiskPlace::low:  // the first section of the chunk's state
            case DiskPlace::state:
                ranges.push_back({&store_.file(), store_.state_extent(chunk, version).offset, memory});
                break;
            case DiskPlace::gradient:
                ranges.push_back({spill_.get(), gradient_offset_[at(piece.param)] + piece.first * 4, memory});
                break;
        }
    }
    return ranges;
}

void WorkingStore::verify(const MoveTask& task, const std::byte* buffer) {
    if (task.place != DiskPlace::weight && task.place != DiskPlace::state) return;
    for (const MovePiece& piece : task.pieces) {
        const int64_t chunk = chunk_index(piece.param, piece.first);
        const uint64_t found = xxh3_64({buffer + piece.offset, at(exact_bytes(task.place, chunk))});
        const ChunkSums sums = store_.sums(chunk);
        if (found == (task.place == DiskPlace::weight ? sums.weight : sums.state)) continue;
        throw UserError(ExitCode::storage, store_.file().path(),
                        "{} of {}, elements [{}, {}), do not match their checksum",
                        task.place == DiskPlace::weight ? "weights" : "optimizer state",
                        model_.params[at(piece.param)].name, piece.first, piece.first + piece.count)
            .hint("resume from a checkpoint; the drive may be failing");
    }
}

void WorkingStore::note_written(const MoveTask& task, const std::byte* buffer) {
    if (task.place == DiskPlace::gradient) return;
    for (const MovePiece& piece : task.pieces) {
        const int64_t chunk = chunk_index(piece.param, piece.first);
        const uint64_t sum = xxh3_64({buffer + piece.offset, at(exact_bytes(task.place, chunk))});
        const bool weight = task.place == DiskPlace::weight;
        (weight ? sums_[at(chunk)].weight : sums_[at(chunk)].state) = sum;
        (weight ? has_weight_ : has_state_)[at(chunk)] = 1;
    }
}

std::vector<ChunkUpdate> WorkingStore::take_written() {
    std::vector<ChunkUpdate> written;
    for (size_t chunk = 0; chunk < sums_.size(); ++chunk) {
        WINDLASS_CHECK(has_weight_[chunk] == has_state_[chunk], "chunk {} was written by halves", chunk);
        if (has_weight_[chunk] != 0) written.push_back({static_cast<int64_t>(chunk), sums_[chunk]});
    }
    std::fill(has_weight_.begin(), has_weight_.end(), uint8_t{0});
    std::fill(has_state_.begin(), has_state_.end(), uint8_t{0});
    return written;
}

}  // namespace windlass
