#include "format/gguf.h"

#include <gmock/gmock.h>

#include "base/error.h"
#include "base/log.h"
#include "tests/fault_files.h"
#include "tests/unit/base/temp_folder.h"
#include "tests/unit/format/gguf_bytes.h"

namespace windlass {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::vector<GgufField> kFields = {{"general.architecture", std::string("llama")},
                                        {"a.count", uint32_t{4'000'000'000u}},
                                        {"a.number", 0.5f},
                                        {"a.flag", true},
                                        {"a.words", std::vector<std::string>{"x", "", "\xe2\x96\x81z"}},
                                        {"a.types", std::vector<int32_t>{1, -6}},
                                        {"a.scores", std::vector<float>{-1.5f}},
                                        {"a.flags", std::vector<bool>{false, true}}};

std::string gguf_file(const std::string& path) {
    return read_text(real_files(), path, 1 << 20);
}

std::span<const std::byte> as_bytes_of(const std::string& text) {
    return std::as_bytes(std::span(text));
}

// What a refused writer says.
std::string gguf_refusal(FileSystem& files, const std::string& target, bool overwrite) {
    try {
        GgufWriter(files, target, kFields, {{"w", GgufType::f32, {1}}}, overwrite);
    } catch (const UserError& error) {
        EXPECT_EQ(error.code(), ExitCode::storage);
        return error.what();
    }
    return "";
}

TEST(Gguf, HoldsEachKindOfFieldInOrder) {
    const TempFolder folder;
    GgufWriter writer(real_files(), folder / "m.gguf", kFields, {}, false);
    writer.finish();
    const GgufBytes read = GgufBytesReader(gguf_file(folder / "m.gguf")).read();
    EXPECT_EQ(read.version, 3u);
    EXPECT_THAT(read.keys, ElementsAre("general.architecture", "a.count", "a.number", "a.flag", "a.words", "a.types",
                                       "a.scores", "a.flags"));
    EXPECT_EQ(read.values.at("general.architecture"), "llama");
    EXPECT_EQ(read.values.at("a.count"), "4000000000");
    EXPECT_EQ(read.values.at("a.number"), "0.5");
    EXPECT_EQ(read.values.at("a.flag"), "true");
    EXPECT_EQ(read.values.at("a.words"), "[x, , \xe2\x96\x81z]");
    EXPECT_EQ(read.values.at("a.types"), "[1, -6]");
    EXPECT_EQ(read.values.at("a.scores"), "[-1.5]");
    EXPECT_EQ(read.values.at("a.flags"), "[false, true]");
}

TEST(Gguf, TensorsBeginAtMultiplesOf32AndHaveTheirDimensionsInnermostFirst) {
    const TempFolder folder;
    GgufWriter writer(
        real_files(), folder / "m.gguf", kFields,
        {{"one", GgufType::f32, {3}}, {"two", GgufType::q8_0, {2, 64}}, {"three", GgufType::bf16, {5, 1}}}, false);
    writer.write(as_bytes_of(std::string(12, 'a')));
    for (int part = 0; part < 4; ++part) writer.write(as_bytes_of(std::string(34, static_cast<char>('b' + part))));
    writer.write(as_bytes_of(std::string(10, 'z')));
    writer.finish();
    const GgufBytes read = GgufBytesReader(gguf_file(folder / "m.gguf")).read();
    EXPECT_THAT(read.names, ElementsAre("one", "two", "three"));
    EXPECT_THAT(read.tensors.at("two").dims, ElementsAre(64, 2));
    EXPECT_EQ(read.tensors.at("one").type, 0u);
    EXPECT_EQ(read.tensors.at("two").type, 8u);
    EXPECT_EQ(read.tensors.at("three").type, 30u);
    EXPECT_EQ(read.data.substr(0, 33), std::string(12, 'a') + std::string(20, '\0') + "b");
    EXPECT_EQ(read.tensors.at("three").offset, 32u + 160u);
    EXPECT_EQ(read.data.substr(192), std::string(10, 'z') + std::string(22, '\0'));
}

TEST(Gguf, ReplacesAGgufFileOnRequestAndNothingElse) {
    const TempFolder folder;
    write_text_atomic(real_files(), folder / "other.gguf", "GGUX not one");
    write_text_atomic(real_files(), folder / "one.gguf", "GGUF of yesterday");
    real_files().make_folders(folder / "folder.gguf");
    EXPECT_THAT(gguf_refusal(real_files(), folder / "one.gguf", false), HasSubstr("is there already"));
    EXPECT_THAT(gguf_refusal(real_files(), folder / "other.gguf", true), HasSubstr("is not a GGUF file"));
    EXPECT_THAT(gguf_refusal(real_files(), folder / "folder.gguf", true), HasSubstr("is not a GGUF file"));
    GgufWriter(real_files(), folder / "one.gguf", kFields, {}, true).finish();
    EXPECT_EQ(GgufBytesReader(gguf_file(folder / "one.gguf")).read().version, 3u);
}

TEST(Gguf, AWriterThatDoesNotFinishLeavesWhatWasThere) {
    const TempFolder folder;
    write_text_atomic(real_files(), folder / "m.gguf", "GGUF of yesterday");
    { GgufWriter writer(real_files(), folder / "m.gguf", kFields, {{"w", GgufType::f32, {1}}}, true); }
    EXPECT_EQ(gguf_file(folder / "m.gguf"), "GGUF of yesterday");
    EXPECT_THAT(real_files().list(folder.path()), ElementsAre("m.gguf"));
}

std::string patterned(size_t bytes) {
    std::string text;
    for (size_t i = 0; i < bytes; ++i) text.push_back(static_cast<char>('a' + i % 23));
    return text;
}

// In pieces of some sectors; nothing is left of tensors and padding beside the pattern.
void write_patterned(FileSystem& files, const std::string& target, bool overwrite) {
    constexpr int64_t kNumbers = 4096;
    const std::string bytes = patterned(kNumbers * sizeof(float));
    GgufWriter writer(files, target, kFields, {{"w", GgufType::f32, {kNumbers}}}, overwrite);
    for (size_t at = 0; at < bytes.size(); at += bytes.size() / 4)
        writer.write(as_bytes_of(bytes).subspan(at, bytes.size() / 4));
    writer.finish();
}

bool is_patterned(FileSystem& files, const std::string& path) {
    const std::string text = read_text(files, path, 1 << 20);
    return text.starts_with("GGUF") && text.ends_with(patterned(4096 * sizeof(float)));
}

// The power goes after any call: what is found afterwards under the target is the whole file, or what was there before.
TEST(Gguf, AppearsWholeOrNotAtAllWhenThePowerGoes) {
    set_log_level(LogLevel::error);
    const std::string before = "GGUF of yesterday";
    for (const bool replaces : {false, true}) {
        bool was_whole = false;
        for (int64_t n = 0; n < 25; ++n) {
            for (const uint64_t seed : {0, 1, 2, 3}) {
                SCOPED_TRACE(fmt::format("{} calls, seed {}", n, seed));
                FaultFiles files("/disk");
                if (replaces) write_text_atomic(files, "/disk/m.gguf", before);
                files.cut_power_after(n);
                bool finished = false;
                try {
                    write_patterned(files, "/disk/m.gguf", replaces);
                    finished = true;
                } catch (const Error&) {
                }
                const std::unique_ptr<FaultFiles> after = files.crash(seed);
                const bool is_there = after->exists("/disk/m.gguf");
                ASSERT_TRUE(is_there || !(finished || replaces));
                if (!is_there) continue;
                const bool is_whole = is_patterned(*after, "/disk/m.gguf");
                EXPECT_TRUE(is_whole || (!finished && read_text(*after, "/disk/m.gguf", 1 << 20) == before));
                was_whole = was_whole || is_whole;
            }
        }
        EXPECT_TRUE(was_whole) << "the power never stayed long enough";
    }
    set_log_level(LogLevel::info);
}

// What a killed program left is in nobody's way, and a failed one leaves nothing.
TEST(Gguf, IsWrittenBesideWhatAnEarlierWriterLeftAndLeavesNothingWhenItFails) {
    FaultFiles files("/disk");
    files.make_folders("/disk");
    write_text_atomic(files, "/disk/m.gguf.tmp-writing", "half");
    for (int64_t n = 1;; ++n) {
        files.fail({.call = FaultCall::write, .nth = n, .error_number = ENOSPC});
        try {
            write_patterned(files, "/disk/m.gguf", true);
            break;
        } catch (const MachineError&) {
            EXPECT_THAT(files.list("/disk"), testing::IsEmpty());
        }
        files.clear_rules();
        ASSERT_LT(n, 100);
    }
    EXPECT_THAT(files.list("/disk"), ElementsAre("m.gguf"));
    EXPECT_TRUE(is_patterned(files, "/disk/m.gguf"));
}

TEST(GgufDeathTest, BytesThatAreMissingOrTooMany) {
    const TempFolder folder;
    GgufWriter writer(real_files(), folder / "m.gguf", kFields, {{"w", GgufType::f32, {2}}}, false);
    writer.write(as_bytes_of("1234"));
    EXPECT_DEATH(writer.finish(), "was not written whole");
    EXPECT_DEATH(writer.write(as_bytes_of("12345")), "which has 8");
}

}  // namespace
}  // namespace windlass
