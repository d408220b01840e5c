#include "format/manifest.h"

#include <xxhash.h>

#include <charconv>

#include "base/file_error.h"
#include "base/json.h"
#include "base/printable.h"
#include "base/units.h"
#include "format/checksummed_json.h"

namespace windlass {
namespace {

constexpr std::string_view kFormat = "windlass-checkpoint";
constexpr int kManifestMajor = 1, kManifestMinor = 0;
constexpr int64_t kManifestBytesMax = int64_t{64} << 20;
constexpr int64_t kHashBytes = int64_t{1} << 18;

uint64_t hash_file(File& file, int64_t bytes) {
    const std::unique_ptr<XXH3_state_t, XXH_errorcode (*)(XXH3_state_t*)> state(XXH3_createState(), XXH3_freeState);
    WINDLASS_CHECK(state != nullptr, "no memory for a hash state");
    XXH3_64bits_reset(state.get());
    std::vector<std::byte> buffer(static_cast<size_t>(std::min(kHashBytes, bytes)));
    for (int64_t offset = 0; offset < bytes; offset += kHashBytes) {
        const auto piece = std::span(buffer).first(static_cast<size_t>(std::min(kHashBytes, bytes - offset)));
        file.read_at(piece, offset);
        XXH3_64bits_update(state.get(), piece.data(), piece.size());
    }
    return XXH3_64bits_digest(state.get());
}

// A manifest may come from anywhere: its names stay inside the folder.
bool stays_inside(std::string_view name) {
    if (name.empty() || name.find('\0') != std::string_view::npos) return false;
    for (size_t begin = 0; begin <= name.size();) {
        const size_t end = std::min(name.find('/', begin), name.size());
        const std::string_view part = name.substr(begin, end - begin);
        if (part.empty() || part == "." || part == "..") return false;
        begin = end + 1;
    }
    return true;
}

template <typename... Args>
UserError damaged(const std::string& path, fmt::format_string<Args...> format, Args&&... args) {
    return UserError(ExitCode::storage, path, "{}", fmt::format(format, std::forward<Args>(args)...))
        .hint("an older checkpoint");
}

const SortedJson& field(const SortedJson& object, const char* key, const std::string& path) {
    const auto found = object.find(key);
    if (found == object.end()) throw damaged(path, "lacks \"{}\"", key);
    return *found;
}

std::string text_field(const SortedJson& object, const char* key, const std::string& path) {
    const SortedJson& value = field(object, key, path);
    if (!value.is_string()) throw damaged(path, "\"{}\" is {}, expected a string", key, value.type_name());
    return value.get<std::string>();
}

int64_t count_field(const SortedJson& object, const char* key, const std::string& path) {
    const SortedJson& value = field(object, key, path);
    if (!value.is_number_unsigned() || value.get<uint64_t>() > static_cast<uint64_t>(INT64_MAX))
        throw damaged(path, "\"{}\" is not a count", key);
    return static_cast<int64_t>(value.get<uint64_t>());
}

void check_version(const SortedJson& json, const std::string& path) {
    if (text_field(json, "format", path) != kFormat) throw damaged(path, "is not a {} manifest", kFormat);
    const std::string version = text_field(json, "version", path);
    int major = -1;
    std::from_chars(version.data(), version.data() + version.size(), major);
    if (major != kManifestMajor)
        throw UserError(ExitCode::storage, path, "has format version {}, this program reads {}.x", excerpt(version),
                        kManifestMajor)
            .hint("the version of windlass that wrote it");
}

ManifestFile parse_file(const SortedJson& json, const std::string& path) {
    if (!json.is_object()) throw damaged(path, "\"files\" holds {}, expected objects", json.type_name());
    ManifestFile file{.name = text_field(json, "name", path), .bytes = count_field(json, "bytes", path)};
    if (!stays_inside(file.name))
        throw damaged(path, "names \"{}\", which is no file of this folder", excerpt(file.name));
    const std::string hash = text_field(json, "xxh3", path);
    const auto [end, error] = std::from_chars(hash.data(), hash.data() + hash.size(), file.xxh3, 16);
    if (hash.size() != 16 || error != std::errc{} || end != hash.data() + hash.size())
        throw damaged(path, "\"{}\" has the hash \"{}\", expected 16 hexadecimal digits", excerpt(file.name),
                      excerpt(hash));
    return file;
}

void check_text(std::string_view text, const std::string& path) {
    const TextChecksum checksum = text_checksum(text);
    if (checksum == TextChecksum::absent) throw damaged(path, "has no checksum line");
    if (checksum == TextChecksum::wrong) throw damaged(path, "is damaged: its checksum does not match");
}

}  // namespace

ManifestFile describe_file(FileSystem& files, const std::string& folder, const std::string& name) {
    WINDLASS_CHECK(stays_inside(name), "\"{}\" is no name inside a checkpoint folder", name);
    const std::unique_ptr<File> file = files.open(path_in(folder, name), {.mode = OpenMode::read});
    const int64_t bytes = file->size();
    return {.name = name, .bytes = bytes, .xxh3 = hash_file(*file, bytes)};
}

void write_manifest(FileSystem& files, const std::string& folder, const Manifest& manifest,
                    const std::string& temporary) {
    const std::string path = path_in(folder, kManifestName);
    Json json = {{"format", kFormat},
                 {"version", fmt::format("{}.{}", kManifestMajor, kManifestMinor)},
                 {"step", manifest.step}};
    Json& list = json["files"] = Json::array();
    for (const ManifestFile& file : manifest.files)
        list.push_back({{"name", file.name}, {"bytes", file.bytes}, {"xxh3", fmt::format("{:016x}", file.xxh3)}});
    json["run_state"] = parse_json(manifest.run_state, path, ExitCode::internal);
    write_text_atomic(files, path, with_checksum(json.dump(2)), temporary);
}

Manifest read_manifest(FileSystem& files, const std::string& folder) {
    const std::string path = path_in(folder, kManifestName);
    if (!files.exists(path)) throw damaged(path, "is missing: the checkpoint was never completed");
    const std::string text = read_text(files, path, kManifestBytesMax);
    const SortedJson json = parse_sorted_json(text, path, ExitCode::storage);
    if (!json.is_object()) throw damaged(path, "is {}, expected an object", json.type_name());
    check_version(json, path);  // first: another version may place its checksum elsewhere
    check_text(text, path);

    Manifest manifest{.step = count_field(json, "step", path), .run_state = field(json, "run_state", path).dump()};
    const SortedJson& list = field(json, "files", path);
    if (!list.is_array()) throw damaged(path, "\"files\" is {}, expected a list", list.type_name());
    for (const SortedJson& item : list) manifest.files.push_back(parse_file(item, path));
    return manifest;
}

void verify_manifest(FileSystem& files, const std::string& folder, const Manifest& manifest) {
    for (const ManifestFile& want : manifest.files) {
        const std::string path = path_in(folder, want.name);
        if (!files.exists(path)) throw damaged(path, "is missing, though the manifest names it");
        const std::unique_ptr<File> file = files.open(path, {.mode = OpenMode::read});
        const int64_t bytes = file->size();
        if (bytes != want.bytes) throw damaged(path, "has {} bytes, expected {}", bytes, want.bytes);
        const uint64_t got = hash_file(*file, bytes);
        if (got != want.xxh3) throw damaged(path, "is damaged: hash {:016x}, expected {:016x}", got, want.xxh3);
    }
}

}  // namespace windlass
