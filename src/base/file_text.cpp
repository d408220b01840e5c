#include "base/file.h"
#include "base/file_error.h"
#include "base/units.h"

namespace windlass {

std::string read_text(FileSystem& files, const std::string& path, int64_t max_bytes) {
    const std::unique_ptr<File> file = files.open(path, {.mode = OpenMode::read});
    const int64_t bytes = file->size();
    if (bytes > max_bytes) {
        throw UserError(ExitCode::storage, path, "has {}, at most {} are read", format_bytes(bytes),
                        format_bytes(max_bytes));
    }
    std::string text(static_cast<size_t>(bytes), '\0');
    file->read_at(std::as_writable_bytes(std::span(text)), 0);
    if (text.starts_with(kByteOrderMark)) text.erase(0, kByteOrderMark.size());
    return text;
}

void write_text_atomic(FileSystem& files, const std::string& path, std::string_view text,
                       const std::string& temporary) {
    const std::string unfinished = temporary.empty() ? path + ".tmp" : temporary;
    {
        const std::unique_ptr<File> file = files.open(unfinished, {.mode = OpenMode::create});
        file->write_at(std::as_bytes(std::span(text)), 0);
        file->sync();
    }
    files.rename(unfinished, path);
    files.sync_folder(parent_folder(path));
}

}  // namespace windlass
