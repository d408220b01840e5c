// safetensors_bytes.h: safetensors files made by hand, byte by byte, so that tests can make wrong ones.
#pragma once

#include <string>
#include <string_view>

#include "base/file.h"

namespace windlass {

// 8 bytes of little-endian length, the header, the data.
inline std::string safetensors_bytes(std::string_view header, std::string_view data) {
    std::string bytes;
    for (size_t i = 0; i < 8; ++i) bytes += static_cast<char>(header.size() >> (8 * i) & 0xff);
    return bytes.append(header).append(data);
}

inline void write_bytes(const std::string& path, std::string_view bytes) {
    const auto file = real_files().open(path, {.mode = OpenMode::create});
    file->write_at(std::as_bytes(std::span(bytes)), 0);
}

inline std::string read_bytes(const std::string& path) {
    return read_text(real_files(), path, int64_t{1} << 30);
}

// What() of the error of type E that a call throws; a failure of the test when it throws none.
template <typename E, typename Call>
std::string message_of(Call&& call) {
    try {
        call();
    } catch (const E& error) {
        return error.what();
    }
    ADD_FAILURE() << "nothing was thrown";
    return "";
}

}  // namespace windlass
