#include "format/store.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/error.h"
#include "base/file_error.h"
#include "base/log.h"
#include "base/math.h"
#include "format/checksum.h"

namespace windlass {
namespace {

constexpr std::array<char, 8> kStoreMagic = {'W', 'N', 'D', 'L', 'S', 'T', 'O', 'R'};
constexpr uint32_t kStoreMajor = 1;
constexpr uint32_t kMinor = 0;

struct Header {
    std::array<char, 8> magic = kStoreMagic;
    uint32_t major = kStoreMajor;
    uint32_t minor = kMinor;
    int64_t layout_bytes = 0;
    uint64_t layout_sum = 0;
    int64_t file_bytes = 0;
    std::array<char, 4048> zeros{};
    uint64_t checksum = 0;  // of all bytes before it
};
static_assert(sizeof(Header) == StoreMap::kHeaderBytes);

uint64_t checksum_of(const Header& header) {
    return xxh3_64(std::as_bytes(std::span(&header, 1)).first(offsetof(Header, checksum)));
}

UserError damaged_store(std::string_view path, std::string_view what) {
    return UserError(ExitCode::storage, path, "{}: the file is damaged or not a Windlass store", what);
}

Header read_header(File& file) {
    const HugeBuffer buffer(StoreMap::kHeaderBytes, false);
    if (file.size() < StoreMap::kHeaderBytes) throw damaged_store(file.path(), "the store's header is cut off");
    file.read_at(buffer.span(), 0);
    Header header;
    std::memcpy(&header, buffer.data(), sizeof(header));
    if (header.magic != kStoreMagic) throw damaged_store(file.path(), "no store header");
    if (header.major != kStoreMajor) {
        throw UserError(ExitCode::storage, file.path(), "store version {}.{}, this program reads {}.x", header.major,
                        header.minor, kStoreMajor);
    }
    if (header.checksum != checksum_of(header))
        throw damaged_store(file.path(), "wrong checksum of the store's header");
    const bool bounded = header.layout_bytes >= 0 && header.layout_bytes <= StoreMap::kLayoutBytesMax &&
                         header.layout_bytes % StoreMap::kAlignment == 0;
    if (!bounded || header.file_bytes != file.size() ||
        header.layout_bytes > header.file_bytes - StoreMap::kHeaderBytes)
        throw damaged_store(file.path(), "wrong sizes in the store's header");
    return header;
}

StoreMap read_map(File& file, const Header& header) {
    const HugeBuffer buffer(header.layout_bytes, false);
    file.read_at(buffer.span(), StoreMap::kHeaderBytes);
    if (xxh3_64(buffer.span()) != header.layout_sum)
        throw damaged_store(file.path(), "wrong checksum of the store's layout");
    const std::string_view text(reinterpret_cast<const char*>(buffer.data()), static_cast<size_t>(buffer.size()));
    StoreMap map = StoreMap::from_text(text, file.path());
    if (map.file_bytes() != header.file_bytes)
        throw damaged_store(file.path(), "the store's layout and length disagree");
    return map;
}

}  // namespace

std::string DamagedChunk::text() const {
    return fmt::format("{} elements [{}, {}): {}", param, first, first + count, part);
}

int64_t Store::file_bytes(const StoreLayout& layout) {
    return StoreMap(layout, "store").file_bytes();
}

Store::Store(std::unique_ptr<File> file, StoreMap map, uint64_t binding)
    : file_(std::move(file)), map_(std::move(map)), binding_(binding), record_buffer_(map_.slot(0).bytes, false) {}

Store Store::create(FileSystem& files, const std::string& path, StoreLayout layout) {
    StoreMap map(std::move(layout), path);
    std::unique_ptr<File> file = files.open(path, {.mode = OpenMode::create_new, .direct = true});
    try {
        file->preallocate(map.file_bytes());
    } catch (const MachineError&) {
        file.reset();
        files.remove_file(path);
        throw;
    }
    const std::string text = map.to_text();
    Header header{
        .layout_bytes = std::ssize(text), .layout_sum = xxh3_64(bytes_of(text)), .file_bytes = map.file_bytes()};
    header.checksum = checksum_of(header);
    const HugeBuffer buffer(StoreMap::kHeaderBytes + std::ssize(text), false);
    std::memcpy(buffer.data(), &header, sizeof(header));
    std::memcpy(buffer.data() + sizeof(header), text.data(), text.size());
    file->write_at(buffer.span(), 0);
    file->sync();
    files.sync_folder(parent_folder(path));
    Store store(std::move(file), std::move(map), header.checksum);
    store.committed_.sums.resize(static_cast<size_t>(store.chunk_count()));
    store.committed_.versions.resize(static_cast<size_t>(store.chunk_count()));
    return store;
}

Store Store::open(FileSystem& files, const std::string& path, OpenMode mode) {
    std::unique_ptr<File> file = files.open(path, {.mode = mode, .direct = true});
    const Header header = read_header(*file);
    StoreMap map = read_map(*file, header);
    Store store(std::move(file), std::move(map), header.checksum);
    std::array<std::optional<CommitRecord>, 2> records = {store.read_slot(0), store.read_slot(1)};
    if (!records[0] && !records[1]) {
        throw UserError(ExitCode::storage, path,
                        "the store holds no whole commit: its first one was cut off, or it is damaged")
            .hint("an earlier checkpoint, or starting the run again");
    }
    const uint64_t first = records[0] ? records[0]->sequence : 0, second = records[1] ? records[1]->sequence : 0;
    store.current_slot_ = first > second ? 0 : 1;
    const int64_t other = 1 - store.current_slot_;
    store.committed_ = std::move(*records[static_cast<size_t>(store.current_slot_)]);
    store.must_verify_ = !records[static_cast<size_t>(other)] && !store.slot_is_empty(other);
    if (store.must_verify_)
        log_warning("{}: the commit after step {} is incomplete; the run is at that step", path, store.committed_.step);
    return store;
}

std::optional<CommitRecord> Store::read_slot(int64_t slot) {
    const Extent extent = map_.slot(slot);
    const auto front = record_buffer_.span().first(StoreMap::kAlignment);
    file_->read_at(front, extent.offset);
    const auto bytes = peek_commit(front, binding_, chunk_count(), extent.bytes);
    if (!bytes) return std::nullopt;
    const auto whole = record_buffer_.span().first(static_cast<size_t>(*bytes));
    file_->read_at(whole, extent.offset);
    return decode_commit(whole, binding_, chunk_count(), layout().versions);
}

bool Store::slot_is_empty(int64_t slot) {
    const Extent extent = map_.slot(slot);
    const std::span<std::byte> bytes = record_buffer_.span();
    file_->read_at(bytes, extent.offset);
    // The first byte is zero, and each other one is the one before it.
    return bytes[0] == std::byte{0} && std::memcmp(bytes.data(), bytes.data() + 1, bytes.size() - 1) == 0;
}

int Store::next_version(int64_t chunk) const {
    const bool alternates = committed_.sequence > 0 && layout().versions == 2 && !map_.is_written_once(chunk);
    return alternates ? 1 - current_version(chunk) : 0;
}

CommitRecord Store::successor(int64_t step, const std::string& run_state, std::span<const ChunkUpdate> written) const {
    CommitRecord next{.sequence = committed_.sequence + 1,
                      .step = step,
                      .sums = committed_.sums,
                      .versions = committed_.versions,
                      .run_state = run_state};
    std::vector<bool> seen(static_cast<size_t>(chunk_count()));
    for (const auto& [chunk, sums] : written) {
        WINDLASS_CHECK(chunk >= 0 && chunk < chunk_count(), "chunk {} of {}", chunk, chunk_count());
        const auto index = static_cast<size_t>(chunk);
        WINDLASS_CHECK(!seen[index], "chunk {} is committed twice", chunk);
        seen[index] = true;
        WINDLASS_CHECK(committed_.sequence == 0 || !map_.is_written_once(chunk), "chunk {} is written again", chunk);
        next.sums[index] = sums;
        next.versions[index] = static_cast<uint8_t>(next_version(chunk));
    }
    const bool first = committed_.sequence == 0;
    WINDLASS_CHECK(!first || std::ssize(written) == chunk_count(), "the first commit names {} of {} chunks",
                   written.size(), chunk_count());
    WINDLASS_CHECK(first || layout().versions == 2, "a snapshot is committed once");
    return next;
}

void Store::commit(int64_t step, const std::string& run_state, std::span<const ChunkUpdate> written) {
    if (commit_failed_)
        throw UserError(ExitCode::storage, file_->path(),
                        "an earlier commit failed, so the store must be opened again");
    if (std::ssize(run_state) > layout().run_state_bytes_max) {
        throw UserError(ExitCode::storage, file_->path(), "the run's state has {} bytes, the store has room for {}",
                        run_state.size(), layout().run_state_bytes_max);
    }
    CommitRecord next = successor(step, run_state, written);
    const int64_t slot = 1 - current_slot_;
    const int64_t bytes = encode_commit(next, binding_, record_buffer_.span());
    commit_failed_ = true;  // until it has not
    file_->sync();
    file_->write_at(record_buffer_.span().first(static_cast<size_t>(bytes)), map_.slot(slot).offset);
    file_->sync();
    commit_failed_ = false;
    committed_ = std::move(next);
    current_slot_ = slot;
}

uint64_t Store::sum_of(Extent extent, HugeBuffer& scratch) {
    const int64_t room = round_up(extent.bytes, StoreMap::kAlignment);
    if (scratch.size() < room) scratch = HugeBuffer(room, false);
    file_->read_at(scratch.span().first(static_cast<size_t>(room)), extent.offset);
    return xxh3_64(scratch.span().first(static_cast<size_t>(extent.bytes)));
}

std::optional<DamagedChunk> Store::verify_chunk(int64_t index, HugeBuffer& scratch) {
    const int version = current_version(index);
    const bool weights_hold = sum_of(weight_extent(index, version), scratch) == sums(index).weight;
    const bool state_holds = sum_of(state_extent(index, version), scratch) == sums(index).state;
    if (weights_hold && state_holds) return std::nullopt;
    std::vector<std::string> sections;
    for (const StoreSection& section : layout().sections) sections.push_back(section.name);
    const std::string state = fmt::format("state ({})", fmt::join(sections, ", "));
    const ChunkRef ref = chunk(index);
    return DamagedChunk{.param = layout().params[static_cast<size_t>(ref.param)].name,
                        .first = ref.first,
                        .count = ref.count,
                        .part = weights_hold  ? state
                                : state_holds ? "weights"
                                              : "weights and " + state};
}

std::vector<DamagedChunk> Store::verify_all() {
    HugeBuffer scratch;
    std::vector<DamagedChunk> found;
    for (int64_t index = 0; index < chunk_count(); ++index) {
        if (auto one = verify_chunk(index, scratch)) found.push_back(std::move(*one));
    }
    if (found.empty()) must_verify_ = false;
    return found;
}

}  // namespace windlass
