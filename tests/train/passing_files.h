// passing_files.h: the real file system behind an object of its own, of which a test replaces what it wants to.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/file.h"

namespace windlass {

class PassingFiles : public FileSystem {
  public:
    std::unique_ptr<File> open(const std::string& path, const OpenOptions& options) override {
        return real_files().open(path, options);
    }
    bool exists(const std::string& path) override { return real_files().exists(path); }
    FileStatus status(const std::string& path) override { return real_files().status(path); }
    std::string resolve(const std::string& path) override { return real_files().resolve(path); }
    std::vector<std::string> list(const std::string& folder) override { return real_files().list(folder); }
    void make_folders(const std::string& path) override { real_files().make_folders(path); }
    void rename(const std::string& from, const std::string& to) override { real_files().rename(from, to); }
    void remove_file(const std::string& path) override { real_files().remove_file(path); }
    void remove_tree(const std::string& path) override { real_files().remove_tree(path); }
    void sync_folder(const std::string& path) override { real_files().sync_folder(path); }
    int64_t free_bytes(const std::string& path) override { return real_files().free_bytes(path); }
    std::unique_ptr<FileQueue> make_queue(QueueKind kind, int depth) override {
        return real_files().make_queue(kind, depth);
    }
};

}  // namespace windlass
