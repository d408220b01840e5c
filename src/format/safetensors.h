// safetensors.h: one .safetensors file, read from its header only and written tensor by tensor.
//
// Layout: 8 bytes little-endian N, N bytes of JSON, then the tensors' bytes, row-major and little-endian, without a
// hole or an overlap. A file is hostile input: the header is bounded before it is read, every rule of
// docs/format/safetensors.md is enforced, and each violation is a UserError(model) that names file and tensor.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "tensor/dtype.h"
#include "tensor/tensor.h"

namespace windlass {

inline constexpr int64_t kSafetensorsHeaderBytesMax = 100'000'000;

// "BF16" and its kind: the format's own names.
std::string_view safetensors_dtype_name(DType dtype);
std::optional<DType> dtype_from_safetensors(std::string_view name);

// A tensor that a file holds.
struct TensorEntry {
    std::string name;
    std::string dtype_name;      // as in the file
    std::optional<DType> dtype;  // nothing for types that we list but do not compute with (F8_E4M3, U16, ...)
    Shape shape;
    int64_t offset = 0;  // of the first byte in the file
    int64_t bytes = 0;
};

class SafetensorsReader {
  public:
    // Reads and checks the header, no tensor.
    static SafetensorsReader open(FileSystem& files, const std::string& path);

    const std::string& path() const { return file_->path(); }
    int64_t file_bytes() const { return file_bytes_; }
    const std::vector<TensorEntry>& entries() const { return entries_; }  // in the order of their bytes
    const std::map<std::string, std::string>& metadata() const { return metadata_; }

    // The bytes [first_byte, first_byte + into.size()) of one tensor.
    void read(const TensorEntry& entry, int64_t first_byte, std::span<std::byte> into) const;

  private:
    std::unique_ptr<File> file_;
    int64_t file_bytes_ = 0;
    std::vector<TensorEntry> entries_;
    std::map<std::string, std::string> metadata_;
};

// A tensor that a file shall hold.
struct TensorSpec {
    std::string name;
    DType dtype = DType::f32;
    Shape shape;
    int64_t bytes() const { return shape.numel() * dtype_bytes(dtype); }
};

// Writes the header at once, then takes the tensors' bytes in any order and in pieces of any size. The file is
// complete, and on stable storage, after finish() only: write into a temporary folder and rename it.
class SafetensorsWriter {
  public:
    // Refuses an existing file. Two tensors of one name are our bug. metadata: besides the layout's name, "format".
    SafetensorsWriter(FileSystem& files, const std::string& path, std::vector<TensorSpec> tensors,
                      const std::map<std::string, std::string>& metadata = {});

    // Bytes of the file that this list makes, header included.
    static int64_t file_bytes(std::vector<TensorSpec> tensors);

    // Puts these bytes at first_byte of the tensor. A byte may be written once.
    void write(std::string_view name, int64_t first_byte, std::span<const std::byte> bytes);
    // Checks that every byte was written, then syncs.
    void finish();

  private:
    struct Place {
        int64_t begin = 0, end = 0;  // in the file
    };
    void mark_written(std::string_view name, int64_t begin, int64_t end);
    std::string missing() const;

    std::unique_ptr<File> file_;
    std::map<std::string, Place, std::less<>> places_;
    std::map<int64_t, int64_t> written_;  // begin -> end of written bytes, neighbours merged
    int64_t file_bytes_ = 0;
};

}  // namespace windlass
