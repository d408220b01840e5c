// Folders that are no adapter, each wrong in one way.
#include "format/adapter_folder.h"

#include <filesystem>

#include "base/json.h"
#include "tests/unit/base/temp_folder.h"
#include "tests/unit/format/safetensors_bytes.h"

namespace windlass {
namespace {

using testing::HasSubstr;

constexpr std::string_view kOneTensor = R"({"__metadata__":{"windlass_base_checksum":"00ff"},)"
                                        R"("a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";

class AdapterFolderTest : public testing::Test {
  protected:
    AdapterFolderTest() {
        config(R"({"peft_type": "LORA"})");
        write_bytes(temp_ / kAdapterWeightsName, safetensors_bytes(kOneTensor, "01234567"));
    }
    void config(std::string_view text) { write_bytes(temp_ / kAdapterConfigName, text); }
    AdapterFolder open() { return AdapterFolder::open(real_files(), temp_.path()); }
    std::string refusal() {
        try {
            open();
        } catch (const UserError& error) {
            EXPECT_EQ(error.code(), ExitCode::model) << error.what();
            return error.what();
        }
        ADD_FAILURE() << "nothing was thrown";
        return "";
    }
    TempFolder temp_;
};

TEST_F(AdapterFolderTest, OpensWhatPeftWrites) {
    const AdapterFolder folder = AdapterFolder::open(real_files(), temp_.path() + "///");
    EXPECT_EQ(folder.path(), temp_.path());
    EXPECT_EQ(folder.config_path(), temp_ / kAdapterConfigName);
    EXPECT_EQ(folder.weights_path(), temp_ / kAdapterWeightsName);
    EXPECT_EQ(folder.config()["peft_type"], "LORA");
    EXPECT_EQ(folder.base_checksum(), "00ff");
    ASSERT_EQ(folder.tensors().size(), 1u);
    EXPECT_EQ(folder.find("a"), &folder.tensors()[0]);
    EXPECT_EQ(folder.find("b"), nullptr);
    std::string bytes(3, ' ');
    folder.read(*folder.find("a"), 4, std::as_writable_bytes(std::span(bytes)));
    EXPECT_EQ(bytes, "456");
    EXPECT_TRUE(is_adapter_folder(real_files(), temp_.path()));
}

TEST_F(AdapterFolderTest, AWholeModelBesideItIsNoAdapterByName) {
    write_bytes(temp_ / "config.json", "{}");
    EXPECT_FALSE(is_adapter_folder(real_files(), temp_.path()));
}

TEST_F(AdapterFolderTest, RefusesWhatIsNotThere) {
    EXPECT_THAT(message_of<UserError>([&] { AdapterFolder::open(real_files(), temp_ / "none"); }),
                HasSubstr("none: there is no such adapter folder. Try: a folder with adapter_config.json"));
    EXPECT_THAT(message_of<UserError>([&] { AdapterFolder::open(real_files(), temp_ / kAdapterConfigName); }),
                HasSubstr("there is no such adapter folder"));
    std::filesystem::remove(temp_ / kAdapterConfigName);
    EXPECT_THAT(refusal(), HasSubstr("has no adapter_config.json. Try: "));
}

TEST_F(AdapterFolderTest, RefusesAFolderWithoutTensors) {
    std::filesystem::remove(temp_ / kAdapterWeightsName);
    EXPECT_THAT(refusal(), HasSubstr("has no adapter_model.safetensors. Try: fetch the adapter again"));
}

TEST_F(AdapterFolderTest, RefusesPickles) {
    std::filesystem::remove(temp_ / kAdapterWeightsName);
    write_bytes(temp_ / "adapter_model.bin", "PK");
    EXPECT_THAT(refusal(), testing::AllOf(HasSubstr("adapter_model.bin: is a pickle, which can run code when read"),
                                          HasSubstr("save_pretrained")));
}

TEST_F(AdapterFolderTest, RefusesConfigurationsThatAreNone) {
    for (const char* text : {"[]", "7", "null", "\"LORA\""}) {
        config(text);
        EXPECT_THAT(refusal(), HasSubstr("adapter_config.json: is not a JSON object of settings")) << text;
    }
    for (const char* text : {"", "{", "{\"r\": }", "\x80"}) {
        config(text);
        EXPECT_THAT(refusal(), HasSubstr("adapter_config.json: ")) << text;
    }
}

// Sizes are looked at before anything is read.
TEST_F(AdapterFolderTest, RefusesAConfigurationOfFiveMegabytes) {
    config("{\"peft_type\": \"LORA\", \"note\": \"" + std::string(size_t{5} << 20, 'x') + "\"}");
    EXPECT_THAT(message_of<UserError>([&] { open(); }),
                HasSubstr("adapter_config.json: has 5.00 MiB, at most 4.00 MiB are read"));
}

TEST_F(AdapterFolderTest, RefusesFilesOfNoTensors) {
    write_bytes(temp_ / kAdapterWeightsName, "");
    EXPECT_THAT(refusal(), HasSubstr("adapter_model.safetensors: "));
    write_bytes(temp_ / kAdapterWeightsName, safetensors_bytes("{}", ""));
    EXPECT_THAT(refusal(), HasSubstr("adapter_model.safetensors: holds no tensor"));
    write_bytes(temp_ / kAdapterWeightsName, safetensors_bytes(kOneTensor, "0123456"));
    EXPECT_THAT(refusal(), HasSubstr("adapter_model.safetensors"));
}

}  // namespace
}  // namespace windlass
