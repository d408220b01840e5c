#include "format/checksummed_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/json.h"
#include "tests/unit/format/safetensors_bytes.h"

namespace windlass {
namespace {

constexpr std::string_view kPlain = R"({"step":7,"text":"a \"checksum\": \"b\""})";

TEST(ChecksummedJson, IsTheObjectWithOneMoreMember) {
    Json json = parse_json(with_checksum(kPlain), "test", ExitCode::storage);
    EXPECT_EQ(json.erase("checksum"), 1u);
    EXPECT_EQ(json.dump(), kPlain);
}

TEST(ChecksummedJson, IsTheSameWithSpaceAtTheEndOrWithout) {
    EXPECT_EQ(with_checksum("{\n  \"a\": 1\n}\n"), with_checksum("{\n  \"a\": 1}"));
    // A file of an older build may have been through an editor.
    EXPECT_EQ(with_checksum("{\"a\": 1\r\n}\t"), with_checksum("{\"a\": 1}"));
}

TEST(ChecksummedJson, SeesEveryFlippedBitAndEveryCut) {
    const std::string whole = with_checksum(kPlain);
    EXPECT_EQ(text_checksum(whole), TextChecksum::right);
    for (size_t byte = 0; byte < whole.size(); ++byte) {
        for (int bit = 0; bit < 8; ++bit) {
            std::string text = whole;
            text[byte] = static_cast<char>(text[byte] ^ (1 << bit));
            EXPECT_EQ(text_checksum(text), TextChecksum::wrong) << byte << " " << bit;
        }
        EXPECT_NE(text_checksum(whole.substr(0, byte)), TextChecksum::right) << byte;
    }
    EXPECT_EQ(text_checksum(whole + "\n"), TextChecksum::wrong);
}

TEST(ChecksummedJson, OneLineHasNone) {
    EXPECT_EQ(text_checksum(kPlain), TextChecksum::absent);
    EXPECT_EQ(text_checksum(std::string(kPlain) + "\n"), TextChecksum::absent);
    EXPECT_NO_THROW(require_checksum(kPlain, "here", "nothing"));
}

TEST(ChecksummedJson, ALineHasItsOwn) {
    const std::string whole = line_with_checksum(R"({"a":1})");
    EXPECT_THAT(whole, testing::MatchesRegex(R"(\{"a":1,"checksum":"[0-9a-f]{16}"\})"));
    EXPECT_EQ(line_checksum(whole), TextChecksum::right);
    EXPECT_EQ(line_checksum(R"({"a":1})"), TextChecksum::absent);
    std::string text = whole;
    text[5] = '2';
    EXPECT_EQ(line_checksum(text), TextChecksum::wrong);
}

TEST(ChecksummedJson, DamageNamesTheFileAndWhatToType) {
    std::string text = with_checksum(kPlain);
    EXPECT_NO_THROW(require_checksum(text, "here", "there"));
    text[8] = '8';
    EXPECT_EQ(message_of<UserError>([&] { require_checksum(text, "out/x.json", "--resume=3"); }),
              "out/x.json: is damaged: its checksum does not match. Try: --resume=3");
    EXPECT_EQ(message_of<UserError>([&] { require_checksum(text, "out/x.json", ""); }),
              "out/x.json: is damaged: its checksum does not match");
}

}  // namespace
}  // namespace windlass
