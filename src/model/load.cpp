#include "model/load.h"

#include <bit>
#include <cmath>

#include "base/math.h"

namespace windlass {
namespace {

constexpr int64_t kPieceBytes = int64_t{1} << 20;

std::string file_of(const ModelFolder& folder, const TensorPlace& tensor) {
    return fmt::format("{}/{}", folder.path(), folder.shard_files()[static_cast<size_t>(tensor.shard)]);
}

const TensorPlace& require(const ModelFolder& folder, const ParamSpec& param) {
    const TensorPlace* tensor = folder.find(param.name);
    if (tensor == nullptr || tensor->shape != param.shape || tensor->dtype != param.file_dtype)
        throw UserError(ExitCode::model, folder.path(), "tensor {} changed on disk while it was being read", param.name)
            .hint("again, with no other program writing to this folder");
    return *tensor;
}

void check_finite(const ModelFolder& folder, const TensorPlace& tensor, int64_t first, std::span<const float> values) {
    const auto bad = std::ranges::find_if(values, [](float value) { return !std::isfinite(value); });
    if (bad == values.end()) return;
    throw UserError(ExitCode::model, file_of(folder, tensor), "tensor {} is {} at element {}", tensor.name, *bad,
                    first + (bad - values.begin()));
}

void check_equal(const ModelFolder& folder, const TensorPlace& a, const TensorPlace& b) {
    std::vector<std::byte> left(static_cast<size_t>(std::min(kPieceBytes, a.bytes))), right(left.size());
    for (int64_t offset = 0; offset < a.bytes; offset += kPieceBytes) {
        const size_t count = static_cast<size_t>(std::min(kPieceBytes, a.bytes - offset));
        folder.read(a, offset, std::span(left).first(count));
        folder.read(b, offset, std::span(right).first(count));
        if (std::memcmp(left.data(), right.data(), count) != 0)
            throw UserError(ExitCode::model, folder.path(), "tensors {} and {} differ, but the configuration ties them",
                            a.name, b.name)
                .hint("\"tie_word_embeddings\": false, if the model has a head of its own");
    }
}

}  // namespace

void decode_numbers(DType dtype, std::span<const std::byte> bytes, std::span<float> out) {
    if (dtype == DType::f32) {
        std::memcpy(out.data(), bytes.data(), bytes.size());
        return;
    }
    for (size_t i = 0; i < out.size(); ++i) {
        uint16_t bits;
        std::memcpy(&bits, bytes.data() + 2 * i, sizeof bits);
        out[i] = dtype == DType::bf16 ? to_float(bf16{bits}) : half_to_float(bits);
    }
}

void encode_numbers(DType dtype, std::span<const float> values, std::span<std::byte> out) {
    WINDLASS_CHECK(static_cast<int64_t>(out.size()) == static_cast<int64_t>(values.size()) * dtype_bytes(dtype),
                   "{} bytes for {} numbers of {}", out.size(), values.size(), dtype_name(dtype));
    if (dtype == DType::f32) {
        std::memcpy(out.data(), values.data(), out.size());
        return;
    }
    WINDLASS_CHECK(dtype == DType::bf16 || dtype == DType::f16, "nothing is kept as {}", dtype_name(dtype));
    for (size_t i = 0; i < values.size(); ++i) {
        const uint16_t bits =
            dtype == DType::bf16 ? split_master(std::bit_cast<uint32_t>(values[i])).hi : float_to_half(values[i]);
        std::memcpy(out.data() + 2 * i, &bits, sizeof bits);
    }
}

void load_elements(const ModelFolder& folder, const ParamSpec& param, int64_t first, std::span<float> out) {
    const int64_t count = static_cast<int64_t>(out.size());
    WINDLASS_CHECK(first >= 0 && count <= param.numel() - first, "{} has {} elements, expected {} from {}", param.name,
                   param.numel(), count, first);
    const TensorPlace& tensor = require(folder, param);
    const int64_t width = dtype_bytes(param.file_dtype), piece = kPieceBytes / width;
    std::vector<std::byte> bytes(static_cast<size_t>(std::min(piece, count) * width));
    for (int64_t done = 0; done < count; done += piece) {
        const int64_t now = std::min(piece, count - done);
        const std::span<std::byte> raw = std::span(bytes).first(static_cast<size_t>(now * width));
        const std::span<float> values = out.subspan(static_cast<size_t>(done), static_cast<size_t>(now));
        folder.read(tensor, (first + done) * width, raw);
        decode_numbers(param.file_dtype, raw, values);
        check_finite(folder, tensor, first + done, values);
    }
}

void check_tied(const ModelFolder& folder, const ModelSpec& model) {
    for (const ParamSpec& param : model.params) {
        if (param.alias.empty()) continue;
        const TensorPlace* alias = folder.find(param.alias);
        const TensorPlace& tensor = require(folder, param);
        WINDLASS_CHECK(alias != nullptr && alias->shape == tensor.shape, "{} is not a twin of {}", param.alias,
                       param.name);
        if (alias->dtype != tensor.dtype)
            throw UserError(ExitCode::model, folder.path(), "tensor {} holds {}, its twin {} holds {}", tensor.name,
                            tensor.dtype_name, alias->name, alias->dtype_name);
        check_equal(folder, tensor, *alias);
    }
}

void encode_elements(const ParamSpec& param, std::span<const float> masters, std::span<std::byte> out) {
    encode_numbers(param.file_dtype, masters, out);
}

}  // namespace windlass
