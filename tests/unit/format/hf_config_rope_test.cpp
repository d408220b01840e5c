#include "format/hf_config_rope.h"

#include "base/error.h"
#include "tests/place.h"
#include "tests/unit/format/safetensors_bytes.h"

namespace windlass {
namespace {

using testing::HasSubstr;

RopeSpec rope_of(std::string text, const RopeRules& rules = {}, size_t base = 0) {
    const HfConfig config = HfConfig::parse(std::move(text), "config.json");
    std::vector<RopeSpec> ropes;
    for (size_t i = 0; i < rules.bases.size(); ++i) ropes.push_back(read_rope(config, rules, i));
    config.finish();
    return ropes[base];
}

std::string rope_refusal(std::string text, const RopeRules& rules = {}) {
    return message_of<UserError>([&] { rope_of(std::move(text), rules); });
}

// As Gemma 3.
constexpr RopeBase kTwoBases[] = {{.layer_type = "full_attention", .theta = 1e6},
                                  {.layer_type = "sliding_attention", .key = "rope_local_base_freq"}};
constexpr RopeRules kTwoRopes = {.bases = kTwoBases};
constexpr RopeRules kPhiRope = {.dialect = RopeDialect::phi};

TEST(Rope, ReadsOldAndNewSpellingsAlike) {
    const RopeSpec plain{.kind = RopeKind::default_, .theta = 5e5};
    EXPECT_EQ(rope_of("{}"), (RopeSpec{.kind = RopeKind::default_}));
    EXPECT_EQ(rope_of(R"({"rope_theta":500000})"), plain);
    EXPECT_EQ(rope_of(R"({"rope_theta":500000.0,"rope_scaling":null})"), plain);
    EXPECT_EQ(rope_of(R"({"rope_parameters":{"rope_type":"default","rope_theta":5e5}})"), plain);
    EXPECT_EQ(rope_of(R"({"rope_theta":5e5,"rope_parameters":{"rope_type":"default"}})"), plain);
    const RopeSpec linear{.kind = RopeKind::linear, .factor = 4.0};
    EXPECT_EQ(rope_of(R"({"rope_scaling":{"type":"linear","factor":4}})"), linear);
    EXPECT_EQ(rope_of(R"({"rope_scaling":{"rope_type":"linear","type":"linear","factor":4.0}})"), linear);
}

TEST(Rope, ReadsLlama3) {
    const std::string section = R"({"factor":32.0,"high_freq_factor":4.0,"low_freq_factor":1.0,
                                    "original_max_position_embeddings":8192,"rope_type":"llama3")";
    const RopeSpec want{.kind = RopeKind::llama3,
                        .theta = 5e5,
                        .factor = 32,
                        .low_freq_factor = 1,
                        .high_freq_factor = 4,
                        .original_length = 8192};
    EXPECT_EQ(rope_of(R"({"rope_theta":500000.0,"rope_scaling":)" + section + "}}"), want);
    EXPECT_EQ(rope_of(R"({"rope_parameters":)" + section + R"(,"rope_theta":500000.0}})"), want);
}

TEST(Rope, RefusesWhatItDoesNotCompute) {
    const auto refusal = [](const char* text) { return rope_refusal(text); };
    for (const char* type : {"proportional", "dynamic", "mrope"})
        EXPECT_THAT(refusal(fmt::format(R"({{"rope_scaling":{{"type":"{}","factor":2}}}})", type).c_str()),
                    HasSubstr(type));
    EXPECT_THAT(refusal(R"({"partial_rotary_factor":0.5})"), HasSubstr("partial_rotary_factor"));
    EXPECT_THAT(refusal(R"({"rope_parameters":{"rope_type":"default","partial_rotary_factor":0.5}})"),
                HasSubstr("partial_rotary_factor"));
    EXPECT_THAT(refusal(R"({"rope_scaling":{"type":"linear"}})"), HasSubstr("rope_scaling: \"factor\" is missing"));
    EXPECT_THAT(refusal(R"({"rope_scaling":{"type":"linear","factor":0}})"), HasSubstr("\"factor\" is 0"));
    EXPECT_THAT(refusal(R"({"rope_scaling":{"type":"linear","factor":2,"attention_factor":1}})"),
                HasSubstr("attention_factor"));
    EXPECT_THAT(refusal(R"({"rope_theta":1e4,"rope_parameters":{"rope_type":"default","rope_theta":1e6}})"),
                HasSubstr("contradicts \"rope_theta\""));
    EXPECT_THAT(refusal(R"({"rope_theta":"fast"})"), HasSubstr("expected a number"));
}

TEST(Rope, RefusesPartsInAFamilyThatHasOneRope) {
    for (const char* object : {"rope_parameters", "rope_scaling"})
        for (const char* part : {R"("full_attention":{"rope_theta":50})", R"("full_attention":null)", R"("foo":{})"}) {
            SCOPED_TRACE(part);
            const std::string text = fmt::format(R"({{"{}":{{{}}}}})", object, part);
            EXPECT_THAT(rope_refusal(text),
                        testing::AllOf(HasSubstr("has parts for layer types"), HasSubstr("Try: the keys of one part")));
        }
}

TEST(Rope, TakesTheBaseOfEachTypeOfLayer) {
    const auto thetas = [](const char* text) {
        return std::pair(rope_of(text, kTwoRopes, 0).theta, rope_of(text, kTwoRopes, 1).theta);
    };
    EXPECT_EQ(thetas("{}"), std::pair(1e6, 1e4));
    EXPECT_EQ(thetas(R"({"rope_theta":88})"), std::pair(88.0, 1e4));
    EXPECT_EQ(thetas(R"({"rope_theta":88,"rope_parameters":{}})"), std::pair(88.0, 1e4));
    EXPECT_EQ(thetas(R"({"rope_theta":88,"rope_local_base_freq":33,"rope_parameters":{"rope_type":"default"}})"),
              std::pair(88.0, 33.0));
    EXPECT_EQ(thetas(R"({"rope_local_base_freq":33,"rope_parameters":{"full_attention":{"rope_type":"default"}}})"),
              std::pair(1e6, 33.0));
    EXPECT_EQ(thetas(R"({"rope_theta":88,"rope_parameters":{"full_attention":{"rope_theta":88},
                         "sliding_attention":{"rope_theta":44}}})"),
              std::pair(88.0, 44.0));
    EXPECT_THAT(rope_refusal(R"({"rope_local_base_freq":33,"rope_parameters":{"sliding_attention":{"rope_theta":44}}})",
                             kTwoRopes),
                testing::AllOf(HasSubstr("\"sliding_attention\" contradicts \"rope_local_base_freq\""),
                               HasSubstr("Try: \"rope_theta\" in \"sliding_attention\" alone")));
}

TEST(Rope, RefusesWhatIsOutsideOfTheParts) {
    for (const char* key : {R"("rope_type":"linear")", R"("type":"linear")", R"("rope_theta":99)", R"("factor":4)",
                            R"("truncate":false)"}) {
        SCOPED_TRACE(key);
        for (const char* part : {"", R"(,"full_attention":{"rope_type":"default"})"})
            EXPECT_THAT(rope_refusal(fmt::format(R"({{"rope_parameters":{{{}{}}}}})", key, part), kTwoRopes),
                        testing::AllOf(HasSubstr("is outside of the parts"), HasSubstr("Try: ")));
    }
    EXPECT_THAT(rope_refusal(R"({"rope_parameters":{"foo":{}}})", kTwoRopes),
                HasSubstr("\"foo\" is no type of layer of this family"));
    EXPECT_THAT(rope_refusal(R"({"rope_scaling":{"type":"linear","factor":4}})", kTwoRopes),
                HasSubstr("Try: \"rope_type\" in place of \"type\""));
    EXPECT_EQ(rope_of(R"({"rope_scaling":{"rope_type":"linear","factor":4}})", kTwoRopes).factor, 4.0);
    EXPECT_EQ(rope_of(R"({"rope_scaling":{"rope_type":"linear","factor":4}})", kTwoRopes, 1),
              (RopeSpec{.kind = RopeKind::default_, .theta = 1e4}));
}

// The three kinds that have an original length, in both objects and in a part.
TEST(Rope, RefusesTwoOriginalLengths) {
    const char* const kinds[] = {R"("rope_type":"llama3","factor":4,"low_freq_factor":1,"high_freq_factor":4)",
                                 R"("rope_type":"yarn","factor":4)",
                                 R"("rope_type":"longrope","short_factor":[1],"long_factor":[2])"};
    const auto file = [](const char* object, const char* kind, int own, int outside) {
        return fmt::format(R"({{"max_position_embeddings":256,"original_max_position_embeddings":{},
                                "{}":{{{},"original_max_position_embeddings":{}}}}})",
                           outside, object, kind, own);
    };
    for (const char* kind : kinds)
        for (const char* object : {"rope_scaling", "rope_parameters"}) {
            SCOPED_TRACE(file(object, kind, 16, 64));
            EXPECT_EQ(rope_of(file(object, kind, 16, 16)).original_length, 16);
            EXPECT_THAT(rope_refusal(file(object, kind, 16, 64)),
                        testing::AllOf(HasSubstr("is 16 in"), HasSubstr("and 64 outside"), HasSubstr("Try: ")));
            EXPECT_THAT(rope_refusal(file(object, kind, 16, 64), kTwoRopes), HasSubstr("Try: "));
        }
    EXPECT_THAT(rope_refusal(R"({"rope_parameters":{"full_attention":{"rope_type":"yarn","factor":4}},
                                 "max_position_embeddings":256,"original_max_position_embeddings":64})",
                             kTwoRopes),
                HasSubstr("Try: \"original_max_position_embeddings\" in \"full_attention\" alone"));
    EXPECT_EQ(rope_of(R"({"original_max_position_embeddings":64})").kind, RopeKind::default_)
        << "is read, not warned of";
    EXPECT_THAT(rope_refusal(R"({"max_position_embeddings":8192,"rope_parameters":{"rope_type":"longrope",
                    "short_factor":[1],"long_factor":[1],"original_max_position_embeddings":16}})",
                             kPhiRope),
                HasSubstr("and 4096 outside"))
        << "which Phi-3 has by itself";
}

TEST(Rope, RefusesTruncateInAPart) {
    const auto file = [](const char* value) {
        return fmt::format(R"({{"max_position_embeddings":64,"rope_parameters":{{"full_attention":{{"rope_type":"yarn",
                                "factor":4,"original_max_position_embeddings":16,"truncate":{}}}}}}})",
                           value);
    };
    EXPECT_THAT(rope_refusal(file("false"), kTwoRopes), HasSubstr("\"truncate\" is false"));
    EXPECT_THAT(rope_refusal(file("null"), kTwoRopes), HasSubstr("\"truncate\" is null"));
    EXPECT_TRUE(rope_of(file("true"), kTwoRopes).truncate);
}

TEST(Rope, RefusesNullWhereItIsAValue) {
    EXPECT_THAT(rope_refusal(R"({"rope_theta":null})"), HasSubstr("\"rope_theta\" is null"));
    EXPECT_THAT(rope_refusal(R"({"rope_local_base_freq":null})", kTwoRopes), HasSubstr("is null"));
    EXPECT_THAT(rope_refusal(R"({"rope_scaling":{"rope_type":null}})"), HasSubstr("\"rope_type\" is null"));
    EXPECT_EQ(rope_of(R"({"rope_scaling":null,"rope_parameters":null})").theta, 1e4);
}

TEST(Rope, RefusesABaseThatOneVersionOfTransformersReads) {
    EXPECT_THAT(rope_refusal(R"({"rope_scaling":{"rope_type":"default","rope_theta":44}})"),
                testing::AllOf(HasSubstr("\"rope_scaling\" contradicts \"rope_theta\""),
                               HasSubstr("Try: \"rope_theta\" next to \"rope_scaling\", not in it")));
    EXPECT_EQ(rope_of(R"({"rope_theta":44,"rope_scaling":{"rope_type":"default","rope_theta":44}})").theta, 44.0);
}

}  // namespace
}  // namespace windlass
