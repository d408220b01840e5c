// compressed.h: texts as compressed files hold them.
#pragma once

#include <lzma.h>
#include <zlib.h>
#include <zstd.h>

#include <string>
#include <string_view>

#include "base/error.h"
#include "rows/data_kind.h"

namespace windlass::fixtures {

inline std::string gzip_of(std::string_view text) {
    constexpr int kGzip = 16 + MAX_WBITS, kMemory = 8;
    z_stream stream{};
    int result = deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, kGzip, kMemory, Z_DEFAULT_STRATEGY);
    WINDLASS_CHECK(result == Z_OK, "deflateInit2 answers {}", result);
    std::string out(deflateBound(&stream, text.size()), '\0');
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
    stream.avail_in = static_cast<uInt>(text.size());
    stream.next_out = reinterpret_cast<Bytef*>(out.data());
    stream.avail_out = static_cast<uInt>(out.size());
    result = deflate(&stream, Z_FINISH);
    WINDLASS_CHECK(result == Z_STREAM_END, "deflate answers {}", result);
    out.resize(stream.total_out);
    deflateEnd(&stream);
    return out;
}

inline std::string xz_of(std::string_view text) {
    std::string out(lzma_stream_buffer_bound(text.size()), '\0');
    size_t bytes = 0;
    // Preset 0, a dictionary of 256 KiB: one of 8 MiB takes longer to clear than a short text to read.
    const lzma_ret result =
        lzma_easy_buffer_encode(0, LZMA_CHECK_CRC64, nullptr, reinterpret_cast<const uint8_t*>(text.data()),
                                text.size(), reinterpret_cast<uint8_t*>(out.data()), &bytes, out.size());
    WINDLASS_CHECK(result == LZMA_OK, "lzma_easy_buffer_encode answers {}", static_cast<int>(result));
    out.resize(bytes);
    return out;
}

inline std::string zstd_of(std::string_view text) {
    std::string out(ZSTD_compressBound(text.size()), '\0');
    const size_t bytes = ZSTD_compress(out.data(), out.size(), text.data(), text.size(), ZSTD_CLEVEL_DEFAULT);
    WINDLASS_CHECK(ZSTD_isError(bytes) == 0, "ZSTD_compress: {}", ZSTD_getErrorName(bytes));
    out.resize(bytes);
    return out;
}

inline std::string compressed(std::string_view text, Compression compression) {
    switch (compression) {
        case Compression::gzip:
            return gzip_of(text);
        case Compression::xz:
            return xz_of(text);
        case Compression::zstd:
            return zstd_of(text);
        case Compression::none:
            break;
    }
    return std::string(text);
}

}  // namespace windlass::fixtures
