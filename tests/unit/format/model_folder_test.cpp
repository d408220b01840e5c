#include "format/model_folder.h"

#include <random>

#include "format/model_folder_writer.h"
#include "tests/place.h"
#include "tests/unit/base/temp_folder.h"
#include "tests/unit/format/safetensors_bytes.h"

namespace windlass {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kConfig = "{\"model_type\": \"llama\"}\n";

// A safetensors file of u8 tensors: each name with its bytes.
std::string shard_of(const std::vector<std::pair<std::string, std::string>>& tensors) {
    std::string header = "{", data;
    for (const auto& [name, bytes] : tensors) {
        header += fmt::format(R"({}"{}":{{"dtype":"U8","shape":[{}],"data_offsets":[{},{}]}})", data.empty() ? "" : ",",
                              name, bytes.size(), data.size(), data.size() + bytes.size());
        data += bytes;
    }
    return safetensors_bytes(header + "}", data);
}

void write_index(const TempFolder& folder, std::string_view weight_map) {
    write_bytes(folder / "model.safetensors.index.json",
                fmt::format(R"({{"metadata":{{"total_size":9}},"weight_map":{}}})", weight_map));
}

// Two shards with an index, side files, and what must not be copied.
void write_model(const TempFolder& folder) {
    write_bytes(folder / "config.json", kConfig);
    write_bytes(folder / "model-00001-of-00002.safetensors", shard_of({{"b", "bbbb"}, {"a", "aa"}}));
    write_bytes(folder / "model-00002-of-00002.safetensors", shard_of({{"c", "ccc"}}));
    write_index(folder, R"({"a":"model-00001-of-00002.safetensors","b":"model-00001-of-00002.safetensors",
                            "c":"model-00002-of-00002.safetensors"})");
    for (const char* name : {"tokenizer.json", "tokenizer.model", "generation_config.json", "chat_template.jinja",
                             "LICENSE", "README.md", "vocab.json", "merges.txt"})
        write_bytes(folder / name, fmt::format("{} of the base\r\n", name));
    for (const char* name : {".gitattributes", "training_args.bin", "optimizer.pt", "trainer_state.json",
                             "consolidated.safetensors", "model.gguf"})
        write_bytes(folder / name, "not copied");
    real_files().make_folders(folder / "original");
    real_files().make_folders(folder / "additional_chat_templates");
    write_bytes(folder / "additional_chat_templates/rag.jinja", "{{ rag }}");
}

std::string refusal(const std::string& folder) {
    return message_of<UserError>([&] { ModelFolder::open(real_files(), folder); });
}

std::string contents(const ModelFolder& model, std::string_view name) {
    const TensorPlace* const place = model.find(name);
    if (place == nullptr) return "absent";
    std::string bytes(static_cast<size_t>(place->bytes), ' ');
    model.read(*place, 0, std::as_writable_bytes(std::span(bytes)));
    return bytes;
}

TEST(ModelFolder, OpensShardsThroughTheIndex) {
    const TempFolder folder;
    write_model(folder);
    const ModelFolder model = ModelFolder::open(real_files(), folder.path() + "/");
    ASSERT_EQ(model.tensors().size(), 3u);
    EXPECT_EQ(model.tensors()[0].name, "a");
    EXPECT_EQ(contents(model, "a"), "aa");
    EXPECT_EQ(contents(model, "b"), "bbbb");
    EXPECT_EQ(contents(model, "c"), "ccc");
    EXPECT_EQ(model.find("d"), nullptr);
    EXPECT_EQ(model.total_bytes(), 9);
    EXPECT_EQ(model.config().model_type(), "llama");
    EXPECT_EQ(model.weight_dtype(model.tensors()[0]), DType::u8);
    EXPECT_THAT(model.side_files(),
                ElementsAre("LICENSE", "README.md", "additional_chat_templates/rag.jinja", "chat_template.jinja",
                            "generation_config.json", "merges.txt", "tokenizer.json", "tokenizer.model", "vocab.json"));
}

TEST(ModelFolder, OpensFilesWithoutAnIndex) {
    const TempFolder folder;
    write_bytes(folder / "config.json", kConfig);
    write_bytes(folder / "part-1.safetensors", shard_of({{"a", "1"}}));
    write_bytes(folder / "part-2.safetensors", shard_of({{"b", "2"}}));
    write_bytes(folder / "consolidated.00.safetensors", shard_of({{"a", "x"}}));
    EXPECT_EQ(contents(ModelFolder::open(real_files(), folder.path()), "b"), "2");
    write_bytes(folder / "model.safetensors", shard_of({{"z", "zz"}}));
    EXPECT_EQ(ModelFolder::open(real_files(), folder.path()).tensors().size(), 1u) << "the usual name alone";
}

TEST(ModelFolder, RefusesFoldersThatAreNoModel) {
    const TempFolder folder;
    EXPECT_THAT(refusal(folder / "absent"), HasSubstr("no such model folder"));
    EXPECT_THAT(refusal(folder.path()), HasSubstr("is empty"));
    write_bytes(folder / "adapter_config.json", "{}");
    EXPECT_THAT(refusal(folder.path()), HasSubstr("adapter only"));
    EXPECT_THAT(refusal(folder / "adapter_config.json"), HasSubstr("is a file, expected a model folder"));
    write_bytes(folder / "config.json", kConfig);
    EXPECT_THAT(refusal(folder.path()), HasSubstr("has no *.safetensors file"));
    write_bytes(folder / "pytorch_model.bin", "PK");
    EXPECT_THAT(refusal(folder.path()), HasSubstr("safe_serialization=True"));
    write_bytes(folder / "config.json", "{");
    EXPECT_THAT(refusal(folder.path()), HasSubstr("config.json: not valid JSON"));
}

TEST(ModelFolder, RefusesAnIndexThatLies) {
    const TempFolder folder;
    write_model(folder);
    const auto with = [&](std::string_view weight_map) {
        write_index(folder, weight_map);
        return refusal(folder.path());
    };
    const std::string one = "model-00001-of-00002.safetensors", two = "model-00002-of-00002.safetensors";
    const auto map = [&](std::string_view a, std::string_view b, std::string_view c) {
        return fmt::format(R"({{"a":"{}","b":"{}","c":"{}"}})", a, b, c);
    };
    for (const char* path : {"../x.safetensors", "/etc/x.safetensors", "a/b.safetensors", "", "..", ".x.safetensors",
                             "x.bin", "x\\u0000.safetensors", "..\\\\x.safetensors"})
        EXPECT_THAT(with(map(one, one, path)), HasSubstr("no plain *.safetensors file name")) << path;
    EXPECT_THAT(with(map(one, one, "model-00003-of-00003.safetensors")),
                HasSubstr("names \"model-00003-of-00003.safetensors\", which is not in the folder"));
    EXPECT_THAT(with(map(one, two, two)), HasSubstr("tensor \"b\" is in \"" + one + "\", expected in \"" + two + "\""));
    EXPECT_THAT(with(fmt::format(R"({{"a":"{0}","c":"{1}"}})", one, two)), HasSubstr("does not name tensor \"b\""));
    EXPECT_THAT(with(fmt::format(R"({{"a":"{0}","b":"{0}","c":"{1}","d":"{1}"}})", one, two)),
                HasSubstr("tensor \"d\" is in no file"));
    EXPECT_THAT(with("{}"), HasSubstr("no \"weight_map\""));
    EXPECT_THAT(with("[1]"), HasSubstr("no \"weight_map\""));
    EXPECT_THAT(with(R"({"a":1})"), HasSubstr("tensor \"a\" has number for a file name"));
    EXPECT_THAT(with(fmt::format(R"({{"a":"{0}","a":"{0}"}})", one)), HasSubstr("\"a\" twice"));
    write_bytes(folder / "model.safetensors", shard_of({{"a", "a"}}));
    EXPECT_THAT(with(map(one, one, two)), HasSubstr("two sets of weights"));
}

TEST(ModelFolder, RefusesATensorInTwoFiles) {
    const TempFolder folder;
    write_bytes(folder / "config.json", kConfig);
    write_bytes(folder / "x.safetensors", shard_of({{"a", "1"}}));
    write_bytes(folder / "y.safetensors", shard_of({{"a", "1"}}));
    EXPECT_THAT(refusal(folder.path()), HasSubstr("tensor \"a\" is in \"x.safetensors\" and in \"y.safetensors\""));
}

TEST(ModelFolder, ListsForeignDtypesAndRefusesToComputeWithThem) {
    const TempFolder folder;
    write_bytes(folder / "config.json", kConfig);
    write_bytes(folder / "model.safetensors",
                safetensors_bytes(R"({"w":{"dtype":"F8_E5M2","shape":[1],"data_offsets":[0,1]}})", "x"));
    const ModelFolder model = ModelFolder::open(real_files(), folder.path());
    EXPECT_EQ(model.tensors()[0].dtype_name, "F8_E5M2");
    EXPECT_THAT(message_of<UserError>([&] { (void)model.weight_dtype(model.tensors()[0]); }),
                HasSubstr("tensor \"w\" has dtype F8_E5M2"));
}

TEST(ModelFolder, SurvivesADamagedIndex) {
    const TempFolder folder;
    write_model(folder);
    const std::string whole = read_bytes(folder / "model.safetensors.index.json");
    std::mt19937 random(13);
    for (int round = 0; round < 200; ++round) {
        std::string text = whole;
        text[random() % text.size()] = static_cast<char>(random());
        if (round % 3 == 0) text.resize(random() % text.size());
        write_bytes(folder / "model.safetensors.index.json", text);
        try {
            ModelFolder::open(real_files(), folder.path());
        } catch (const UserError&) {
        }
    }
}

TEST(ModelFolder, OpensAPublishedModel) {
    WINDLASS_NEEDS_SHARED_DATA("model-stories260K-hf");
    const std::string folder = shared_data("model-stories260K-hf");
    const ModelFolder model = ModelFolder::open(real_files(), folder);
    EXPECT_EQ(model.config().model_type(), "llama");
    ASSERT_NE(model.find("model.embed_tokens.weight"), nullptr);
    EXPECT_EQ(model.find("model.embed_tokens.weight")->shape, (Shape{512, 64}));
    EXPECT_THAT(model.side_files(), ::testing::Contains("tokenizer.json"));
    EXPECT_THAT(model.side_files(), Not(::testing::Contains("config.json")));
}

// ---- splits ----

std::vector<TensorSpec> sized(std::initializer_list<int64_t> bytes) {
    std::vector<TensorSpec> list;
    for (const int64_t count : bytes) list.push_back({fmt::format("t{}", list.size()), DType::u8, {count}});
    return list;
}

TEST(ShardSplit, FillsGreedilyInListOrder) {
    EXPECT_THAT(split_by_size(sized({3, 3, 3}), 9).files, ElementsAre("model.safetensors"));
    const ShardSplit split = split_by_size(sized({4, 6, 1, 25, 5, 9}), 10);
    EXPECT_THAT(split.file_of, ElementsAre(0, 0, 1, 2, 1, 3)) << "a tensor above the limit is alone";
    EXPECT_EQ(split.files[2], "model-00003-of-00004.safetensors");
    EXPECT_THAT(split_by_size({}, 10).files, ElementsAre("model.safetensors"));
}

TEST(ShardSplit, FollowsTheBase) {
    const TempFolder folder;
    write_model(folder);
    const ModelFolder base = ModelFolder::open(real_files(), folder.path());
    const std::vector<TensorSpec> all = {{"c", DType::u8, {3}}, {"a", DType::u8, {2}}, {"b", DType::u8, {4}}};
    const ShardSplit split = split_like(base, all);
    EXPECT_THAT(split.files, ElementsAre("model-00002-of-00002.safetensors", "model-00001-of-00002.safetensors"));
    EXPECT_THAT(split.file_of, ElementsAre(0, 1, 1));
    EXPECT_EQ(split_like(base, std::span(all).first(1)).files.size(), 1u);
}

}  // namespace
}  // namespace windlass
