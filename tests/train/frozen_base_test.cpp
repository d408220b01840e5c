// What a run does not train stays with its base: whatever writes a model folder takes it from there, byte for byte, and
// nothing goes on from another base.
#include <gmock/gmock.h>

#include <filesystem>

#include "base/error.h"
#include "format/store.h"
#include "persist/export.h"
#include "persist/replay.h"
#include "tests/train/train_fixture.h"
#include "tests/unit/format/safetensors_bytes.h"
#include "tests/unit/model/model_fixtures.h"

namespace windlass {
namespace {

namespace fs = std::filesystem;

using Bytes = std::map<std::string, std::vector<std::byte>>;

// A base in bf16, but for one matrix in f32. Matrices of layers are frozen, in few bits where the settings say so.
class FrozenBaseTest : public TrainTest {
  protected:
    FrozenBaseTest() {
        std::vector<TestTensor> tensors = read_tensors(ModelFolder::open(files_, at("model")));
        for (TestTensor& tensor : tensors) {
            if (tensor.spec.name == kOdd) continue;
            std::vector<float> values(static_cast<size_t>(tensor.spec.shape.numel()));
            decode_numbers(tensor.spec.dtype, tensor.bytes, values);
            tensor.spec.dtype = DType::bf16;
            tensor.bytes.resize(values.size() * 2);
            encode_numbers(DType::bf16, values, tensor.bytes);
        }
        write_folder(at("mixed"), bytes("model/config.json"), tensors);
        for (const char* name : {"tokenizer.json", "tokenizer_config.json"})
            fs::copy(at("model/") + name, at("mixed/") + name);
        base_ = tensors_in("mixed");
    }
    Bytes tensors_in(const std::string& folder) const {
        Bytes tensors;
        for (TestTensor& tensor : read_tensors(ModelFolder::open(files_, at(folder))))
            tensors[tensor.spec.name] = std::move(tensor.bytes);
        return tensors;
    }
    Settings settings(const Settings& changes = {}) const {
        Settings all = {{"model", at("mixed")},
                        {"freeze", "*_proj.weight"},
                        {"weight_storage", "nf4"},
                        {"max_steps", "4"},
                        {"save_steps", "null"}};
        for (const auto& [key, value] : changes) all[key] = value;
        return all;
    }
    // All but these are other tensors than the base's.
    void expect_frozen(const std::string& folder) const {
        const Bytes tensors = tensors_in(folder);
        ASSERT_EQ(tensors.size(), base_.size());
        for (const auto& [name, bytes] : tensors)
            EXPECT_EQ(bytes == base_.at(name), name.ends_with("_proj.weight")) << folder << ": " << name;
    }
    void expect_exported(const std::string& source) {
        export_model(files_, {.source = at(source), .target = at("exported"), .overwrite = true});
        expect_frozen("exported");
        // In another type: the numbers are the base's own, not those that few bits hold.
        export_model(files_, {.source = at(source), .target = at("wide"), .dtype = DType::f32, .overwrite = true});
        const Bytes wide = tensors_in("wide");
        for (const TestTensor& tensor : read_tensors(ModelFolder::open(files_, at("mixed")))) {
            if (!tensor.spec.name.ends_with("_proj.weight")) continue;
            std::vector<float> values(static_cast<size_t>(tensor.spec.shape.numel()));
            decode_numbers(tensor.spec.dtype, tensor.bytes, values);
            const auto expected = std::as_bytes(std::span(values));
            EXPECT_TRUE(std::ranges::equal(wide.at(tensor.spec.name), expected)) << source << ": " << tensor.spec.name;
        }
    }
    static constexpr const char* kOdd = "model.layers.1.mlp.up_proj.weight";
    Bytes base_;
};

TEST_F(FrozenBaseTest, IsInEveryFolderThatARunWrites) {
    for (const char* policy : {"in_memory", "three_tier"}) {
        const Settings all = settings({{"policy", policy}, {"save_steps", "2"}, {"export_steps", "3"}});
        run(policy, all);
        for (const char* folder : {"/final", "/checkpoint-2/model", "/export-3"})
            expect_frozen(std::string(policy) + folder);
        expect_exported(std::string(policy) + "/checkpoint-2");
    }
    EXPECT_TRUE(tensors_in("three_tier/final") == tensors_in("in_memory/final"));
}

TEST_F(FrozenBaseTest, IsInWhatAWorkingStoreIsExportedTo) {
    run("run", settings({{"policy", "three_tier"}}));
    expect_exported("run");
    EXPECT_TRUE(tensors_in("run/final") == tensors_in("exported"));
}

TEST_F(FrozenBaseTest, IsInReplayedFolders) {
    run("run", settings({{"method", "zeroth_order"}, {"save_steps", "2"}}));
    expect_frozen("run/final");
    expect_exported("run/checkpoint-2");
    replay_log(files_, {.base = at("mixed"), .log = at("run/trajectory.wlt"), .target = at("replayed"), .threads = 2});
    EXPECT_TRUE(tensors_in("replayed") == tensors_in("run/final"));
}

// From a checkpoint, which lacks them, and from the log.
TEST_F(FrozenBaseTest, IsWhereARunThatGoesOnTakesFrozenWeightsFrom) {
    for (const char* method : {"adamw", "zeroth_order"}) {
        for (const char* storage : {"as_file", "nf4", "f8"}) {
            const std::string whole = fmt::format("{}-{}", method, storage), parts = whole + "-parts";
            const auto steps = [&](const char* count, const char* resume) {
                return settings({{"method", method},
                                 {"weight_storage", storage},
                                 {"max_steps", count},
                                 {"save_steps", "2"},
                                 {"resume", resume}});
            };
            run(whole, steps("5", ""));
            run(parts, steps("2", ""));
            const Store store = Store::open(files_, at(parts + "/checkpoint-2/state.wls"), OpenMode::read);
            EXPECT_LT(store.layout().params.size(), base_.size());
            run(parts, steps("3", "auto"));
            run(parts, steps("5", "2"));
            EXPECT_EQ(history(parts), history(whole));
            EXPECT_TRUE(tensors_in(parts + "/final") == tensors_in(whole + "/final")) << whole;
        }
    }
}

TEST_F(FrozenBaseTest, IsRefusedWhereItIsAnother) {
    const auto flip = [&] {
        std::string file = bytes("mixed/model.safetensors");
        file.back() = static_cast<char>(file.back() ^ 1);  // of the last weight its lowest bit
        write("mixed/model.safetensors", file);
    };
    const auto refusal = [&](const auto& call) { return message_of<UserError>(call); };
    for (const char* policy : {"in_memory", "three_tier"}) {
        const Settings first = settings({{"policy", policy}, {"max_steps", "2"}, {"save_steps", "2"}});
        Settings more = settings({{"policy", policy}, {"save_steps", "2"}, {"resume", "auto"}});
        run(policy, first);
        flip();
        EXPECT_THAT(refusal([&] { run(policy, more); }),
                    testing::AllOf(testing::HasSubstr(at("mixed")), testing::HasSubstr("have the checksum"),
                                   testing::HasSubstr("the model folder that the run began with")));
        flip();
        EXPECT_EQ(run(policy, more).steps, 4);
    }
    run("stored", settings({{"policy", "three_tier"}}));
    flip();
    EXPECT_THAT(refusal([&] { export_model(files_, {.source = at("stored"), .target = at("exported")}); }),
                testing::HasSubstr("have the checksum"));
    // A run that trains everything has all of its weights.
    const Settings all = {{"model", at("mixed")}, {"max_steps", "2"}, {"save_steps", "1"}};
    run("all", all);
    flip();
    Settings again = all;
    again["max_steps"] = "3";
    again["resume"] = "auto";
    EXPECT_EQ(run("all", again).steps, 3);
}

}  // namespace
}  // namespace windlass
