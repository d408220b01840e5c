#include "data/token_folder.h"

#include <fmt/ranges.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "base/error.h"
#include "base/file_error.h"
#include "base/log.h"
#include "config/user_folder.h"

namespace windlass {
namespace {

// Of this user alone, under a name that no other process knows; nothing where none can be made.
std::optional<std::string> private_folder(const std::string& parent) {
    std::string path = path_in(parent, "windlass-tokens-") + std::string(6, 'X');  // which mkdtemp replaces
    if (::mkdtemp(path.data()) == nullptr) return std::nullopt;
    return path;
}

void remove_quietly(FileSystem& files, const std::string& folder) {
    try {
        files.remove_tree(folder);
    } catch (const Error& error) {
        log_warning("{}", error.what());
    }
}

// Its message begins with the file.
bool is_within(const MachineError& error, const std::string& folder) {
    return std::string_view(error.what()).starts_with(folder);
}

std::vector<std::string> temporary_folders() {
    const char* const named = std::getenv("TMPDIR");
    std::vector<std::string> folders = {"/tmp", "/dev/shm"};
    if (named != nullptr && named[0] == '/') folders.insert(folders.begin(), named);
    return folders;
}

}  // namespace

std::string token_cache_folder(const std::string& cache_dir) {
    if (!cache_dir.empty()) return cache_dir;
    const std::string cache = user_cache_folder();
    return cache.empty() ? "" : cache + "/tokens";
}

std::string_view token_cache_setting(const std::string& cache_dir) {
    return cache_dir.empty() ? kCacheHomeSetting : kCacheDirSetting;
}

TokenCache open_token_cache(FileSystem& files, const std::string& cache_dir, const std::vector<std::string>& paths,
                            const RowsOptions& options, const Tokenizer& tokenizer) {
    const std::string folder = token_cache_folder(cache_dir);
    std::string why;
    try {
        if (!folder.empty()) return TokenCache::open_or_build(files, folder, paths, options, tokenizer);
    } catch (const MachineError& error) {
        if (!is_within(error, folder)) throw;
        why = std::strerror(error.error_number());
    }
    note_no_cache(folder, why, token_cache_setting(cache_dir));
    const std::vector<std::string> parents = temporary_folders();
    for (const std::string& parent : parents) {
        const std::optional<std::string> own = private_folder(parent);
        if (!own) continue;
        try {
            // Its file stays open, and goes with the process.
            TokenCache cache = TokenCache::open_or_build(files, *own, paths, options, tokenizer);
            remove_quietly(files, *own);
            return cache;
        } catch (const MachineError& error) {
            remove_quietly(files, *own);
            if (!is_within(error, *own)) throw;
        } catch (...) {
            remove_quietly(files, *own);
            throw;
        }
    }
    throw UserError(ExitCode::storage, folder.empty() ? "tokens" : folder,
                    "tokenised rows cannot be written there, nor in {}", fmt::join(parents, ", "))
        .hint("--cache-dir DIR, a folder on a disk with room");
}

}  // namespace windlass
