// gguf.h: one GGUF file: what llama.cpp, Ollama and their kind load (docs/format/gguf.md).
//
// A file is a list of typed fields, a list of tensors, and the tensors' bytes. The writer puts the lists down at once
// and takes the bytes in order, so that memory stays bounded. The file appears whole or not at all.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/file.h"
#include "tensor/tensor.h"

namespace windlass {

using GgufValue = std::variant<uint32_t, float, bool, std::string, std::vector<int32_t>, std::vector<float>,
                               std::vector<bool>, std::vector<std::string>>;

struct GgufField {
    std::string key;
    GgufValue value;
};

// Of a tensor, by the format's numbers.
enum class GgufType : uint32_t { f32 = 0, f16 = 1, q8_0 = 8, bf16 = 30 };

std::optional<GgufType> gguf_type_from_name(std::string_view name);  // "f32", "f16", "bf16", "q8_0"
std::string_view gguf_type_name(GgufType type);
// Numbers that are encoded together, and the bytes that they take.
int64_t gguf_block(GgufType type);
int64_t gguf_bytes(GgufType type, int64_t count);

struct GgufTensor {
    std::string name;
    GgufType type = GgufType::f32;
    Shape shape;  // outermost first; the last dimension is whole blocks
    int64_t bytes() const { return gguf_bytes(type, shape.numel()); }
};

inline constexpr size_t kGgufNameBytesMax = 63;  // of a tensor: ggml keeps 64 with the zero

class GgufWriter {
  public:
    // UserError(storage) where the target exists, unless `overwrite` and it is a GGUF file, and where space lacks.
    GgufWriter(FileSystem& files, const std::string& target, const std::vector<GgufField>& fields,
               std::vector<GgufTensor> tensors, bool overwrite);
    GgufWriter(const GgufWriter&) = delete;
    GgufWriter& operator=(const GgufWriter&) = delete;
    ~GgufWriter();  // removes what was made, unless it was finished

    // The next bytes: tensors in the order of the list, each from its first byte on.
    void write(std::span<const std::byte> bytes);
    // Syncs and renames. The file is durable when it returns.
    void finish();

  private:
    GgufWriter(FileSystem& files, std::string target, std::vector<GgufTensor> tensors, bool overwrite);
    void check_target() const;
    void pass_padding();

    FileSystem& files_;
    std::string target_, temporary_;
    bool overwrite_ = false;
    std::vector<GgufTensor> tensors_;
    std::unique_ptr<File> file_;
    size_t tensor_ = 0;       // that is written
    int64_t written_ = 0;     // of it
    int64_t file_bytes_ = 0;  // so far
};

}  // namespace windlass
