#include <zstd.h>
#include <zstd_errors.h>

#include <cerrno>

#include "base/error.h"
#include "rows/decompress.h"

namespace windlass {
namespace {

// A file's window takes memory: 8 MiB after the strongest of zstd's usual settings, but a file may ask for 2 GiB.
constexpr int kWindowLogMax = 27;

struct FreeZstd {
    void operator()(ZSTD_DCtx* made) const { ZSTD_freeDCtx(made); }
};

Damage damage_of_zstd(size_t result) {
    switch (ZSTD_getErrorCode(result)) {
        case ZSTD_error_frameParameter_windowTooLarge:
            return {fmt::format("they ask for a window of more than {} MiB", (int64_t{1} << kWindowLogMax) >> 20),
                    kDecompressFirst};
        case ZSTD_error_checksum_wrong:
            return {"they are damaged, as their checksum says"};
        case ZSTD_error_prefix_unknown:
            return {"something else follows them"};
        default:
            return {fmt::format("they are damaged: {}", ZSTD_getErrorName(result))};
    }
}

class ZstdDecompressor : public Decompressor {
  public:
    explicit ZstdDecompressor(FileBlocks& blocks)
        : blocks_(blocks), stream_(ZSTD_createDCtx()), text_(kTextBytes, '\0') {
        if (!stream_) throw MachineError("ZSTD_createDCtx", blocks.path(), ENOMEM);
        const size_t result = ZSTD_DCtx_setParameter(stream_.get(), ZSTD_d_windowLogMax, kWindowLogMax);
        WINDLASS_CHECK(ZSTD_isError(result) == 0, "ZSTD_DCtx_setParameter: {}", ZSTD_getErrorName(result));
    }

    std::string_view next() override {
        ZSTD_outBuffer out{text_.data(), text_.size(), 0};
        while (!is_finished_ && out.pos == 0) {
            if (in_.pos == in_.size) refill();
            const bool is_end = in_.size == 0;
            is_finished_ = is_end && is_between_frames_;
            if (is_finished_) break;
            // At the end of the file too: text may wait that had no room in the call before.
            const size_t result = ZSTD_decompressStream(stream_.get(), &out, &in_);
            if (ZSTD_isError(result) != 0) throw damage_of_zstd(result);
            is_between_frames_ = result == 0;
            if (is_end && out.pos == 0 && !is_between_frames_) throw Damage{"the file ends before they do"};
        }
        return std::string_view(text_).substr(0, out.pos);
    }

  private:
    void refill() {
        const std::span<const std::byte> block = blocks_.next();
        in_ = {block.data(), block.size(), 0};
    }

    FileBlocks& blocks_;
    std::unique_ptr<ZSTD_DCtx, FreeZstd> stream_;
    std::string text_;
    ZSTD_inBuffer in_{nullptr, 0, 0};
    bool is_between_frames_ = false, is_finished_ = false;
};

}  // namespace

std::unique_ptr<Decompressor> make_zstd_decompressor(FileBlocks& blocks) {
    return std::make_unique<ZstdDecompressor>(blocks);
}

}  // namespace windlass
