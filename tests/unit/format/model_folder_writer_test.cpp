#include "format/model_folder_writer.h"

#include <sys/stat.h>
#include <unistd.h>

#include "base/json.h"
#include "base/log.h"
#include "format/checksum.h"
#include "tests/fault_files.h"
#include "tests/unit/base/temp_folder.h"
#include "tests/unit/format/safetensors_bytes.h"

namespace windlass {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

constexpr const char* kWrittenConfig = "{\n  \"model_type\" : \"llama\"}";

ModelFolderContent two_shards(const ModelFolder* base = nullptr) {
    std::vector<TensorSpec> tensors = {{"a", DType::f32, {2}}, {"b", DType::bf16, {2, 2}}};
    ShardSplit shards = split_by_size(tensors, 8);
    return {.config_text = kWrittenConfig, .tensors = std::move(tensors), .shards = std::move(shards), .base = base};
}

void write_all(FileSystem& files, const std::string& target, ModelFolderContent content, bool overwrite = false) {
    ModelFolderWriter writer(files, target, std::move(content), overwrite);
    writer.write("b", 0, bytes_of("bbbb"));
    writer.write("a", 0, bytes_of("aaaaaaaa"));
    writer.write("b", 4, bytes_of("BBBB"));
    writer.finish();
}

std::string written_contents(const ModelFolder& model, std::string_view name) {
    const TensorPlace& place = *model.find(name);
    std::string bytes(static_cast<size_t>(place.bytes), ' ');
    model.read(place, 0, std::as_writable_bytes(std::span(bytes)));
    return bytes;
}

void expect_whole(FileSystem& files, const std::string& folder) {
    const ModelFolder model = ModelFolder::open(files, folder);
    EXPECT_EQ(model.config().to_text(), kWrittenConfig);
    EXPECT_EQ(written_contents(model, "a"), "aaaaaaaa");
    EXPECT_EQ(written_contents(model, "b"), "bbbbBBBB");
}

TEST(ModelFolderWriter, WritesShardsIndexAndConfig) {
    const TempFolder folder;
    write_all(real_files(), folder / "deep/out/", two_shards());
    expect_whole(real_files(), folder / "deep/out");
    EXPECT_THAT(real_files().list(folder / "deep"), ElementsAre("out"));
    EXPECT_THAT(real_files().list(folder / "deep/out"),
                ElementsAre("config.json", "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors",
                            "model.safetensors.index.json"));
    const Json index =
        parse_json(read_bytes(folder / "deep/out/model.safetensors.index.json"), "index", ExitCode::internal);
    EXPECT_EQ(index["metadata"]["total_size"], 16);
    EXPECT_EQ(index["weight_map"]["b"], "model-00002-of-00002.safetensors");
}

TEST(ModelFolderWriter, CopiesSideFilesByteForByte) {
    const TempFolder folder;
    write_all(real_files(), folder / "base", two_shards());
    const std::string large(3'000'000, 't');
    write_bytes(folder / "base/tokenizer.json", large);
    write_bytes(folder / "base/empty.txt", "");
    real_files().make_folders(folder / "base/additional_chat_templates");
    write_bytes(folder / "base/additional_chat_templates/x.jinja", "{{ x }}\r\n");
    const ModelFolder base = ModelFolder::open(real_files(), folder / "base");
    write_all(real_files(), folder / "out", two_shards(&base));
    EXPECT_EQ(read_bytes(folder / "out/tokenizer.json"), large);
    EXPECT_EQ(read_bytes(folder / "out/empty.txt"), "");
    EXPECT_EQ(read_bytes(folder / "out/additional_chat_templates/x.jinja"), "{{ x }}\r\n");
    EXPECT_THAT(message_of<UserError>([&] { write_all(real_files(), folder / "base", two_shards(&base), true); }),
                HasSubstr("never written"));
}

TEST(ModelFolderWriter, WritesALoneFileWithoutAnIndex) {
    const TempFolder folder;
    ModelFolderContent content = two_shards();
    content.shards = split_by_size(content.tensors);
    write_all(real_files(), folder / "out", std::move(content));
    EXPECT_THAT(real_files().list(folder / "out"), ElementsAre("config.json", "model.safetensors"));
    expect_whole(real_files(), folder / "out");
}

TEST(ModelFolderWriter, RefusesAFullTargetUnlessTold) {
    const TempFolder folder;
    real_files().make_folders(folder / "out");
    write_all(real_files(), folder / "out", two_shards());  // empty is fine
    EXPECT_THAT(message_of<UserError>([&] { write_all(real_files(), folder / "out", two_shards()); }),
                HasSubstr("exists and is not empty"));
    write_bytes(folder / "out/vocab.json", "of another base");
    write_all(real_files(), folder / "out", two_shards(), true);
    EXPECT_FALSE(real_files().exists(folder / "out/vocab.json"));
    EXPECT_THAT(real_files().list(folder.path()), ElementsAre("out"));
    write_bytes(folder / "file", "");
    EXPECT_THAT(message_of<UserError>([&] { write_all(real_files(), folder / "file", two_shards(), true); }),
                HasSubstr("is a file"));
}

// Documents, another run, a checkpoint: what is not a model folder of ours is not removed for one.
TEST(ModelFolderWriter, ReplacesAModelFolderAndNothingElse) {
    const TempFolder folder;
    const auto refusal = [&](const std::string& target, const ModelFolder* base = nullptr) {
        return message_of<UserError>([&] { write_all(real_files(), target, two_shards(base), true); });
    };
    real_files().make_folders(folder / "papers/figures");
    EXPECT_THAT(refusal(folder / "papers"),
                HasSubstr("papers: holds \"figures\", which is not part of a model folder"));
    real_files().make_folders(folder / "names");
    write_bytes(folder / "names/config.json", "{}");
    EXPECT_THAT(refusal(folder / "names"), HasSubstr("is not a model folder"));
    EXPECT_EQ(read_bytes(folder / "names/config.json"), "{}");

    write_all(real_files(), folder / "out", two_shards());
    for (const char* name : {"thesis.txt", "README.md", ".git", "model.safetensors.bak", "results.json"}) {
        write_bytes(folder / "out/" + name, "mine");
        EXPECT_THAT(refusal(folder / "out"), HasSubstr(fmt::format("holds \"{}\"", name)));
        EXPECT_EQ(read_bytes(folder / "out/" + name), "mine");
        real_files().remove_file(folder / "out/" + name);
    }
    real_files().make_folders(folder / "out/additional_chat_templates");
    write_bytes(folder / "out/additional_chat_templates/notes", "mine");
    EXPECT_THAT(refusal(folder / "out"), HasSubstr("holds \"additional_chat_templates/notes\""));
    real_files().remove_tree(folder / "out/additional_chat_templates");
    ASSERT_EQ(::symlink("nowhere", (folder / "out/tokenizer.json").c_str()), 0);
    EXPECT_THAT(refusal(folder / "out"), HasSubstr("holds \"tokenizer.json\""));
    real_files().remove_file(folder / "out/tokenizer.json");
    write_bytes(folder / "manifest.json", "{}");
    EXPECT_THAT(refusal(folder / "out"), HasSubstr("belongs to a checkpoint"));
    real_files().remove_file(folder / "manifest.json");
    expect_whole(real_files(), folder / "out");

    write_all(real_files(), folder / "base", two_shards());  // what the base has, an earlier export of it has too
    write_bytes(folder / "base/README.md", "of the base");
    write_bytes(folder / "out/README.md", "of the base");
    const ModelFolder base = ModelFolder::open(real_files(), folder / "base");
    write_all(real_files(), folder / "out", two_shards(&base), true);
    EXPECT_THAT(real_files().list(folder.path()), UnorderedElementsAre("base", "names", "out", "papers"));
}

TEST(ModelFolderWriter, NeverReplacesABaseByAnyName) {
    const TempFolder folder;
    for (const char* name : {"base", "older"}) write_all(real_files(), folder / name, two_shards());
    real_files().make_folders(folder / "sub");
    ASSERT_EQ(::symlink("base", (folder / "link").c_str()), 0);
    ASSERT_EQ(::symlink("../older", (folder / "sub/link").c_str()), 0);
    const ModelFolder base = ModelFolder::open(real_files(), folder / "link");
    for (const char* target :
         {"base", "base/", "base/.", "link", "./sub/../base", "older", "sub/link", "sub/../older//"}) {
        ModelFolderContent content = two_shards(&base);
        content.never_replaced = {folder / "older", folder / "not there"};
        EXPECT_THAT(message_of<UserError>([&] { write_all(real_files(), folder / target, std::move(content), true); }),
                    HasSubstr("never written"))
            << target;
    }
    EXPECT_THAT(real_files().list(folder.path()), UnorderedElementsAre("base", "link", "older", "sub"));
}

// What came into the target while the model was written stays too.
TEST(ModelFolderWriter, LooksAtTheTargetAgainAtTheEnd) {
    const TempFolder folder;
    write_all(real_files(), folder / "out", two_shards());
    ModelFolderWriter writer(real_files(), folder / "out", two_shards(), true);
    writer.write("a", 0, bytes_of("AAAAAAAA"));
    writer.write("b", 0, bytes_of("bbbbBBBB"));
    write_bytes(folder / "out/thesis.txt", "mine");
    EXPECT_THAT(message_of<UserError>([&] { writer.finish(); }), HasSubstr("thesis.txt"));
    expect_whole(real_files(), folder / "out");
}

// A side file that went bad since the folder was read does not cost the weights.
TEST(ModelFolderWriter, WritesTheModelWithoutASideFileThatCannotBeRead) {
    const TempFolder folder;
    write_all(real_files(), folder / "base", two_shards());
    for (const char* name : {"a.txt", "b.txt", "c.txt"}) write_bytes(folder / "base/" + name, "text");
    const ModelFolder base = ModelFolder::open(real_files(), folder / "base");
    FaultFiles files(folder / "image");
    files.fail({.call = FaultCall::read, .error_number = EIO, .times = FaultRule::kForever, .path_part = "a.txt"});
    real_files().remove_file(folder / "base/b.txt");
    ASSERT_EQ(::mkfifo((folder / "base/b.txt").c_str(), 0600), 0);
    ::testing::internal::CaptureStderr();
    write_all(files, folder / "out", two_shards(&base));
    const std::string warnings = ::testing::internal::GetCapturedStderr();
    EXPECT_THAT(warnings, HasSubstr("a.txt is not copied"));
    EXPECT_THAT(warnings, HasSubstr("b.txt is not copied"));
    EXPECT_FALSE(real_files().exists(folder / "out/a.txt"));
    EXPECT_FALSE(real_files().exists(folder / "out/b.txt"));
    EXPECT_EQ(read_bytes(folder / "out/c.txt"), "text");
    expect_whole(real_files(), folder / "out");
}

// A call that fails once costs no file.
TEST(ModelFolderWriter, ReadsASideFileAgain) {
    const TempFolder folder;
    write_all(real_files(), folder / "base", two_shards());
    write_bytes(folder / "base/tokenizer.json", "text");
    const ModelFolder base = ModelFolder::open(real_files(), folder / "base");
    for (const FaultCall call : {FaultCall::open, FaultCall::read}) {
        FaultFiles files(folder / "image");
        files.fail({.call = call, .error_number = EMFILE, .path_part = "base/tokenizer.json"});
        const std::string target = fmt::format("{}/out-{}", folder.path(), static_cast<int>(call));
        write_all(files, target, two_shards(&base));
        EXPECT_EQ(read_bytes(target + "/tokenizer.json"), "text");
    }
}

TEST(ModelFolderWriter, LeavesNothingWhenGivenUp) {
    const TempFolder folder;
    real_files().make_folders(folder / "out.tmp-writing");  // what a killed writer left
    write_bytes(folder / "out.tmp-writing/model.safetensors", "half");
    {
        ModelFolderWriter writer(real_files(), folder / "out", two_shards());
        writer.write("a", 0, bytes_of("aaaa"));
        EXPECT_THAT(real_files().list(folder.path()), ElementsAre("out.tmp-writing"));
    }
    EXPECT_THAT(real_files().list(folder.path()), IsEmpty());
}

TEST(ModelFolderWriter, ChecksTheFreeSpaceBeforehand) {
    FaultFiles files("/disk");
    files.set_capacity(300);
    EXPECT_THAT(message_of<UserError>([&] { write_all(files, "/disk/out", two_shards()); }),
                ::testing::MatchesRegex("/disk/out: needs .* B, 300 B are free"));
    EXPECT_FALSE(files.exists("/disk/out.tmp-writing"));
}

// Every call fails once: the error reaches the caller and no half-written folder stays.
TEST(ModelFolderWriter, CleansUpAfterAnyFailedCall) {
    int64_t n = 1;
    for (bool done = false; !done; ++n) {
        FaultFiles files("/disk");
        files.fail({.nth = n});
        try {
            write_all(files, "/disk/out", two_shards());
            done = true;
        } catch (const MachineError&) {
            EXPECT_FALSE(files.exists("/disk/out.tmp-writing")) << n;
        }
        files.clear_rules();
        if (files.exists("/disk/out")) expect_whole(files, "/disk/out");
    }
    EXPECT_GT(n, 15);
}

// The power goes after any call: what is found afterwards under the target is whole or is not there.
TEST(ModelFolderWriter, AppearsWholeOrNotAtAll) {
    set_log_level(LogLevel::error);  // a dead machine cannot clean up and says so each time
    for (int64_t n = 0; n < 60; ++n) {
        for (const uint64_t seed : {0, 1, 2, 3}) {
            SCOPED_TRACE(fmt::format("{} calls, seed {}", n, seed));
            FaultFiles files("/disk");
            files.cut_power_after(n);
            bool finished = false;
            try {
                write_all(files, "/disk/out", two_shards());
                finished = true;
            } catch (const Error&) {
            }
            const std::unique_ptr<FaultFiles> after = files.crash(seed);
            if (after->exists("/disk/out")) {
                expect_whole(*after, "/disk/out");
            } else {
                EXPECT_FALSE(finished);
            }
        }
    }
    set_log_level(LogLevel::info);
}

// While one folder replaces another, one of the two is whole at any instant, if only under the name it stepped aside
// to.
TEST(ModelFolderWriter, ReplacingLosesNeitherFolder) {
    set_log_level(LogLevel::error);
    for (int64_t n = 0; n < 70; ++n) {
        for (const uint64_t seed : {0, 1, 2, 3}) {
            SCOPED_TRACE(fmt::format("{} calls, seed {}", n, seed));
            FaultFiles files("/disk");
            write_all(files, "/disk/out", two_shards());
            files.cut_power_after(n);
            try {
                write_all(files, "/disk/out", two_shards(), true);
            } catch (const Error&) {
            }
            const std::unique_ptr<FaultFiles> after = files.crash(seed);
            expect_whole(*after, after->exists("/disk/out") ? "/disk/out" : "/disk/out.tmp-replaced");
        }
    }
    set_log_level(LogLevel::info);
}

}  // namespace
}  // namespace windlass
