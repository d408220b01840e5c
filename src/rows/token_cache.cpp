#include "rows/token_cache.h"

#include <signal.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <iterator>

#include "base/activity.h"
#include "base/error.h"
#include "base/log.h"
#include "base/units.h"
#include "rows/data_kind.h"
#include "rows/row_reader.h"

namespace windlass {

struct TokenCacheEntry {
    uint32_t length;    // tokens
    uint32_t checksum;  // low half of XXH3-64 of the row's bytes
};
static_assert(sizeof(TokenCacheEntry) == 8);

namespace {

static_assert(std::endian::native == std::endian::little, "the file is little-endian");

constexpr std::array<char, 8> kMagic = {'W', 'L', 'T', 'O', 'K', 'E', 'N', 'S'};
constexpr uint32_t kVersionMajor = 1;
constexpr uint32_t kVersionMinor = 0;
constexpr size_t kWriteBytes = size_t{4} << 20;
constexpr int64_t kHashBytes = int64_t{4} << 20;

struct Header {
    std::array<char, 8> magic;
    uint32_t version_major;
    uint32_t version_minor;
    std::array<uint64_t, 2> key;
    int64_t samples;
    int64_t index_offset;           // where the rows end
    std::array<int64_t, 9> report;  // the numbers of RowsReport, in order
    int64_t notes_bytes;            // after the index: RowNotes as JSON
    uint64_t index_checksum;        // XXH3-64 of the index and the notes
    uint64_t header_checksum;       // XXH3-64 of the bytes before this field
};
static_assert(sizeof(Header) == 144 && std::is_trivially_copyable_v<Header>);
constexpr int64_t kRowsOffset = sizeof(Header);

uint64_t hash_of(std::span<const std::byte> bytes) {
    return XXH3_64bits(bytes.data(), bytes.size());
}
uint64_t checksum_of(const Header& header) {
    return XXH3_64bits(&header, offsetof(Header, header_checksum));
}

// Ids, then one bit per token, the first in the lowest bit.
int64_t row_bytes(uint32_t length) {
    return int64_t{4} * length + (int64_t{length} + 7) / 8;
}

std::array<int64_t, 9> numbers_of(const RowsReport& r) {
    return {r.rows,      r.samples,           r.malformed, r.dropped_long,  r.dropped_empty,
            r.truncated, r.prefix_mismatches, r.tokens,    r.trained_tokens};
}

RowsReport report_of(const std::array<int64_t, 9>& n) {
    return {.rows = n[0],
            .samples = n[1],
            .malformed = n[2],
            .dropped_long = n[3],
            .dropped_empty = n[4],
            .truncated = n[5],
            .prefix_mismatches = n[6],
            .tokens = n[7],
            .trained_tokens = n[8]};
}

std::vector<std::byte> row_of(const Sample& sample) {
    const auto length = static_cast<uint32_t>(sample.ids.size());
    std::vector<std::byte> bytes(static_cast<size_t>(row_bytes(length)));
    std::memcpy(bytes.data(), sample.ids.data(), sample.ids.size() * 4);
    for (uint32_t i = 0; i < length; ++i)
        if (sample.trained[i]) bytes[size_t{4} * length + i / 8] |= std::byte{1} << (i % 8);
    return bytes;
}

void hash_file(FileSystem& files, const std::string& path, XXH3_state_t* state) {
    const auto file = open_data_file(files, path);
    const int64_t size = file->size();
    XXH3_128bits_update(state, &size, sizeof size);
    Activity reading(fmt::format("reading {}", path), size);
    std::vector<std::byte> buffer;
    for (int64_t at = 0; at < size; at += kHashBytes) {
        buffer.resize(static_cast<size_t>(std::min(kHashBytes, size - at)));
        file->read_at(buffer, at);
        XXH3_128bits_update(state, buffer.data(), buffer.size());
        reading.done(std::ssize(buffer));
    }
}

[[noreturn]] void damaged(const std::string& path, std::string_view what) {
    throw UserError(ExitCode::storage, path, "the token cache is damaged: {}", what)
        .hint("delete it; it will be rebuilt");
}

constexpr std::string_view kPartial = ".partial-";  // and the process that writes it

// What processes left that did not come to their end.
void remove_abandoned(FileSystem& files, const std::string& path) {
    const size_t slash = path.rfind('/');
    const std::string folder = path.substr(0, slash), start = path.substr(slash + 1) + std::string(kPartial);
    for (const std::string& name : files.list(folder)) {
        if (!name.starts_with(start)) continue;
        pid_t writer = 0;
        const auto [end, error] = std::from_chars(name.data() + start.size(), name.data() + name.size(), writer);
        const bool is_number = error == std::errc() && end == name.data() + name.size() && writer > 0;
        if (!is_number || (kill(writer, 0) != 0 && errno == ESRCH)) files.remove_file(folder + "/" + name);
    }
}

}  // namespace

// Appends rows to a temporary file and makes it the cache at the end.
class TokenCacheWriter {
  public:
    TokenCacheWriter(FileSystem& files, const std::string& path)
        : files_(files),
          path_(path),
          temporary_(fmt::format("{}{}{}", path, kPartial, getpid())),
          file_(files.open(temporary_, {.mode = OpenMode::create})) {
        remove_abandoned(files, path);
    }

    TokenCacheWriter(const TokenCacheWriter&) = delete;
    // Leaves no file if it was not finished.
    ~TokenCacheWriter() {
        if (!file_) return;
        file_.reset();
        try {
            files_.remove_file(temporary_);
        } catch (const Error& error) {
            log_warning("{}", error.what());
        }
    }

    void add(const Sample& sample) {
        if (sample.ids.size() > UINT32_MAX / 8)
            throw UserError(ExitCode::data, path_, "a sample has {} tokens", sample.ids.size());
        const auto row = row_of(sample);
        index_.push_back({static_cast<uint32_t>(sample.ids.size()), static_cast<uint32_t>(hash_of(row))});
        append(row);
    }

    void finish(const TokenCache::Key& key, const RowsReport& report) {
        Header header{kMagic, kVersionMajor, kVersionMinor, key, report.samples, 0, numbers_of(report), 0, 0, 0};
        const auto index = std::as_bytes(std::span(index_));
        const std::string notes = report.notes.to_json();
        std::vector<std::byte> end(index.begin(), index.end());
        std::ranges::copy(std::as_bytes(std::span(notes)), std::back_inserter(end));
        header.index_offset = offset_ + static_cast<int64_t>(buffer_.size());
        header.notes_bytes = std::ssize(notes);
        header.index_checksum = hash_of(end);
        header.header_checksum = checksum_of(header);
        append(end);
        flush();
        file_->write_at(std::as_bytes(std::span(&header, 1)), 0);
        file_->sync();
        file_.reset();
        files_.rename(temporary_, path_);
        files_.sync_folder(path_.substr(0, path_.rfind('/')));
    }

  private:
    void append(std::span<const std::byte> bytes) {
        buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
        if (buffer_.size() >= kWriteBytes) flush();
    }

    void flush() {
        file_->write_at(buffer_, offset_);
        offset_ += static_cast<int64_t>(buffer_.size());
        buffer_.clear();
    }

    FileSystem& files_;
    std::string path_;
    std::string temporary_;
    std::unique_ptr<File> file_;
    std::vector<std::byte> buffer_;
    int64_t offset_ = kRowsOffset;
    std::vector<TokenCacheEntry> index_;
};

TokenCache::Key TokenCache::key_of(FileSystem& files, const std::vector<std::string>& paths, const RowsOptions& options,
                                   const Tokenizer& tokenizer) {
    const std::unique_ptr<XXH3_state_t, XXH_errorcode (*)(XXH3_state_t*)> state(XXH3_createState(), XXH3_freeState);
    XXH3_128bits_reset(state.get());
    const std::string text = fmt::format("windlass tokens {}.{} tokenizer={:016x} {}", kVersionMajor, kVersionMinor,
                                         tokenizer.content_hash(), describe(options));
    XXH3_128bits_update(state.get(), text.data(), text.size());
    for (const auto& path : paths) {
        const std::string_view ending = data_ending(path);  // it decides how a file is cut into rows
        XXH3_128bits_update(state.get(), ending.data(), ending.size());
        hash_file(files, path, state.get());
    }
    const XXH128_hash_t hash = XXH3_128bits_digest(state.get());
    return {hash.low64, hash.high64};
}

TokenCache TokenCache::open_or_build(FileSystem& files, const std::string& folder,
                                     const std::vector<std::string>& paths, const RowsOptions& options,
                                     const Tokenizer& tokenizer) {
    const Key key = key_of(files, paths, options, tokenizer);
    const std::string path = fmt::format("{}/{:016x}{:016x}.tokens", folder, key[1], key[0]);
    if (files.exists(path)) {
        try {
            TokenCache cache = open(files, path, key, tokenizer.vocab_size());
            cache.report_.notes.log();
            return cache;
        } catch (const UserError& error) {
            log_warning("{}; rebuilding it", error.what());
        }
    }
    files.make_folders(folder);
    TokenCacheWriter writer(files, path);
    RowsReport total;
    std::vector<std::string> lines;  // told when the cache is whole: a disk without room for it makes a second try
    for (const auto& data : paths) {
        Activity tokenising(fmt::format("tokenising {}, samples", data));
        const RowsReport report = for_each_sample(files, data, options, tokenizer, [&](Sample&& sample) {
            writer.add(sample);
            tokenising.done();
            return true;
        });
        lines.push_back(fmt::format("{}: {}", data, report.summary()));
        total.add(report);
    }
    if (total.samples == 0)
        throw UserError(ExitCode::data, paths.empty() ? "data" : paths.front(), "there is nothing to learn: {}",
                        total.summary())
            .hint(total.dropped_long > 0 ? "a greater max_length, or truncation: split, left or right"
                                         : "a file of rows with tokens to learn");
    writer.finish(key, total);
    for (const std::string& line : lines) log_line(LogLevel::info, line);
    total.notes.log();
    TokenCache built = open(files, path, key, tokenizer.vocab_size());
    built.was_built_ = true;
    return built;
}

TokenCache TokenCache::open(FileSystem& files, const std::string& path, const Key& key, int64_t id_end) {
    TokenCache cache;
    cache.path_ = path;
    cache.id_end_ = id_end;
    cache.file_ = files.open(path, {});
    const int64_t size = cache.file_->size();
    Header header{};
    if (size < kRowsOffset) damaged(path, "it is too short");
    cache.file_->read_at(std::as_writable_bytes(std::span(&header, 1)), 0);
    if (header.magic != kMagic) damaged(path, "it does not begin like one");
    if (header.version_major != kVersionMajor)
        throw UserError(ExitCode::storage, path, "version {} is not read", header.version_major);
    if (header.header_checksum != checksum_of(header)) damaged(path, "the header's checksum is wrong");
    if (header.key != key) damaged(path, "it belongs to other data");
    // Checked before anything is allocated: the index and the notes must fill the file from the index's offset to the
    // end.
    if (header.index_offset < kRowsOffset || header.index_offset > size || header.notes_bytes < 0 ||
        header.notes_bytes > size - header.index_offset)
        damaged(path, "its size does not fit its header");
    const int64_t index_bytes = size - header.index_offset - header.notes_bytes;
    if (index_bytes % 8 != 0 || index_bytes / 8 != header.samples) damaged(path, "its size does not fit its header");
    std::vector<std::byte> end(static_cast<size_t>(size - header.index_offset));
    cache.file_->read_at(end, header.index_offset);
    if (hash_of(end) != header.index_checksum) damaged(path, "the index's checksum is wrong");
    std::vector<TokenCacheEntry> index(static_cast<size_t>(header.samples));
    std::memcpy(index.data(), end.data(), static_cast<size_t>(index_bytes));
    cache.report_ = report_of(header.report);
    cache.report_.notes = RowNotes::from_json(
        {reinterpret_cast<const char*>(end.data()) + index_bytes, static_cast<size_t>(header.notes_bytes)}, path);
    int64_t offset = kRowsOffset;
    for (const auto& entry : index) {
        cache.lengths_.push_back(entry.length);
        cache.checksums_.push_back(entry.checksum);
        cache.offsets_.push_back(offset);
        offset += row_bytes(entry.length);
        if (offset > header.index_offset) break;  // before it overflows
    }
    if (offset != header.index_offset) damaged(path, "its rows do not end where its index begins");
    return cache;
}

Sample TokenCache::read(int64_t index) const {
    WINDLASS_CHECK(index >= 0 && index < size(), "sample {} of {}", index, size());
    const auto i = static_cast<size_t>(index);
    const uint32_t length = lengths_[i];
    std::vector<std::byte> bytes(static_cast<size_t>(row_bytes(length)));
    file_->read_at(bytes, offsets_[i]);
    if (static_cast<uint32_t>(hash_of(bytes)) != checksums_[i])
        damaged(path_, fmt::format("sample {}'s checksum is wrong", index));
    Sample sample{std::vector<int32_t>(length), std::vector<uint8_t>(length)};
    std::memcpy(sample.ids.data(), bytes.data(), size_t{4} * length);
    for (const int32_t id : sample.ids)
        if (id < 0 || id >= id_end_)
            damaged(path_, fmt::format("sample {} has the token {} of {}", index, id, id_end_));
    for (uint32_t k = 0; k < length; ++k)
        sample.trained[k] = std::to_integer<uint8_t>(bytes[size_t{4} * length + k / 8] >> (k % 8)) & 1;
    return sample;
}

}  // namespace windlass
