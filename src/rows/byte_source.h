// byte_source.h: the bytes of a data file front to back, decompressed on the way, in memory that the file's size does
// not change.
//
// A file is never decompressed whole, and cannot be asked for another place: who needs rows in another order keeps what
// it made of them (rows/token_cache.h).
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "base/file.h"
#include "rows/data_kind.h"

namespace windlass {

// Past kExpandedFreeBytes of text, a file that grows to more than kExpansionMax times its size is refused: rows
// compress 3 to 20 times, and files made to exhaust a machine up to 1,032 times (gzip) or many thousands (xz, zstd).
inline constexpr int64_t kExpandedFreeBytes = int64_t{64} << 20;
inline constexpr int64_t kExpansionMax = 200;

class ByteSource {
  public:
    virtual ~ByteSource() = default;
    // Replaces `into` by the next bytes, at least one and at most about a mebibyte. At the end it leaves it alone and
    // answers false. UserError(data) that names the file, and this line of the text, where the compressed data are
    // damaged, cut off, followed by something else, or expand beyond the above.
    virtual bool read(std::string& into, int64_t line) = 0;
    // "1.2 GiB of text from 300 MiB of gzip" for the bytes read; empty if nothing is compressed.
    virtual std::string expansion() const = 0;
};

// UserError(data) where the file does not begin as this compression does.
std::unique_ptr<ByteSource> make_byte_source(std::unique_ptr<File> file, Compression compression);

}  // namespace windlass
