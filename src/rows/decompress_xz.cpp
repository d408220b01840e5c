#include <lzma.h>

#include "base/error.h"
#include "base/units.h"
#include "rows/decompress.h"

namespace windlass {
namespace {

// A file's dictionary takes memory: 64 MiB after the strongest of xz's own settings, but a file may ask for 4 GiB.
constexpr uint64_t kMemoryMax = uint64_t{256} << 20;

Damage damage_of(lzma_ret result) {
    switch (result) {
        case LZMA_MEMLIMIT_ERROR:
            return {fmt::format("they ask for more than {} of memory", format_bytes(static_cast<int64_t>(kMemoryMax))),
                    kDecompressFirst};
        case LZMA_BUF_ERROR:
            return {"the file ends before they do"};
        case LZMA_DATA_ERROR:
            return {"they are damaged, as their checksum says"};
        case LZMA_FORMAT_ERROR:
            return {"something else follows them"};
        default:
            return {fmt::format("liblzma answers {}", static_cast<int>(result))};
    }
}

class XzDecompressor : public Decompressor {
  public:
    explicit XzDecompressor(FileBlocks& blocks) : blocks_(blocks), text_(kTextBytes, '\0') {
        const lzma_ret result = lzma_stream_decoder(&stream_, kMemoryMax, LZMA_CONCATENATED);
        WINDLASS_CHECK(result == LZMA_OK, "lzma_stream_decoder answers {}", static_cast<int>(result));
    }
    XzDecompressor(const XzDecompressor&) = delete;
    ~XzDecompressor() override { lzma_end(&stream_); }

    // What came before a fault is handed out first.
    std::string_view next() override {
        if (fault_ != LZMA_OK) throw damage_of(fault_);
        stream_.next_out = reinterpret_cast<uint8_t*>(text_.data());
        stream_.avail_out = text_.size();
        while (!is_finished_ && stream_.avail_out == text_.size()) {
            if (stream_.avail_in == 0) refill();
            const lzma_ret result = lzma_code(&stream_, stream_.avail_in == 0 ? LZMA_FINISH : LZMA_RUN);
            is_finished_ = result == LZMA_STREAM_END;
            if (result == LZMA_OK || is_finished_) continue;
            fault_ = result;
            if (stream_.avail_out == text_.size()) throw damage_of(fault_);
        }
        return std::string_view(text_).substr(0, text_.size() - stream_.avail_out);
    }

  private:
    void refill() {
        const std::span<const std::byte> block = blocks_.next();
        stream_.next_in = reinterpret_cast<const uint8_t*>(block.data());
        stream_.avail_in = block.size();
    }

    FileBlocks& blocks_;
    lzma_stream stream_ = LZMA_STREAM_INIT;
    std::string text_;
    bool is_finished_ = false;
    lzma_ret fault_ = LZMA_OK;
};

}  // namespace

std::unique_ptr<Decompressor> make_xz_decompressor(FileBlocks& blocks) {
    return std::make_unique<XzDecompressor>(blocks);
}

}  // namespace windlass
