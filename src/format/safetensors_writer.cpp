#include "base/json.h"
#include "base/math.h"
#include "format/safetensors.h"

namespace windlass {
namespace {

// Falling alignment, then name: each tensor is aligned to its element then, given a header of a multiple of 8 bytes.
void sort_for_file(std::vector<TensorSpec>& tensors) {
    std::ranges::sort(tensors, [](const TensorSpec& a, const TensorSpec& b) {
        const int64_t a_bytes = dtype_bytes(a.dtype), b_bytes = dtype_bytes(b.dtype);
        return a_bytes != b_bytes ? a_bytes > b_bytes : a.name < b.name;
    });
}

// transformers refuses a file whose metadata does not name the framework's layout, "pt".
std::string header_text(const std::vector<TensorSpec>& sorted, const std::map<std::string, std::string>& metadata) {
    Json all = {{"format", "pt"}};
    for (const auto& [key, value] : metadata) all[key] = value;
    std::string text = fmt::format(R"({{"__metadata__":{})", all.dump());
    int64_t begin = 0;
    for (const TensorSpec& tensor : sorted) {
        const int64_t end = begin + tensor.bytes();
        text += fmt::format(R"(,{}:{{"dtype":"{}","shape":{},"data_offsets":[{},{}]}})", Json(tensor.name).dump(),
                            safetensors_dtype_name(tensor.dtype), tensor.shape.to_string(), begin, end);
        begin = end;
    }
    text += '}';
    text.resize(round_up<size_t>(text.size(), 8), ' ');
    return text;
}

int64_t data_bytes(const std::vector<TensorSpec>& tensors) {
    int64_t bytes = 0;
    for (const TensorSpec& tensor : tensors) bytes += tensor.bytes();
    return bytes;
}

}  // namespace

int64_t SafetensorsWriter::file_bytes(std::vector<TensorSpec> tensors) {
    sort_for_file(tensors);
    return 8 + static_cast<int64_t>(header_text(tensors, {}).size()) + data_bytes(tensors);
}

SafetensorsWriter::SafetensorsWriter(FileSystem& files, const std::string& path, std::vector<TensorSpec> tensors,
                                     const std::map<std::string, std::string>& metadata) {
    sort_for_file(tensors);
    const std::string header = header_text(tensors, metadata);
    const auto header_bytes = static_cast<uint64_t>(header.size());
    WINDLASS_CHECK(header_bytes <= kSafetensorsHeaderBytesMax, "a safetensors header of {} bytes", header_bytes);

    int64_t begin = 8 + static_cast<int64_t>(header.size());
    mark_written("", 0, begin);
    for (const TensorSpec& tensor : tensors) {
        const bool added = places_.try_emplace(tensor.name, Place{begin, begin + tensor.bytes()}).second;
        WINDLASS_CHECK(added, "tensor \"{}\" is listed twice", tensor.name);
        begin += tensor.bytes();
    }
    file_bytes_ = begin;
    file_ = files.open(path, {.mode = OpenMode::create_new});
    file_->preallocate(file_bytes_);
    file_->write_at(std::as_bytes(std::span(&header_bytes, 1)), 0);
    file_->write_at(std::as_bytes(std::span(header)), 8);
}

void SafetensorsWriter::write(std::string_view name, int64_t first_byte, std::span<const std::byte> bytes) {
    const auto place = places_.find(name);
    WINDLASS_CHECK(place != places_.end(), "{} has no tensor \"{}\"", file_->path(), name);
    const auto [begin, end] = place->second;
    const auto count = static_cast<int64_t>(bytes.size());
    WINDLASS_CHECK(first_byte >= 0 && count <= end - begin && first_byte <= end - begin - count,
                   "bytes {}+{} of tensor \"{}\", which has {}", first_byte, count, name, end - begin);
    if (count == 0) return;
    mark_written(name, begin + first_byte, begin + first_byte + count);
    file_->write_at(bytes, begin + first_byte);
}

void SafetensorsWriter::mark_written(std::string_view name, int64_t begin, int64_t end) {
    auto next = written_.lower_bound(begin);
    WINDLASS_CHECK(next == written_.end() || next->first >= end, "tensor \"{}\" is written twice", name);
    if (next != written_.end() && next->first == end) {
        end = next->second;
        next = written_.erase(next);
    }
    if (next == written_.begin()) {
        written_.emplace(begin, end);
        return;
    }
    const auto previous = std::prev(next);
    WINDLASS_CHECK(previous->second <= begin, "tensor \"{}\" is written twice", name);
    if (previous->second == begin) {
        previous->second = end;
    } else {
        written_.emplace_hint(next, begin, end);
    }
}

std::string SafetensorsWriter::missing() const {
    const int64_t hole = written_.begin()->second;  // the first range starts with the header
    const auto holds_it = [&](const auto& named) { return named.second.begin <= hole && hole < named.second.end; };
    const auto found = std::ranges::find_if(places_, holds_it);
    return found == places_.end() ? "" : found->first;
}

void SafetensorsWriter::finish() {
    WINDLASS_CHECK(written_.begin()->second == file_bytes_, "{}: tensor \"{}\" was not written whole", file_->path(),
                   missing());
    file_->sync();
}

}  // namespace windlass
