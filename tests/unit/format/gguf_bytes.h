// gguf_bytes.h: a GGUF file read by the letter of docs/format/gguf.md, for tests: nothing of the writer is used.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <string>
#include <vector>

namespace windlass {

struct GgufBytesTensor {
    std::vector<uint64_t> dims;  // as in the file: innermost first
    uint32_t type = 0;
    uint64_t offset = 0;  // from the first tensor's byte
};

struct GgufBytes {
    uint32_t version = 0;
    std::vector<std::string> keys;              // in the file's order
    std::map<std::string, std::string> values;  // as text: "7", "true", "[a, b]"
    std::vector<std::string> names;
    std::map<std::string, GgufBytesTensor> tensors;
    std::string data;  // from the first tensor's byte on

    template <typename Number>
    std::vector<Number> numbers(const std::string& name, size_t count) const {
        std::vector<Number> out(count);
        const uint64_t offset = tensors.at(name).offset;
        EXPECT_LE(offset + count * sizeof(Number), data.size()) << name;
        std::memcpy(out.data(), data.data() + offset, count * sizeof(Number));
        return out;
    }
};

class GgufBytesReader {
  public:
    explicit GgufBytesReader(const std::string& file) : file_(file) {}

    GgufBytes read() {
        GgufBytes out;
        EXPECT_EQ(take(4), "GGUF");
        out.version = number<uint32_t>();
        const auto tensor_count = number<uint64_t>(), field_count = number<uint64_t>();
        for (uint64_t i = 0; i < field_count; ++i) {
            out.keys.push_back(text());
            out.values[out.keys.back()] = value(number<uint32_t>());
        }
        for (uint64_t i = 0; i < tensor_count; ++i) {
            out.names.push_back(text());
            GgufBytesTensor& tensor = out.tensors[out.names.back()];
            tensor.dims.resize(number<uint32_t>());
            for (uint64_t& dim : tensor.dims) dim = number<uint64_t>();
            tensor.type = number<uint32_t>();
            tensor.offset = number<uint64_t>();
            EXPECT_EQ(tensor.offset % 32, 0u) << out.names.back();
        }
        out.data = file_.substr((at_ + 31) / 32 * 32);
        return out;
    }

  private:
    std::string take(size_t bytes) {
        EXPECT_LE(at_ + bytes, file_.size());
        at_ += bytes;
        return file_.substr(at_ - bytes, bytes);
    }
    template <typename Number>
    Number number() {
        Number out;
        std::memcpy(&out, take(sizeof out).data(), sizeof out);
        return out;
    }
    std::string text() { return take(number<uint64_t>()); }
    std::string value(uint32_t kind) {
        if (kind == 4) return std::to_string(number<uint32_t>());
        if (kind == 5) return std::to_string(number<int32_t>());
        if (kind == 6) return fmt::format("{}", number<float>());
        if (kind == 7) return number<uint8_t>() != 0 ? "true" : "false";
        if (kind == 8) return text();
        EXPECT_EQ(kind, 9u);
        const auto inner = number<uint32_t>();
        const auto count = number<uint64_t>();
        std::string out = "[";
        for (uint64_t i = 0; i < count; ++i) out += (i == 0 ? "" : ", ") + value(inner);
        return out + "]";
    }

    const std::string file_;
    size_t at_ = 0;
};

}  // namespace windlass
