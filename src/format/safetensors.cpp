#include "format/safetensors.h"

#include "base/units.h"
#include "format/safetensors_header.h"

namespace windlass {
namespace {

struct DTypeName {
    DType dtype;
    std::string_view name;
};
constexpr DTypeName kDTypes[] = {
    {DType::f32, "F32"}, {DType::bf16, "BF16"}, {DType::f16, "F16"}, {DType::i64, "I64"},      {DType::i32, "I32"},
    {DType::i16, "I16"}, {DType::u8, "U8"},     {DType::i8, "I8"},   {DType::boolean, "BOOL"}, {DType::f64, "F64"},
};

// N, the header's length, once it is known to lie inside the file and below the format's own limit.
int64_t read_header_bytes(File& file, int64_t file_bytes) {
    if (file_bytes < 8)
        throw UserError(ExitCode::model, file.path(), "has {} bytes, too few for a safetensors file", file_bytes);
    uint64_t bytes = 0;
    file.read_at(std::as_writable_bytes(std::span(&bytes, 1)), 0);
    if (bytes > static_cast<uint64_t>(kSafetensorsHeaderBytesMax))
        throw UserError(ExitCode::model, file.path(), "claims a header of {} bytes, at most {} are allowed", bytes,
                        kSafetensorsHeaderBytesMax);
    if (static_cast<int64_t>(bytes) > file_bytes - 8)
        throw UserError(ExitCode::model, file.path(), "claims a header of {} bytes, but the file has {}", bytes,
                        file_bytes)
            .hint("the file is cut short; download it again");
    return static_cast<int64_t>(bytes);
}

}  // namespace

std::string_view safetensors_dtype_name(DType dtype) {
    const auto* const found = std::ranges::find(kDTypes, dtype, &DTypeName::dtype);
    WINDLASS_CHECK(found != std::end(kDTypes), "dtype {} has no safetensors name", dtype_name(dtype));
    return found->name;
}

std::optional<DType> dtype_from_safetensors(std::string_view name) {
    const auto* const found = std::ranges::find(kDTypes, name, &DTypeName::name);
    return found == std::end(kDTypes) ? std::nullopt : std::optional(found->dtype);
}

SafetensorsReader SafetensorsReader::open(FileSystem& files, const std::string& path) {
    SafetensorsReader reader;
    reader.file_ = files.open(path, {.mode = OpenMode::read});
    reader.file_bytes_ = reader.file_->size();
    const int64_t header_bytes = read_header_bytes(*reader.file_, reader.file_bytes_);
    std::string text(static_cast<size_t>(header_bytes), '\0');
    reader.file_->read_at(std::as_writable_bytes(std::span(text)), 8);

    const int64_t data_begin = 8 + header_bytes;
    SafetensorsHeader header = parse_safetensors_header(text, reader.file_bytes_ - data_begin, path);
    for (TensorEntry& entry : header.entries) entry.offset += data_begin;
    reader.entries_ = std::move(header.entries);
    reader.metadata_ = std::move(header.metadata);
    return reader;
}

void SafetensorsReader::read(const TensorEntry& entry, int64_t first_byte, std::span<std::byte> into) const {
    const auto bytes = static_cast<int64_t>(into.size());
    WINDLASS_CHECK(first_byte >= 0 && bytes <= entry.bytes && first_byte <= entry.bytes - bytes,
                   "bytes {}+{} of tensor \"{}\", which has {}", first_byte, bytes, entry.name, entry.bytes);
    if (bytes > 0) file_->read_at(into, entry.offset + first_byte);
}

}  // namespace windlass
