// temp_folder.h: a folder of its own for a test, removed with everything in it at the end.
#pragma once

#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <string>

#include "base/file.h"

namespace windlass {

class TempFolder {
  public:
    TempFolder() {
        static std::atomic<int> count = 0;
        path_ = (std::filesystem::temp_directory_path() / fmt::format("windlass-{}-{}", ::getpid(), count++)).string();
        real_files().make_folders(path_);
    }
    TempFolder(const TempFolder&) = delete;
    TempFolder& operator=(const TempFolder&) = delete;
    ~TempFolder() {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }
    const std::string& path() const { return path_; }
    std::string operator/(std::string_view name) const { return fmt::format("{}/{}", path_, name); }

  private:
    std::string path_;
};

}  // namespace windlass
