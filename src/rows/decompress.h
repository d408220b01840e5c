// decompress.h: decompression block by block, with one interface for the libraries that do it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "rows/data_kind.h"

namespace windlass {

// Of text that is made at a time.
inline constexpr size_t kTextBytes = size_t{256} << 10;

// Blocks of a file, front to back.
class FileBlocks {
  public:
    explicit FileBlocks(std::unique_ptr<File> file) : file_(std::move(file)), size_(file_->size()) {}
    // The next one, empty at the end; valid until the next call.
    std::span<const std::byte> next();
    const std::string& path() const { return file_->path(); }
    int64_t bytes() const { return offset_; }  // handed out so far

  private:
    std::unique_ptr<File> file_;
    int64_t size_;
    int64_t offset_ = 0;
    std::vector<std::byte> block_;
};

// What is thrown of data that are damaged; who knows the place in the text makes a UserError of it.
struct Damage {
    std::string what;
    std::string hint = "copy or fetch the file again";
};
// The hint where the data are sound, but ask for more memory than they get.
inline constexpr const char* kDecompressFirst = "decompress the file with its own program, and name the text";

class Decompressor {
  public:
    virtual ~Decompressor() = default;
    // The next bytes, valid until the next call; empty at the end.
    virtual std::string_view next() = 0;
};

// Through zlib. Members that follow each other are one text, as for gzip.
std::unique_ptr<Decompressor> make_gzip_decompressor(FileBlocks& blocks);
// Through liblzma, which takes 256 MiB at most for a file's dictionary.
std::unique_ptr<Decompressor> make_xz_decompressor(FileBlocks& blocks);
// Through libzstd, which takes 128 MiB at most for a file's window. Frames that follow each other are one text, and
// skippable frames hold none of it.
std::unique_ptr<Decompressor> make_zstd_decompressor(FileBlocks& blocks);

}  // namespace windlass
