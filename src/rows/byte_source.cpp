#include "rows/byte_source.h"

#include <algorithm>
#include <span>

#include "base/error.h"
#include "base/units.h"
#include "rows/decompress.h"

namespace windlass {
namespace {

constexpr int64_t kBlockBytes = int64_t{1} << 20;
// Small, so that what is handed out is hardly more than what the text came from.
constexpr int64_t kCompressedBlockBytes = int64_t{1} << 16;
constexpr size_t kFirstBytes = 8;  // more than any compression's mark has

class PlainSource : public ByteSource {
  public:
    explicit PlainSource(std::unique_ptr<File> file) : file_(std::move(file)), size_(file_->size()) {}

    bool read(std::string& into, int64_t) override {
        const int64_t bytes = std::min(kBlockBytes, size_ - offset_);
        if (bytes <= 0) return false;
        into.resize(static_cast<size_t>(bytes));
        file_->read_at(std::as_writable_bytes(std::span(into)), offset_);
        offset_ += bytes;
        return true;
    }
    std::string expansion() const override { return ""; }

  private:
    std::unique_ptr<File> file_;
    int64_t size_;
    int64_t offset_ = 0;
};

std::unique_ptr<Decompressor> make_decompressor(FileBlocks& blocks, Compression compression) {
    switch (compression) {
        case Compression::gzip:
            return make_gzip_decompressor(blocks);
        case Compression::xz:
            return make_xz_decompressor(blocks);
        case Compression::zstd:
            return make_zstd_decompressor(blocks);
        case Compression::none:
            break;
    }
    return nullptr;
}

class CompressedSource : public ByteSource {
  public:
    CompressedSource(std::unique_ptr<File> file, Compression compression)
        : blocks_(std::move(file)), compression_(compression) {
        decompressor_ = make_decompressor(blocks_, compression);
    }

    bool read(std::string& into, int64_t line) override {
        try {
            const std::string_view text = decompressor_->next();
            if (text.empty()) return false;
            into.assign(text);
        } catch (const Damage& damage) {
            throw UserError(ExitCode::data, fmt::format("{}:{}", blocks_.path(), line),
                            "the {} data cannot be decompressed after {} of text: {}", name_of(compression_),
                            format_bytes(text_bytes_), damage.what)
                .hint(damage.hint);
        }
        text_bytes_ += static_cast<int64_t>(into.size());
        if (text_bytes_ > kExpandedFreeBytes && text_bytes_ / kExpansionMax > blocks_.bytes())
            throw UserError(ExitCode::data, fmt::format("{}:{}", blocks_.path(), line),
                            "{} of {} data became {} of text, more than {} times as much",
                            format_bytes(blocks_.bytes()), name_of(compression_), format_bytes(text_bytes_),
                            kExpansionMax)
                .hint("check what it holds; a file that is as it should be can be decompressed first");
        return true;
    }
    std::string expansion() const override {
        return fmt::format("{} of text from {} of {}", format_bytes(text_bytes_), format_bytes(blocks_.bytes()),
                           name_of(compression_));
    }

  private:
    FileBlocks blocks_;
    Compression compression_;
    std::unique_ptr<Decompressor> decompressor_;
    int64_t text_bytes_ = 0;
};

[[noreturn]] void refuse_other_content(const std::string& path, Compression named, Compression found, bool is_short) {
    if (is_short)
        throw UserError(ExitCode::data, path, "the file ends before its {} data begin", name_of(named))
            .hint("copy or fetch the file again");
    const std::string plain = path.substr(0, path.rfind('.'));
    throw UserError(ExitCode::data, path, "is no {} file, as its name says, but {}", name_of(named),
                    found == Compression::none ? "begins otherwise" : name_of(found))
        .hint(found == Compression::none ? fmt::format("if it holds plain text, rename it to {}", plain)
                                         : fmt::format("rename it to {}{}", plain, ending_of(found)));
}

std::string first_bytes_of(File& file) {
    std::string bytes(std::min(kFirstBytes, static_cast<size_t>(file.size())), '\0');
    file.read_at(std::as_writable_bytes(std::span(bytes)), 0);
    return bytes;
}

}  // namespace

std::span<const std::byte> FileBlocks::next() {
    block_.resize(static_cast<size_t>(std::min(kCompressedBlockBytes, size_ - offset_)));
    if (!block_.empty()) file_->read_at(block_, offset_);
    offset_ += std::ssize(block_);
    return block_;
}

std::unique_ptr<ByteSource> make_byte_source(std::unique_ptr<File> file, Compression compression) {
    if (compression == Compression::none) return std::make_unique<PlainSource>(std::move(file));
    const std::string first = first_bytes_of(*file);
    if (const Compression found = compression_of(first); found != compression)
        refuse_other_content(file->path(), compression, found, first.size() < kFirstBytes);
    return std::make_unique<CompressedSource>(std::move(file), compression);
}

}  // namespace windlass
