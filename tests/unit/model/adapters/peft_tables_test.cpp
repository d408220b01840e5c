// Adapters of the table of tokens and of the head, as peft's files have them.
#include "tests/unit/model/adapters/adapter_fixtures.h"

#include "tests/unit/base/temp_folder.h"

namespace windlass {
namespace {

using testing::HasSubstr;

constexpr const char* kTable = "base_model.model.model.embed_tokens.";
constexpr const char* kHead = "base_model.model.lm_head.";

// An adapter of both for the golden llama, r = 2; each test changes one thing.
class PeftTables : public testing::Test {
  protected:
    PeftTables() {
        add(kTable, "lora_embedding_A", {2, 96});
        add(kTable, "lora_embedding_B", {32, 2});
        add(kHead, "lora_A.weight", {2, 32});
        add(kHead, "lora_B.weight", {96, 2});
    }
    void add(const std::string& module, const std::string& part, Shape shape) {
        tensors_.push_back(f32_tensor(module + part, shape));
    }
    void replace(const std::string& module, const std::string& part, Shape shape) {
        std::erase_if(tensors_, [&](const TestTensor& each) { return each.spec.name == module + part; });
        add(module, part, shape);
    }
    AdapterFolder written() {
        const std::string path = temp_ / fmt::format("{}", ++written_);
        write_adapter(path, R"({"peft_type": "LORA", "r": 2, "lora_alpha": 4, "bias": "none"})", tensors_);
        return AdapterFolder::open(real_files(), path);
    }
    std::vector<int> layers() {
        const AdapterFolder folder = written();
        return peft_layers(folder, read_peft_config(folder).settings, base_.model);
    }
    void compare() {
        const AdapterFolder folder = written();
        check_peft_tables(folder, read_peft_config(folder).settings, base_.folder, base_.model);
    }

    GoldenBase base_{"llama"};
    TempFolder temp_;
    int written_ = 0;
    std::vector<TestTensor> tensors_;
};

// A table has a pair of its own, whose first half is [r, V] in the file.
TEST_F(PeftTables, AreTakenByTheirOwnPairs) {
    EXPECT_EQ(layers(), (std::vector{kHeadLayer, weight_of_module(base_.model, "model.embed_tokens")}));
    replace(kTable, "lora_embedding_A", {96, 2});
    EXPECT_THAT(complaint([&] { layers(); }), HasSubstr("embed_tokens.lora_embedding_A: is [96, 2], expected [2, 96]"));
    replace(kTable, "lora_embedding_A", {2, 96});
    std::erase_if(tensors_, [](const TestTensor& each) { return each.spec.name.ends_with("lora_B.weight"); });
    EXPECT_THAT(complaint([&] { layers(); }), HasSubstr("has lora_A.weight of lm_head, but not its lora_B.weight"));
}

// peft writes the base's table next to an adapter of it: nothing is to be read of it, but it must be the base's.
TEST_F(PeftTables, MayHaveTheBasesTableAndNoOther) {
    const ParamSpec& table = base_.model.params[at(weight_of_module(base_.model, "model.embed_tokens"))];
    std::vector<float> numbers(at(table.numel()));
    load_elements(base_.folder, table, 0, numbers);
    const auto put = [&](Shape shape, DType dtype) {
        replace(kTable, "base_layer.weight", shape);
        tensors_.back().spec.dtype = dtype;
        tensors_.back().bytes.resize(at(table.numel() * dtype_bytes(dtype)));
        encode_numbers(dtype, numbers, tensors_.back().bytes);
    };
    for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
        put({96, 32}, dtype);
        EXPECT_EQ(layers().size(), 2u);
        EXPECT_NO_THROW(compare()) << dtype_name(dtype);
    }
    put({48, 64}, DType::f32);
    EXPECT_THAT(complaint([&] { layers(); }),
                HasSubstr("embed_tokens.base_layer.weight: is [48, 64], the base's table is [96, 32]"));
    numbers[77] = 3;
    for (const DType dtype : {DType::f32, DType::bf16}) {
        put({96, 32}, dtype);
        EXPECT_THAT(complaint([&] { compare(); }),
                    HasSubstr("embed_tokens.base_layer.weight: is 3 at element 77, where the base's "
                              "model.embed_tokens.weight is "));
    }
}

// More ids than are read at once, from any element to any other.
TEST_F(PeftTables, AreReadPieceByPiece) {
    constexpr int64_t kIds = 300'000;
    replace(kTable, "lora_embedding_A", {2, kIds});
    const AdapterFolder folder = written();
    const ParamSpec param{
        .name = "embed_tokens.lora_embedding_A",
        .shape = {kIds, 2},
        .added = AddedParam{.layer = "model.embed_tokens", .part = "lora_embedding_A", .is_turned = true}};
    for (const auto& [first, count] : {std::pair{int64_t{0}, 2 * kIds}, {int64_t{524'287}, int64_t{4}}}) {
        std::vector<float> numbers(at(count)), want;
        load_peft_elements(folder, ModelSpec{}, param, first, numbers);
        for (int64_t i = first; i < first + count; ++i)
            want.push_back(0.001f * static_cast<float>(i % 2 * kIds + i / 2));
        EXPECT_TRUE(numbers == want) << first;
    }
}

}  // namespace
}  // namespace windlass
