#include "format/checksum.h"

#include <gtest/gtest.h>

#include <string_view>

namespace windlass {
namespace {

TEST(Checksum, Crc32cMatchesItsCheckValue) {
    EXPECT_EQ(crc32c(bytes_of("123456789")), 0xE3069283u);
    EXPECT_EQ(crc32c({}), 0u);
}

TEST(Checksum, MaskedCrc32cRotatesAndAdds) {
    const uint32_t crc = 0xE3069283u;
    EXPECT_EQ(masked_crc32c(bytes_of("123456789")), ((crc >> 15) | (crc << 17)) + 0xa282ead8u);
}

TEST(Checksum, Xxh3MatchesPublishedValues) {
    EXPECT_EQ(xxh3_64({}), 0x2D06800538D394C2u);
    EXPECT_NE(xxh3_64(bytes_of("a")), xxh3_64(bytes_of("b")));
}

TEST(Checksum, Xxh3OfPartsIsThatOfTheWhole) {
    std::string text(5000, '\0');
    for (size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i * 31 + i / 256);
    const auto bytes = bytes_of(text);
    for (const size_t part : {size_t{1}, size_t{7}, size_t{256}, size_t{4999}, size_t{5000}}) {
        Xxh3Stream stream;
        EXPECT_EQ(stream.sum(), xxh3_64({}));
        for (size_t at = 0; at < bytes.size(); at += part) stream.add(bytes.subspan(at, std::min(part, 5000 - at)));
        EXPECT_EQ(stream.sum(), xxh3_64(bytes)) << part;
    }
}

}  // namespace
}  // namespace windlass
