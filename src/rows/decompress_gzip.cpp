#include <zlib.h>

#include "base/error.h"
#include "rows/decompress.h"

namespace windlass {
namespace {

constexpr int kWindowBits = 15 + 16;  // the largest window; gzip's header and trailer, which zlib checks

class GzipDecompressor : public Decompressor {
  public:
    explicit GzipDecompressor(FileBlocks& blocks) : blocks_(blocks), text_(kTextBytes, '\0') {
        const int result = inflateInit2(&stream_, kWindowBits);
        WINDLASS_CHECK(result == Z_OK, "inflateInit2 answers {}", result);
    }
    GzipDecompressor(const GzipDecompressor&) = delete;
    ~GzipDecompressor() override { inflateEnd(&stream_); }

    // What came before a fault is handed out first.
    std::string_view next() override {
        if (!fault_.empty()) throw Damage{fault_};
        stream_.next_out = reinterpret_cast<Bytef*>(text_.data());
        stream_.avail_out = static_cast<uInt>(text_.size());
        while (stream_.avail_out == text_.size()) {
            if (stream_.avail_in == 0 && !refill()) {
                if (is_between_members_) return {};
                throw Damage{"the file ends before they do"};
            }
            if (is_between_members_) begin_member();
            const int result = inflate(&stream_, Z_NO_FLUSH);
            is_between_members_ = result == Z_STREAM_END;
            if (result == Z_OK || result == Z_STREAM_END) continue;
            fault_ = stream_.msg != nullptr ? stream_.msg : zError(result);
            if (stream_.avail_out == text_.size()) throw Damage{fault_};
        }
        return std::string_view(text_).substr(0, text_.size() - stream_.avail_out);
    }

  private:
    bool refill() {
        const std::span<const std::byte> block = blocks_.next();
        // zlib reads from it and says otherwise.
        stream_.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(block.data()));
        stream_.avail_in = static_cast<uInt>(block.size());
        return !block.empty();
    }

    void begin_member() {
        constexpr Bytef kFirstByte = 0x1F;
        if (stream_.next_in[0] != kFirstByte) throw Damage{"something else follows them"};
        inflateReset(&stream_);
        is_between_members_ = false;
    }

    FileBlocks& blocks_;
    z_stream stream_{};
    std::string text_;
    bool is_between_members_ = false;
    std::string fault_;
};

}  // namespace

std::unique_ptr<Decompressor> make_gzip_decompressor(FileBlocks& blocks) {
    return std::make_unique<GzipDecompressor>(blocks);
}

}  // namespace windlass
