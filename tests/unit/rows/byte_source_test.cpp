// Data files that are compressed: the same rows, in bounded memory, and nothing wrong taken for rows.
#include "rows/byte_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <xxhash.h>

#include <cerrno>
#include <random>

#include "tests/unit/rows/compressed.h"
#include "tests/unit/rows/raw_rows.h"

namespace windlass {
namespace {

using fixtures::compressed;
using fixtures::refusal_of;
using fixtures::rows_in;
using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;

struct Way {
    Compression compression;
    const char* ending;
};
constexpr Way kWays[] = {{Compression::gzip, ".gz"}, {Compression::zstd, ".zst"}, {Compression::xz, ".xz"}};
constexpr const char* kRows = "{\"text\": \"one\"}\n\n{\"text\": \"two\"}\n";

class Compressed : public testing::TestWithParam<Way> {
  protected:
    std::string packed(std::string_view text) const { return compressed(text, GetParam().compression); }
    std::string name(const std::string& plain) const { return plain + GetParam().ending; }
};

TEST_P(Compressed, EveryKindGivesTheRowsOfItsText) {
    const std::pair<const char*, const char*> files[] = {{"rows.jsonl", kRows},
                                                         {"rows.ndjson", kRows},
                                                         {"rows.json", "[{\"text\": \"one\"},\n{\"text\": \"two\"}]"},
                                                         {"rows.csv", "text\none\n\"t\nwo\"\nthree\n"},
                                                         {"rows.tsv", "text\none\ntwo\n"},
                                                         {"rows.txt", "one\ntwo\n"}};
    for (const auto& [plain, text] : files) {
        const std::vector<std::string> rows = rows_in(plain, text);
        EXPECT_FALSE(rows.empty());
        EXPECT_EQ(rows_in(name(plain), packed(text)), rows) << plain;
    }
    EXPECT_TRUE(rows_in(name("rows.jsonl"), packed("")).empty());
}

// As `cat a.gz b.gz` makes it.
TEST_P(Compressed, PartsBehindEachOtherAreOneText) {
    EXPECT_EQ(rows_in(name("rows.jsonl"), packed("{\"text\": \"o") + packed("") + packed("ne\"}\n{}\n")),
              rows_in("rows.jsonl", "{\"text\": \"one\"}\n{}\n"));
}

TEST_P(Compressed, WhatIsCutOffIsNoShorterText) {
    const std::string whole = packed(kRows);
    for (size_t bytes = 0; bytes < whole.size(); ++bytes) {
        const std::string said = refusal_of(name("rows.jsonl"), whole.substr(0, bytes));
        EXPECT_THAT(said, AllOf(HasSubstr(name("rows.jsonl")), HasSubstr("Try: "))) << bytes << " bytes";
        if (bytes < 8) continue;  // it does not even begin as its name says
        EXPECT_THAT(said, HasSubstr("data cannot be decompressed after")) << bytes << " bytes";
    }
}

TEST_P(Compressed, WhatFollowsIsRefused) {
    for (const char* more : {"x", "\n", "{\"text\": \"three\"}\n"})
        EXPECT_THAT(refusal_of(name("rows.jsonl"), packed(kRows) + more),
                    HasSubstr("data cannot be decompressed after"))
            << more;
}

// Bytes that no checksum covers (gzip's time and system) may change; a row never does.
TEST_P(Compressed, NoFlippedBitChangesARow) {
    std::string whole = packed(kRows);
    if (GetParam().compression == Compression::zstd) {
        // One frame of one block as it stands, with the checksum that zstd's own program writes and
        // ZSTD_compress does not.
        const std::string text = kRows;
        const uint64_t sum = XXH64(text.data(), text.size(), 0);
        const uint32_t header = static_cast<uint32_t>(text.size() << 3 | 1);
        whole = std::string("\x28\xB5\x2F\xFD\x24", 5) + static_cast<char>(text.size());
        whole.append(reinterpret_cast<const char*>(&header), 3).append(text);
        whole.append(reinterpret_cast<const char*>(&sum), 4);
    }
    const std::vector<std::string> rows = rows_in("rows.jsonl", kRows);
    ASSERT_EQ(rows_in(name("rows.jsonl"), whole), rows);
    for (size_t bit = 0; bit < whole.size() * 8; ++bit) {
        std::string flipped = whole;
        flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << (bit % 8)));
        if (refusal_of(name("rows.jsonl"), flipped) != "read") continue;
        EXPECT_EQ(rows_in(name("rows.jsonl"), flipped), rows) << "bit " << bit;
    }
}

// What came before is counted, so that the place is that of the damage.
TEST_P(Compressed, DamageNamesItsLineAndTheTextBeforeIt) {
    std::mt19937 random(5);
    std::string text;
    while (text.size() < 3u << 19) text += fmt::format("{{\"text\": \"{:08x}\"}}\n", random());
    std::string bytes = packed(text);
    bytes.resize(bytes.size() / 2);
    const fixtures::TempFolder folder;
    RowReader reader(real_files(), folder.write(name("rows.jsonl"), bytes), "");
    int64_t rows = 0;
    std::string said = "no damage";
    try {
        while (reader.next()) ++rows;
    } catch (const UserError& error) {
        said = error.what();
    }
    EXPECT_GT(rows, 10'000);
    EXPECT_THAT(said, AllOf(HasSubstr(fmt::format("{}:{}: ", name("rows.jsonl"), rows + 1)), HasSubstr("iB of text: "),
                            HasSubstr("Try: copy or fetch the file again")));
}

// It grows a hundredfold: more would be refused for that.
TEST_P(Compressed, ALineIsBoundedHoweverSmallItsFileIs) {
    std::mt19937 random(3);
    std::string line(static_cast<size_t>(kRowBytesMax) + 10, 'a');
    for (size_t at = 0; at + 8 < line.size(); at += 1024) line.replace(at, 8, fmt::format("{:08x}", random()));
    const std::string bytes = packed(line);
    EXPECT_LT(bytes.size(), 1u << 20);
    EXPECT_THAT(refusal_of(name("rows.jsonl"), bytes), HasSubstr(":1: the line is longer than"));
}

TEST_P(Compressed, TheNameMustSayWhatItIs) {
    EXPECT_THAT(refusal_of(name("rows.jsonl"), kRows),
                AllOf(HasSubstr("as its name says, but begins otherwise. Try: "), EndsWith("/rows.jsonl")));
    EXPECT_THAT(refusal_of("rows.jsonl", packed(kRows)),
                HasSubstr(fmt::format("rename it to end in .jsonl{}", GetParam().ending)));
    for (const Way& other : kWays) {
        const bool is_same = other.compression == GetParam().compression;
        const std::string said = refusal_of(name("rows.jsonl"), compressed(kRows, other.compression));
        EXPECT_THAT(said, HasSubstr(is_same ? "read" : fmt::format("but {}", name_of(other.compression))));
        EXPECT_THAT(said, EndsWith(is_same ? "read" : fmt::format("/rows.jsonl{}", other.ending)));
        EXPECT_THAT(refusal_of(name("rows.jsonl"), packed(compressed(kRows, other.compression))),
                    testing::AnyOf(HasSubstr("compressed more than once"), HasSubstr("decompress it once")))
            << other.ending;
    }
}

TEST_P(Compressed, AFileThatHardlyBeginsWasCutOff) {
    for (const size_t bytes : {0, 1, 2, 3, 4})
        EXPECT_THAT(refusal_of(name("rows.jsonl"), packed(kRows).substr(0, bytes)),
                    AllOf(testing::AnyOf(HasSubstr("the file ends before"), HasSubstr("Truncated")),
                          HasSubstr("Try: copy or fetch the file again")));
}

TEST_P(Compressed, AnArchiveOfFilesIsNoText) {
    std::string tar(1024, '\0');
    tar.replace(0, 10, "rows.jsonl").replace(257, 5, "ustar");
    EXPECT_THAT(refusal_of(name("rows.jsonl"), packed(tar)),
                AllOf(HasSubstr("is a tar archive"), HasSubstr("Try: unpack it")));
    EXPECT_THAT(refusal_of(name("rows.tar"), packed(tar)), HasSubstr("Try: unpack it"));
    EXPECT_THAT(refusal_of(name("rows"), packed(kRows)), HasSubstr(fmt::format("such as .jsonl{}", GetParam().ending)));
}

// A file of these bytes that counts what is read of it, and fails where it is told to.
class CountingFile : public File {
  public:
    CountingFile(std::string bytes, int64_t& read_bytes, int64_t fails_at = INT64_MAX)
        : bytes_(std::move(bytes)), read_bytes_(read_bytes), fails_at_(fails_at) {}
    const std::string& path() const override { return path_; }
    int descriptor() const override { return -1; }
    bool direct() const override { return false; }
    int64_t size() override { return std::ssize(bytes_); }
    void read_at(std::span<std::byte> into, int64_t offset) override {
        read_bytes_ += std::ssize(into);
        if (offset >= fails_at_) throw MachineError("pread", path_, EIO);
        std::memcpy(into.data(), bytes_.data() + offset, into.size());
    }
    void write_at(std::span<const std::byte>, int64_t) override {}
    void preallocate(int64_t) override {}
    void truncate(int64_t) override {}
    void sync() override {}

  private:
    std::string path_ = "rows", bytes_;
    int64_t& read_bytes_;
    int64_t fails_at_;
};

std::string random_bytes(size_t count) {
    std::mt19937 random(7);
    std::string bytes(count, ' ');
    for (char& byte : bytes) byte = static_cast<char>(random());
    return bytes;
}

TEST_P(Compressed, IsReadAsFarAsItIsWanted) {
    const std::string text = random_bytes(4 << 20), bytes = packed(text);
    int64_t read_bytes = 0;
    const auto source = make_byte_source(std::make_unique<CountingFile>(bytes, read_bytes), GetParam().compression);
    std::string block, all;
    ASSERT_TRUE(source->read(block, 1));
    EXPECT_LT(read_bytes, 3 << 20);
    EXPECT_LT(block.size(), 2u << 20);
    do all += block;
    while (source->read(block, 1));
    EXPECT_TRUE(all == text);
    EXPECT_THAT(source->expansion(), HasSubstr("4.00 MiB of text from "));
}

TEST_P(Compressed, ADriveThatFailsIsNoDamageOfTheFile) {
    int64_t read_bytes = 0;
    const auto source = make_byte_source(
        std::make_unique<CountingFile>(packed(random_bytes(2 << 20)), read_bytes, 1 << 20), GetParam().compression);
    std::string block;
    EXPECT_THROW(while (source->read(block, 1)){}, MachineError);
}

// Twice what is free, of which a few bytes make many lines: refused where the free bytes end.
TEST_P(Compressed, MoreThanTwoHundredTimesIsRefused) {
    std::string text;
    while (std::ssize(text) < kExpandedFreeBytes * 2) text.append(1 << 20, ' ').append("\n");
    const std::string bytes = packed(text);
    int64_t read_bytes = 0, text_bytes = 0;
    const auto source = make_byte_source(std::make_unique<CountingFile>(bytes, read_bytes), GetParam().compression);
    std::string block, said = "read";
    try {
        for (; source->read(block, 1); text_bytes += std::ssize(block)) continue;
    } catch (const UserError& error) {
        said = error.what();
    }
    EXPECT_THAT(said, AllOf(HasSubstr("of text, more than 200 times as much"), HasSubstr("Try: ")));
    EXPECT_LE(text_bytes, kExpandedFreeBytes);
    // An eighth of it is not too much.
    EXPECT_EQ(refusal_of(name("rows.jsonl"), packed(std::string_view(text).substr(0, 16 << 20))), "read");
}

std::string name_of_way(const testing::TestParamInfo<Way>& info) {
    return std::string(name_of(info.param.compression));
}
INSTANTIATE_TEST_SUITE_P(Ways, Compressed, testing::ValuesIn(kWays), name_of_way);

uint32_t crc32_of(std::string_view bytes) {
    uint32_t sum = ~0u;
    for (const char byte : bytes) {
        sum ^= static_cast<uint8_t>(byte);
        for (int bit = 0; bit < 8; ++bit) sum = sum >> 1 ^ (sum & 1 ? 0xEDB88320u : 0);
    }
    return ~sum;
}

// Its first block's header says how much memory its dictionary takes: a byte, under a checksum of the header.
TEST(Xz, AsksForBoundedMemory) {
    constexpr size_t kHeaderAt = 12, kDictionaryOf4GiB = 40, kDictionaryOf64MiB = 28;
    const auto with_dictionary = [&](size_t size) {
        std::string bytes = compressed(kRows, Compression::xz);
        const size_t header_bytes = (static_cast<uint8_t>(bytes[kHeaderAt]) + 1u) * 4 - 4;
        const size_t filter = bytes.find("\x21\x01", kHeaderAt);
        bytes[filter + 2] = static_cast<char>(size);
        const uint32_t sum = crc32_of(std::string_view(bytes).substr(kHeaderAt, header_bytes));
        std::memcpy(bytes.data() + kHeaderAt + header_bytes, &sum, sizeof sum);
        return bytes;
    };
    EXPECT_EQ(refusal_of("rows.jsonl.xz", with_dictionary(kDictionaryOf64MiB)), "read");
    EXPECT_THAT(refusal_of("rows.jsonl.xz", with_dictionary(kDictionaryOf4GiB)),
                AllOf(HasSubstr("they ask for more than 256.00 MiB of memory"), HasSubstr("Try: decompress the file")));
}

TEST(Zstd, SkippableFramesAreNoText) {
    const std::string skipped = std::string("\x53\x2A\x4D\x18\x03\0\0\0", 8) + "abc";
    const auto packed = [](std::string_view text) { return compressed(text, Compression::zstd); };
    const std::string bytes = packed("{\"text\": \"o") + skipped + skipped + packed("ne\"}\n{}\n") + skipped;
    EXPECT_EQ(rows_in("rows.jsonl.zst", bytes), rows_in("rows.jsonl", "{\"text\": \"one\"}\n{}\n"));
    for (size_t cut = 1; cut < skipped.size(); ++cut)
        EXPECT_THAT(refusal_of("rows.jsonl.zst", bytes.substr(0, bytes.size() - cut)),
                    HasSubstr("the file ends before they do"))
            << cut;
}

// The second byte after a frame's mark is the size of its window.
TEST(Zstd, AsksForBoundedMemory) {
    const auto with_window = [](int window_log) {
        const std::string text = kRows;
        const uint32_t header = static_cast<uint32_t>(text.size() << 3 | 1);
        std::string bytes("\x28\xB5\x2F\xFD\0", 5);
        bytes += static_cast<char>((window_log - 10) << 3);
        return bytes.append(reinterpret_cast<const char*>(&header), 3).append(text);
    };
    EXPECT_EQ(rows_in("rows.jsonl.zst", with_window(27)), rows_in("rows.jsonl", kRows));
    for (const int window_log : {28, 31, 41})
        EXPECT_THAT(
            refusal_of("rows.jsonl.zst", with_window(window_log)),
            AllOf(HasSubstr("they ask for a window of more than 128 MiB"), HasSubstr("Try: decompress the file")))
            << window_log;
}

// Blocks of the file end anywhere in its frames, and text waits where the room for it is full.
TEST(Zstd, ManyFramesOfManyBlocksAreOneText) {
    std::string text, bytes;
    for (int frame = 0; frame < 9; ++frame) {
        const std::string part = random_bytes(200'000 + frame) + std::string(size_t{1} << 18, 'a');
        text += part;
        bytes += compressed(part, Compression::zstd);
    }
    int64_t read_bytes = 0;
    const auto source = make_byte_source(std::make_unique<CountingFile>(bytes, read_bytes), Compression::zstd);
    std::string block, all;
    while (source->read(block, 1)) all += block;
    EXPECT_TRUE(all == text);
    EXPECT_EQ(read_bytes, std::ssize(bytes) + 8);  // its mark, too
}

TEST(DataKind, ComesFromTheEndOfTheName) {
    EXPECT_EQ(find_data_kind("a.b/rows.csv.zst")->layout, RowLayout::csv);
    EXPECT_EQ(find_data_kind("a.b/rows.csv.zst")->compression, Compression::zstd);
    EXPECT_EQ(find_data_kind("rows.json")->layout, RowLayout::json);
    EXPECT_EQ(find_data_kind("A.B/ROWS.CSV.GZ")->layout, RowLayout::csv);
    EXPECT_EQ(find_data_kind("A.B/ROWS.CSV.GZ")->compression, Compression::gzip);
    for (const char* path : {"rows", "a.jsonl/rows", "rows.gz", "rows.jsonl.gz.gz", "a.jsonl/.gz", "rows.csv.bz2", ""})
        EXPECT_FALSE(find_data_kind(path)) << path;
    EXPECT_EQ(data_ending("a/rows.jsonl"), ".jsonl");
    EXPECT_EQ(data_ending("a/rows.jsonl.gz"), ".jsonl.gz");
    EXPECT_EQ(data_ending("a.csv/rows.gz"), ".gz");
    EXPECT_EQ(data_ending("a.csv/rows"), "");
}

TEST(DataKind, OtherFilesAreRefusedWithAWayOut) {
    EXPECT_THAT(refusal_of("rows.parquet", "PAR1"),
                AllOf(HasSubstr("\".parquet\" is not read"), HasSubstr("load_dataset"), HasSubstr("rows.parquet'")));
    EXPECT_THAT(refusal_of("rows.xlsx", "PK"), AllOf(HasSubstr("\".xlsx\" is not read"), HasSubstr(".csv")));
    EXPECT_THAT(refusal_of("rows.zip", "PK"), HasSubstr("Try: unpack it"));
    EXPECT_THAT(refusal_of("rows.jsonl", "PK\x03\x04"), HasSubstr("is a zip archive"));
    EXPECT_THAT(refusal_of("rows.jsonl", "PAR1"), AllOf(HasSubstr("is parquet"), HasSubstr("load_dataset")));
    EXPECT_THAT(refusal_of("rows.txt", "\xFF\xFEh"), AllOf(HasSubstr("UTF-16"), HasSubstr("Try: iconv")));
    EXPECT_THAT(refusal_of("rows.txt", std::string_view("w\0o\0r\0d\0s\0 \0i\0n\0", 16)), HasSubstr("UTF-16"));
    EXPECT_THAT(refusal_of("rows.txt", std::string_view("\0w\0o\0r\0d\0s\0 \0i\0n", 16)), HasSubstr("UTF-16"));
    EXPECT_EQ(refusal_of("rows.txt", std::string_view("w\0o\0rds\0 \0i\0n\0 \0", 16)), "read");
    EXPECT_THAT(refusal_of("ROWS.PARQUET", "PAR1"), HasSubstr("d('parquet'"));
    // What a shell would run is in no command that is there to be pasted.
    EXPECT_EQ(table_export("a'$(reboot).parquet"), table_export("`reboot`.parquet"));
    EXPECT_THAT(*table_export("\"; reboot.parquet"), Not(HasSubstr("reboot")));
}

}  // namespace
}  // namespace windlass
