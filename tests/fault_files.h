// fault_files.h: a file system that fails on request and that can lose its power.
//
// Everything below `root` lives in memory, as a drive with a volatile cache would hold it: a write counts as durable
// once its file was synced, a new name, a rename or a removal once its folder was synced. crash() makes the file
// system that a machine would find after the power went at this instant. Paths elsewhere pass through to the file
// system beneath. Rules make any call fail, in either place.
//
// Threads: any. Files and queues must not outlive their FaultFiles.
#pragma once

#include <cerrno>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/file.h"
#include "tests/file_image.h"

namespace windlass {

// change: whatever changes what a drive holds, or makes it durable: all but reads, and opens that make no file.
enum class FaultCall { open, read, write, sync, resize, make_folders, rename, remove, sync_folder, change, any };

struct FaultRule {
    static constexpr int64_t kForever = std::numeric_limits<int64_t>::max() / 2;

    FaultCall call = FaultCall::any;
    int64_t nth = 1;  // the first call that fails, counted from 1 among those that match, from the rule's start
    int error_number = EIO;
    int64_t times = 1;           // how many calls fail in a row
    int64_t bytes_first = 0;     // of a write in `root`: this much is written before it fails
    std::string path_part = "";  // only paths that contain this
};

class FaultFiles final : public FileSystem {
  public:
    static constexpr int64_t kCapacityDefault = int64_t{1} << 40;

    explicit FaultFiles(std::string root, FileSystem& beneath = real_files());

    void fail(const FaultRule& rule);
    void clear_rules();
    // From now on `n` more calls succeed; then the machine is dead and every call fails with EIO.
    void cut_power_after(int64_t n) { fail({.nth = n + 1, .times = FaultRule::kForever}); }
    // The same of changes: what follows reads what is there, and changes nothing more. Of a write that comes too late
    // this much is done.
    void die_after_changes(int64_t n, int64_t bytes_first = 0) {
        fail({.call = FaultCall::change, .nth = n + 1, .times = FaultRule::kForever, .bytes_first = bytes_first});
    }
    int64_t calls(FaultCall call) const;  // so far
    void set_capacity(int64_t bytes);     // of the image; writes beyond it fail with ENOSPC

    // The image after the power went now: durable in itself, without rules. Every change that was not synced is
    // lost, kept or torn at sector borders, by the seed (0: all lost; 1: all kept).
    std::unique_ptr<FaultFiles> crash(uint64_t seed) const;
    // Copies the files of the image into a folder of another file system.
    void copy_to(FileSystem& files, const std::string& folder) const;

    std::unique_ptr<File> open(const std::string& path, const OpenOptions& options) override;
    bool exists(const std::string& path) override;
    FileStatus status(const std::string& path) override;
    std::string resolve(const std::string& path) override;
    std::vector<std::string> list(const std::string& folder) override;
    void make_folders(const std::string& path) override;
    void rename(const std::string& from, const std::string& to) override;
    void remove_file(const std::string& path) override;
    void remove_tree(const std::string& path) override;
    void sync_folder(const std::string& path) override;
    int64_t free_bytes(const std::string& path) override;
    std::unique_ptr<FileQueue> make_queue(QueueKind kind, int depth) override;

  private:
    friend class FaultFile;
    using Image = std::shared_ptr<FileImage>;  // null: a folder
    using Names = std::map<std::string, Image>;
    struct NameChange {
        enum class Verb { link, move, unlink } verb;
        std::string path;
        std::string from;  // move
        Image image;       // link
    };
    struct Watch {
        FaultRule rule;
        int64_t seen = 0;
    };

    // Counts the call and throws when a rule says so; a write then does its first bytes through `partly`.
    void enter(FaultCall call, std::string_view name, const std::string& path,
               const std::function<void(int64_t)>& partly = nullptr);
    void enter(FaultCall call, bool is_change, std::string_view name, const std::string& path,
               const std::function<void(int64_t)>& partly);
    bool inside(const std::string& path) const;
    std::string key(const std::string& path) const;
    static bool below(const std::string& path, const std::string& folder);
    static void apply(const NameChange& change, Names& names);
    void change_names(NameChange change);
    void require_folder(const std::string& path, std::string_view call) const;
    int64_t free_now() const;
    Image open_image(const std::string& path, OpenMode mode);

    std::string root_;
    FileSystem& beneath_;
    mutable std::mutex mutex_;
    Names names_, durable_names_;
    std::vector<NameChange> pending_names_;  // since the sync of their folder, oldest first
    std::vector<Watch> watches_;
    std::map<FaultCall, int64_t> calls_;
    int64_t capacity_ = kCapacityDefault;
    uint64_t queue_seed_ = 0;
};

// A queue over any files that completes transfers in a seeded order, in pieces that mix with one another's, as late
// as it may: what a request writes is unknown until it was reaped.
std::unique_ptr<FileQueue> make_fault_queue(int depth, uint64_t seed);

}  // namespace windlass
