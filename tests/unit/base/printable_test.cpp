#include "base/printable.h"

#include "base/log.h"

namespace windlass {
namespace {

using ::testing::internal::CaptureStderr;
using ::testing::internal::GetCapturedStderr;

TEST(Printable, LeavesTextAsItIs) {
    for (const char* text : {"", "a b\tc\n", "\u00e4\u20ac\U0001f600\u00a0", "\ue000\uffff\U0010ffff"}) {
        EXPECT_EQ(printable(text), text);
        EXPECT_EQ(printable_prose(text), text);
    }
}

TEST(Printable, EscapesWhatATerminalObeys) {
    EXPECT_EQ(printable("\x1b[2J\r\x07\x7f"), "\\u001b[2J\\u000d\\u0007\\u007f");
    EXPECT_EQ(printable(std::string_view("\0", 1)), "\\u0000");
    EXPECT_EQ(printable("\u009b2J\u0085"), "\\u009b2J\\u0085");
    EXPECT_EQ(printable("\u202e\u202a\u2066\u2069\u200e\u200f\u061c"),
              "\\u202e\\u202a\\u2066\\u2069\\u200e\\u200f\\u061c");
    EXPECT_EQ(printable("\u2029\u202f\u2065\u206a"), "\u2029\u202f\u2065\u206a");  // their neighbours
}

TEST(Printable, EscapesBytesThatAreNoUtf8) {
    EXPECT_EQ(printable("\x9b"
                        "2J\xff"),
              "\\x9b2J\\xff");
    EXPECT_EQ(printable("\xc0\x9b"), "\\xc0\\x9b");           // overlong
    EXPECT_EQ(printable("\xe0\x82\x9b"), "\\xe0\\x82\\x9b");  // overlong
    EXPECT_EQ(printable("\xed\xa0\x80"), "\\xed\\xa0\\x80");  // half of a surrogate pair
    EXPECT_EQ(printable("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");
    EXPECT_EQ(printable("\xe2\x80"), "\\xe2\\x80");  // cut off
}

TEST(Printable, LeavesTheMarksOfLanguagesInProse) {
    EXPECT_EQ(printable_prose("\u200f\u05d0\u200e\u061c\x1b]0;x\x07"), "\u200f\u05d0\u200e\u061c\\u001b]0;x\\u0007");
}

// A line of a row, or of an answer, must not read as another.
TEST(Printable, EscapesWhatReordersALineInProse) {
    EXPECT_EQ(printable_prose("\u202a\u202b\u202c\u202d\u202e"), "\\u202a\\u202b\\u202c\\u202d\\u202e");
    EXPECT_EQ(printable_prose("\u2066\u2067\u2068\u2069"), "\\u2066\\u2067\\u2068\\u2069");
    EXPECT_EQ(printable_prose("\u2029\u202f\u2065\u206a"), "\u2029\u202f\u2065\u206a");  // their neighbours
}

TEST(Excerpt, IsTheBeginningOfALongText) {
    EXPECT_EQ(excerpt(""), "");
    EXPECT_EQ(excerpt(std::string(200, 'a')), std::string(200, 'a'));
    EXPECT_EQ(excerpt(std::string(201, 'a')), std::string(200, 'a') + "... (201 bytes)");
    EXPECT_EQ(excerpt("abc\u20ac\u20ac", 5), "abc... (9 bytes)");  // no half of a character
    EXPECT_EQ(excerpt("abc\u20ac\u20ac", 6), "abc\u20ac... (9 bytes)");
    EXPECT_EQ(excerpt("\x80\x80\x80", 2), "\x80\x80... (3 bytes)");
}

TEST(Log, EscapesControlCharactersOfWhatItPrints) {
    CaptureStderr();
    log_warning("no key \"{}\"", "\x1b]0;owned\x07\u202e");
    EXPECT_EQ(GetCapturedStderr(), "warning: no key \"\\u001b]0;owned\\u0007\\u202e\"\n");
}

}  // namespace
}  // namespace windlass
