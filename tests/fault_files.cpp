#include "tests/fault_files.h"

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "base/file_error.h"

namespace windlass {

// A file of the image, or one beneath that passes through.
class FaultFile final : public File {
  public:
    FaultFile(FaultFiles& owner, std::string path, OpenOptions options, FaultFiles::Image image)
        : owner_(owner), path_(std::move(path)), options_(options), image_(std::move(image)) {}
    FaultFile(FaultFiles& owner, OpenOptions options, std::unique_ptr<File> real)
        : owner_(owner), path_(real->path()), options_(options), real_(std::move(real)) {}

    const std::string& path() const override { return path_; }
    int descriptor() const override { return real_ ? real_->descriptor() : -1; }
    bool direct() const override { return real_ ? real_->direct() : options_.direct; }

    int64_t size() override {
        if (real_) return real_->size();
        const std::lock_guard lock(owner_.mutex_);
        return image_->size();
    }

    void read_at(std::span<std::byte> into, int64_t offset) override {
        const std::lock_guard lock(owner_.mutex_);
        owner_.enter(FaultCall::read, "pread", path_);
        if (real_) return real_->read_at(into, offset);
        const auto bytes = static_cast<int64_t>(into.size());
        require_aligned("pread", into.data(), bytes, offset);
        if (options_.mode == OpenMode::append) throw file_error("pread", path_, EBADF);
        if (offset + bytes > image_->size()) throw end_of_file_error(path_, image_->size(), offset, bytes);
        std::copy_n(image_->bytes().begin() + offset, bytes, into.begin());
    }

    void write_at(std::span<const std::byte> from, int64_t offset) override {
        const std::lock_guard lock(owner_.mutex_);
        if (real_) {
            owner_.enter(FaultCall::write, "pwrite", path_);
            return real_->write_at(from, offset);
        }
        if (options_.mode == OpenMode::read) throw file_error("pwrite", path_, EBADF);
        const auto bytes = static_cast<int64_t>(from.size());
        require_aligned("pwrite", from.data(), bytes, offset);
        if (options_.mode == OpenMode::append) offset = image_->size();
        owner_.enter(FaultCall::write, "pwrite", path_, [&](int64_t first) {
            image_->write(from.first(static_cast<size_t>(std::min(first, bytes))), offset);
        });
        require_space("pwrite", offset + bytes);
        image_->write(from, offset);
    }

    void preallocate(int64_t bytes) override {
        const std::lock_guard lock(owner_.mutex_);
        owner_.enter(FaultCall::resize, "fallocate", path_);
        if (real_) return real_->preallocate(bytes);
        require_space("fallocate", bytes);
        image_->resize(bytes);
    }

    void truncate(int64_t bytes) override {
        const std::lock_guard lock(owner_.mutex_);
        owner_.enter(FaultCall::resize, "ftruncate", path_);
        if (real_) return real_->truncate(bytes);
        image_->resize(bytes);
    }

    void sync() override {
        const std::lock_guard lock(owner_.mutex_);
        owner_.enter(FaultCall::sync, "fsync", path_);
        if (real_) return real_->sync();
        image_->sync();
    }

  private:
    void require_space(std::string_view call, int64_t bytes) const {
        const int64_t more = bytes - image_->size();
        if (more > owner_.free_now()) throw no_space_error(call, path_, more, owner_.free_now());
    }
    void require_aligned(std::string_view call, const std::byte* data, int64_t bytes, int64_t offset) const {
        const auto address = static_cast<int64_t>(reinterpret_cast<intptr_t>(data));
        if (options_.direct && (address | bytes | offset) % kDirectAlignment != 0)
            throw file_error(call, path_, EINVAL);
    }

    FaultFiles& owner_;
    std::string path_;
    OpenOptions options_;
    FaultFiles::Image image_;
    std::unique_ptr<File> real_;
};

FaultFiles::FaultFiles(std::string root, FileSystem& beneath)
    : root_(std::filesystem::path(root).lexically_normal().string()), beneath_(beneath) {
    names_[root_] = durable_names_[root_] = nullptr;
}

void FaultFiles::fail(const FaultRule& rule) {
    const std::lock_guard lock(mutex_);
    watches_.push_back({.rule = rule});
}

void FaultFiles::clear_rules() {
    const std::lock_guard lock(mutex_);
    watches_.clear();
}

int64_t FaultFiles::calls(FaultCall call) const {
    const std::lock_guard lock(mutex_);
    const auto found = calls_.find(call);
    return found == calls_.end() ? 0 : found->second;
}

void FaultFiles::set_capacity(int64_t bytes) {
    const std::lock_guard lock(mutex_);
    capacity_ = bytes;
}

void FaultFiles::enter(FaultCall call, std::string_view name, const std::string& path,
                       const std::function<void(int64_t)>& partly) {
    enter(call, call != FaultCall::open && call != FaultCall::read, name, path, partly);
}

void FaultFiles::enter(FaultCall call, bool is_change, std::string_view name, const std::string& path,
                       const std::function<void(int64_t)>& partly) {
    ++calls_[call];
    ++calls_[FaultCall::any];
    if (is_change) ++calls_[FaultCall::change];
    for (Watch& watch : watches_) {
        const FaultRule& rule = watch.rule;
        const bool is_meant =
            rule.call == FaultCall::any || (rule.call == FaultCall::change ? is_change : rule.call == call);
        if (!is_meant) continue;
        if (path.find(rule.path_part) == std::string::npos) continue;
        ++watch.seen;
        if (watch.seen < rule.nth || watch.seen - rule.nth >= rule.times) continue;
        if (partly && rule.bytes_first > 0) partly(rule.bytes_first);
        throw file_error(name, path, rule.error_number);
    }
}

std::string FaultFiles::key(const std::string& path) const {
    std::string text = std::filesystem::path(path).lexically_normal().string();
    if (text.size() > 1 && text.ends_with('/')) text.pop_back();
    return text;
}

bool FaultFiles::below(const std::string& path, const std::string& folder) {
    return path.size() > folder.size() && path.starts_with(folder) && path[folder.size()] == '/';
}

bool FaultFiles::inside(const std::string& path) const {
    return key(path) == root_ || below(key(path), root_);
}

int64_t FaultFiles::free_now() const {
    int64_t used = 0;
    for (const auto& [path, image] : names_) used += image ? image->size() : 0;
    return std::max<int64_t>(0, capacity_ - used);
}

void FaultFiles::apply(const NameChange& change, Names& names) {
    switch (change.verb) {
        case NameChange::Verb::link:
            names[change.path] = change.image;
            return;
        case NameChange::Verb::unlink:
            names.erase(change.path);
            return;
        case NameChange::Verb::move:
            break;
    }
    Names moved;
    for (auto at = names.begin(); at != names.end();) {
        const bool moves = at->first == change.from || below(at->first, change.from);
        if (moves) moved[change.path + at->first.substr(change.from.size())] = at->second;
        at = moves ? names.erase(at) : std::next(at);
    }
    for (auto& [path, image] : moved) names[path] = std::move(image);
}

void FaultFiles::change_names(NameChange change) {
    apply(change, names_);
    if (change.verb == NameChange::Verb::move) {  // what waits in a folder moves with it
        for (NameChange& waiting : pending_names_) {
            if (below(waiting.path, change.from)) waiting.path.replace(0, change.from.size(), change.path);
        }
    }
    pending_names_.push_back(std::move(change));
}

std::unique_ptr<FaultFiles> FaultFiles::crash(uint64_t seed) const {
    const std::lock_guard lock(mutex_);
    PowerCut cut(seed);
    Names left = durable_names_;
    for (const NameChange& change : pending_names_) {
        if (cut.draw_kept()) apply(change, left);
    }
    auto files = std::make_unique<FaultFiles>(root_, beneath_);
    for (const auto& [path, image] : left) {  // a folder sorts before what it holds
        if (path != root_ && !files->names_.contains(parent_folder(path))) continue;
        files->names_[path] = image ? std::make_shared<FileImage>(image->after(cut)) : nullptr;
    }
    files->durable_names_ = files->names_;
    files->capacity_ = capacity_;
    return files;
}

void FaultFiles::copy_to(FileSystem& files, const std::string& folder) const {
    const std::lock_guard lock(mutex_);
    for (const auto& [path, image] : names_) {
        const std::string target = folder + path.substr(root_.size());
        if (!image) {
            files.make_folders(target);
        } else {
            files.open(target, {.mode = OpenMode::create})->write_at(image->bytes(), 0);
        }
    }
}

std::unique_ptr<FileQueue> FaultFiles::make_queue(QueueKind, int depth) {
    const std::lock_guard lock(mutex_);
    return make_fault_queue(depth, ++queue_seed_);
}

FaultFiles::Image FaultFiles::open_image(const std::string& path, OpenMode mode) {
    const auto found = names_.find(key(path));
    const bool makes = mode == OpenMode::create || mode == OpenMode::create_new || mode == OpenMode::append;
    if (found == names_.end()) {
        if (!makes) throw file_error("open", path, ENOENT);
        require_folder(parent_folder(key(path)), "open");
        auto image = std::make_shared<FileImage>();
        change_names({.verb = NameChange::Verb::link, .path = key(path), .image = image});
        return image;
    }
    if (!found->second) throw file_error("open", path, EISDIR);
    if (mode == OpenMode::create_new) throw file_error("open", path, EEXIST);
    if (mode == OpenMode::create) found->second->resize(0);
    return found->second;
}

std::unique_ptr<File> FaultFiles::open(const std::string& path, const OpenOptions& options) {
    const std::lock_guard lock(mutex_);
    const bool may_make = options.mode != OpenMode::read && options.mode != OpenMode::update;
    enter(FaultCall::open, may_make, "open", path, nullptr);
    if (!inside(path)) return std::make_unique<FaultFile>(*this, options, beneath_.open(path, options));
    return std::make_unique<FaultFile>(*this, path, options, open_image(path, options.mode));
}

bool FaultFiles::exists(const std::string& path) {
    if (!inside(path)) return beneath_.exists(path);
    const std::lock_guard lock(mutex_);
    return names_.contains(key(path));
}

FileStatus FaultFiles::status(const std::string& path) {
    if (!inside(path)) return beneath_.status(path);
    const std::lock_guard lock(mutex_);
    const auto found = names_.find(key(path));
    if (found == names_.end()) throw file_error("stat", path, ENOENT);
    return {.bytes = found->second ? found->second->size() : 0,
            .is_folder = !found->second,
            .is_regular = found->second != nullptr,
            .device = ~uint64_t{0},
            .inode = std::hash<std::string>()(found->first)};
}

std::string FaultFiles::resolve(const std::string& path) {
    if (!inside(path)) return beneath_.resolve(path);
    const std::lock_guard lock(mutex_);
    if (!names_.contains(key(path))) throw file_error("realpath", path, ENOENT);
    return key(path);
}

void FaultFiles::require_folder(const std::string& path, std::string_view call) const {
    const auto found = names_.find(path);
    if (found == names_.end()) throw file_error(call, path, ENOENT);
    if (found->second) throw file_error(call, path, ENOTDIR);
}

std::vector<std::string> FaultFiles::list(const std::string& folder) {
    if (!inside(folder)) return beneath_.list(folder);
    const std::lock_guard lock(mutex_);
    require_folder(key(folder), "list folder");
    std::vector<std::string> names;
    for (const auto& [path, image] : names_) {
        if (path != root_ && parent_folder(path) == key(folder)) names.push_back(path.substr(key(folder).size() + 1));
    }
    return names;
}

void FaultFiles::make_folders(const std::string& path) {
    const std::lock_guard lock(mutex_);
    enter(FaultCall::make_folders, "mkdir", path);
    if (!inside(path)) return beneath_.make_folders(path);
    for (size_t end = root_.size(); end != std::string::npos; end = key(path).find('/', end + 1)) {
        const std::string part = key(path).substr(0, end);
        if (!names_.contains(part)) change_names({.verb = NameChange::Verb::link, .path = part});
        require_folder(part, "mkdir");
    }
    if (!names_.contains(key(path))) change_names({.verb = NameChange::Verb::link, .path = key(path)});
    require_folder(key(path), "mkdir");
}

void FaultFiles::rename(const std::string& from, const std::string& to) {
    const std::lock_guard lock(mutex_);
    enter(FaultCall::rename, "rename to " + to, from);
    if (!inside(from) && !inside(to)) return beneath_.rename(from, to);
    if (inside(from) != inside(to)) throw file_error("rename to " + to, from, EXDEV);
    if (!names_.contains(key(from))) throw file_error("rename to " + to, from, ENOENT);
    require_folder(parent_folder(key(to)), "rename");
    const bool occupied =
        std::any_of(names_.begin(), names_.end(), [&](const auto& name) { return below(name.first, key(to)); });
    if (occupied) throw file_error("rename to " + to, from, ENOTEMPTY);
    change_names({.verb = NameChange::Verb::move, .path = key(to), .from = key(from)});
}

void FaultFiles::remove_file(const std::string& path) {
    const std::lock_guard lock(mutex_);
    enter(FaultCall::remove, "unlink", path);
    if (!inside(path)) return beneath_.remove_file(path);
    const auto found = names_.find(key(path));
    if (found == names_.end()) throw file_error("unlink", path, ENOENT);
    if (!found->second) throw file_error("unlink", path, EISDIR);
    change_names({.verb = NameChange::Verb::unlink, .path = key(path)});
}

void FaultFiles::remove_tree(const std::string& path) {
    const std::lock_guard lock(mutex_);
    enter(FaultCall::remove, "remove", path);
    if (!inside(path)) return beneath_.remove_tree(path);
    std::vector<std::string> doomed;
    for (const auto& [name, image] : names_) {
        if (name == key(path) || below(name, key(path))) doomed.push_back(name);
    }
    for (auto name = doomed.rbegin(); name != doomed.rend(); ++name) {  // what a folder holds goes before the folder
        if (*name != root_) change_names({.verb = NameChange::Verb::unlink, .path = *name});
    }
}

void FaultFiles::sync_folder(const std::string& path) {
    const std::lock_guard lock(mutex_);
    enter(FaultCall::sync_folder, "fsync", path);
    if (!inside(path)) return beneath_.sync_folder(path);
    require_folder(key(path), "open");
    std::vector<NameChange> waiting;
    for (NameChange& change : pending_names_) {
        if (parent_folder(change.path) == key(path)) {
            apply(change, durable_names_);
        } else {
            waiting.push_back(std::move(change));
        }
    }
    pending_names_ = std::move(waiting);
}

int64_t FaultFiles::free_bytes(const std::string& path) {
    if (!inside(path)) return beneath_.free_bytes(path);
    const std::lock_guard lock(mutex_);
    return free_now();
}

}  // namespace windlass
