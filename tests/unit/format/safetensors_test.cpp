#include "format/safetensors.h"

#include <random>

#include "format/safetensors_header.h"
#include "tests/unit/base/temp_folder.h"
#include "tests/unit/format/safetensors_bytes.h"

namespace windlass {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Two tensors and a scalar of 4 + 4 + 2 bytes; "b" lies before "a" in the file.
constexpr std::string_view kHeader = R"({"__metadata__":{"format":"pt","by":"hand"},)"
                                     R"("a":{"dtype":"BF16","shape":[1,2],"data_offsets":[4,8]},)"
                                     R"("b":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
                                     R"("c":{"shape":[],"data_offsets":[8,10],"dtype":"F16"},)"
                                     R"("nil":{"dtype":"I64","shape":[3,0],"data_offsets":[8,8]}}  )";

TEST(Safetensors, ReadsAValidFile) {
    const TempFolder folder;
    write_bytes(folder / "x.safetensors", safetensors_bytes(kHeader, "0123456789"));
    const SafetensorsReader reader = SafetensorsReader::open(real_files(), folder / "x.safetensors");
    const std::vector<TensorEntry>& entries = reader.entries();
    ASSERT_EQ(entries.size(), 4u);
    EXPECT_EQ(entries[0].name, "b");
    EXPECT_EQ(entries[1].name, "a");
    EXPECT_EQ(entries[1].dtype, DType::bf16);
    EXPECT_EQ(entries[1].shape, (Shape{1, 2}));
    EXPECT_EQ(entries[2].name, "nil");
    EXPECT_EQ(entries[3].shape, Shape{});
    EXPECT_EQ(reader.metadata().at("by"), "hand");
    std::string bytes(3, ' ');
    reader.read(entries[1], 1, std::as_writable_bytes(std::span(bytes)));
    EXPECT_EQ(bytes, "567");
}

TEST(Safetensors, ListsDtypesThatWeDoNotComputeWith) {
    const TempFolder folder;
    write_bytes(folder / "x.safetensors",
                safetensors_bytes(R"({"w":{"dtype":"F8_E4M3","shape":[2],"data_offsets":[0,2]},)"
                                  R"("q":{"dtype":"F4","shape":[2,3],"data_offsets":[2,5]}})",
                                  "01234"));
    const SafetensorsReader reader = SafetensorsReader::open(real_files(), folder / "x.safetensors");
    EXPECT_EQ(reader.entries()[0].dtype_name, "F8_E4M3");
    EXPECT_FALSE(reader.entries()[0].dtype.has_value());
    EXPECT_EQ(reader.entries()[1].bytes, 3);
}

struct Hostile {
    const char* name;
    std::string header;
    std::string message;
};

std::string tensor(const char* dtype, const char* shape, const char* offsets) {
    return fmt::format(R"({{"dtype":"{}","shape":{},"data_offsets":{}}})", dtype, shape, offsets);
}
std::string only(const char* dtype, const char* shape, const char* offsets) {
    return R"({"w":)" + tensor(dtype, shape, offsets) + "}";
}

// Every file has 8 bytes of data.
const Hostile kHostile[] = {
    {"empty_header", "", "does not start with"},
    {"not_an_object", "[1]", "does not start with"},
    {"leading_space", " {}", "does not start with"},
    {"cut_json", R"({"w":{"dtype":"F32")", "not valid JSON"},
    {"trailing_text", "{} x", "not valid JSON"},
    {"bad_utf8", "{\"\xff\":1}", "not valid JSON"},
    {"hole_at_start", only("F32", "[1]", "[4,8]"), "starts at data byte 4, expected 0: there is a hole"},
    {"hole", R"({"v":)" + tensor("U8", "[2]", "[0,2]") + R"(,"w":)" + tensor("U8", "[4]", "[4,8]") + "}", "hole"},
    {"overlap", R"({"v":)" + tensor("U8", "[6]", "[0,6]") + R"(,"w":)" + tensor("U8", "[4]", "[4,8]") + "}", "overlap"},
    {"same_bytes", R"({"v":)" + tensor("U8", "[8]", "[0,8]") + R"(,"w":)" + tensor("U8", "[8]", "[0,8]") + "}",
     "overlap"},
    {"bytes_behind", only("F32", "[1]", "[0,4]"), "holds 8 data bytes, its header describes 4"},
    {"beyond_the_end", only("F32", "[3]", "[0,12]"), "holds 8 data bytes, its header describes 12"},
    {"offsets_swapped", only("U8", "[8]", "[8,0]"), "ends at byte 0, before its begin 8"},
    {"wrong_length", only("F32", "[1]", "[0,8]"), "has 8 bytes, its shape [1] of F32 takes 4"},
    {"half_a_byte", only("F4", "[3]", "[0,2]"), "not whole bytes"},
    {"overflow", only("F32", "[4294967296,4294967296]", "[0,8]"), "overflows"},
    {"overflow_by_zero", only("F32", "[9223372036854775807,2,0]", "[0,0]"), "overflows"},
    {"huge_number", only("F32", "[18446744073709551615]", "[0,8]"), "does not fit 63 bits"},
    {"beyond_64_bits", only("F32", "[99999999999999999999]", "[0,8]"), "a fraction"},
    {"negative", only("F32", "[-2]", "[0,8]"), "a negative number"},
    {"fraction", only("F32", "[2.0]", "[0,8]"), "a fraction"},
    {"no_double", only("F32", "[1e999]", "[0,8]"), "not valid JSON"},
    {"rank_6", only("U8", "[1,1,1,1,1,8]", "[0,8]"), "more than 5 numbers"},
    {"one_offset", only("F32", "[2]", "[0]"), "has 1 numbers, expected 2"},
    {"three_offsets", only("F32", "[2]", "[0,8,9]"), "more than 2 numbers"},
    {"unknown_dtype", only("F33", "[2]", "[0,8]"), "unknown dtype \"F33\""},
    {"no_dtype", R"({"w":{"shape":[2],"data_offsets":[0,8]}})", "lacks dtype"},
    {"no_shape", R"({"w":{"dtype":"F32","data_offsets":[0,8]}})", "lacks shape"},
    {"unknown_field", R"({"w":{"dtype":"F32","data":1}})", "unknown field \"data\""},
    {"field_twice", R"({"w":{"dtype":"F32","dtype":"F32"}})", "the field \"dtype\" twice"},
    {"name_twice", R"({"w":)" + tensor("F32", "[1]", "[0,4]") + R"(,"w":)" + tensor("F32", "[1]", "[4,8]") + "}",
     "names \"w\" twice"},
    {"tensor_is_a_number", R"({"w":1})", "a number"},
    {"nested", R"({"w":{"shape":[[[[[1]]]]]}})", "a list"},
    {"object_in_shape", R"({"w":{"shape":[{}]}})", "an object"},
    {"metadata_number", R"({"__metadata__":{"a":1}})", "metadata \"a\" is a number"},
    {"metadata_twice", R"({"__metadata__":{"a":"","a":""}})", "\"a\" twice"},
    {"control_characters", R"({"w\u001b[2J":1})", "control characters: \"w\\u001b[2J\""},
    {"long_name", "{\"" + std::string(2000, 'n') + "\":1}", "2000 bytes"},
};

TEST(Safetensors, RefusesEveryBrokenRuleByName) {
    const TempFolder folder;
    for (const Hostile& hostile : kHostile) {
        SCOPED_TRACE(hostile.name);
        const std::string path = folder / hostile.name;
        write_bytes(path, safetensors_bytes(hostile.header, "01234567"));
        const auto message = message_of<UserError>([&] { SafetensorsReader::open(real_files(), path); });
        EXPECT_THAT(message, HasSubstr(hostile.message));
        EXPECT_THAT(message, ::testing::StartsWith(path + ": "));
    }
}

TEST(Safetensors, BoundsTheHeaderBeforeReadingIt) {
    const TempFolder folder;
    const std::string path = folder / "x.safetensors";
    const auto message_for = [&](std::string_view bytes) {
        write_bytes(path, bytes);
        return message_of<UserError>([&] { SafetensorsReader::open(real_files(), path); });
    };
    EXPECT_THAT(message_for(""), HasSubstr("too few"));
    EXPECT_THAT(message_for("1234567"), HasSubstr("too few"));
    EXPECT_THAT(message_for("\xff\xff\xff\xff\xff\xff\xff\xff{}"), HasSubstr("at most 100000000"));
    EXPECT_THAT(message_for(std::string("\x00\xe0\xf5\x05\0\0\0\0{}", 10)), HasSubstr("but the file has 10"));
    EXPECT_THAT(message_for(std::string("\x03\0\0\0\0\0\0\0{}", 10)), HasSubstr("cut short"));
}

std::string three_tensors(const TempFolder& folder) {
    const std::string path = folder / "w.safetensors";
    SafetensorsWriter writer(real_files(), path,
                             {{"z", DType::f32, {2}}, {"b \"\xc3\xa9\"", DType::bf16, {2, 1}}, {"a", DType::f32, {}}});
    const auto bytes = [](std::string_view text) { return std::as_bytes(std::span(text)); };
    writer.write("z", 4, bytes("4567"));
    writer.write("b \"\xc3\xa9\"", 0, bytes("bbbb"));
    writer.write("a", 0, bytes("aaaa"));
    writer.write("z", 0, bytes("01"));
    writer.write("z", 2, bytes("23"));
    writer.finish();
    return path;
}

TEST(Safetensors, WritesWhatItReads) {
    const TempFolder folder;
    const std::string path = three_tensors(folder);
    const SafetensorsReader reader = SafetensorsReader::open(real_files(), path);
    std::vector<std::string> names;
    for (const TensorEntry& entry : reader.entries()) names.push_back(entry.name);
    EXPECT_THAT(names, ElementsAre("a", "z", "b \"\xc3\xa9\""));  // falling alignment, then name
    EXPECT_EQ(reader.metadata().at("format"), "pt");
    EXPECT_EQ(reader.entries()[0].offset % 8, 0);
    const std::string bytes = read_bytes(path);
    EXPECT_TRUE(bytes.ends_with("aaaa01234567bbbb"));
    EXPECT_EQ(reader.file_bytes(), static_cast<int64_t>(bytes.size()));
}

TEST(Safetensors, TellsTheSizeOfAFileBeforehand) {
    const TempFolder folder;
    const std::vector<TensorSpec> list = {{"x", DType::i64, {3, 5}}, {"y", DType::u8, {7}}};
    const SafetensorsWriter writer(real_files(), folder / "x", list);
    EXPECT_EQ(real_files().status(folder / "x").bytes, SafetensorsWriter::file_bytes(list));
}

TEST(SafetensorsDeathTest, AbortsOnMissingOrRepeatedBytes) {
    const TempFolder folder;
    const std::array<std::byte, 8> bytes{};
    SafetensorsWriter writer(real_files(), folder / "x", {{"p", DType::f32, {2}}, {"q", DType::f32, {2}}});
    writer.write("p", 0, bytes);
    EXPECT_DEATH(writer.finish(), "tensor \"q\" was not written whole");
    EXPECT_DEATH(writer.write("p", 4, std::span(bytes).first(4)), "written twice");
    EXPECT_DEATH(writer.write("q", 4, bytes), "which has 8");
}

void damage(std::string& bytes, std::mt19937& random) {
    if (random() % 4 == 0) bytes.resize(random() % bytes.size());
    for (unsigned flips = random() % 3; flips > 0 && !bytes.empty(); --flips)
        bytes[random() % bytes.size()] = static_cast<char>(random());
}

// Whatever a file holds, it is read or refused: no crash, no other error.
TEST(Safetensors, SurvivesFlippedBytesAndTruncation) {
    const TempFolder folder;
    std::mt19937 random(7);
    int read = 0;
    for (int round = 0; round < 300; ++round) {
        std::string bytes = safetensors_bytes(kHeader, "0123456789");
        damage(bytes, random);
        const std::string path = folder / fmt::format("{}", round);
        write_bytes(path, bytes);
        try {
            const SafetensorsReader reader = SafetensorsReader::open(real_files(), path);
            for (const TensorEntry& entry : reader.entries()) {
                std::vector<std::byte> into(static_cast<size_t>(entry.bytes));
                reader.read(entry, 0, into);
            }
            ++read;
        } catch (const UserError&) {
        }
    }
    EXPECT_GT(read, 0);  // a flip inside the data or a name leaves a valid file
}

TEST(Safetensors, SurvivesDamagedHeaders) {
    std::mt19937 random(11);
    int parsed = 0;
    for (int round = 0; round < 30'000; ++round) {
        std::string header(kHeader);
        damage(header, random);
        try {
            parse_safetensors_header(header, 10, "x");
            ++parsed;
        } catch (const UserError&) {
        }
    }
    EXPECT_GT(parsed, 0);
}

TEST(Safetensors, ParsesAVeryLongHeaderInLinearTime) {
    std::string header = "{";
    for (int i = 0; i < 100'000; ++i)
        header += fmt::format(R"({}"t{}":{})", i == 0 ? "" : ",", i, tensor("U8", "[0]", "[0,0]"));
    const SafetensorsHeader parsed = parse_safetensors_header(header + "}", 0, "x");
    EXPECT_EQ(parsed.entries.size(), 100'000u);
}

}  // namespace
}  // namespace windlass
