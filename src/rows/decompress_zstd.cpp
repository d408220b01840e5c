#include <archive.h>

#include <cerrno>
#include <exception>

#include "base/error.h"
#include "rows/decompress.h"

namespace windlass {
namespace {

struct FreeArchive {
    void operator()(archive* opened) const { archive_read_free(opened); }
};

// One stream through libarchive's filters; its "raw" format takes what comes out as it is.
class ZstdDecompressor : public Decompressor {
  public:
    explicit ZstdDecompressor(FileBlocks& blocks) : blocks_(blocks), archive_(archive_read_new()) {
        if (!archive_) throw MachineError("archive_read_new", blocks.path(), ENOMEM);
        const int filter = archive_read_support_filter_zstd(archive_.get());
        // ARCHIVE_WARN: it would start a program of that name.
        if (filter != ARCHIVE_OK)
            throw UserError(ExitCode::data, blocks.path(), "this libarchive does not read zstd")
                .hint("decompress the file first");
        archive_read_support_format_raw(archive_.get());
        archive_read_support_format_empty(archive_.get());
    }

    std::string_view next() override {
        if (!is_open_) open();
        const void* bytes = nullptr;
        size_t count = 0;
        la_int64_t offset = 0;
        while (!is_finished_ && count == 0) {
            const int result = archive_read_data_block(archive_.get(), &bytes, &count, &offset);
            check(result);
            is_finished_ = result == ARCHIVE_EOF;
        }
        return is_finished_ ? std::string_view() : std::string_view(static_cast<const char*>(bytes), count);
    }

  private:
    void open() {
        is_open_ = true;
        check(archive_read_open(archive_.get(), this, nullptr, read_block, nullptr));
        archive_entry* entry = nullptr;
        const int result = archive_read_next_header(archive_.get(), &entry);
        check(result);
        is_finished_ = result == ARCHIVE_EOF;
        // Filters are stacked as long as what comes out looks compressed.
        constexpr int kFilters = 2;  // the compression, and the file
        const int filters = archive_filter_count(archive_.get());
        if (filters < kFilters) throw Damage{"they do not begin as they should"};
        if (filters > kFilters)
            throw UserError(ExitCode::data, blocks_.path(), "is compressed more than once").hint("decompress it once");
    }

    void check(int result) const {
        if (failure_) std::rethrow_exception(failure_);
        if (result == ARCHIVE_OK || result == ARCHIVE_EOF) return;
        const char* const text = archive_error_string(archive_.get());
        const std::string what = text != nullptr ? text : "they are damaged";
        if (what.find("too much memory") != std::string::npos) throw Damage{what, kDecompressFirst};
        throw Damage{what};
    }

    // No exception may pass through C.
    static la_ssize_t read_block(archive*, void* self, const void** bytes) {
        auto& me = *static_cast<ZstdDecompressor*>(self);
        try {
            const std::span<const std::byte> block = me.blocks_.next();
            *bytes = block.data();
            return static_cast<la_ssize_t>(block.size());
        } catch (...) {
            me.failure_ = std::current_exception();
            return -1;
        }
    }

    FileBlocks& blocks_;
    std::unique_ptr<archive, FreeArchive> archive_;
    bool is_open_ = false, is_finished_ = false;
    std::exception_ptr failure_;
};

}  // namespace

std::unique_ptr<Decompressor> make_zstd_decompressor(FileBlocks& blocks) {
    return std::make_unique<ZstdDecompressor>(blocks);
}

}  // namespace windlass
