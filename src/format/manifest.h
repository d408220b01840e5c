// manifest.h: manifest.json, the list of a checkpoint folder's files. Grammar: docs/format/manifest.md.
//
// It is written last, so a folder with a manifest is a complete checkpoint; sizes and hashes prove that each file is
// the one that was written.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/file.h"

namespace windlass {

inline constexpr const char* kManifestName = "manifest.json";

struct ManifestFile {
    std::string name;  // relative to the folder, without ".."
    int64_t bytes = 0;
    uint64_t xxh3 = 0;  // XXH3, 64 bits, of the content
    bool operator==(const ManifestFile&) const = default;
};

struct Manifest {
    int64_t step = 0;  // optimizer steps that the state includes
    std::vector<ManifestFile> files;
    std::string run_state = "{}";  // JSON text of the caller's, kept as a value
};

// Reads a file of the folder through and describes it.
ManifestFile describe_file(FileSystem& files, const std::string& folder, const std::string& name);

// Atomic; everything that the manifest names must be synced before. `temporary` as in write_text_atomic.
void write_manifest(FileSystem& files, const std::string& folder, const Manifest& manifest,
                    const std::string& temporary = "");

// UserError(storage) when absent, damaged or of another major version.
Manifest read_manifest(FileSystem& files, const std::string& folder);

// Sizes and hashes of every file; UserError(storage) that names the first bad one.
void verify_manifest(FileSystem& files, const std::string& folder, const Manifest& manifest);

}  // namespace windlass
