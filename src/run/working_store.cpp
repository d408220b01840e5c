#include "run/working_store.h"

#include <algorithm>

#include "base/index.h"
#include "base/log.h"

namespace windlass {
namespace {

constexpr const char* kSpilledGradients = ".gradients";
constexpr const char* kSpilledActivations = ".activations";
constexpr const char* kStoreFiles[] = {"", kUnfinishedStore, kSpilledGradients, kSpilledActivations};

}  // namespace

void remove_store(FileSystem& files, const std::string& store_path) {
    for (const char* end : kStoreFiles) files.remove_tree(store_path + end);
}

int64_t store_file_bytes(FileSystem& files, const std::string& store_path) {
    int64_t bytes = 0;
    for (const char* end : kStoreFiles) {
        if (const std::string path = store_path + end; files.exists(path)) bytes += files.status(path).bytes;
    }
    return bytes;
}

void require_layout(const StoreLayout& found, const StoreLayout& expected, const std::string& path) {
    const auto refuse = [&](std::string_view what, const auto& got, const auto& want) {
        return UserError(ExitCode::storage, path, "holds the state of another run: {} is {}, expected {}", what, got,
                         want);
    };
    // By name: a store of another run in this place is a mistake that the user can mend.
    if (found.params.size() != expected.params.size())
        throw refuse("the number of parameters", found.params.size(), expected.params.size());
    for (size_t i = 0; i < found.params.size(); ++i) {
        if (found.params[i].name != expected.params[i].name)
            throw refuse("a parameter", found.params[i].name, expected.params[i].name);
        if (found.params[i].numel != expected.params[i].numel)
            throw refuse("the size of " + found.params[i].name, found.params[i].numel, expected.params[i].numel);
        if (found.params[i].sections != expected.params[i].sections)
            throw refuse("the number of state sections of " + found.params[i].name, found.params[i].sections,
                         expected.params[i].sections);
        if (found.params[i].own_bytes != expected.params[i].own_bytes)
            throw refuse("bytes of state of all of " + found.params[i].name, found.params[i].own_bytes,
                         expected.params[i].own_bytes);
        // By groups, since types in blocks have no bytes of one element.
        const auto bytes = [&](const StoreLayout& layout) {
            const int64_t group = layout.params[i].weight_group;
            return fmt::format("{} for {}", layout.weight_bytes_of(layout.params[i], group), group);
        };
        if (bytes(found) != bytes(expected))
            throw refuse("bytes of weights of " + found.params[i].name, bytes(found), bytes(expected));
    }
    if (found.sections.size() != expected.sections.size())
        throw refuse("the number of state sections", found.sections.size(), expected.sections.size());
    for (size_t i = 0; i < found.sections.size(); ++i) {
        const auto words = [](const StoreSection& section) {
            return fmt::format("{} with {} bytes for every {} elements", section.name, section.bytes, section.per);
        };
        const std::string got = words(found.sections[i]), want = words(expected.sections[i]);
        if (got != want) throw refuse("a state section", got, want);
    }
    if (found.chunk_elements != expected.chunk_elements)
        throw refuse("the chunk size", found.chunk_elements, expected.chunk_elements);
}

void require_undamaged(Store& store) {
    if (!store.must_verify()) return;
    const std::vector<DamagedChunk> damaged = store.verify_all();
    if (!damaged.empty())
        throw UserError(ExitCode::storage, store.file().path(), "{} chunks are damaged, the first is {}",
                        damaged.size(), damaged[0].text())
            .hint("resume from a checkpoint");
}

WorkingStore::WorkingStore(FileSystem& files, Store store, const TrainedModel& model, const std::string& spill_path,
                           const Spills& spills, GradientFormat gradients)
    : files_(files),
      store_(std::move(store)),
      model_(model),
      gradient_format_(gradients),
      store_param_(model.params.size()),
      gradient_offset_(model.params.size()),
      weights_(at(store_.chunk_count())),
      states_(weights_.size()) {
    take_committed();
    const std::vector<int> order = store_order(model);
    int64_t end = 0;
    for (size_t index = 0; index < order.size(); ++index) {
        store_param_[at(order[index])] = static_cast<int>(index);
        gradient_offset_[at(order[index])] = end;
        const Param param = model.param(order[index]);
        // Room for all that trains, so that a gradient's place does not depend on which blocks spill theirs.
        if (param.trains()) end += gradient_param_bytes(gradients, param.numel());
    }
    if (spills.gradients) gradients_ = make_spill(spill_path + kSpilledGradients, end);
    if (spills.activation_bytes > 0)
        activations_ = make_spill(spill_path + kSpilledActivations, spills.activation_bytes);
}

WorkingStore::~WorkingStore() {
    remove(gradients_);
    remove(activations_);
}

WorkingStore::Spill WorkingStore::make_spill(const std::string& path, int64_t bytes) {
    Spill spill{path, files_.open(path, {OpenMode::create, /*direct=*/true})};
    // All at once: the plan has counted this room, and no step may find the disk full.
    spill.file->preallocate(bytes);
    return spill;
}

void WorkingStore::remove(Spill& spill) noexcept {
    if (spill.file == nullptr) return;
    spill.file.reset();
    // A destructor must not throw, and a file that stays costs the disk's space only.
    try {
        files_.remove_file(spill.path);
    } catch (const Error& error) {
        log_warning("{}", error.what());
    }
}

int64_t WorkingStore::chunk_index(int param, int64_t first) const {
    return store_.first_chunk(store_param_[at(param)]) + first / kChunkElements;
}

int64_t WorkingStore::exact_bytes(DiskPlace place, int64_t chunk) const {
    return place == DiskPlace::weight ? store_.weight_extent(chunk, 0).bytes : store_.state_extent(chunk, 0).bytes;
}

void WorkingStore::take_committed() {
    for (int64_t chunk = 0; chunk < store_.chunk_count(); ++chunk) {
        const ChunkSums sums = store_.sums(chunk);
        for (const auto& [part, sum] :
             {std::pair{&weights_[at(chunk)], sums.weight}, {&states_[at(chunk)], sums.state}}) {
            part->version.store(store_.current_version(chunk));
            part->sum = sum;
            part->written = false;
        }
    }
}

std::vector<DiskRange> WorkingStore::ranges(const MoveTask& task, std::byte* buffer) {
    std::vector<DiskRange> ranges;
    for (const MovePiece& piece : task.pieces) {
        const std::span<std::byte> memory(buffer + piece.offset, at(piece.bytes));
        if (task.place == DiskPlace::activation) {
            ranges.push_back({activations_.file.get(), piece.first, memory});
            continue;
        }
        if (task.place == DiskPlace::gradient) {
            const int64_t offset = gradient_offset_[at(piece.param)] + gradient_offset(gradient_format_, piece.first);
            ranges.push_back({gradients_.file.get(), offset, memory});
            continue;
        }
        const int64_t chunk = chunk_index(piece.param, piece.first);
        // A step never writes the committed version, so a kill at any point leaves it whole. Reads take the newest,
        // which this step may have written; a redo starts from the committed one.
        const int version = task.kind == MoveKind::disk_write ? store_.next_version(chunk)
                            : task.committed                  ? store_.current_version(chunk)
                                                              : newest(task.place)[at(chunk)].version.load();
        const Extent extent = task.place == DiskPlace::weight ? store_.weight_extent(chunk, version)
                                                              : store_.state_extent(chunk, version);  // low: its head
        ranges.push_back({&store_.file(), extent.offset, memory});
    }
    return ranges;
}

// Only reads during which no commit runs check the store's own sums: a commit replaces them.
uint64_t WorkingStore::wanted_sum(const MoveTask& task, int64_t chunk) {
    if (!task.committed) return newest(task.place)[at(chunk)].sum;
    const ChunkSums committed = store_.sums(chunk);
    return task.place == DiskPlace::weight ? committed.weight : committed.state;
}

void PieceSums::add(size_t piece, std::span<const std::byte> bytes) {
    if (exact_bytes_.empty() || sums_.size() > piece) return;  // nothing to sum, or what lies after the exact bytes
    WINDLASS_CHECK(sums_.size() == piece, "piece {} came before piece {} was whole", piece, sums_.size());
    if (!stream_) stream_.emplace();
    const int64_t wanted = std::min(std::ssize(bytes), exact_bytes_[piece] - seen_);
    stream_->add(bytes.first(at(wanted)));
    seen_ += wanted;
    if (seen_ < exact_bytes_[piece]) return;
    sums_.push_back(stream_->sum());
    stream_.reset();
    seen_ = 0;
}

uint64_t PieceSums::sum(size_t piece) const {
    WINDLASS_CHECK(piece < sums_.size(), "piece {} was not seen whole", piece);
    return sums_[piece];
}

PieceSums WorkingStore::piece_sums(const MoveTask& task) const {
    std::vector<int64_t> exact;
    // Low halves alone have no checksum: the store's is of all state of a chunk. Spilled values outlive no crash.
    if (task.place == DiskPlace::weight || task.place == DiskPlace::state) {
        for (const MovePiece& piece : task.pieces)
            exact.push_back(exact_bytes(task.place, chunk_index(piece.param, piece.first)));
    }
    return PieceSums(std::move(exact));
}

void WorkingStore::verify(const MoveTask& task, const PieceSums& found) {
    if (task.place != DiskPlace::weight && task.place != DiskPlace::state) return;
    for (size_t index = 0; index < task.pieces.size(); ++index) {
        const MovePiece& piece = task.pieces[index];
        if (found.sum(index) == wanted_sum(task, chunk_index(piece.param, piece.first))) continue;
        throw UserError(ExitCode::storage, store_.file().path(),
                        "{} of {}, elements [{}, {}), do not match their checksum",
                        task.place == DiskPlace::weight ? "weights" : "optimizer state",
                        model_.params[at(piece.param)].name, piece.first, piece.first + piece.count)
            .hint("resume from a checkpoint; the drive may be failing");
    }
}

void WorkingStore::note_written(const MoveTask& task, const PieceSums& written) {
    if (task.place == DiskPlace::gradient || task.place == DiskPlace::activation) return;
    for (size_t index = 0; index < task.pieces.size(); ++index) {
        const int64_t chunk = chunk_index(task.pieces[index].param, task.pieces[index].first);
        Newest& part = newest(task.place)[at(chunk)];
        part.sum = written.sum(index);
        part.written = true;
        part.version.store(store_.next_version(chunk));
    }
}

void WorkingStore::commit(int64_t step, const std::string& run_state) {
    std::vector<ChunkUpdate> written;
    for (size_t chunk = 0; chunk < weights_.size(); ++chunk) {
        Newest &weight = weights_[chunk], &state = states_[chunk];
        const bool has_state = store_.state_extent(static_cast<int64_t>(chunk), 0).bytes > 0;
        // Weights and state of a chunk have one version number: half a chunk would pair new weights with old state.
        WINDLASS_CHECK(!has_state || weight.written == state.written, "chunk {} was written by halves", chunk);
        if (weight.written) written.push_back({static_cast<int64_t>(chunk), {weight.sum, state.sum}});
        weight.written = state.written = false;
    }
    store_.commit(step, run_state, written);
}

void WorkingStore::discard_written() {
    take_committed();
}

}  // namespace windlass
