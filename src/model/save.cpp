#include "model/save.h"

#include <cmath>

#include "base/math.h"
#include "format/model_folder.h"
#include "format/model_folder_writer.h"
#include "model/gguf.h"
#include "model/load.h"

namespace windlass {
namespace {

constexpr int64_t kPieceElements = int64_t{1} << 17;  // 512 KiB of masters and at most as much of encoded bytes
static_assert(kPieceElements * 8 <= kSaveBufferBytes);

// Where one tensor comes from: a parameter's masters, or the base's tensor of this name, byte for byte (param < 0).
struct Source {
    std::string name;
    Shape shape;
    const TensorPlace* tensor = nullptr;  // null: the base has none of this name
    int param = -1;
    bool unchanged = false;  // the masters are the base's
    DType dtype = DType::f32;
};

// Parameters for which the base has no tensor: of an untied table, its other end.
void add_missing(const ModelFolder& base, const ModelSpec& model, const SaveOptions& options,
                 std::vector<Source>& sources) {
    for (size_t i = 0; i < model.params.size(); ++i) {
        const ParamSpec& param = model.params[i];
        if (param.added || base.find(param.name) != nullptr) continue;
        sources.push_back({.name = param.name,
                           .shape = param.shape,
                           .param = static_cast<int>(i),
                           .dtype = options.dtype.value_or(param.file_dtype)});
    }
}

std::vector<Source> make_sources(const ModelFolder& base, const ModelSpec& model, const SaveOptions& options) {
    std::map<std::string_view, int> param_of;
    for (size_t i = 0; i < model.params.size(); ++i) {
        if (model.params[i].added) continue;
        param_of[model.params[i].name] = static_cast<int>(i);
        if (!model.params[i].alias.empty()) param_of[model.params[i].alias] = static_cast<int>(i);
    }
    std::vector<Source> sources;
    size_t found = 0;
    for (const TensorPlace& tensor : base.tensors()) {
        Source source{
            .name = tensor.name, .shape = tensor.shape, .tensor = &tensor, .dtype = base.weight_dtype(tensor)};
        const auto at = param_of.find(tensor.name);
        if (at != param_of.end()) {
            const ParamSpec& param = model.params[static_cast<size_t>(at->second)];
            WINDLASS_CHECK(param.shape == tensor.shape, "{} is {} in the base", param.name, tensor.shape.to_string());
            const DType own = source.dtype;
            source.dtype = options.dtype.value_or(own);
            source.unchanged = !options.unchanged.empty() && options.unchanged[static_cast<size_t>(at->second)] != 0;
            if (!source.unchanged || source.dtype != own) source.param = at->second;
            ++found;
        }
        sources.push_back(source);
    }
    if (options.unties) add_missing(base, model, options, sources);
    if (!options.unties && found != param_of.size())
        throw UserError(ExitCode::model, base.path(),
                        "holds {} of the model's {} tensors: not the folder it was made "
                        "from",
                        found, param_of.size());
    return sources;
}

void copy_tensor(const ModelFolder& base, const TensorPlace& tensor, ModelFolderWriter& writer,
                 std::span<std::byte> buffer) {
    const int64_t piece = static_cast<int64_t>(buffer.size());
    for (int64_t offset = 0; offset < tensor.bytes; offset += piece) {
        const auto bytes = buffer.first(static_cast<size_t>(std::min(piece, tensor.bytes - offset)));
        base.read(tensor, offset, bytes);
        writer.write(tensor.name, offset, bytes);
    }
}

// f16 ends at 65504: a master beyond it would be written as an infinity.
void check_fits_half(const ParamSpec& param, int64_t first, std::span<const float> values) {
    constexpr float kRoundsToInfinity = 65520.0f;
    const auto bad = std::ranges::find_if(values, [](float value) { return !(std::abs(value) < kRoundsToInfinity); });
    if (bad == values.end()) return;
    throw UserError(ExitCode::model, param.name, "is {} at element {}, which f16 cannot hold", *bad,
                    first + (bad - values.begin()))
        .hint("saving as bf16 or f32");
}

void write_param(const ParamSpec& param, const Source& source, const ReadMasters& masters, ModelFolderWriter& writer,
                 std::span<float> values, std::span<std::byte> buffer) {
    ParamSpec as_written = param;
    as_written.file_dtype = source.dtype;
    const int64_t width = dtype_bytes(source.dtype);
    const int64_t piece = static_cast<int64_t>(values.size());
    for (int64_t first = 0; first < param.numel(); first += piece) {
        const size_t count = static_cast<size_t>(std::min(piece, param.numel() - first));
        const std::span<float> read = values.first(count);
        masters(source.param, first, read);
        if (source.dtype == DType::f16) check_fits_half(param, first, read);
        const auto bytes = buffer.first(count * static_cast<size_t>(width));
        encode_elements(as_written, read, bytes);
        writer.write(source.name, first * width, bytes);
    }
}

}  // namespace

void save_model(FileSystem& files, const std::string& base_folder, const std::string& target, const ModelSpec& model,
                const SaveOptions& options, const ReadMasters& masters) {
    if (options.gguf) return save_gguf(files, base_folder, target, model, options, masters);
    const ModelFolder base = ModelFolder::open(files, base_folder);
    require_copyable(files, base.path(), "config.json");
    const std::vector<Source> sources = make_sources(base, model, options);
    // The weights are those of a model without the keys that were ignored.
    ModelFolderContent content{
        .config_text = config_without(base.config().to_text(), model.ignored_config_keys, base.config().where()),
        .base = &base,
        .never_replaced = options.never_replaced,
        .chat_template = options.chat_template,
        .generation_config = options.generation_config,
        .card = options.card};
    bool changes_dtype = false;
    for (const Source& source : sources) {
        content.tensors.push_back({source.name, source.dtype, source.shape});
        changes_dtype = changes_dtype || (source.tensor != nullptr && source.dtype != source.tensor->dtype);
    }
    if (options.unties) content.config_text = config_untied(content.config_text, base.config().where());
    if (changes_dtype)
        content.config_text = config_with_dtype(content.config_text, *options.dtype, base.config().where());
    const bool like_base = !changes_dtype && !options.unties && !options.shard_bytes_max;
    content.shards = like_base ? split_like(base, content.tensors)
                               : split_by_size(content.tensors, options.shard_bytes_max.value_or(kShardBytesMax));

    const ReadMasters base_masters = [&](int param, int64_t first, std::span<float> out) {
        load_elements(base, model.params[static_cast<size_t>(param)], first, out);
    };
    ModelFolderWriter writer(files, target, std::move(content), options.overwrite);
    std::vector<float> values(kPieceElements);
    std::vector<std::byte> buffer(kPieceElements * sizeof(float));
    for (const Source& source : sources) {
        if (source.param < 0)
            copy_tensor(base, *source.tensor, writer, buffer);
        else
            write_param(model.params[static_cast<size_t>(source.param)], source,
                        source.unchanged ? base_masters : masters, writer, values, buffer);
    }
    writer.finish();
}

}  // namespace windlass
