// compressed.h: texts as compressed files hold them, made by libarchive.
#pragma once

#include <archive.h>
#include <archive_entry.h>

#include <memory>
#include <string>
#include <string_view>

#include "base/error.h"
#include "rows/data_kind.h"

namespace windlass::fixtures {

inline std::string compressed(std::string_view text, Compression compression) {
    std::string out;
    const auto append = [](archive*, void* target, const void* bytes, size_t count) {
        static_cast<std::string*>(target)->append(static_cast<const char*>(bytes), count);
        return static_cast<la_ssize_t>(count);
    };
    const std::unique_ptr<archive, int (*)(archive*)> writer(archive_write_new(), archive_write_free);
    const std::unique_ptr<archive_entry, void (*)(archive_entry*)> entry(archive_entry_new(), archive_entry_free);
    const auto must = [&](int result) {
        WINDLASS_CHECK(result == ARCHIVE_OK, "libarchive: {}", archive_error_string(writer.get()));
    };
    archive* const to = writer.get();
    if (compression == Compression::gzip) must(archive_write_add_filter_gzip(to));
    if (compression == Compression::zstd) must(archive_write_add_filter_zstd(to));
    if (compression == Compression::xz) {
        must(archive_write_add_filter_xz(to));
        // A dictionary of 256 KiB: one of 8 MiB takes longer to clear than a short text to read.
        must(archive_write_set_filter_option(to, "xz", "compression-level", "0"));
    }
    must(archive_write_set_format_raw(to));
    must(archive_write_set_bytes_in_last_block(to, 1));  // no padding
    must(archive_write_open(to, &out, nullptr, append, nullptr));
    archive_entry_set_pathname(entry.get(), "text");
    archive_entry_set_filetype(entry.get(), AE_IFREG);
    must(archive_write_header(to, entry.get()));
    const la_ssize_t written = archive_write_data(to, text.data(), text.size());
    WINDLASS_CHECK(written == static_cast<la_ssize_t>(text.size()), "libarchive wrote {}", written);
    must(archive_write_close(to));
    return out;
}

}  // namespace windlass::fixtures
