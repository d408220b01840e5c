#include "format/model_folder.h"

#include <fmt/ranges.h>

#include <array>

#include "base/file_error.h"
#include "base/json.h"
#include "base/printable.h"

namespace windlass {
namespace {

constexpr int64_t kIndexBytesMax = int64_t{32} << 20;
constexpr const char* kConfigName = "config.json";

constexpr std::string_view kModulePart = "module.";
constexpr std::array<std::string_view, 3> kWrapperParts = {"_orig_mod.", "_fsdp_wrapped_module.",
                                                           "_checkpoint_wrapped_module."};

using NameSet = std::set<std::string, std::less<>>;
using WeightMap = std::map<std::string, std::string, std::less<>>;  // tensor -> file

std::string without_slash(std::string folder) {
    while (folder.size() > 1 && folder.ends_with('/')) folder.pop_back();
    return folder;
}

NameSet list_folder(FileSystem& files, const std::string& folder) {
    if (!files.exists(folder))
        throw UserError(ExitCode::model, folder, "no such model folder")
            .hint("the path where it is now, as --model FOLDER where a run names the model");
    if (!files.status(folder).is_folder)
        throw UserError(ExitCode::model, folder, "is a file, expected a model folder")
            .hint("the folder that holds config.json and the weights");
    const std::vector<std::string> names = files.list(folder);
    if (names.empty()) throw UserError(ExitCode::model, folder, "is empty, expected a model folder");
    return {names.begin(), names.end()};
}

HfConfig read_config(FileSystem& files, const std::string& folder, const NameSet& names) {
    if (names.contains(kConfigName)) {
        const std::string path = path_in(folder, kConfigName);
        return HfConfig::parse(read_text(files, path, HfConfig::kBytesMax), path);
    }
    UserError error(ExitCode::model, folder, "has no {}", kConfigName);
    if (names.contains("adapter_config.json"))
        error.hint("this folder holds an adapter only; give the folder of its base model");
    throw error;
}

// A name from the index that may be opened: a plain name in this folder.
void check_shard_name(const std::string& file, const std::string& tensor, const std::string& index) {
    const auto plain = [](unsigned char c) { return c < 128 && (std::isalnum(c) || c == '.' || c == '_' || c == '-'); };
    if (!std::ranges::all_of(file, plain) || file.starts_with('.') || !file.ends_with(".safetensors"))
        throw UserError(ExitCode::model, index, "tensor {} is in {}, which is no plain *.safetensors file name",
                        excerpt(SortedJson(tensor).dump()),
                        excerpt(SortedJson(file).dump()));  // dump: quoted, control characters escaped
}

WeightMap read_index(FileSystem& files, const std::string& folder) {
    const std::string path = path_in(folder, kIndexName);
    const SortedJson index = parse_sorted_json(read_text(files, path, kIndexBytesMax), path, ExitCode::model);
    const auto weights = index.is_object() ? index.find("weight_map") : index.end();
    if (!index.is_object() || weights == index.end() || !weights->is_object() || weights->empty())
        throw UserError(ExitCode::model, path, "has no \"weight_map\" that names tensors");
    WeightMap map;
    for (const auto& [tensor, file] : weights->items()) {
        if (!file.is_string())
            throw UserError(ExitCode::model, path, "tensor \"{}\" has {} for a file name", excerpt(tensor),
                            file.type_name());
        check_shard_name(file.get<std::string>(), tensor, path);
        map.emplace_hint(map.end(), tensor, file.get<std::string>());
    }
    return map;
}

[[noreturn]] void refuse_without_weights(const std::string& folder, const NameSet& names) {
    if (std::ranges::any_of(names, is_pickle)) {
        throw UserError(ExitCode::model, folder,
                        "holds its weights as pickles (.bin, .pt), which can run code when read")
            .hint(fmt::format("python -c \"from transformers import AutoModelForCausalLM as M; "
                              "M.from_pretrained('{0}', torch_dtype='auto')"
                              ".save_pretrained('{0}-safetensors', safe_serialization=True)\", "
                              "then copy the tokenizer files there too",
                              folder));
    }
    throw UserError(ExitCode::model, folder, "has no *.safetensors file")
        .hint("fetch the weights; windlass plan and windlass inspect need config.json only");
}

// Which files hold the weights. With an index only those it names; consolidated* is a second copy of the same weights.
std::vector<std::string> weight_files(const std::string& folder, const NameSet& names, const WeightMap& index) {
    if (index.empty() && names.contains(kSingleName)) return {kSingleName};
    NameSet chosen;
    for (const auto& [tensor, file] : index) {
        if (!names.contains(file))
            throw UserError(ExitCode::model, path_in(folder, kIndexName), "names \"{}\", which is not in the folder",
                            file)
                .hint("the download is incomplete; fetch that file again");
        chosen.insert(file);
    }
    if (!index.empty() && names.contains(kSingleName) && !chosen.contains(kSingleName))
        throw UserError(ExitCode::model, folder, "holds both {} and an index of other files: two sets of weights",
                        kSingleName)
            .hint("remove the set that is out of date");
    for (const std::string& name : names) {
        if (index.empty() && name.ends_with(".safetensors") && !name.starts_with("consolidated")) chosen.insert(name);
    }
    if (chosen.empty()) refuse_without_weights(folder, names);
    return {chosen.begin(), chosen.end()};
}

// Every part of a dotted name that is this one; `part` ends in a dot.
bool erase_part(std::string& name, std::string_view part) {
    bool erased = false;
    for (size_t at = name.find(part); at != name.npos; at = name.find(part, at)) {
        if (at > 0 && name[at - 1] != '.') {
            ++at;
            continue;
        }
        name.erase(at, part.size());
        erased = true;
    }
    return erased;
}

// Neither weights nor pickles of them, which are told how to become some.
bool holds_no_weights(const NameSet& names) {
    return std::ranges::none_of(
        names, [](const std::string& name) { return name.ends_with(".safetensors") || is_pickle(name); });
}

}  // namespace

ModelFolder ModelFolder::open(FileSystem& files, const std::string& folder, const FolderOptions& options) {
    const std::string path = without_slash(folder);
    const NameSet names = list_folder(files, path);
    ModelFolder model(path, read_config(files, path, names));
    model.config_.ignore(options.ignored_keys);
    if (options.weights_may_be_absent && holds_no_weights(names)) return model;
    const WeightMap index = names.contains(kIndexName) ? read_index(files, path) : WeightMap{};
    for (const std::string& name : weight_files(path, names, index)) model.add_shard(files, name);
    model.sort_tensors();
    if (!index.empty()) model.check_index(index);
    model.unwrap_names();
    model.side_files_ = find_side_files(files, path, names);
    return model;
}

void ModelFolder::add_shard(FileSystem& files, const std::string& name) {
    const int shard = static_cast<int>(shards_.size());
    shards_.push_back(SafetensorsReader::open(files, path_in(path_, name)));
    shard_files_.push_back(name);
    for (const TensorEntry& entry : shards_.back().entries()) {
        tensors_.push_back({.name = entry.name,
                            .dtype = entry.dtype,
                            .dtype_name = entry.dtype_name,
                            .shape = entry.shape,
                            .shard = shard,
                            .offset = entry.offset,
                            .bytes = entry.bytes});
        total_bytes_ += entry.bytes;
    }
}

void ModelFolder::sort_tensors() {
    std::ranges::sort(tensors_, {}, &TensorPlace::name);
    const auto twice = std::ranges::adjacent_find(tensors_, {}, &TensorPlace::name);
    if (twice != tensors_.end())
        throw UserError(ExitCode::model, path_, "tensor \"{}\" is in \"{}\" and in \"{}\"", twice->name,
                        shard_files_[static_cast<size_t>(twice->shard)],
                        shard_files_[static_cast<size_t>(std::next(twice)->shard)]);
}

// torch.compile and FSDP add parts to names, of the whole model or of single layers; DataParallel begins all with one.
void ModelFolder::unwrap_names() {
    std::set<std::string_view> removed;
    for (TensorPlace& place : tensors_) {
        for (const std::string_view part : kWrapperParts) {
            if (erase_part(place.name, part)) removed.insert(part);
        }
    }
    const auto is_wrapped = [](const TensorPlace& place) { return place.name.starts_with(kModulePart); };
    while (!tensors_.empty() && std::ranges::all_of(tensors_, is_wrapped)) {
        for (TensorPlace& place : tensors_) place.name.erase(0, kModulePart.size());
        removed.insert(kModulePart);
    }
    if (removed.empty()) return;
    renaming_note_ = fmt::format("{}: the names of tensors are read without \"{}\", which a framework put there", path_,
                                 fmt::join(removed, "\" and \""));
    sort_tensors();
}

void ModelFolder::check_index(const std::map<std::string, std::string, std::less<>>& index) const {
    const std::string where = path_in(path_, kIndexName);
    for (const auto& [name, file] : index) {
        const TensorPlace* const place = find(name);
        if (place == nullptr)
            throw UserError(ExitCode::model, where, "tensor \"{}\" is in no file, expected in \"{}\"", excerpt(name),
                            file);
        const std::string& actual = shard_files_[static_cast<size_t>(place->shard)];
        if (actual != file)
            throw UserError(ExitCode::model, where, "tensor \"{}\" is in \"{}\", expected in \"{}\"", name, actual,
                            file);
    }
    for (const TensorPlace& place : tensors_) {
        if (!index.contains(place.name))
            throw UserError(ExitCode::model, where, "does not name tensor \"{}\", which \"{}\" holds", place.name,
                            shard_files_[static_cast<size_t>(place.shard)]);
    }
}

void ModelFolder::warn_of_side_files(FileSystem& files) const {
    windlass::warn_of_side_files(files, path_, side_files_.names, side_files_.left_out);
}

const TensorPlace* ModelFolder::find(std::string_view name) const {
    const auto at = std::ranges::lower_bound(tensors_, name, {}, &TensorPlace::name);
    return at != tensors_.end() && at->name == name ? &*at : nullptr;
}

DType ModelFolder::weight_dtype(const TensorPlace& place) const {
    if (!place.dtype)
        throw UserError(ExitCode::model, path_in(path_, shard_files_[static_cast<size_t>(place.shard)]),
                        "tensor \"{}\" has dtype {}, which is not implemented", place.name, place.dtype_name)
            .hint("a copy of the model in bf16, f16 or f32");
    return *place.dtype;
}

void ModelFolder::read(const TensorPlace& place, int64_t first_byte, std::span<std::byte> into) const {
    const TensorEntry entry{.name = place.name, .offset = place.offset, .bytes = place.bytes};
    shards_[static_cast<size_t>(place.shard)].read(entry, first_byte, into);
}

}  // namespace windlass
