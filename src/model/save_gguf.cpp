#include <algorithm>
#include <cmath>

#include "base/log.h"
#include "base/math.h"
#include "model/families.h"
#include "model/gguf.h"
#include "model/load.h"
#include "tensor/q8_0.h"

namespace windlass {
namespace {

constexpr int64_t kElementsAtOnce = int64_t{1} << 17;  // whole blocks of every type

// What llama.cpp's converter calls them (general.file_type).
uint32_t file_type_number(GgufType type) {
    switch (type) {
        case GgufType::f32:
            return 0;
        case GgufType::f16:
            return 1;
        case GgufType::q8_0:
            return 7;
        case GgufType::bf16:
            return 32;
    }
    return 0;
}

GgufType usual_type(const ModelSpec& model) {
    const DType dtype = files_type(model);
    if (dtype == DType::bf16) return GgufType::bf16;
    return dtype == DType::f16 ? GgufType::f16 : GgufType::f32;
}

GgufModel describe(const ModelSpec& model, const ModelFolder& base) {
    require_gguf(model);
    HfConfig config = base.config();
    config.ignore(model.ignored_config_keys);
    return find_family(model.family)->gguf(config, model);
}

GgufTensor tensor_of(const GgufSource& source, const ModelSpec& model, GgufType type) {
    if (source.param < 0) return {source.name, GgufType::f32, {std::ssize(source.values)}};
    Shape shape = model.params[static_cast<size_t>(source.param)].shape;
    if (source.change == GgufChange::transposed) shape = Shape{shape[1], shape[0]};
    if (shape.rank() < 2 || source.keeps_f32) return {source.name, GgufType::f32, shape};
    if (shape[shape.rank() - 1] % gguf_block(type) != 0) type = GgufType::f16;
    return {source.name, type, shape};
}

// Row s * D/2 + i of a head goes to row 2 i + s.
void interleave_halves(std::span<const float> head, int64_t cols, std::span<float> out) {
    const int64_t half = div_exact<int64_t>(std::ssize(head), 2 * cols);
    for (int64_t i = 0; i < half; ++i) {
        for (int64_t side = 0; side < 2; ++side)
            std::copy_n(&head[static_cast<size_t>((side * half + i) * cols)], cols,
                        &out[static_cast<size_t>((2 * i + side) * cols)]);
    }
}

void transpose(std::span<const float> matrix, int64_t rows, int64_t cols, std::span<float> out) {
    for (int64_t row = 0; row < rows; ++row)
        for (int64_t col = 0; col < cols; ++col)
            out[static_cast<size_t>(col * rows + row)] = matrix[static_cast<size_t>(row * cols + col)];
}

// Elements that are changed, and therefore read, together.
int64_t elements_at_once(const GgufSource& source, const ParamSpec& param) {
    if (source.change == GgufChange::transposed) return param.numel();
    if (source.change == GgufChange::neighbours) return div_exact(param.numel(), source.heads);
    return kElementsAtOnce;
}

void apply_change(const GgufSource& source, const ParamSpec& param, std::vector<float>& numbers) {
    std::vector<float> changed;
    switch (source.change) {
        case GgufChange::none:
            return;
        case GgufChange::plus_one:
            for (float& number : numbers) number += 1.0f;
            return;
        case GgufChange::transposed:
            changed.resize(numbers.size());
            transpose(numbers, param.shape[0], param.shape[1], changed);
            break;
        case GgufChange::neighbours:
            changed.resize(numbers.size());
            interleave_halves(numbers, div_exact(param.numel(), param.shape[0]), changed);
            break;
    }
    numbers.swap(changed);
}

// f16 ends at 65504, and so do scales of q8_0.
void check_holds(const GgufTensor& tensor, const ParamSpec& param, std::span<const float> numbers) {
    constexpr float kHalfRoundsToInfinity = 65520.0f;
    if (tensor.type != GgufType::f16 && tensor.type != GgufType::q8_0) return;
    const float most = tensor.type == GgufType::f16 ? std::nextafter(kHalfRoundsToInfinity, 0.0f) : kQ8Most;
    const auto bad = std::ranges::find_if(numbers, [&](float number) { return !(std::abs(number) <= most); });
    if (bad == numbers.end()) return;
    throw UserError(ExitCode::model, param.name, "holds {}, which {} cannot", *bad, gguf_type_name(tensor.type))
        .hint("--type bf16 or f32");
}

void write_numbers(const GgufTensor& tensor, std::span<const float> numbers, std::vector<std::byte>& buffer,
                   GgufWriter& writer) {
    for (; !numbers.empty();) {
        const std::span<const float> some = numbers.first(std::min<size_t>(numbers.size(), kElementsAtOnce));
        buffer.resize(static_cast<size_t>(gguf_bytes(tensor.type, std::ssize(some))));
        if (tensor.type == GgufType::q8_0)
            encode_q8_0(some, buffer);
        else
            encode_numbers(tensor.type == GgufType::f32   ? DType::f32
                           : tensor.type == GgufType::f16 ? DType::f16
                                                          : DType::bf16,
                           some, buffer);
        writer.write(buffer);
        numbers = numbers.subspan(some.size());
    }
}

void write_source(const GgufSource& source, const GgufTensor& tensor, const ParamSpec& param,
                  const ReadMasters& masters, GgufWriter& writer) {
    std::vector<std::byte> buffer;
    std::vector<float> numbers;
    const int64_t piece = elements_at_once(source, param);
    for (int64_t first = 0; first < param.numel(); first += piece) {
        numbers.resize(static_cast<size_t>(std::min(piece, param.numel() - first)));
        masters(source.param, first, numbers);
        check_holds(tensor, param, numbers);
        apply_change(source, param, numbers);
        write_numbers(tensor, numbers, buffer, writer);
    }
}

}  // namespace

void refuse_gguf(std::string_view where, const std::string& what) {
    throw UserError(ExitCode::model, where, "{}", what)
        .hint("--to a name without .gguf: a Hugging Face folder, which transformers and vLLM read");
}

void require_gguf(const ModelSpec& model) {
    const Family* const family = find_family(model.family);
    if (family != nullptr && family->gguf != nullptr) return;
    throw UserError(ExitCode::model, "export", "models of type {} are not exported to GGUF", model.family)
        .hint(
            "--to a name without .gguf: a Hugging Face folder, which transformers, vLLM and, of types that it knows, "
            "llama.cpp's convert_hf_to_gguf.py read");
}

void save_gguf(FileSystem& files, const std::string& base_folder, const std::string& target, const ModelSpec& model,
               const SaveOptions& options, const ReadMasters& masters) {
    const ModelFolder base = ModelFolder::open(files, base_folder);
    GgufModel described = describe(model, base);
    for (const std::string& note : described.notes) log_warning("{}: {}", target, note);
    const GgufType type = options.gguf->type.value_or(usual_type(model));
    std::vector<GgufField> fields = {{"general.architecture", described.architecture},
                                     {"general.type", std::string("model")},
                                     {"general.file_type", file_type_number(type)},
                                     {"general.quantization_version", uint32_t{2}}};
    fields.insert(fields.end(), described.fields.begin(), described.fields.end());
    fields.insert(fields.end(), options.gguf->fields.begin(), options.gguf->fields.end());
    std::vector<GgufTensor> tensors;
    for (const GgufSource& source : described.tensors) tensors.push_back(tensor_of(source, model, type));

    const ReadMasters base_masters = [&](int param, int64_t first, std::span<float> out) {
        load_elements(base, model.params[static_cast<size_t>(param)], first, out);
    };
    GgufWriter writer(files, target, fields, tensors, options.overwrite);
    for (size_t i = 0; i < tensors.size(); ++i) {
        const GgufSource& source = described.tensors[i];
        if (source.param < 0) {
            writer.write(std::as_bytes(std::span(source.values)));
            continue;
        }
        const auto param = static_cast<size_t>(source.param);
        const bool unchanged = !options.unchanged.empty() && options.unchanged[param] != 0;
        write_source(source, tensors[i], model.params[param], unchanged ? base_masters : masters, writer);
    }
    writer.finish();
}

}  // namespace windlass
