// token_cache.h: tokenised samples on disk, so that a data set is tokenised once and larger than memory.
//
// A cache belongs to the exact bytes of its data files, the tokenizer and the options: its name is their hash, and
// changing any of them makes another cache. Written to a temporary file and renamed when complete. A damaged cache is
// noticed (header and index when it is opened, rows when they are read) and rebuilt.
// Format: docs/format/token_cache.md. Memory: 16 bytes a sample. Threads: one at a time.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/file.h"
#include "rows/rows.h"

namespace windlass {

class TokenCache {
  public:
    // The cache of these data files in this folder, built if it is not there or damaged. Reads every data file once
    // for its hash. Throws what for_each_sample throws, and UserError(data) when there is not one sample.
    static TokenCache open_or_build(FileSystem& files, const std::string& folder, const std::vector<std::string>& paths,
                                    const RowsOptions& options, const Tokenizer& tokenizer);

    int64_t size() const { return static_cast<int64_t>(lengths_.size()); }
    // Tokens of each sample.
    std::span<const uint32_t> lengths() const { return lengths_; }
    // What tokenising said, when the cache was built.
    const RowsReport& report() const { return report_; }
    // It was not there: what each file holds has been logged.
    bool was_built() const { return was_built_; }
    const std::string& path() const { return path_; }

    // One sample. Throws UserError(storage) when its bytes are damaged.
    Sample read(int64_t index) const;

  private:
    using Key = std::array<uint64_t, 2>;

    TokenCache() = default;
    static Key key_of(FileSystem& files, const std::vector<std::string>& paths, const RowsOptions& options,
                      const Tokenizer& tokenizer);
    static TokenCache open(FileSystem& files, const std::string& path, const Key& key, int64_t id_end);
    friend class TokenCacheWriter;

    std::string path_;
    std::unique_ptr<File> file_;
    bool was_built_ = false;
    int64_t id_end_ = 0;  // one past the tokenizer's last id
    RowsReport report_;
    std::vector<uint32_t> lengths_;    // tokens
    std::vector<uint32_t> checksums_;  // of each sample's bytes
    std::vector<int64_t> offsets_;     // in the file
};

}  // namespace windlass
