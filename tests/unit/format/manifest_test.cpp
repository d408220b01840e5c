#include "format/manifest.h"

#include <random>

#include "base/json.h"
#include "format/checksum.h"
#include "tests/unit/base/temp_folder.h"
#include "tests/unit/format/safetensors_bytes.h"

namespace windlass {
namespace {

using ::testing::HasSubstr;

Manifest write_sample(const TempFolder& folder) {
    write_bytes(folder / "weights.bin", std::string(5'000'000, 'w'));
    real_files().make_folders(folder / "parts");
    write_bytes(folder / "parts/0", "part");
    write_bytes(folder / "empty", "");
    Manifest manifest{.step = 42, .run_state = R"({"rows":[1,2],"loss":0.1})"};
    for (const char* name : {"weights.bin", "parts/0", "empty"})
        manifest.files.push_back(describe_file(real_files(), folder.path(), name));
    write_manifest(real_files(), folder.path(), manifest);
    return manifest;
}

std::string refusal(const TempFolder& folder) {
    return message_of<UserError>(
        [&] { verify_manifest(real_files(), folder.path(), read_manifest(real_files(), folder.path())); });
}

// The text with one part replaced and a checksum that fits again.
void rewrite(const TempFolder& folder, std::string_view from, std::string_view to) {
    std::string text = read_bytes(folder / kManifestName);
    text.replace(text.find(from), from.size(), to);
    const size_t end = text.rfind(",\n  \"checksum\"");
    const uint64_t hash = xxh3_64(std::as_bytes(std::span(text).first(end)));
    write_bytes(folder / kManifestName,
                text.substr(0, end) + fmt::format(",\n  \"checksum\": \"{:016x}\"\n}}\n", hash));
}

TEST(Manifest, ReadsWhatItWrote) {
    const TempFolder folder;
    const Manifest written = write_sample(folder);
    const Manifest manifest = read_manifest(real_files(), folder.path());
    EXPECT_EQ(manifest.step, 42);
    EXPECT_EQ(manifest.files, written.files);
    EXPECT_EQ(parse_json(manifest.run_state, "test", ExitCode::internal)["loss"], 0.1);
    verify_manifest(real_files(), folder.path(), manifest);
}

TEST(Manifest, HashesInPiecesAsInOne) {
    const TempFolder folder;
    const Manifest manifest = write_sample(folder);
    const std::string bytes(5'000'000, 'w');
    EXPECT_EQ(manifest.files[0].xxh3, xxh3_64(std::as_bytes(std::span(bytes))));
}

TEST(Manifest, NamesTheBadFile) {
    const TempFolder folder;
    write_sample(folder);
    std::string bytes = read_bytes(folder / "weights.bin");
    bytes[4'999'999] ^= 1;
    write_bytes(folder / "weights.bin", bytes);
    EXPECT_THAT(refusal(folder), HasSubstr("weights.bin: is damaged: hash"));
    write_bytes(folder / "weights.bin", "short");
    EXPECT_THAT(refusal(folder), HasSubstr("weights.bin: has 5 bytes, expected 5000000"));
    real_files().remove_file(folder / "weights.bin");
    EXPECT_THAT(refusal(folder), HasSubstr("weights.bin: is missing"));
    real_files().remove_file(folder / kManifestName);
    EXPECT_THAT(refusal(folder), HasSubstr("never completed"));
}

TEST(Manifest, RefusesForeignVersionsAndNames) {
    const struct {
        const char *from, *to, *message;
    } cases[] = {
        {"windlass-checkpoint", "other", "is not a windlass-checkpoint manifest"},
        {R"("version": "1.0")", R"("version": "2.3")", "has format version 2.3, this program reads 1.x"},
        {R"("step": 42)", R"("step": -1)", "\"step\" is not a count"},
        {R"("step": 42)", R"("stop": 42)", "lacks \"step\""},
        {"parts/0", "../0", "no file of this folder"},
        {"parts/0", "/etc/0", "no file of this folder"},
        {"parts/0", "parts//0", "no file of this folder"},
        {"parts/0", "", "no file of this folder"},
    };
    for (const auto& [from, to, message] : cases) {
        const TempFolder folder;
        write_sample(folder);
        rewrite(folder, from, to);
        EXPECT_THAT(refusal(folder), HasSubstr(message));
    }
    const TempFolder folder;
    write_sample(folder);
    rewrite(folder, R"("version": "1.0")", R"("version": "1.7")");
    EXPECT_EQ(read_manifest(real_files(), folder.path()).step, 42) << "an equal major version is read";
}

TEST(Manifest, SeesEveryFlippedByte) {
    const TempFolder folder;
    write_sample(folder);
    const std::string whole = read_bytes(folder / kManifestName);
    std::mt19937 random(5);
    for (int round = 0; round < 200; ++round) {
        std::string text = whole;
        if (round % 3 == 0) {
            text.resize(random() % text.size());
        } else {
            text[random() % text.size()] ^= static_cast<char>(1 << random() % 8);
        }
        write_bytes(folder / kManifestName, text);
        EXPECT_THROW(read_manifest(real_files(), folder.path()), UserError) << text;
    }
}

}  // namespace
}  // namespace windlass
