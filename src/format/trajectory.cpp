#include "format/trajectory.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/file_error.h"
#include "base/log.h"
#include "format/checksum.h"

namespace windlass {
namespace {

constexpr int64_t kPieceBytes = int64_t{1} << 20;
constexpr uint32_t kApplied = 1;

struct RecordHead {
    uint64_t sum = 0;  // of the sum in the record before (of the header's before the first) and of all bytes after
    double learning_rate = 0;
    double decay = 0;
    uint32_t step = 0;
    uint32_t flags = 0;
};
static_assert(sizeof(RecordHead) == 32);

int64_t record_bytes_of(const TrajectoryHeader& header) {
    return static_cast<int64_t>(sizeof(RecordHead) + sizeof(float)) + (header.directions - 1) * int64_t{sizeof(float)};
}

uint64_t sum_of(uint64_t previous, std::span<const std::byte> record) {
    Xxh3Stream sum;
    sum.add(std::as_bytes(std::span(&previous, 1)));
    sum.add(record.subspan(sizeof(RecordHead::sum)));
    return sum.sum();
}

RecordHead head_of(std::span<const std::byte> record) {
    RecordHead head;
    std::memcpy(&head, record.data(), sizeof(head));
    return head;
}

std::vector<float> scalars_of(std::span<const std::byte> record) {
    const auto bytes = record.subspan(sizeof(RecordHead));
    std::vector<float> scalars(bytes.size() / sizeof(float));
    std::memcpy(scalars.data(), bytes.data(), bytes.size());
    return scalars;
}

bool all_finite(const TrajectoryRecord& record) {
    return std::isfinite(record.learning_rate) && std::isfinite(record.decay) &&
           std::ranges::all_of(record.scalars, [](float scalar) { return std::isfinite(scalar); });
}

TrajectoryRecord record_of(std::span<const std::byte> record) {
    const RecordHead head = head_of(record);
    return {.step = head.step,
            .learning_rate = head.learning_rate,
            .decay = head.decay,
            .applied = (head.flags & kApplied) != 0,
            .scalars = scalars_of(record)};
}

void encode_record(const TrajectoryRecord& record, uint64_t previous, std::span<std::byte> into) {
    RecordHead head{.learning_rate = record.learning_rate,
                    .decay = record.decay,
                    .step = record.step,
                    .flags = record.applied ? kApplied : 0};
    std::memcpy(into.data(), &head, sizeof(head));
    std::memcpy(into.data() + sizeof(head), record.scalars.data(), record.scalars.size() * sizeof(float));
    head.sum = sum_of(previous, into);
    std::memcpy(into.data(), &head.sum, sizeof(head.sum));
}

bool is_whole(std::span<const std::byte> bytes, uint64_t previous, int64_t step) {
    const RecordHead head = head_of(bytes);
    if (head.sum != sum_of(previous, bytes) || head.step != step || head.flags > kApplied) return false;
    return head.flags == 0 || all_finite(record_of(bytes));
}

// How many records are whole before the first that is not. `sum` comes in as that of the record before them and goes
// out as that of the last whole one.
int64_t count_whole(std::span<const std::byte> bytes, int64_t record_bytes, int64_t first_step, uint64_t& sum) {
    const int64_t count = std::ssize(bytes) / record_bytes;
    for (int64_t i = 0; i < count; ++i) {
        const auto record = bytes.subspan(static_cast<size_t>(i * record_bytes), static_cast<size_t>(record_bytes));
        if (!is_whole(record, sum, first_step + i)) return i;
        sum = head_of(record).sum;
    }
    return count;
}

void refuse_existing(FileSystem& files, const std::string& path) {
    if (files.exists(path)) throw UserError(ExitCode::storage, path, "exists already").hint("another name for the log");
}

}  // namespace

// ---- reading ----

TrajectoryReader::TrajectoryReader(std::unique_ptr<File> file, TrajectoryFront front)
    : file_(std::move(file)),
      front_(std::move(front)),
      record_bytes_(record_bytes_of(front_.header)),
      last_sum_(front_.header_sum) {}

TrajectoryReader TrajectoryReader::open(FileSystem& files, const std::string& path, OnDamage on_damage) {
    std::unique_ptr<File> file = files.open(path, {.mode = OpenMode::read});
    TrajectoryFront front = read_trajectory_front(*file);
    TrajectoryReader reader(std::move(file), std::move(front));
    const int64_t file_bytes = reader.file_->size();
    reader.scan(file_bytes);
    reader.tail_ = reader.damage(file_bytes);
    if (!reader.tail_.empty()) {
        if (on_damage == OnDamage::refuse) throw reader.damaged(reader.tail_);
        return reader;
    }
    const int64_t end = reader.offset_of(reader.count_);
    if (file_bytes > end)
        reader.tail_ =
            fmt::format("the {} bytes from byte {} on are not a whole record of step {} and are not known to be synced",
                        file_bytes - end, end, reader.step_of(reader.count_));
    return reader;
}

int64_t TrajectoryReader::piece_records() const {
    return std::max<int64_t>(1, kPieceBytes / record_bytes_);
}

void TrajectoryReader::scan(int64_t file_bytes) {
    const int64_t room = std::max<int64_t>(0, file_bytes - front_.bytes) / record_bytes_;
    std::vector<std::byte> piece(static_cast<size_t>(std::min(room, piece_records()) * record_bytes_));
    while (count_ < room) {
        const int64_t records = std::min(room - count_, piece_records());
        const auto bytes = std::span(piece).first(static_cast<size_t>(records * record_bytes_));
        file_->read_at(bytes, offset_of(count_));
        const int64_t whole = count_whole(bytes, record_bytes_, step_of(count_), last_sum_);
        count_ += whole;
        if (whole < records) return;
    }
}

// What is wrong with that which was synced; empty when nothing is.
std::string TrajectoryReader::damage(int64_t file_bytes) const {
    if (!front_.synced) return fmt::format("the mark of synced bytes (byte {}) is damaged", kTrajectoryMarkOffset);
    if (count_ >= *front_.synced) return "";
    const int64_t begin = offset_of(count_);
    if (file_bytes - begin >= record_bytes_)
        return fmt::format("the record of step {} (byte {}) is damaged", step_of(count_), begin);
    return fmt::format("the record of step {} (byte {}) is gone: the log ends at byte {}, and was synced up to step {}",
                       step_of(count_), begin, file_bytes, step_of(*front_.synced - 1));
}

UserError TrajectoryReader::damaged(std::string_view what) const {
    UserError error(ExitCode::storage, file_->path(), "{}", what);
    if (count_ == 0) return error.hint("another copy of this log");
    return error.hint(fmt::format("a fork of this log up to step {}, which is whole", last_step()));
}

void TrajectoryReader::require_step(int64_t step, int64_t least) const {
    if (step >= least && step <= last_step()) return;
    const std::string held = count_ == 0 ? "no steps" : fmt::format("steps {} to {}", first_step(), last_step());
    throw UserError(ExitCode::usage, file_->path(), "the log holds {}, step {} was asked for", held, step);
}

std::vector<std::byte> TrajectoryReader::load(int64_t index, int64_t count) {
    uint64_t sum = front_.header_sum;
    if (index > 0) file_->read_at(std::as_writable_bytes(std::span(&sum, 1)), offset_of(index - 1));
    std::vector<std::byte> bytes(static_cast<size_t>(count * record_bytes_));
    file_->read_at(bytes, offset_of(index));
    const int64_t whole = count_whole(bytes, record_bytes_, step_of(index), sum);
    if (whole < count)
        throw UserError(ExitCode::storage, file_->path(),
                        "the record of step {} (byte {}) changed since the log was opened", step_of(index + whole),
                        offset_of(index + whole));
    return bytes;
}

std::vector<TrajectoryRecord> TrajectoryReader::read(int64_t first_step, int64_t last_step) {
    WINDLASS_CHECK(first_step <= last_step, "steps {} to {}", first_step, last_step);
    require_step(first_step, this->first_step());
    require_step(last_step, this->first_step());
    const int64_t count = last_step - first_step + 1;
    const std::vector<std::byte> bytes = load(first_step - this->first_step(), count);
    std::vector<TrajectoryRecord> records;
    records.reserve(static_cast<size_t>(count));
    for (auto at = std::span(bytes); !at.empty(); at = at.subspan(static_cast<size_t>(record_bytes_)))
        records.push_back(record_of(at.first(static_cast<size_t>(record_bytes_))));
    return records;
}

uint64_t TrajectoryReader::history_sum(int64_t step) {
    require_step(step, first_step() - 1);
    if (step < first_step()) return front_.header_sum;
    return head_of(load(step - first_step(), 1)).sum;
}

// ---- writing ----

TrajectoryWriter::TrajectoryWriter(std::unique_ptr<File> file, TrajectoryReader& found)
    : file_(std::move(file)),
      header_(found.front_.header),
      header_sum_(found.front_.header_sum),
      records_offset_(found.front_.bytes),
      record_bytes_(found.record_bytes_),
      count_(found.count_),
      synced_(*found.front_.synced),
      last_sum_(found.last_sum_),
      buffer_(static_cast<size_t>(record_bytes_)) {}

TrajectoryWriter TrajectoryWriter::create(FileSystem& files, const std::string& path, const TrajectoryHeader& header) {
    refuse_existing(files, path);
    write_text_atomic(files, path, encode_trajectory_front(header, path));
    return open(files, path);
}

TrajectoryWriter TrajectoryWriter::open(FileSystem& files, const std::string& path) {
    TrajectoryReader found = TrajectoryReader::open(files, path);
    TrajectoryWriter writer(files.open(path, {.mode = OpenMode::update}), found);
    if (!found.tail().empty()) {
        log_warning("{}: {}; they are cut off", path, found.tail());
        writer.file_->truncate(found.offset_of(found.count_));
        writer.file_->sync();
    }
    writer.sync();
    return writer;
}

TrajectoryWriter TrajectoryWriter::fork(FileSystem& files, const std::string& from, int64_t last_step,
                                        const std::string& path) {
    refuse_existing(files, path);
    TrajectoryReader source = TrajectoryReader::open(files, from, OnDamage::stop);
    source.require_step(last_step, source.first_step() - 1);
    TrajectoryHeader header = source.header();
    header.origin = {
        .file = from, .step = static_cast<uint32_t>(last_step), .history_sum = source.history_sum(last_step)};
    const std::string partial = path + ".partial";
    if (files.exists(partial)) files.remove_file(partial);
    {
        TrajectoryWriter branch = create(files, partial, header);
        while (branch.next_step() <= last_step) {
            const int64_t end = std::min(last_step, branch.next_step() + source.piece_records() - 1);
            for (const TrajectoryRecord& record : source.read(branch.next_step(), end)) branch.append(record);
        }
        branch.sync();
    }
    files.rename(partial, path);
    files.sync_folder(parent_folder(path));
    return open(files, path);
}

void TrajectoryWriter::require_usable() const {
    if (failed_)
        throw UserError(ExitCode::storage, file_->path(), "an earlier sync failed, so the log must be opened again");
}

void TrajectoryWriter::write_mark(int64_t synced) {
    file_->write_at(encode_trajectory_mark(header_sum_, synced), kTrajectoryMarkOffset);
    synced_ = synced;
}

void TrajectoryWriter::append(const TrajectoryRecord& record) {
    require_usable();
    WINDLASS_CHECK(record.step == next_step(), "step {} after step {}", record.step, next_step() - 1);
    WINDLASS_CHECK(std::ssize(record.scalars) == header_.directions, "{} scalars for {} directions",
                   record.scalars.size(), header_.directions);
    WINDLASS_CHECK(!record.applied || all_finite(record), "step {} is not finite, and applied", record.step);
    encode_record(record, last_sum_, buffer_);
    file_->write_at(buffer_, records_offset_ + count_ * record_bytes_);
    last_sum_ = head_of(buffer_).sum;
    ++count_;
}

void TrajectoryWriter::sync() {
    require_usable();
    if (synced_ == count_) return;
    failed_ = true;  // until it has not
    file_->sync();
    write_mark(count_);  // durable with the next sync: it may say too little, never too much
    failed_ = false;
}

void TrajectoryWriter::truncate_after(int64_t last_step) {
    require_usable();
    if (last_step < int64_t{header_.first_step} - 1 || last_step >= next_step())
        throw UserError(ExitCode::usage, file_->path(), "the log holds steps up to {}, it cannot be cut after step {}",
                        next_step() - 1, last_step);
    const int64_t count = last_step - int64_t{header_.first_step} + 1;
    uint64_t sum = header_sum_;
    const int64_t end = records_offset_ + count * record_bytes_;
    if (count > 0) file_->read_at(std::as_writable_bytes(std::span(&sum, 1)), end - record_bytes_);
    failed_ = true;
    // The mark goes first: a log that is shorter than its mark is a damaged one.
    write_mark(std::min(synced_, count));
    file_->sync();
    file_->truncate(end);
    file_->sync();
    count_ = count;
    last_sum_ = sum;
    write_mark(count_);
    failed_ = false;
}

}  // namespace windlass
