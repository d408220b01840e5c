// What a GGUF file of each golden model holds, field by field and tensor by tensor, beside what the gguf package and
// transformers say of it (tests/golden/gguf.json, tools/reference/gguf_goldens.py).
#include <gmock/gmock.h>

#include <filesystem>

#include "base/json.h"
#include "model/gguf.h"
#include "tests/unit/format/gguf_bytes.h"
#include "tests/unit/model/model_fixtures.h"

namespace windlass {
namespace {

namespace fs = std::filesystem;

const Json& gguf_goldens() {
    static const Json goldens = [] {
        const std::string path = fmt::format("{}/tests/golden/gguf.json", source_dir());
        return parse_json(read_text(real_files(), path, 1 << 20), path, ExitCode::data);
    }();
    return goldens.at("cases");
}

std::vector<std::string> gguf_golden_names() {
    std::vector<std::string> names;
    for (const Json& golden : gguf_goldens()) names.push_back(golden.at("case"));
    return names;
}

// zlib's, bit by bit.
uint32_t crc_of(std::string_view bytes) {
    constexpr uint32_t kReversedPolynomial = 0xEDB88320u;
    uint32_t crc = ~0u;
    for (const char byte : bytes) {
        crc ^= static_cast<uint8_t>(byte);
        for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? kReversedPolynomial : 0u);
    }
    return ~crc;
}

class GgufGolden : public testing::TestWithParam<std::string> {
  protected:
    void SetUp() override {
        for (const Json& golden : gguf_goldens())
            if (golden.at("case") == GetParam()) golden_ = golden;
        fs::copy(golden_folder(golden_.at("golden")), temp_ / "model");
        Json config =
            parse_json(read_text(real_files(), temp_ / "model/config.json", 1 << 20), "config", ExitCode::data);
        config.merge_patch(golden_.at("changes"));
        write_text_atomic(real_files(), temp_ / "model/config.json", config.dump());
        write();
    }

    void write() {
        const ModelFolder base = ModelFolder::open(real_files(), temp_ / "model");
        const ModelSpec model = build_folder(base);
        save_model(real_files(), temp_ / "model", temp_ / "tuned.gguf", model,
                   {.gguf = GgufOutput{.type = GgufType::f32, .fields = {{"general.name", std::string("tuned")}}}},
                   [&](int param, int64_t first, std::span<float> out) {
                       load_elements(base, model.params[static_cast<size_t>(param)], first, out);
                   });
        file_ = GgufBytesReader(read_text(real_files(), temp_ / "tuned.gguf", 64 << 20)).read();
    }

    TempFolder temp_;
    Json golden_;
    GgufBytes file_;
};

TEST_P(GgufGolden, HoldsTheFieldsAndNoOthers) {
    const Json& fields = golden_.at("fields");
    std::vector<std::string> keys;
    for (const auto& [key, want] : fields.items()) keys.push_back(key);
    EXPECT_THAT(file_.keys, testing::UnorderedElementsAreArray(keys));
    for (const auto& [key, want] : fields.items()) {
        const auto found = file_.values.find(key);
        if (found == file_.values.end()) continue;
        if (want.is_number_float())
            EXPECT_FLOAT_EQ(std::stof(found->second), want.get<float>()) << key;
        else
            EXPECT_EQ(found->second, want.is_string() ? want.get<std::string>() : want.dump()) << key;
    }
}

TEST_P(GgufGolden, HoldsTheTensorsAndNoOthers) {
    std::vector<std::string> names;
    for (const Json& tensor : golden_.at("tensors")) names.push_back(tensor.at(0));
    ASSERT_THAT(file_.names, testing::UnorderedElementsAreArray(names));
    for (const Json& want : golden_.at("tensors")) {
        const std::string name = want.at(0);
        const GgufBytesTensor& tensor = file_.tensors.at(name);
        EXPECT_EQ(tensor.dims, want.at(1).get<std::vector<uint64_t>>()) << name;
        EXPECT_EQ(tensor.type, 0u) << name;
        uint64_t bytes = sizeof(float);
        for (const uint64_t dim : tensor.dims) bytes *= dim;
        EXPECT_EQ(crc_of(std::string_view(file_.data).substr(tensor.offset, bytes)), want.at(2).get<uint32_t>())
            << name;
    }
}

INSTANTIATE_TEST_SUITE_P(Models, GgufGolden, testing::ValuesIn(gguf_golden_names()),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace windlass
