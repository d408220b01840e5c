// small_disk.h: a disk of a given size, for tests that fill one.
#pragma once

#include <sys/mount.h>

#include <cstdint>
#include <filesystem>
#include <string>

#include "base/error.h"

namespace windlass::cli {

// A disk of a given size, mounted at a folder; needs root.
class SmallDisk {
  public:
    SmallDisk(const std::string& folder, int64_t bytes) : folder_(folder) {
        std::filesystem::create_directories(folder);
        const std::string options = fmt::format("size={},mode=0777", bytes);
        is_mounted_ = ::mount("none", folder.c_str(), "tmpfs", 0, options.c_str()) == 0;
    }
    ~SmallDisk() {
        if (is_mounted_) ::umount2(folder_.c_str(), MNT_DETACH);
    }
    SmallDisk(const SmallDisk&) = delete;
    SmallDisk& operator=(const SmallDisk&) = delete;
    bool is_mounted() const { return is_mounted_; }

  private:
    std::string folder_;
    bool is_mounted_ = false;
};

}  // namespace windlass::cli
