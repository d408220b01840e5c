#include "format/side_file_copy.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <span>
#include <thread>
#include <vector>

#include "base/error.h"

namespace windlass {
namespace {

constexpr int64_t kCopyBytes = int64_t{1} << 18;
constexpr int kReadTries = 3;
constexpr auto kPauseBetweenTries = std::chrono::milliseconds(50);

// One try.
std::string copy_once(FileSystem& files, const std::string& from, const std::string& to) {
    std::vector<std::byte> buffer(static_cast<size_t>(kCopyBytes));
    std::string problem;
    const auto reads = [&](const auto& call) {
        try {
            call();
        } catch (const Error& error) {
            problem = error.what();
        }
        return problem.empty();
    };
    std::unique_ptr<File> source;
    int64_t bytes = 0;
    if (!reads([&] { source = files.open(from, {.mode = OpenMode::read}), bytes = source->size(); })) return problem;
    const std::unique_ptr<File> copy = files.open(to, {.mode = OpenMode::create_new});
    for (int64_t offset = 0; offset < bytes; offset += kCopyBytes) {
        const auto piece = std::span(buffer).first(static_cast<size_t>(std::min(kCopyBytes, bytes - offset)));
        if (!reads([&] { source->read_at(piece, offset); })) {
            files.remove_file(to);
            return problem;
        }
        copy->write_at(piece, offset);
    }
    copy->sync();
    return "";
}

}  // namespace

std::string copy_side_file(FileSystem& files, const std::string& from, const std::string& to) {
    std::string problem;
    for (int tries = 0; tries < kReadTries; ++tries) {
        if (tries > 0) std::this_thread::sleep_for(kPauseBetweenTries);
        problem = copy_once(files, from, to);
        if (problem.empty()) break;
    }
    return problem;
}

}  // namespace windlass
