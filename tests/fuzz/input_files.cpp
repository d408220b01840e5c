#include "tests/fuzz/input_files.h"

#include <algorithm>

#include "base/file_error.h"
#include "tests/fuzz/sealed.h"

namespace windlass {
namespace {

constexpr std::string_view kMark = "==> ";

// Where nothing exists and nothing can be made.
class Nowhere final : public FileSystem {
  public:
    std::unique_ptr<File> open(const std::string& path, const OpenOptions&) override { return refuse("open", path); }
    bool exists(const std::string&) override { return false; }
    FileStatus status(const std::string& path) override { return refuse("stat", path), FileStatus(); }
    std::string resolve(const std::string& path) override { return refuse("realpath", path), path; }
    std::vector<std::string> list(const std::string& path) override {
        return refuse("list folder", path), std::vector<std::string>();
    }
    void make_folders(const std::string& path) override { refuse("mkdir", path); }
    void rename(const std::string& from, const std::string&) override { refuse("rename", from); }
    void remove_file(const std::string& path) override { refuse("unlink", path); }
    void remove_tree(const std::string&) override {}
    void sync_folder(const std::string& path) override { refuse("fsync", path); }
    int64_t free_bytes(const std::string& path) override { return refuse("statvfs", path), 0; }
    std::unique_ptr<FileQueue> make_queue(QueueKind, int) override { return nullptr; }

  private:
    static std::nullptr_t refuse(std::string_view call, const std::string& path) {
        throw file_error(call, path, ENOENT);
    }
};

bool is_plain(std::string_view name) {
    constexpr size_t kNameMax = 64;
    return !name.empty() && name.size() <= kNameMax && name.front() != '.' && std::ranges::all_of(name, [](char c) {
        return isalnum(static_cast<unsigned char>(c)) || std::string_view("._-").find(c) != std::string_view::npos;
    });
}

// The file that an input's part makes, by the end of the part's name.
struct Made {
    std::string name, bytes;
};
Made made_of(const InputFile& part) {
    constexpr struct {
        std::string_view end;
        std::string (*seal)(std::string_view);
    } kForms[] = {{".header", sealed_safetensors},
                  {".summed", sealed_json},
                  {".gz.sealed", sealed_gzip},
                  {".xz.sealed", sealed_xz}};
    for (const auto& form : kForms) {
        if (!part.name.ends_with(form.end)) continue;
        const size_t cut = form.end.size() - form.end.rfind('.');
        return {part.name.substr(0, part.name.size() - cut), form.seal(part.bytes)};
    }
    return {part.name, std::string(part.bytes)};
}

}  // namespace

std::vector<InputFile> split_input(std::string_view input, std::string_view first_name) {
    std::vector<InputFile> parts = {{std::string(first_name), {}}};
    size_t begin = 0;  // of the last part's bytes
    for (size_t line = 0; line < input.size();) {
        const size_t end = std::min(input.find('\n', line), input.size());
        if (input.substr(line, end - line).starts_with(kMark)) {
            parts.back().bytes = input.substr(begin, line > begin ? line - begin - 1 : 0);
            parts.push_back({std::string(input.substr(line + kMark.size(), end - line - kMark.size())), {}});
            begin = std::min(end + 1, input.size());
        }
        line = end + 1;
    }
    parts.back().bytes = input.substr(begin);
    if (input.starts_with(kMark)) parts.erase(parts.begin());
    return parts;
}

std::string_view part_of(const std::vector<InputFile>& files, std::string_view name) {
    const auto found = std::ranges::find(files, name, &InputFile::name);
    return found == files.end() ? std::string_view() : found->bytes;
}

InputFiles::InputFiles() : nowhere_(std::make_unique<Nowhere>()) {
    files_ = std::make_unique<FaultFiles>("/fuzz", *nowhere_);
    files_->make_folders(kFolder);
}

InputFiles::InputFiles(std::string_view input, std::string_view first_name) : InputFiles() {
    for (const InputFile& part : split_input(input, first_name)) {
        const Made made = made_of(part);
        if (!is_plain(made.name) || has(made.name)) continue;
        put(made.name, made.bytes);
        names_.push_back(made.name);
    }
}

void InputFiles::put(std::string_view name, std::string_view bytes) {
    const auto file = files_->open(path(name), {.mode = OpenMode::create});
    file->write_at(std::as_bytes(std::span(bytes)), 0);
}

void InputFiles::put_default(std::string_view name, std::string_view bytes) {
    if (!has(name)) put(name, bytes);
}

}  // namespace windlass
