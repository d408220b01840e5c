#include "model/load.h"

#include <bit>
#include <limits>

#include "base/json.h"
#include "model/save.h"
#include "tests/unit/model/model_fixtures.h"

namespace windlass {
namespace {

using testing::HasSubstr;

std::string read(const std::string& path) {
    return read_text(real_files(), path, int64_t{1} << 30);
}

std::vector<float> load_all(ModelFolder& folder, const ParamSpec& param) {
    std::vector<float> values(static_cast<size_t>(param.numel()));
    load_elements(folder, param, 0, values);
    return values;
}

// Saves what the folder holds: masters are the file's own values.
void save_copy(const std::string& from, const std::string& to, const SaveOptions& options = {}) {
    ModelFolder folder = ModelFolder::open(real_files(), from);
    const ModelSpec model = build_folder(folder);
    save_model(real_files(), from, to, model, options, [&](int param, int64_t first, std::span<float> out) {
        load_elements(folder, model.params[static_cast<size_t>(param)], first, out);
    });
}

void expect_same_tensors(const std::string& a, const std::string& b) {
    const std::vector<TestTensor> left = read_tensors(ModelFolder::open(real_files(), a));
    const std::vector<TestTensor> right = read_tensors(ModelFolder::open(real_files(), b));
    ASSERT_EQ(left.size(), right.size());
    for (size_t i = 0; i < left.size(); ++i) {
        EXPECT_EQ(left[i].spec.name, right[i].spec.name);
        EXPECT_EQ(left[i].spec.dtype, right[i].spec.dtype);
        EXPECT_EQ(left[i].spec.shape, right[i].spec.shape);
        EXPECT_TRUE(left[i].bytes == right[i].bytes) << left[i].spec.name;
    }
}

// A folder of this golden with its tensors in another dtype, which is what most published models are.
void write_golden_as(DType dtype, const std::string& golden, const std::string& path) {
    save_copy(golden_folder(golden), path, {.dtype = dtype});
}

TEST(Load, ReadsAnyPartOfATensor) {
    ModelFolder folder = ModelFolder::open(real_files(), golden_folder("gpt2"));
    const ModelSpec model = build_folder(folder);
    for (const ParamSpec& param : model.params) {
        const std::vector<float> all = load_all(folder, param);
        std::vector<std::byte> bytes(all.size() * sizeof(float));
        folder.read(*folder.find(param.name), 0, bytes);
        EXPECT_EQ(std::memcmp(all.data(), bytes.data(), bytes.size()), 0) << param.name;
        std::vector<float> middle(static_cast<size_t>(param.numel() / 2));
        load_elements(folder, param, 3, middle);
        EXPECT_TRUE(std::equal(middle.begin(), middle.end(), all.begin() + 3)) << param.name;
    }
}

TEST(Load, RefusesValuesThatAreNotFinite) {
    TempFolder temp;
    std::vector<TestTensor> tensors = tensors_of(golden_config("llama"));
    const float infinity = std::numeric_limits<float>::infinity();
    std::memcpy(tensors.back().bytes.data() + 17 * sizeof(float), &infinity, sizeof infinity);
    write_folder(temp / "model", golden_config("llama"), tensors);
    ModelFolder folder = ModelFolder::open(real_files(), temp / "model");
    const ModelSpec model = build_folder(folder);
    const std::string message = complaint([&] {
        for (const ParamSpec& param : model.params) load_all(folder, param);
    });
    EXPECT_THAT(message, HasSubstr("model.safetensors"));
    EXPECT_THAT(message, HasSubstr("model.norm.weight is inf at element 17"));
}

TEST(Load, HoldsTiedTwinsAgainstEachOther) {
    TempFolder temp;
    const std::string config = golden_config("qwen2");
    std::vector<TestTensor> tensors = tensors_of(config);
    tensors.push_back(tensors.front());
    ASSERT_EQ(tensors.front().spec.name, "model.embed_tokens.weight");
    tensors.back().spec.name = "lm_head.weight";
    write_folder(temp / "equal", config, tensors);
    ModelFolder equal = ModelFolder::open(real_files(), temp / "equal");
    check_tied(equal, build_folder(equal));

    tensors.back().bytes.back() ^= std::byte{1};
    write_folder(temp / "differ", config, tensors);
    ModelFolder differ = ModelFolder::open(real_files(), temp / "differ");
    const ModelSpec model = build_folder(differ);
    EXPECT_THAT(complaint([&] { check_tied(differ, model); }), HasSubstr("lm_head.weight differ"));
}

TEST(Load, EncodesMastersAsFilesHoldThem) {
    // Between two bf16 numbers, exactly: the split's high half goes away from zero, also where ties-to-even would not.
    const std::vector<float> masters = {1.0f, std::bit_cast<float>(0x3f808000u), std::bit_cast<float>(0xbf808000u),
                                        65504.0f};
    const auto encode = [&](DType dtype) {
        std::vector<uint16_t> bits(masters.size());
        encode_elements({.name = "w", .shape = {4}, .file_dtype = dtype}, masters,
                        std::as_writable_bytes(std::span(bits)));
        return bits;
    };
    EXPECT_THAT(encode(DType::bf16), testing::ElementsAre(0x3f80, 0x3f81, 0xbf81, 0x4780));
    EXPECT_THAT(encode(DType::f16), testing::ElementsAre(0x3c00, 0x3c04, 0xbc04, 0x7bff));
}

void expect_written_back(const std::string& from, const std::string& to) {
    save_copy(from, to);
    expect_same_tensors(from, to);
    EXPECT_EQ(read(from + "/config.json"), read(to + "/config.json"));
    const ModelFolder base = ModelFolder::open(real_files(), from);
    for (const std::string& file : base.side_files()) EXPECT_EQ(read(from + "/" + file), read(to + "/" + file)) << file;
}

TEST(Save, WritesBackWhatWasLoaded) {
    const TempFolder temp;
    for (const std::string& name : golden_names()) expect_written_back(golden_folder(name), temp / name);
}

TEST(Save, WritesBackAPublishedModel) {
    WINDLASS_NEEDS_SHARED_DATA("model-stories260K-hf");
    const TempFolder temp;
    expect_written_back(data_folder("model-stories260K-hf"), temp / "copy");
}

TEST(Save, KeepsHalfPrecisionBitsAndSplitFiles) {
    TempFolder temp;
    for (const DType dtype : {DType::bf16, DType::f16}) {
        const std::string name(dtype_name(dtype));
        write_golden_as(dtype, "llama", temp / name);
        save_copy(temp / name, temp / (name + "-split"), {.shard_bytes_max = 20'000});
        save_copy(temp / (name + "-split"), temp / (name + "-again"));
        expect_same_tensors(temp / name, temp / (name + "-again"));
        const ModelFolder split = ModelFolder::open(real_files(), temp / (name + "-split"));
        EXPECT_GT(split.shard_files().size(), 1u);
        EXPECT_EQ(split.shard_files(), ModelFolder::open(real_files(), temp / (name + "-again")).shard_files());
    }
}

TEST(Save, CopiesWhatIsNoParameterAndBothTwins) {
    TempFolder temp;
    const std::string config = golden_config("gpt2");
    std::vector<TestTensor> tensors = tensors_of(config);
    tensors.push_back(tensors.back());
    ASSERT_EQ(tensors.back().spec.name, "transformer.wte.weight");
    tensors.back().spec.name = "lm_head.weight";
    TestTensor mask{{"transformer.h.0.attn.bias", DType::u8, {1, 1, 32, 32}},
                    std::vector<std::byte>(1024, std::byte{1})};
    tensors.push_back(mask);
    write_folder(temp / "base", config, tensors);
    save_copy(temp / "base", temp / "copy");
    expect_same_tensors(temp / "base", temp / "copy");
    save_copy(temp / "base", temp / "bf16", {.dtype = DType::bf16});
    const ModelFolder converted = ModelFolder::open(real_files(), temp / "bf16");
    EXPECT_EQ(converted.find("transformer.h.0.attn.bias")->dtype, DType::u8);
    EXPECT_EQ(converted.find("lm_head.weight")->dtype, DType::bf16);
}

TEST(Save, ChangesOnlyTheDtypeOfTheConfiguration) {
    TempFolder temp;
    write_golden_as(DType::bf16, "gpt2", temp / "bf16");
    std::string expected = read(golden_folder("gpt2") + "/config.json");
    expected.replace(expected.find("float32"), 7, "bfloat16");
    EXPECT_EQ(read(temp / "bf16/config.json"), expected);
    const ModelFolder folder = ModelFolder::open(real_files(), temp / "bf16");
    for (const TensorPlace& tensor : folder.tensors()) EXPECT_EQ(tensor.dtype, DType::bf16);
}

TEST(Save, EditsTheRightDtype) {
    const auto edit = [](const std::string& text) { return config_with_dtype(text, DType::f16, "config.json"); };
    EXPECT_EQ(edit(R"({"a": {"dtype": "x"}, "b": "dtype", "dtype" : "float32"})"),
              R"({"a": {"dtype": "x"}, "b": "dtype", "dtype" : "float16"})");
    EXPECT_EQ(edit(R"({"torch_dtype": null, "dtype": "float32"})"),
              R"({"torch_dtype": "float16", "dtype": "float16"})");
    EXPECT_EQ(edit(R"({"n": 1e-05})"), "{\n  \"torch_dtype\": \"float16\",\"n\": 1e-05}");
    EXPECT_EQ(edit("{}"), "{\n  \"torch_dtype\": \"float16\"\n}");
    EXPECT_EQ(Json::parse(edit(R"({"dt\u0079pe": "float32"})")), Json::parse(R"({"dtype": "float16"})"));
}

TEST(Save, NamesWhatHalfPrecisionCannotHold) {
    TempFolder temp;
    const ModelSpec model = build_folder(ModelFolder::open(real_files(), golden_folder("llama")));
    const auto masters = [](int, int64_t, std::span<float> out) {
        std::ranges::fill(out, 1.0f);
        out[5] = 1e6f;
    };
    const std::string message = complaint(
        [&] { save_model(real_files(), golden_folder("llama"), temp / "out", model, {.dtype = DType::f16}, masters); });
    EXPECT_THAT(message, HasSubstr("lm_head.weight: is 1000000 at element 5"));
    EXPECT_THAT(real_files().list(temp.path()), testing::IsEmpty());  // half a folder is no folder
}

TEST(Save, ReplacesATargetOnlyWhenTold) {
    TempFolder temp;
    save_copy(golden_folder("llama"), temp / "out");
    EXPECT_THROW(save_copy(golden_folder("qwen2"), temp / "out"), UserError);
    expect_same_tensors(golden_folder("llama"), temp / "out");
    save_copy(golden_folder("qwen2"), temp / "out", {.overwrite = true});
    expect_same_tensors(golden_folder("qwen2"), temp / "out");
}

TEST(Save, AsksForEveryElementOnceAndInBoundedPieces) {
    TempFolder temp;
    const ModelSpec model = build_folder(ModelFolder::open(real_files(), golden_folder("opt")));
    std::vector<int64_t> asked(model.params.size());
    save_model(real_files(), golden_folder("opt"), temp / "out", model, {},
               [&](int param, int64_t first, std::span<float> out) {
                   EXPECT_EQ(first, asked[static_cast<size_t>(param)]);
                   EXPECT_LE(static_cast<int64_t>(out.size_bytes()), kSaveBufferBytes);
                   asked[static_cast<size_t>(param)] += static_cast<int64_t>(out.size());
                   std::ranges::fill(out, 0.0f);
               });
    for (size_t i = 0; i < asked.size(); ++i) EXPECT_EQ(asked[i], model.params[i].numel()) << model.params[i].name;
}

// Of a llama with one odd tensor in f32; the last parameter is trained alone, and only its masters are asked for.
class Unchanged : public testing::Test {
  protected:
    Unchanged() {
        write_golden_as(DType::bf16, "llama", temp_ / "bf16");
        std::vector<TestTensor> tensors = read_tensors(ModelFolder::open(real_files(), temp_ / "bf16"));
        const std::vector<TestTensor> wide = read_tensors(ModelFolder::open(real_files(), golden_folder("llama")));
        tensors.front() = wide.front();
        write_folder(base(), read(golden_folder("llama") + "/config.json"), tensors);
    }
    std::string base() const { return temp_ / "base"; }
    std::vector<TestTensor> saved(std::optional<DType> dtype) {
        const ModelSpec model = build_folder(ModelFolder::open(real_files(), base()));
        std::vector<uint8_t> unchanged(model.params.size(), 1);
        unchanged.back() = 0;
        save_model(real_files(), base(), temp_ / "out", model,
                   {.dtype = dtype, .overwrite = true, .unchanged = unchanged},
                   [&](int param, int64_t, std::span<float> out) {
                       EXPECT_EQ(param, std::ssize(model.params) - 1);
                       std::ranges::fill(out, 0.5f);
                   });
        return read_tensors(ModelFolder::open(real_files(), temp_ / "out"));
    }
    TempFolder temp_;
};

TEST_F(Unchanged, TensorsAreTheBasesBytes) {
    const std::vector<TestTensor> before = read_tensors(ModelFolder::open(real_files(), base())), after = saved({});
    ASSERT_EQ(after.size(), before.size());
    EXPECT_NE(before.front().spec.dtype, before.back().spec.dtype);
    for (size_t i = 0; i < after.size(); ++i) {
        EXPECT_EQ(after[i].spec.dtype, before[i].spec.dtype);
        EXPECT_EQ(after[i].bytes == before[i].bytes, i + 1 < after.size()) << after[i].spec.name;
    }
}

TEST_F(Unchanged, TensorsAreConvertedFromTheBasesNumbersWhereAsked) {
    const std::vector<TestTensor> before = read_tensors(ModelFolder::open(real_files(), base())),
                                  after = saved(DType::f16);
    for (size_t i = 0; i + 1 < after.size(); ++i) {
        std::vector<float> numbers(static_cast<size_t>(before[i].spec.shape.numel()));
        decode_numbers(before[i].spec.dtype, before[i].bytes, numbers);
        std::vector<std::byte> expected(numbers.size() * 2);
        encode_numbers(DType::f16, numbers, expected);
        EXPECT_EQ(after[i].spec.dtype, DType::f16);
        EXPECT_TRUE(after[i].bytes == expected) << after[i].spec.name;
    }
}

}  // namespace
}  // namespace windlass
