#include "base/file_lock.h"

#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstring>
#include <fstream>
#include <mutex>
#include <set>
#include <system_error>

#include "base/error.h"
#include "base/file_error.h"
#include "base/log.h"

namespace windlass {
namespace {

constexpr int64_t kOwnerBytesMax = 1024;

int error_of(int result) {
    return result == 0 ? 0 : errno;
}

void warn_once(const std::string& path, std::string_view missing, int error_number, std::string_view instead) {
    static std::mutex mutex;
    static std::set<std::string> told;
    const std::string text = fmt::format("{}: the file system has no {} ({}); {}", parent_folder(path), missing,
                                         std::strerror(error_number), instead);
    const std::lock_guard lock(mutex);
    if (told.insert(text).second) log_warning("{}", text);
}

// ---- the file that names its process ----

// Of a file in /proc, whose size is not known before; empty if it is not there.
std::string first_line(const std::string& path) {
    std::ifstream file(path);
    std::string line;
    std::getline(file, line);
    return line;
}

// "3f0c... 4026531836": the kernel since it was started, and the namespace in which its processes have numbers.
std::string place_of_processes() {
    char name[64] = {};
    const ssize_t count = ::readlink("/proc/self/ns/pid", name, sizeof name - 1);
    const std::string boot = first_line("/proc/sys/kernel/random/boot_id");
    return count <= 0 || boot.empty() ? ""
                                      : fmt::format("{} {}", boot, std::string_view(name, static_cast<size_t>(count)));
}

std::string host_name() {
    char name[256] = {};
    return ::gethostname(name, sizeof name - 1) == 0 ? name : "this host";
}

// When a process of this number started, in ticks since the kernel did: numbers are given again. Empty: it does not
// exist.
std::string start_of(int64_t process) {
    const std::string line = first_line(fmt::format("/proc/{}/stat", process));
    constexpr int kFieldsBefore = 20;  // after the name, which may hold anything, and its parenthesis
    size_t at = line.rfind(')');
    for (int field = 0; at != line.npos && field < kFieldsBefore; ++field) at = line.find(' ', at + 1);
    return at == line.npos ? "" : line.substr(at + 1, line.find(' ', at + 1) - at - 1);
}

// Four lines: number, start, host, place.
struct Owner {
    int64_t process = 0;
    std::string start, host, place;

    std::string text() const { return fmt::format("{}\n{}\n{}\n{}\n", process, start, host, place); }
};

Owner own_owner() {
    const int64_t process = ::getpid();
    return {process, start_of(process), host_name(), place_of_processes()};
}

std::optional<Owner> parse_owner(std::string_view text) {
    std::string_view lines[4];
    for (std::string_view& line : lines) {
        const size_t end = text.find('\n');
        if (end == text.npos) return std::nullopt;
        line = text.substr(0, end);
        text.remove_prefix(end + 1);
    }
    Owner owner{0, std::string(lines[1]), std::string(lines[2]), std::string(lines[3])};
    const char* const end = lines[0].data() + lines[0].size();
    const auto [parsed, problem] = std::from_chars(lines[0].data(), end, owner.process);
    if (parsed != end || problem != std::errc() || owner.process <= 0) return std::nullopt;
    return owner;
}

enum class Life { over, going, unknown };

Life life_of(const std::optional<Owner>& owner) {
    if (!owner || owner->place.empty() || owner->place != place_of_processes()) return Life::unknown;
    const bool is_gone = ::kill(static_cast<pid_t>(owner->process), 0) != 0 && errno == ESRCH;
    if (is_gone) return Life::over;
    const std::string start = start_of(owner->process);
    return start.empty() || owner->start.empty() || start == owner->start ? Life::going : Life::over;
}

std::optional<std::string> read_owner(FileSystem& files, const std::string& path) {
    try {
        if (!files.exists(path)) return std::nullopt;
        return read_text(files, path, kOwnerBytesMax);
    } catch (const MachineError& error) {
        if (error.error_number() == ENOENT) return std::nullopt;  // just now
        throw;
    }
}

// Whether the file was made, and is this process's.
bool make_owner(FileSystem& files, const std::string& path, const std::string& text) {
    try {
        const std::unique_ptr<File> file = files.open(path, {OpenMode::create_new});
        file->write_at(std::as_bytes(std::span(text)), 0);
        file->sync();
    } catch (const MachineError& error) {
        if (error.error_number() == EEXIST) return false;
        throw;
    }
    return read_owner(files, path) == text;
}

// Of a process that is over. Another process may do the same, and have its own file there already: then that is put
// back.
void remove_left(FileSystem& files, const std::string& path, const std::string& text) {
    const std::string aside = fmt::format("{}.{}", path, ::getpid());
    try {
        files.rename(path, aside);
        if (read_owner(files, aside) == text) return files.remove_file(aside);
        files.rename(aside, path);
    } catch (const MachineError& error) {
        if (error.error_number() != ENOENT) throw;
    }
}

LockAttempt held_by(const std::optional<Owner>& owner, Life life, const std::string& path) {
    const std::string who =
        owner ? fmt::format("process {} on {}", owner->process, owner->host) : std::string("an unknown process");
    if (life == Life::going) return {std::nullopt, who, ""};
    return {std::nullopt, fmt::format("{}, which may be over: {} names it", who, path), path};
}

constexpr int64_t kTries = 8;  // each after a file of a process that is over

// Nothing: it is this process's, whose text is `own`, or no process has it and the use is shared.
std::optional<LockAttempt> take_owner_file(FileSystem& files, const std::string& path, LockUse use,
                                           const std::string& own) {
    for (int64_t tries = 0; tries < kTries; ++tries) {
        const std::optional<std::string> text = read_owner(files, path);
        if (!text && (use == LockUse::shared || make_owner(files, path, own))) return std::nullopt;
        if (!text) continue;
        const std::optional<Owner> owner = parse_owner(*text);
        const Life life = life_of(owner);
        if (life != Life::over) return held_by(owner, life, path);
        if (use == LockUse::shared) return std::nullopt;
        log_warning("{}: process {}, which had the lock, is over", path, owner->process);
        remove_left(files, path, *text);
    }
    return held_by(std::nullopt, Life::going, path);
}

}  // namespace

const LockCalls kSystemLocks = {
    [](int descriptor, int operation) { return error_of(::flock(descriptor, operation)); },
    [](int descriptor, int command, struct flock* range) { return error_of(::fcntl(descriptor, command, range)); }};

// flock(2) says EWOULDBLOCK, fcntl(2) EAGAIN or EACCES. EACCES of flock is a file system's own that has it by fcntl.
bool means_locked(int error_number) {
    return error_number == EWOULDBLOCK || error_number == EAGAIN;
}

FileLock::~FileLock() {
    if (owner_path_.empty() || file_ == nullptr) return;
    try {
        if (read_owner(*files_, owner_path_) == owner_text_) files_->remove_file(owner_path_);
    } catch (const Error& error) {
        log_warning("{}", error.what());
    }
}

LockAttempt try_lock(FileSystem& files, std::unique_ptr<File> file, LockUse use, const LockCalls& calls) {
    const int descriptor = file->descriptor();
    const std::string path = file->path();
    FileLock lock(files, std::move(file));
    if (descriptor < 0) return {std::move(lock), "", ""};
    const bool alone = use == LockUse::alone;
    const auto repeated = [](auto call) {
        int error = EINTR;
        while (error == EINTR) error = call();
        return error;
    };
    const int of_flock = repeated([&] { return calls.flock(descriptor, (alone ? LOCK_EX : LOCK_SH) | LOCK_NB); });
    if (of_flock == 0) return {std::move(lock), "", ""};
    if (means_locked(of_flock)) return {std::nullopt, "another process", ""};
    struct flock whole {};
    whole.l_type = alone ? F_WRLCK : F_RDLCK;
    whole.l_whence = SEEK_SET;
    const int of_fcntl = repeated([&] { return calls.fcntl(descriptor, F_OFD_SETLK, &whole); });
    if (of_fcntl == 0) {
        warn_once(path, "flock", of_flock, "fcntl locks are used");
        return {std::move(lock), "", ""};
    }
    if (means_locked(of_fcntl) || of_fcntl == EACCES) return {std::nullopt, "another process", ""};
    warn_once(path, "locks", of_fcntl, fmt::format("files named *{} take their place", kLockOwnerSuffix));
    const std::string owner_path = path + kLockOwnerSuffix, own = own_owner().text();
    if (std::optional<LockAttempt> held = take_owner_file(files, owner_path, use, own)) return std::move(*held);
    if (alone) lock.owner_path_ = owner_path, lock.owner_text_ = own;
    return {std::move(lock), "", ""};
}

}  // namespace windlass
