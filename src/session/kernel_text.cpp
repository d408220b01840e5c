#include "session/kernel_text.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <exception>

namespace windlass {

std::optional<std::string> read_kernel_text(FileSystem& files, const std::string& path, int64_t bytes_max) {
    std::unique_ptr<File> file;
    try {
        file = files.open(path, {.mode = OpenMode::read});
    } catch (const std::exception&) {  // a limit that cannot be read ends no run
        return std::nullopt;
    }
    std::string text;
    char piece[4096];
    for (int64_t left = bytes_max; left > 0;) {
        const auto most = static_cast<size_t>(std::min<int64_t>(left, sizeof piece));
        const ssize_t count = ::pread(file->descriptor(), piece, most, std::ssize(text));
        if (count <= 0) return text;
        text.append(piece, static_cast<size_t>(count));
        left -= count;
    }
    text.resize(text.rfind('\n') + 1);  // half of a number is another number
    return text;
}

int64_t kernel_bytes(std::string_view text, std::string_view name) {
    for (size_t at = 0; at < text.size();) {
        const std::string_view line = text.substr(at, text.find('\n', at) - at);
        at += line.size() + 1;
        if (!line.starts_with(name) || !line.substr(name.size()).starts_with(':')) continue;
        const size_t digit = line.find_first_of("0123456789", name.size());
        return digit == line.npos ? 0 : first_number(line.substr(digit)).value_or(0) * 1024;
    }
    return 0;
}

std::optional<int64_t> first_number(std::string_view text) {
    text = text.substr(0, text.find_first_of(" \n"));
    int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
    return value;
}

}  // namespace windlass
