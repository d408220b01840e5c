#include "device/cuda/vendor_library.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "base/error.h"
#include "base/file.h"
#include "base/file_error.h"

namespace windlass {
namespace {

constexpr const char* kVariable = "WINDLASS_CUDA_LIBRARIES";
constexpr const char* kToolkit = "/usr/local/cuda/lib64";

std::vector<std::string> parts_of(std::string_view folders) {
    std::vector<std::string> parts;
    while (!folders.empty()) {
        const std::string_view part = folders.substr(0, folders.find(':'));
        if (!part.empty()) parts.emplace_back(part);
        folders.remove_prefix(std::min(folders.size(), part.size() + 1));
    }
    return parts;
}

// "nvidia/cublas/lib" and "nvidia/cu13/lib", in this order: of each version its wheels have another.
std::vector<std::string> python_folders(const std::string& program) {
    const std::string nvidia = program + "/../../nvidia";
    std::vector<std::string> folders;
    try {
        for (const std::string& name : real_files().list(nvidia)) folders.push_back(nvidia + "/" + name + "/lib");
    } catch (const MachineError&) {
    }
    return folders;
}

std::string folder_of_program() {
    try {
        return parent_folder(real_files().resolve("/proc/self/exe"));
    } catch (const MachineError&) {  // a root without /proc
        return ".";
    }
}

}  // namespace

std::vector<std::string> vendor_library_names(const std::string& file, const std::string& folders,
                                              const std::string& program) {
    std::vector<std::string> places = parts_of(folders);
    places.push_back(program);
    places.push_back(program + "/../lib");
    for (std::string& folder : python_folders(program)) places.push_back(std::move(folder));
    std::vector<std::string> names;
    for (const std::string& place : places)
        if (std::string path = path_in(place, file); real_files().exists(path)) names.push_back(std::move(path));
    names.push_back(file);
    if (std::string path = path_in(kToolkit, file); real_files().exists(path)) names.push_back(std::move(path));
    return names;
}

void* open_vendor_library(const std::string& file) {
    const char* const folders = std::getenv(kVariable);
    std::string reasons;
    for (const std::string& name : vendor_library_names(file, folders == nullptr ? "" : folders, folder_of_program())) {
        if (void* const library = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
        reasons += fmt::format("{}{}", reasons.empty() ? "" : "; ", ::dlerror());
    }
    throw UserError(ExitCode::gpu, "device", "{} cannot be opened: {}", file, reasons)
        .hint(fmt::format("pip install nvidia-cublas next to windlass-train, or {} with the folder that has it",
                          kVariable));
}

}  // namespace windlass
