// token_folder.h: where tokenised rows are kept, and what becomes of them where nothing can be kept.
#pragma once

#include <string>
#include <vector>

#include "base/file.h"
#include "rows/token_cache.h"

namespace windlass {

// The folder that keeps tokenised rows: cache_dir, else windlass/tokens in the user's cache. Empty without either.
std::string token_cache_folder(const std::string& cache_dir);

// The setting that names another folder in place of that one.
std::string_view token_cache_setting(const std::string& cache_dir);

// TokenCache::open_or_build in that folder. Where it cannot be read or written, or its disk is full, a note says so,
// and the rows go to a file without a name in TMPDIR, /tmp or /dev/shm, which ends with the process. UserError(storage)
// where none of them takes it.
TokenCache open_token_cache(FileSystem& files, const std::string& cache_dir, const std::vector<std::string>& paths,
                            const RowsOptions& options, const Tokenizer& tokenizer);

}  // namespace windlass
