#include "ui/root.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdlib>

#include "ui/http.h"

namespace windlass {
namespace {

// Nothing waits for the other end of a pipe.
constexpr int kSafely = O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
constexpr mode_t kMode = 0666;

Descriptor open_beneath(int folder, const std::string& path, int flags) {
    open_how how = {};
    how.flags = static_cast<uint64_t>((flags & O_PATH) != 0 ? flags | O_CLOEXEC : flags | kSafely);
    how.mode = (flags & O_CREAT) != 0 ? kMode : 0;
    how.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS;
    return Descriptor(static_cast<int>(syscall(SYS_openat2, folder, path.c_str(), &how, sizeof how)));
}

// Absolute, without links; empty if there is nothing.
std::string resolved(const std::string& path) {
    char* const found = realpath(path.c_str(), nullptr);
    std::string real = found == nullptr ? "" : found;
    std::free(found);
    return real;
}

// The same of a folder.
std::string resolved_folder(const std::string& path) {
    std::string folder = resolved(path);
    struct stat status = {};
    if (folder.empty() || stat(folder.c_str(), &status) != 0 || !S_ISDIR(status.st_mode)) return "";
    return folder;
}

// Whether the part of the path that exists is beneath this folder. A name that does not exist ends the search, and ".."
// after it is refused, since no kernel can say where it leads.
bool stays_beneath(int folder, std::string_view path) {
    for (size_t end = 0; end < path.size();) {
        end = std::min(path.find('/', end + 1), path.size());
        const std::string part(path.substr(0, end));
        if (open_beneath(folder, part, O_PATH).is_open()) continue;
        if (errno == EMFILE || errno == ENFILE) throw MachineError("openat2", part, errno);
        if (errno != ENOENT) return false;
        const std::string rest = "/" + std::string(path) + "/";
        return rest.find("/../") == std::string::npos;
    }
    return true;
}

// "a/b" of "/top/a/b" in "/top"; "." of the folder itself.
std::optional<std::string> relative_to(const std::string& folder, const std::string& path) {
    if (path == folder) return ".";
    const std::string head = folder == "/" ? folder : folder + "/";
    if (!path.starts_with(head)) return std::nullopt;
    const size_t begin = path.find_first_not_of('/', head.size());
    return begin == path.npos ? "." : path.substr(begin);
}

}  // namespace

Root::Root(const std::string& folder, std::vector<std::string> others) : folder_(resolved_folder(folder)) {
    if (folder_.empty()) throw UserError(ExitCode::usage, "--root", "there is no folder {}", folder).hint("--root .");
    at_ = Descriptor(::open(folder_.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!at_.is_open()) throw MachineError("open", folder_, errno);
    if (!open(".", O_PATH).is_open()) throw MachineError("openat2", folder_, errno, "Linux 5.6 or newer has it");
    for (const std::string& other : others) {
        if (const std::string found = resolved_folder(other); !found.empty()) others_.push_back(found);
    }
}

Descriptor Root::open(const std::string& path, int flags) const {
    return open_beneath(at_.number(), path, flags);
}

std::string Root::checked(std::string_view path, std::string_view where) const {
    const std::string text(path);
    if (text.empty()) throw HttpRefusal(400, where, "is empty; a path was expected");
    if (text.find('\0') != text.npos || text.size() >= PATH_MAX) throw HttpRefusal(400, where, "is not a path");
    if (text.front() == '-') throw HttpRefusal(400, where, "\"{}\" begins with a dash", text);
    if (text.front() != '/') {
        if (stays_beneath(at_.number(), text)) return text;
    } else if (const std::string real = resolved(text); !real.empty()) {
        if (relative_to(folder_, real)) return text;
        if (std::ranges::any_of(others_,
                                [&](const std::string& other) { return relative_to(other, real).has_value(); }))
            return text;
    } else {
        const std::optional<std::string> inner = relative_to(folder_, text);
        if (inner && stays_beneath(at_.number(), *inner)) return text;
        for (const std::string& other : others_) {
            const std::optional<std::string> inside = relative_to(other, text);
            const Descriptor folder(::open(other.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
            if (inside && stays_beneath(folder.number(), *inside)) return text;
        }
    }
    HttpRefusal refusal(400, where, "{} is not inside {}, the folder that this page may use", text, folder_);
    refusal.hint("windlass ui --also DIR allows another folder");
    throw refusal;
}

PartOfFile Root::read(const std::string& path, int64_t from, int64_t bytes_max) const {
    const Descriptor file = open(path, O_RDONLY);
    struct stat status = {};
    if (!file.is_open() || fstat(file.number(), &status) != 0 || !S_ISREG(status.st_mode)) return {};
    PartOfFile part;
    if (from < 0) part.begin = std::max<int64_t>(0, status.st_size + from);
    if (from > 0 && from <= status.st_size) part.begin = from;
    part.bytes.resize(static_cast<size_t>(std::clamp<int64_t>(status.st_size - part.begin, 0, bytes_max)));
    size_t count = 0;
    while (count < part.bytes.size()) {
        const auto bytes = pread(file.number(), part.bytes.data() + count, part.bytes.size() - count,
                                 part.begin + static_cast<int64_t>(count));
        if (bytes <= 0) break;  // it was cut meanwhile
        count += static_cast<size_t>(bytes);
    }
    part.bytes.resize(count);
    return part;
}

void Root::touch(const std::string& path) const {
    if (open(path, O_WRONLY | O_CREAT).is_open()) return;
    throw MachineError("open", path, errno);
}

std::vector<Root::Entry> Root::list(const std::string& folder, int64_t entries_max) const {
    Descriptor at = open(folder, O_RDONLY | O_DIRECTORY);
    DIR* const stream = at.is_open() ? fdopendir(at.number()) : nullptr;
    if (stream == nullptr) return {};
    at.release();
    std::vector<Entry> entries;
    for (const dirent* each = readdir(stream); each != nullptr; each = readdir(stream)) {
        struct stat status = {};
        if (std::ssize(entries) >= entries_max) break;
        if (each->d_name[0] == '.' || fstatat(dirfd(stream), each->d_name, &status, AT_SYMLINK_NOFOLLOW) != 0) continue;
        if (S_ISDIR(status.st_mode) || S_ISREG(status.st_mode))
            entries.push_back({each->d_name, S_ISDIR(status.st_mode), status.st_size});
    }
    closedir(stream);
    std::ranges::sort(entries, {}, &Entry::name);
    return entries;
}

}  // namespace windlass
