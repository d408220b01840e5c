// input_files.h: the files of one input, in memory.
//
// An input is one file, or several: a line "==> NAME" begins the file of this name, and the line end before it belongs
// to neither. The bytes before the first such line are the target's first file. Of files with checksums or lengths, an
// input holds what is in them; these are made right by the end of the name, which is left out of the file's:
//
//   x.safetensors.header   the JSON of a header: its length is put before it, and zeros after it, as many as its
//   offsets say x.json.summed          a JSON object: its checksum is added (format/checksummed_json.h) x.gz.sealed,
//   x.xz.sealed   compressed data whose own checksums are put in
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/fault_files.h"

namespace windlass {

struct InputFile {
    std::string name;
    std::string_view bytes;
};
std::vector<InputFile> split_input(std::string_view input, std::string_view first_name);
// Of this name; empty where there is none.
std::string_view part_of(const std::vector<InputFile>& files, std::string_view name);

// Nothing exists but the input's files: a path that they name leads nowhere.
class InputFiles {
  public:
    static constexpr const char* kFolder = "/fuzz/input";

    InputFiles();
    InputFiles(std::string_view input, std::string_view first_name);

    FileSystem& files() { return *files_; }
    std::string folder() const { return kFolder; }
    std::string path(std::string_view name) const { return std::string(kFolder) + "/" + std::string(name); }
    bool has(std::string_view name) { return files_->exists(path(name)); }
    // Puts the file as it is. A name that is no plain file name is left out.
    void put(std::string_view name, std::string_view bytes);
    // The same, but where the input has it already.
    void put_default(std::string_view name, std::string_view bytes);
    // Of those that the input has.
    const std::vector<std::string>& names() const { return names_; }

  private:
    std::unique_ptr<FileSystem> nowhere_;
    std::unique_ptr<FaultFiles> files_;
    std::vector<std::string> names_;
};

}  // namespace windlass
