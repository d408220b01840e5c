#include "format/side_files.h"

#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/base/temp_folder.h"
#include "tests/unit/format/safetensors_bytes.h"

namespace windlass {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

SideFiles find(const std::string& folder) {
    const std::vector<std::string> names = real_files().list(folder);
    return find_side_files(real_files(), folder, {names.begin(), names.end()});
}

void link(const std::string& target, const std::string& path) {
    ASSERT_EQ(::symlink(target.c_str(), path.c_str()), 0);
}

// They would make another program add an adapter to trained weights, or take these for quantised ones.
TEST(SideFiles, NamesThatOtherProgramsObeyAreNotTaken) {
    const TempFolder folder;
    for (const char* const name :
         {"adapter_config.json", "adapter_model.safetensors", "adapter_model.bin", "quantize_config.json",
          "quant_config.json", "quantization_config.json", "hf_quant_config.json", "smash_config.json", "README.md"})
        write_bytes(folder / name, "{}");
    const SideFiles found = find(folder.path());
    EXPECT_THAT(found.names, ElementsAre("README.md"));
    EXPECT_THAT(found.left_out, IsEmpty());
}

// A link in a cloned model must not publish a file of the user's.
TEST(SideFiles, LinksThatLeaveTheModelAreLeftOut) {
    const TempFolder folder;
    real_files().make_folders(folder / "model/additional_chat_templates");
    real_files().make_folders(folder / "model/.git");
    write_bytes(folder / "id_rsa", "secret");
    write_bytes(folder / "model/.git/config", "token");
    write_bytes(folder / "model/tokenizer.json", "{}");
    link("../id_rsa", folder / "model/a.txt");
    link(".git/config", folder / "model/b.txt");
    link("nowhere", folder / "model/c.txt");
    link("d.txt", folder / "model/d.txt");
    link("tokenizer.json", folder / "model/e.json");
    link("../../id_rsa", folder / "model/additional_chat_templates/x.jinja");
    const SideFiles found = find(folder / "model");
    EXPECT_THAT(found.names, ElementsAre("e.json", "tokenizer.json"));
    ASSERT_EQ(found.left_out.size(), 5u);
    EXPECT_EQ(found.left_out[0], "a.txt (a link out of the model folder)");
    EXPECT_EQ(found.left_out[1], "additional_chat_templates/x.jinja (a link out of the model folder)");
    EXPECT_EQ(found.left_out[2], "b.txt (a link out of the model folder)");
    EXPECT_THAT(found.left_out[3], HasSubstr("c.txt ("));
    EXPECT_THAT(found.left_out[4], HasSubstr("d.txt ("));
    ::testing::internal::CaptureStderr();
    warn_of_side_files(real_files(), folder / "model", found.names, found.left_out);
    EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("will not have these files: a.txt (a link out"));
}

// Also a file whose text goes into another one: a GGUF file, a config.json with another dtype.
TEST(SideFiles, TextOfALinkOutOfTheModelIsRefused) {
    const TempFolder folder;
    real_files().make_folders(folder / "model");
    write_bytes(folder / "id_rsa", "secret");
    write_bytes(folder / "model/tokenizer_config.json", "{}");
    link("../id_rsa", folder / "model/chat_template.jinja");
    link("tokenizer_config.json", folder / "model/config.json");
    for (const char* const name : {"tokenizer_config.json", "config.json"}) {
        EXPECT_EQ(why_not_copied(real_files(), folder / "model", name), "");
        EXPECT_NO_THROW(require_copyable(real_files(), folder / "model", name));
    }
    try {
        require_copyable(real_files(), folder / "model", "chat_template.jinja");
        ADD_FAILURE();
    } catch (const UserError& error) {
        EXPECT_EQ(error.code(), ExitCode::model);
        EXPECT_THAT(error.what(), HasSubstr("is a link out of the model folder, and its text would be written"));
        EXPECT_THAT(error.what(), HasSubstr("Try: cp --remove-destination "));
    }
}

// models--a--b/snapshots/<revision>/<file> -> ../../blobs/<hash>
TEST(SideFiles, LinksIntoTheCacheOfTheSameModelAreFollowed) {
    const TempFolder folder;
    const std::string model = folder / "hub/models--a--b";
    for (const char* inner : {"blobs", "snapshots/1", "refs"}) real_files().make_folders(model + "/" + inner);
    real_files().make_folders(folder / "hub/models--a--other/blobs");
    write_bytes(model + "/blobs/0123", "{}");
    write_bytes(model + "/refs/main", "1");
    write_bytes(folder / "hub/models--a--other/blobs/4567", "{}");
    link("../../blobs/0123", model + "/snapshots/1/tokenizer.json");
    link("../../../models--a--other/blobs/4567", model + "/snapshots/1/vocab.json");
    link("../../refs/main", model + "/snapshots/1/x.txt");
    link("hub", folder / "cache");  // the folder itself may be reached by any link
    const SideFiles found = find(folder / "cache/models--a--b/snapshots/1");
    EXPECT_THAT(found.names, ElementsAre("tokenizer.json"));
    EXPECT_THAT(found.left_out,
                ElementsAre("vocab.json (a link out of the model folder)", "x.txt (a link out of the model folder)"));
}

TEST(SideFiles, PipesAndHugeFilesAreLeftOut) {
    const TempFolder folder;
    ASSERT_EQ(::mkfifo((folder / "pipe.txt").c_str(), 0600), 0);
    real_files().open(folder / "huge.zip", {.mode = OpenMode::create})->truncate(kSideFileBytesMax + 1);
    real_files().open(folder / "large.json", {.mode = OpenMode::create})->truncate(kSideFileBytesMax);
    real_files().make_folders(folder / "original");
    write_bytes(folder / "pytorch_model.bin", "");
    const SideFiles found = find(folder.path());
    EXPECT_THAT(found.names, ElementsAre("large.json"));
    ASSERT_EQ(found.left_out.size(), 2u);
    EXPECT_THAT(found.left_out[0], HasSubstr("huge.zip (128"));
    EXPECT_EQ(found.left_out[1], "pipe.txt (no regular file)");
}

TEST(SideFiles, WhatCannotBeOpenedIsSaidBeforehand) {
    const TempFolder folder;
    write_bytes(folder / "a.txt", "text");
    ::testing::internal::CaptureStderr();
    warn_of_side_files(real_files(), folder.path(), {"a.txt"}, {});
    EXPECT_THAT(::testing::internal::GetCapturedStderr(), IsEmpty());
    ::testing::internal::CaptureStderr();
    warn_of_side_files(real_files(), folder.path(), {"a.txt", "gone.txt"}, {});
    EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("these files: gone.txt ("));
}

}  // namespace
}  // namespace windlass
