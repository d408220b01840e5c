#include "base/json.h"

#include "tests/unit/format/safetensors_bytes.h"

namespace windlass {
namespace {

using ::testing::HasSubstr;

std::string repeated(std::string_view piece, int64_t count, const char* separator = ",") {
    std::string text;
    for (int64_t i = 0; i < count; ++i) text += (i == 0 ? "" : separator) + std::string(piece);
    return text;
}

std::string refusal(std::string_view text) {
    const std::string ordered = message_of<UserError>([&] { parse_json(text, "file", ExitCode::data); });
    EXPECT_EQ(ordered, message_of<UserError>([&] { parse_sorted_json(text, "file", ExitCode::data); }));
    return ordered;
}

std::string nested(int depth, const std::string& inner) {
    return repeated("[", depth, "") + inner + repeated("]", depth, "");
}

TEST(Json, ReadsEveryKindOfValue) {
    constexpr const char* kText =
        R"({"z":[1,-2,18446744073709551615,-9223372036854775808,1.5,"\u00e4",true,false,null,{},[]],"a":{"b":{"c":0}}})";
    EXPECT_EQ(parse_json(kText, "file", ExitCode::data), Json::parse(kText));
    EXPECT_EQ(parse_json(kText, "file", ExitCode::data).dump(), Json::parse(kText).dump());  // the order too
    EXPECT_EQ(parse_sorted_json(kText, "file", ExitCode::data), SortedJson::parse(kText));
    EXPECT_EQ(parse_json(" 3 ", "file", ExitCode::data), Json(3));
}

TEST(Json, RefusesWhatIsMalformed) {
    EXPECT_THAT(refusal("{\"a\":"), HasSubstr("file: not valid JSON at byte 6"));
    EXPECT_THAT(refusal("{} {}"), HasSubstr("not valid JSON at byte 4"));
    EXPECT_THAT(refusal(""), HasSubstr("not valid JSON at byte 1"));
    EXPECT_THAT(refusal("[1e999]"), HasSubstr("file: not valid JSON: "));
    EXPECT_THAT(refusal(std::string_view("{}\0{}", 5)), HasSubstr("file: not valid JSON: byte 3 is NUL. Try: "));
    EXPECT_THAT(refusal(std::string_view("\0", 1)), HasSubstr("byte 1 is NUL"));
}

TEST(Json, RefusesAKeyThatIsThereTwice) {
    EXPECT_EQ(refusal(R"({"a":{"b":1,"b":2}})"), "file: JSON has the key \"b\" twice");
    EXPECT_EQ(parse_json(R"([{"b":1},{"b":2,"c":{"b":3}}])", "file", ExitCode::data).size(), 2u);
}

TEST(Json, BoundsTheDepth) {
    EXPECT_EQ(refusal(nested(65, "0")), "file: JSON is nested deeper than 64 levels");
    EXPECT_EQ(refusal(nested(100'000, "")), "file: JSON is nested deeper than 64 levels");
    EXPECT_EQ(parse_json(nested(64, "0"), "file", ExitCode::data).size(), 1u);
    EXPECT_EQ(parse_json(nested(65, ""), "file", ExitCode::data).size(), 1u);
}

// At these sizes what is quadratic takes minutes or hours, and the time limit of the tests ends it.
TEST(Json, TakesTimeThatGrowsWithTheTextAlone) {
    constexpr int64_t kCount = 1'000'000;
    const std::string objects = "[" + repeated("{}", kCount) + "]";
    EXPECT_EQ(parse_sorted_json(objects, "file", ExitCode::data).size(), size_t{kCount});
    EXPECT_EQ(parse_json(objects, "file", ExitCode::data).size(), size_t{kCount});
    std::string keys;
    for (int64_t i = 0; i < kCount; ++i) keys += fmt::format("{}\"{}\":{{}}", i == 0 ? "{" : ",", i);
    keys += "}";
    EXPECT_EQ(parse_sorted_json(keys, "file", ExitCode::data).size(), size_t{kCount});
    EXPECT_EQ(parse_json(keys, "file", ExitCode::data).size(), size_t{kCount});
}

}  // namespace
}  // namespace windlass
