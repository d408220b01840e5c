#include "format/model_folder_writer.h"

#include "base/durable_folders.h"
#include "base/file_error.h"
#include "base/json.h"
#include "base/log.h"
#include "base/units.h"
#include "format/adapter_folder.h"
#include "format/replaceable_folder.h"
#include "format/side_file_copy.h"
#include "format/side_files.h"

namespace windlass {
namespace {

void write_file(FileSystem& files, const std::string& path, std::string_view text) {
    const std::unique_ptr<File> file = files.open(path, {.mode = OpenMode::create_new});
    file->write_at(std::as_bytes(std::span(text)), 0);
    file->sync();
}

// The tensors of each file, in list order.
std::vector<std::vector<TensorSpec>> by_shard(const ModelFolderContent& content) {
    std::vector<std::vector<TensorSpec>> shards(content.shards.files.size());
    for (size_t i = 0; i < content.tensors.size(); ++i)
        shards[static_cast<size_t>(content.shards.file_of[i])].push_back(content.tensors[i]);
    return shards;
}

std::string index_text(const ModelFolderContent& content) {
    SortedJson weights = SortedJson::object();
    int64_t total = 0;
    for (size_t i = 0; i < content.tensors.size(); ++i) {
        weights[content.tensors[i].name] = content.shards.files[static_cast<size_t>(content.shards.file_of[i])];
        total += content.tensors[i].bytes();
    }
    return SortedJson{{"metadata", {{"total_size", total}}}, {"weight_map", std::move(weights)}}.dump(2) + "\n";
}

// A lone file of a name that every reader looks for needs none.
bool needs_index(const ShardSplit& shards) {
    return shards.files.size() != 1 || (shards.files[0] != kSingleName && shards.files[0] != kAdapterWeightsName);
}

}  // namespace

ShardSplit split_by_size(std::span<const TensorSpec> tensors, int64_t shard_bytes_max) {
    ShardSplit split;
    int count = 0, open = -1;  // the shard that still takes tensors
    int64_t open_bytes = 0;
    for (const TensorSpec& tensor : tensors) {
        const bool alone = tensor.bytes() > shard_bytes_max;
        if (!alone && (open < 0 || open_bytes + tensor.bytes() > shard_bytes_max)) {
            open = count++;
            open_bytes = 0;
        }
        if (!alone) open_bytes += tensor.bytes();
        split.file_of.push_back(alone ? count++ : open);
    }
    count = std::max(count, 1);
    if (count == 1) split.files = {kSingleName};
    for (int i = 0; count > 1 && i < count; ++i)
        split.files.push_back(fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, count));
    return split;
}

ShardSplit split_like(const ModelFolder& base, std::span<const TensorSpec> tensors) {
    ShardSplit split;
    std::map<int, int> index_of;  // the base's shard -> ours: a shard without tensors to write is left out
    for (const TensorSpec& tensor : tensors) {
        const TensorPlace* const place = base.find(tensor.name);
        WINDLASS_CHECK(place != nullptr, "the base has no tensor \"{}\"", tensor.name);
        const auto [at, added] = index_of.try_emplace(place->shard, static_cast<int>(index_of.size()));
        if (added) split.files.push_back(base.shard_files()[static_cast<size_t>(place->shard)]);
        split.file_of.push_back(at->second);
    }
    return split;
}

ModelFolderWriter::ModelFolderWriter(ModelFolderContent content, FileSystem& files, std::string target)
    : files_(files), target_(std::move(target)), content_(std::move(content)) {
    while (target_.size() > 1 && target_.ends_with('/')) target_.pop_back();
    // "." and ".." have no name that a neighbour's name could be made from.
    if (target_ == "." || target_ == ".." || target_.ends_with("/.") || target_.ends_with("/.."))
        target_ = files_.exists(target_) ? files_.resolve(target_) : parent_folder(target_);
    WINDLASS_CHECK(content_.tensors.size() == content_.shards.file_of.size(), "{} tensors, a split of {}",
                   content_.tensors.size(), content_.shards.file_of.size());
}

// Delegates, so that the destructor cleans up when anything below throws.
ModelFolderWriter::ModelFolderWriter(FileSystem& files, const std::string& target, ModelFolderContent content,
                                     bool overwrite)
    : ModelFolderWriter(std::move(content), files, target) {
    overwrite_ = overwrite;
    check_target();
    const std::string parent = parent_folder(target_);
    make_durable_folders(files_, parent);
    temporary_ = target_ + ".tmp-writing";
    files_.remove_tree(temporary_);
    const int64_t needed = bytes_needed(), free = files_.free_bytes(parent);
    if (needed > free)
        throw UserError(ExitCode::storage, target_, "needs {}, {} are free", format_bytes(needed), format_bytes(free));
    files_.make_folders(temporary_);
    const std::vector<std::vector<TensorSpec>> shards = by_shard(content_);
    for (size_t i = 0; i < shards.size(); ++i) {
        const std::string path = fmt::format("{}/{}", temporary_, content_.shards.files[i]);
        shards_.push_back(std::make_unique<SafetensorsWriter>(files_, path, shards[i], content_.metadata));
        for (const TensorSpec& tensor : shards[i]) shard_of_.emplace(tensor.name, static_cast<int>(i));
    }
    WINDLASS_CHECK(shard_of_.size() == content_.tensors.size(), "a tensor is listed twice for {}", target_);
}

ModelFolderWriter::~ModelFolderWriter() {
    if (finished_ || temporary_.empty()) return;
    shards_.clear();
    try {
        files_.remove_tree(temporary_);
    } catch (const Error& error) {
        log_warning("{} could not be removed: {}", temporary_, error.what());
    }
}

void ModelFolderWriter::check_target() {
    if (!files_.exists(target_)) return;
    if (!files_.status(target_).is_folder)
        throw UserError(ExitCode::storage, target_, "is a file, expected a folder to write or nothing");
    check_not_among(files_, target_, content_.never_replaced);
    if (content_.base != nullptr) check_not_among(files_, target_, {content_.base->path()});
    if (!overwrite_ && !files_.list(target_).empty())
        throw UserError(ExitCode::storage, target_, "exists and is not empty").hint("another folder, or overwriting");
    check_replaceable(files_, target_,
                      content_.base == nullptr ? std::vector<std::string>() : content_.base->side_files());
}

int64_t ModelFolderWriter::bytes_needed() const {
    auto bytes = static_cast<int64_t>(content_.config_text.size() + content_.card.size());
    for (std::vector<TensorSpec>& shard : by_shard(content_)) bytes += SafetensorsWriter::file_bytes(std::move(shard));
    if (needs_index(content_.shards)) bytes += static_cast<int64_t>(index_text(content_).size());
    if (content_.base == nullptr) return bytes;
    for (const std::string& name : content_.base->side_files())
        bytes += files_.status(fmt::format("{}/{}", content_.base->path(), name)).bytes;
    return bytes;
}

void ModelFolderWriter::write(std::string_view name, int64_t first_byte, std::span<const std::byte> bytes) {
    const auto shard = shard_of_.find(name);
    WINDLASS_CHECK(shard != shard_of_.end(), "{} has no tensor \"{}\"", target_, name);
    shards_[static_cast<size_t>(shard->second)]->write(name, first_byte, bytes);
}

void ModelFolderWriter::finish() {
    WINDLASS_CHECK(!finished_, "{} is finished twice", target_);
    for (const std::unique_ptr<SafetensorsWriter>& shard : shards_) shard->finish();
    shards_.clear();
    write_file(files_, path_in(temporary_, content_.config_name), content_.config_text);
    if (needs_index(content_.shards))
        write_file(files_, fmt::format("{}/{}", temporary_, kIndexName), index_text(content_));
    copy_side_files();
    publish();
    finished_ = true;
}

void ModelFolderWriter::copy_side_files() {
    const std::map<std::string_view, std::string_view> own = {{kChatTemplateName, content_.chat_template},
                                                              {"generation_config.json", content_.generation_config},
                                                              {kCardName, content_.card}};
    for (const auto& [name, text] : own) {
        if (!text.empty()) write_file(files_, path_in(temporary_, name), std::string(text));
    }
    if (content_.base == nullptr) return;
    std::set<std::string> folders;
    for (const std::string& name : content_.base->side_files()) {
        if (const auto at = own.find(name); at != own.end() && !at->second.empty()) continue;
        const std::string to = fmt::format("{}/{}", temporary_, name);
        if (name.find('/') != std::string::npos && folders.insert(parent_folder(to)).second)
            files_.make_folders(parent_folder(to));
        // Weights are worth more than the files next to them.
        const std::string from = path_in(content_.base->path(), name);
        if (const std::string reason = copy_side_file(files_, from, to); !reason.empty())
            log_warning("{} is not copied: {}", from, reason);
    }
    for (const std::string& folder : folders) files_.sync_folder(folder);
}

// A folder that is not empty cannot be renamed over: the old one steps aside first, and a crash between the two
// renames leaves it whole under that name, until another is in its place. Checked again, because files may have been
// added since.
void ModelFolderWriter::publish() {
    files_.sync_folder(temporary_);
    check_target();
    const std::string aside = target_ + ".tmp-replaced";
    if (files_.exists(target_)) {
        files_.remove_tree(aside);
        files_.rename(target_, aside);
    }
    files_.rename(temporary_, target_);
    files_.sync_folder(parent_folder(target_));
    files_.remove_tree(aside);
}

}  // namespace windlass
