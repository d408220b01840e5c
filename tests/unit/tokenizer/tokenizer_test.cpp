#include "tokenizer/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "base/error.h"
#include "base/utf8.h"
#include "tests/place.h"
#include "tests/sanitizer.h"
#include "tests/unit/tokenizer/fixtures.h"
#include "tokenizer/normalizer.h"
#include "tokenizer/pattern.h"

namespace windlass {
namespace {

using fixtures::Json;
using testing::HasSubstr;
using Ids = std::vector<int32_t>;

// The message of the UserError that loading this throws.
std::string tokenizer_refusal(const Json& tokenizer, const Json& config = nullptr) {
    try {
        fixtures::load_json(tokenizer, config);
    } catch (const UserError& error) {
        EXPECT_EQ(error.code(), ExitCode::model);
        return error.what();
    }
    return "loaded";
}

Json with(const std::string& pointer, const Json& value) {
    Json tokenizer = fixtures::small_tokenizer_json();
    tokenizer[Json::json_pointer(pointer)] = value;
    return tokenizer;
}

TEST(Tokenizer, PutsItsTemplateAroundTheText) {
    const Tokenizer tokenizer = fixtures::small_tokenizer();
    EXPECT_EQ(tokenizer.encode("hello", true), (Ids{256, 261}));
    EXPECT_EQ(tokenizer.encode("hello", false), (Ids{261}));
    EXPECT_EQ(tokenizer.encode("", true), (Ids{256}));
    EXPECT_EQ(tokenizer.decode(Ids{256, 261, 257}, true), "hello");
    EXPECT_EQ(tokenizer.decode(Ids{256, 261, 257, 100000, -1}, false), "<s>hello</s>");
    EXPECT_EQ(tokenizer.bos(), 256);
    EXPECT_EQ(tokenizer.eos_ids(), (Ids{257}));
    EXPECT_EQ(tokenizer.vocab_size(), 262);
    EXPECT_EQ(tokenizer.encode("hell", false), (Ids{260}));
    EXPECT_EQ(tokenizer.id_to_token(260), "hell");
    EXPECT_TRUE(tokenizer.is_special(256));
    EXPECT_FALSE(tokenizer.is_special(260));
}

TEST(Tokenizer, ConfigurationAddsAndRemovesBosAndEos) {
    const Json json = fixtures::small_tokenizer_json();
    Json config = {
        {"bos_token", "<s>"}, {"eos_token", {{"content", "</s>"}}}, {"add_bos_token", false}, {"add_eos_token", true}};
    EXPECT_EQ(fixtures::load_json(json, config).encode("hello", true), (Ids{261, 257}));
    config["add_bos_token"] = true;
    EXPECT_EQ(fixtures::load_json(json, config).encode("hello", true), (Ids{256, 261, 257}));
    config["bos_token"] = nullptr;
    EXPECT_EQ(fixtures::load_json(json, config).bos(), std::nullopt);
    EXPECT_THAT(tokenizer_refusal(json, {{"eos_token", "<end>"}}),
                HasSubstr("\"eos_token\" is \"<end>\", which the tokenizer does not have"));
}

TEST(Tokenizer, ReadsRolesOfRealModels) {
    WINDLASS_NEEDS_SHARED_DATA("tokenizer-opt/vocab.json");
    EXPECT_EQ(fixtures::opt().encode("Hi", true), (Ids{2, 30086}));
    EXPECT_EQ(fixtures::opt().pad(), 1);
    EXPECT_EQ(fixtures::qwen3().eos_ids(), (Ids{151645, 151643}));
    EXPECT_EQ(fixtures::qwen3().bos(), std::nullopt);
    EXPECT_TRUE(fixtures::qwen3().prefix().empty());
    EXPECT_EQ(fixtures::gpt2().eos(), std::nullopt);  // that folder's tokenizer.json comes without a configuration
    EXPECT_EQ(fixtures::stories().encode("Once upon a time", true).front(), 1);
}

TEST(Tokenizer, RefusesByName) {
    EXPECT_THAT(tokenizer_refusal(with("/model/type", "Unigram")),
                HasSubstr("the tokenizer model \"Unigram\" is not supported"));
    EXPECT_THAT(tokenizer_refusal(with("/model/dropout", 0.1)), HasSubstr("dropout"));
    EXPECT_THAT(tokenizer_refusal(with("/model/end_of_word_suffix", "</w>")), HasSubstr("end_of_word_suffix"));
    EXPECT_THAT(tokenizer_refusal(with("/model/new_field", 1)),
                HasSubstr("the model has the unknown field \"new_field\""));
    EXPECT_THAT(tokenizer_refusal(with("/normalizer", {{"type", "NFKC"}})),
                HasSubstr("the normalizer \"NFKC\" is not supported"));
    EXPECT_THAT(tokenizer_refusal(with("/normalizer", {{"type", "Lowercase"}})), HasSubstr("Lowercase"));
    EXPECT_THAT(tokenizer_refusal(with("/pre_tokenizer", {{"type", "Whitespace"}})),
                HasSubstr("the pre-tokenizer \"Whitespace\""));
    EXPECT_THAT(tokenizer_refusal(with("/decoder", {{"type", "WordPiece"}})), HasSubstr("the decoder \"WordPiece\""));
    EXPECT_THAT(tokenizer_refusal(with("/post_processor", {{"type", "BertProcessing"}})),
                HasSubstr("the post-processor \"BertProcessing\""));
    EXPECT_THAT(tokenizer_refusal(with("/something", 1)), HasSubstr("the unknown field \"something\""));
}

TEST(Tokenizer, RefusesBrokenFiles) {
    EXPECT_THAT(tokenizer_refusal(with("/model/vocab/x2", 5000000)), HasSubstr("ids are 0 to"));
    EXPECT_THAT(tokenizer_refusal(with("/model/vocab/x2", -1)), HasSubstr("ids are 0 to"));
    EXPECT_THAT(tokenizer_refusal(with("/model/vocab/x2", 3)), HasSubstr("id 3 belongs to two tokens"));
    EXPECT_THAT(tokenizer_refusal(with("/model/vocab/x2", "3")), HasSubstr("is not an integer"));
    EXPECT_THAT(tokenizer_refusal(with("/model/merges", {"h e l"})), HasSubstr("a merge is not a pair of tokens"));
    EXPECT_THAT(tokenizer_refusal(with("/model/merges", {"h x"})), HasSubstr("needs the token \"hx\""));
    EXPECT_THAT(tokenizer_refusal(with("/added_tokens/1", {{"id", 262}, {"content", std::string(2000, 'a')}})),
                HasSubstr("2000 bytes"));
    // The tokenizers library would number these 256 and 262, whatever the file says: other ids than the author meant.
    EXPECT_THAT(tokenizer_refusal(with("/added_tokens/0/id", 258)),
                HasSubstr("\"<s>\" is said to have the id 258, but other loaders give it 256"));
    EXPECT_THAT(tokenizer_refusal(with("/added_tokens/1/content", "<new>")),
                HasSubstr("\"<new>\" is said to have the id 257, but other loaders give it 262"));
    EXPECT_THAT(tokenizer_refusal(with("/post_processor/special_tokens", Json::object())),
                HasSubstr("without its ids"));
    fixtures::TempFolder folder;
    EXPECT_THROW(Tokenizer::load(real_files(), folder.path()), UserError);
    folder.write("tokenizer.model", "x");
    try {
        Tokenizer::load(real_files(), folder.path());
        FAIL();
    } catch (const UserError& error) {
        EXPECT_THAT(error.what(), HasSubstr("save_pretrained"));
    }
}

TEST(Tokenizer, RefusesExpressionsItCannotRender) {
    const auto split = [](const std::string& regex) {
        return with("/pre_tokenizer", {{"type", "Split"}, {"pattern", {{"Regex", regex}}}, {"behavior", "Isolated"}});
    };
    for (const char* regex :
         {R"(\w+)", R"(a\b)", R"([a&&b])", R"([a[bc]])", R"((?m:a))", R"(a{1,2}+)", R"([^\S\n])", R"(\h)", R"(a\)"})
        EXPECT_THAT(tokenizer_refusal(split(regex)), HasSubstr("is not supported")) << regex;
    EXPECT_THAT(tokenizer_refusal(split("(a")), HasSubstr("is malformed"));
    for (const char* end : {"(", R"(\w)"}) {
        const std::string message = tokenizer_refusal(split(std::string(50'000, 'a') + end));
        EXPECT_LT(message.size(), 1000u);
        EXPECT_THAT(message, HasSubstr("aaa... (5000"));
    }
    EXPECT_EQ(tokenizer_refusal(split(R"([\u4e00-\u9fa5]+|[]a]|\p{Lu}++)")), "loaded");
}

TEST(Tokenizer, GivesUpOnExplosiveExpressions) {
    const Tokenizer tokenizer = fixtures::load_json(with(
        "/pre_tokenizer", {{"type", "Split"}, {"pattern", {{"Regex", "(a|aa)+[0-9]"}}}, {"behavior", "Isolated"}}));
    try {
        tokenizer.encode(std::string(5000, 'a'), false);
        FAIL() << "it should not be able to finish";
    } catch (const UserError& error) {
        EXPECT_EQ(error.code(), ExitCode::data);
        EXPECT_THAT(error.what(), HasSubstr("gives up"));
    }
}

// Each match ends within its own steps, but there is one at every byte. Or each piece is small, but there are many.
TEST(Tokenizer, GivesUpOnManyMatchesThatAreSlow) {
    const auto split = [](const char* regex) {
        return Json{{"type", "Split"}, {"pattern", {{"Regex", regex}}}, {"behavior", "Isolated"}};
    };
    const Json pieces = {{"type", "Sequence"}, {"pretokenizers", {split("a+"), split("a(?:(?:a|aa){17}c)?")}}};
    std::string text;
    while (text.size() < 1 << 17) text.append(40, 'a').append(" ");
    for (const Json& pre_tokenizer : {split("a(?:(?:a|aa){17}c)?"), pieces}) {
        const Tokenizer tokenizer = fixtures::load_json(with("/pre_tokenizer", pre_tokenizer));
        for (const std::string& each : {text, std::string(1 << 17, 'a')}) {
            try {
                tokenizer.encode(each, false);
                ADD_FAILURE() << "it should not be able to finish";
            } catch (const UserError& error) {
                EXPECT_EQ(error.code(), ExitCode::data);
                EXPECT_THAT(error.what(), HasSubstr("gives up"));
            }
        }
    }
}

// A place that takes five thousand steps, once in 80 bytes or in 320.
TEST(Pattern, PaysThirtyTwoStepsAByte) {
    const Pattern slow = Pattern::regex("b(?:(?:a|aa){10}c)?", "here");
    const auto gives_up = [&](size_t every) {
        std::string text;
        while (text.size() < 1 << 17) text.append("baaaaaaaaaaaaaaaaaaaa").append(every - 21, ' ');
        try {
            slow.find_all(text);
            return false;
        } catch (const UserError& error) {
            return error.code() == ExitCode::data;
        }
    };
    EXPECT_TRUE(gives_up(80));
    EXPECT_FALSE(gives_up(320));
}

// Long matches, rare ones and empty ones, across the borders at which a search begins anew.
TEST(Pattern, FindsTheSameInLongTexts) {
    const std::string gap(1000, 'x'), euros = gap + "\u20ac" + gap;
    EXPECT_EQ(Pattern::regex("(?:ab)+", "here").find_all(gap + "ababab"), (std::vector<Span>{{1000, 1006}}));
    std::string many;
    for (int i = 0; i < 100'000; ++i) many += "ab";
    EXPECT_EQ(Pattern::regex("(?:ab)+", "here").find_all(many), (std::vector<Span>{{0, 200'000}}));
    EXPECT_EQ(Pattern::regex("(?:ab)+?$", "here").find_all(many), (std::vector<Span>{{0, 200'000}}));
    EXPECT_EQ(Pattern::regex("\u20ac", "here").find_all(euros), (std::vector<Span>{{1000, 1003}}));
    EXPECT_EQ(Pattern::regex("q*", "here").find_all("\u20acq"), (std::vector<Span>{{0, 0}, {3, 4}, {4, 4}}));
    EXPECT_TRUE(Pattern::regex("q", "here").find_all(euros).empty());
    EXPECT_EQ(Pattern::regex("(?<=x)\u20ac|$", "here").find_all(euros),
              (std::vector<Span>{{1000, 1003}, {2003, 2003}}));
    for (size_t at : {0u, 63u, 64u, 65u, 127u, 128u})
        EXPECT_EQ(Pattern::regex("y", "here").find_all(std::string(at, 'x') + "y"), (std::vector<Span>{{at, at + 1}}));
}

// Thirty doublings of one letter would be a gigabyte; forty more than any machine has.
TEST(Tokenizer, BoundsWhatReplacementsMakeOfAText) {
    const auto sequence = [](const char* list, const Json& step) {
        return Json{{"type", "Sequence"}, {list, Json(40, step)}};
    };
    const Json doubles = {{"type", "Replace"}, {"pattern", {{"String", "a"}}}, {"content", "aa"}};
    const Json between = {{"type", "Replace"}, {"pattern", {{"Regex", ""}}}, {"content", "ab"}};
    const Json before = {{"type", "Prepend"}, {"prepend", std::string(100'000, 'a')}};
    for (const Json& step : {doubles, between, before}) {
        const Tokenizer tokenizer = fixtures::load_json(with("/normalizer", sequence("normalizers", step)));
        try {
            tokenizer.encode("a", false);
            ADD_FAILURE() << "nothing bounds it";
        } catch (const UserError& error) {
            EXPECT_EQ(error.code(), ExitCode::data);
            EXPECT_THAT(error.what(), HasSubstr("its replacements make"));
        }
    }
    const Tokenizer decoding = fixtures::load_json(with("/decoder", sequence("decoders", doubles)));
    EXPECT_THROW(decoding.decode(decoding.encode("a", false), false), UserError);
    Json json = with("/normalizer", sequence("normalizers", doubles));  // and of an added token, when it is read
    json["added_tokens"].push_back({{"id", 0}, {"content", "a"}, {"normalized", true}});
    EXPECT_THROW(fixtures::load_json(json), UserError);
}

// vocab.json beside 200,000 added tokens: a search of the list for each would be twenty thousand million steps.
TEST(Tokenizer, ReadsManyAddedTokens) {
    const fixtures::TempFolder folder;
    Json added = Json::object(), vocab = fixtures::small_tokenizer_json()["model"]["vocab"];
    constexpr int kCount = 200'000;
    for (int i = 0; i < kCount; ++i) added[fmt::format("<{:032}>", i)] = 1000 + i;
    folder.write("vocab.json", vocab.dump());
    folder.write("merges.txt", "#version: 0.2\n");
    folder.write("added_tokens.json", added.dump());
    folder.write("tokenizer_config.json",
                 Json{{"tokenizer_class", "GPT2Tokenizer"}, {"eos_token", fmt::format("<{:032}>", 7)}}.dump());
    const Tokenizer tokenizer = Tokenizer::load(real_files(), folder.path());
    EXPECT_EQ(tokenizer.encode(fmt::format("<{:032}>", kCount - 1), false), (Ids{1000 + kCount - 1}));
    EXPECT_EQ(tokenizer.eos(), 1007);
}

TEST(Tokenizer, ReadsIllFormedTextAsReplacementCharacters) {
    const Tokenizer tokenizer = fixtures::small_tokenizer();
    const auto seen = [&](std::string_view text) { return tokenizer.decode(tokenizer.encode(text, false), false); };
    EXPECT_EQ(seen("a\xFFz"), "a\uFFFDz");
    EXPECT_EQ(seen("\xE4\xBD"), "\uFFFD");  // a cut sequence is one
    EXPECT_EQ(seen("\xE4\xBD\xE4\xBD\xA0"), "\uFFFD\u4F60");
    EXPECT_EQ(seen("\xED\xA0\x80"), "\uFFFD\uFFFD\uFFFD");  // a surrogate is none of UTF-8's sequences
    EXPECT_EQ(seen("\xF0\x9F\x98"), "\uFFFD");
    EXPECT_EQ(seen("\xC0\xAF"), "\uFFFD\uFFFD");
    EXPECT_TRUE(is_valid_utf8("\u00e9\u4f60\U0001F600"));
    EXPECT_FALSE(is_valid_utf8("\xF4\x90\x80\x80"));
}

// Of the files' bytes nothing counts, nor what only templates of chats and other programs read.
TEST(Tokenizer, ContentHashIsOfWhatMakesIds) {
    const Json json = fixtures::small_tokenizer_json();
    const uint64_t hash = fixtures::load_json(json).content_hash();
    EXPECT_EQ(fixtures::load_json(json).content_hash(), hash);
    EXPECT_EQ(fixtures::load_json(json, {{"padding_side", "left"}, {"bos_token", "<s>"}}).content_hash(), hash);
    EXPECT_NE(fixtures::load_json(json, {{"eos_token", "<s>"}}).content_hash(), hash);
    EXPECT_NE(fixtures::load_json(json, {{"bos_token", "<s>"}, {"add_bos_token", false}}).content_hash(), hash);
    Json other = json;
    other["version"] = "2.0";
    EXPECT_EQ(fixtures::load_json(other).content_hash(), hash);
    other["model"]["merges"].erase(3);
    EXPECT_NE(fixtures::load_json(other).content_hash(), hash);
    other = json;
    other["added_tokens"][0]["rstrip"] = true;
    EXPECT_NE(fixtures::load_json(other).content_hash(), hash);
}

TEST(Tokenizer, IsSharedByThreads) {
    const Tokenizer tokenizer = fixtures::small_tokenizer();
    const Ids expected = tokenizer.encode("hello hello world 123", true);
    std::vector<std::thread> threads;
    std::atomic<int> wrong = 0;
    for (int i = 0; i < 4; ++i)
        threads.emplace_back([&] {
            for (int k = 0; k < 100; ++k) wrong += tokenizer.encode("hello hello world 123", true) != expected;
        });
    for (auto& thread : threads) thread.join();
    EXPECT_EQ(wrong, 0);
}

TEST(Normalizer, ComposesEndlessRunsOfMarks) {
    EXPECT_EQ(to_nfc("e\u0301"), "\u00e9");
    EXPECT_EQ(to_nfc("q\u0307\u0323"), "q\u0323\u0307");
    EXPECT_EQ(to_nfc("\u1112\u1161\u11ab"), "\ud55c");
    EXPECT_EQ(to_nfc("\u0958"), "\u0915\u093c");  // excluded from composition
    std::string marks = "a";
    for (int i = 0; i < 200000; ++i) marks += i % 2 ? "\u0301" : "\u0323";
    EXPECT_TRUE(to_nfc(marks).starts_with("\u1ea1\u0323"));
}

// A megabyte of everything that makes a backtracking or quadratic tokenizer hang. The bound is the time limit of the
// test program: linear work takes well under a second each. Sanitizers, which look at memory, take less of the same.
TEST(Tokenizer, TakesHostileMegabytes) {
    const size_t length = is_sanitized() ? 1 << 17 : 1 << 20;
    std::vector<std::string> texts;
    for (const char* unit : {" ", "a", "A", "7", "\n", "'", "\t ", "\xFF", "\u2581", "hello", "\u0301", "\u4f60", " \n",
                             "a ", "aB", "Aa1 '\u00a0"}) {
        std::string text;
        while (text.size() < length) text += unit;
        texts.push_back(text);
        texts.push_back(text + "x");
    }
    const Json parts = Json::parse(fixtures::read(source_dir() + "/tests/golden/tokenizer/parts.json"));
    for (const Json& entry : parts["list"]) {
        const auto name = entry["name"].get<std::string>();
        if (name != "tekken" && name != "qwen3.5" && name != "prefix space" && name != "unknown True True") continue;
        Json json = entry["tokenizer"];
        json["model"].update(parts["vocabs"][json["model"]["vocab_name"].get<std::string>()]);
        json["model"].erase("vocab_name");
        const Tokenizer tokenizer = fixtures::load_json(json);
        for (const auto& text : texts) EXPECT_FALSE(tokenizer.encode(text, false).empty()) << name;
    }
}

TEST(StreamDecoder, GivesOutWholeCharacters) {
    const Tokenizer tokenizer = fixtures::small_tokenizer();
    for (const std::string text : {"hello \u4f60\u597d \U0001F600!", "\u00e9", "a\uFFFDb"}) {
        StreamDecoder decoder(tokenizer, true);
        std::string all;
        for (const int32_t id : tokenizer.encode(text, true)) {
            const std::string piece = decoder.push(id);
            EXPECT_TRUE(is_valid_utf8(piece));
            all += piece;
        }
        EXPECT_EQ(all + decoder.finish(), text);
    }
}

TEST(StreamDecoder, DoesNotWaitForBrokenCharactersForever) {
    const Tokenizer tokenizer = fixtures::small_tokenizer();
    StreamDecoder decoder(tokenizer, true);
    std::string all;
    for (int i = 0; i < 100; ++i) all += decoder.push(0xFF);
    EXPECT_GT(all.size(), 200u);
    all += decoder.push('x');
    std::string expected;
    for (int i = 0; i < 100; ++i) expected += "\uFFFD";
    EXPECT_EQ(all + decoder.finish(), expected + "x");
}

TEST(StreamDecoder, AgreesWithDecodeOnRealTokenizers) {
    WINDLASS_NEEDS_SHARED_DATA("tokenizer-llama2/tokenizer.model");
    const std::string text =
        "  Hello  \u4f60\u597d, \U0001F468\u200d\U0001F469\u200d\U0001F467!\n\nna\u00efve  \u1780\u17b6\u1793\u17cb "
        "end ";
    for (const Tokenizer* tokenizer :
         {&fixtures::llama2(), &fixtures::qwen3(), &fixtures::gpt2(), &fixtures::stories()}) {
        const Ids ids = tokenizer->encode(text, true);
        StreamDecoder decoder(*tokenizer, true);
        std::string all;
        for (const int32_t id : ids) all += decoder.push(id);
        EXPECT_EQ(all + decoder.finish(), tokenizer->decode(ids, true));
    }
}

}  // namespace
}  // namespace windlass
