#include "rows/token_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <xxhash.h>

#include <cstring>
#include <filesystem>

#include "base/error.h"
#include "tests/fault_files.h"
#include "tests/unit/rows/compressed.h"
#include "tests/unit/tokenizer/fixtures.h"

namespace windlass {
namespace {

class TokenCacheTest : public testing::Test {
  protected:
    TokenCacheTest() : tokenizer_(fixtures::small_tokenizer()) {
        std::string rows;
        for (int i = 0; i < 100; ++i)
            rows += fmt::format("{{\"prompt\": \"{}\", \"completion\": \"hello {}\"}}\n", i, i * i);
        data_ = folder_.write("rows.jsonl", rows);
    }

    TokenCache open(const RowsOptions& options = {}) {
        return TokenCache::open_or_build(real_files(), folder_.path() + "/cache", {data_}, options, tokenizer_);
    }

    std::vector<Sample> direct(const RowsOptions& options = {}) {
        std::vector<Sample> out;
        for_each_sample(real_files(), data_, options, tokenizer_, [&](Sample&& sample) {
            out.push_back(std::move(sample));
            return true;
        });
        return out;
    }

    void expect_whole(const TokenCache& cache) {
        const auto expected = direct();
        ASSERT_EQ(cache.size(), static_cast<int64_t>(expected.size()));
        for (int64_t i = 0; i < cache.size(); ++i) {
            const Sample sample = cache.read(i);
            EXPECT_EQ(sample.ids, expected[static_cast<size_t>(i)].ids);
            EXPECT_EQ(sample.trained, expected[static_cast<size_t>(i)].trained);
            EXPECT_EQ(cache.lengths()[static_cast<size_t>(i)], sample.ids.size());
        }
    }

    fixtures::TempFolder folder_;
    Tokenizer tokenizer_;
    std::string data_;
};

TEST_F(TokenCacheTest, HoldsWhatTheRowsSay) {
    const TokenCache cache = open();
    expect_whole(cache);
    EXPECT_EQ(cache.report().rows, 100);
    EXPECT_GT(cache.report().trained_tokens, 200);
}

TEST_F(TokenCacheTest, IsBuiltOnce) {
    const std::string path = open().path();
    const int64_t built = real_files().status(path).modified_ns;
    const TokenCache again = open();
    EXPECT_EQ(again.path(), path);
    EXPECT_EQ(real_files().status(path).modified_ns, built);
    EXPECT_EQ(real_files().list(folder_.path() + "/cache").size(), 1u);  // no temporary file stays
    expect_whole(again);
}

// Runs that start together on the same rows each write a file of their own.
TEST_F(TokenCacheTest, WritersStandInNobodysWay) {
    const std::string path = open().path(), other = path + ".partial-1", dead = path + ".partial-999999999";
    real_files().remove_file(path);
    for (const std::string& partial : {other, dead}) write_text_atomic(real_files(), partial, "rows");
    expect_whole(open());
    EXPECT_EQ(read_text(real_files(), other, 4), "rows");  // a process with that number is alive
    EXPECT_FALSE(real_files().exists(dead));
}

TEST_F(TokenCacheTest, BelongsToDataOptionsAndTokenizer) {
    const std::string path = open().path();
    EXPECT_NE(open({.train_on_prompt = true}).path(), path);
    auto json = fixtures::small_tokenizer_json();
    json["model"]["merges"].erase(3);
    tokenizer_ = fixtures::load_json(json);
    EXPECT_NE(open().path(), path);
    tokenizer_ = fixtures::small_tokenizer();
    EXPECT_EQ(open().path(), path);
    folder_.write("rows.jsonl", "{\"text\": \"other\"}\n");
    EXPECT_NE(open().path(), path);
}

// The same bytes, cut into rows in another way, are other rows.
TEST_F(TokenCacheTest, BelongsToTheWholeEndingOfAName) {
    const std::string lines = "text\n{\"text\": \"a\"}\n{\"text\": \"b\"}\n";
    const auto path_of = [&](const std::string& name, const std::string& text) {
        const std::string data = folder_.write(name, text);
        return TokenCache::open_or_build(real_files(), folder_.path() + "/cache", {data}, {}, tokenizer_).path();
    };
    const std::string packed = fixtures::compressed(lines, Compression::gzip);
    const std::string as_text = path_of("rows.txt.gz", packed), as_table = path_of("rows.tsv.gz", packed);
    EXPECT_NE(as_text, as_table);
    EXPECT_EQ(path_of("other.tsv.gz", packed), as_table);
    EXPECT_NE(path_of("rows.tsv", lines), as_table);
}

TEST_F(TokenCacheTest, AnyDamageToHeaderOrIndexRebuildsIt) {
    const std::string path = open().path();
    const std::string good = fixtures::read(path);
    const auto put = [&](const std::string& bytes) {
        real_files().remove_file(path);
        auto file = real_files().open(path, {.mode = OpenMode::create});
        file->write_at(std::as_bytes(std::span(bytes)), 0);
    };
    std::vector<std::string> broken;
    for (size_t i = 0; i < 144; i += 5) broken.push_back(good), broken.back()[i] ^= 1;
    for (size_t i = good.size() - 800; i < good.size(); i += 50) broken.push_back(good), broken.back()[i] ^= 1;
    for (const size_t length : {size_t{0}, size_t{50}, size_t{144}, good.size() - 8, good.size() - 1})
        broken.push_back(good.substr(0, length));
    broken.push_back(good + "12345678");
    for (const auto& bytes : broken) {
        put(bytes);
        EXPECT_EQ(open().size(), 100);
        EXPECT_EQ(fixtures::read(path), good);
    }
}

TEST_F(TokenCacheTest, DamageToARowIsNoticedWhenItIsRead) {
    const TokenCache cache = open();
    {
        auto file = real_files().open(cache.path(), {.mode = OpenMode::update});
        const std::byte bad{0x7F};
        file->write_at(std::span(&bad, 1), 144 + 2);
    }
    EXPECT_THROW(cache.read(0), UserError);
    EXPECT_EQ(cache.read(1).ids.size(), cache.lengths()[1]);
}

// Sums that are right do not make a file ours: one that others may write is read like any other.
TEST_F(TokenCacheTest, ForgedNumbersAreDamage) {
    const std::string path = open().path();
    const std::string good = fixtures::read(path);
    const auto put = [&](std::string bytes, size_t at, auto value) {
        std::memcpy(bytes.data() + at, &value, sizeof value);
        const uint64_t sum = XXH3_64bits(bytes.data(), 136);
        std::memcpy(bytes.data() + 136, &sum, sizeof sum);
        real_files().remove_file(path);
        real_files().open(path, {.mode = OpenMode::create})->write_at(std::as_bytes(std::span(bytes)), 0);
    };
    constexpr size_t kIndexOffset = 40;
    for (const int64_t offset : {INT64_MIN, int64_t{-8}, int64_t{0}, INT64_MAX, int64_t(good.size()) + 8}) {
        put(good, kIndexOffset, offset);
        EXPECT_EQ(open().size(), 100);  // made anew
        EXPECT_EQ(fixtures::read(path), good);
    }
    std::string forged = good;
    int64_t index_offset = 0;
    std::memcpy(&index_offset, good.data() + kIndexOffset, 8);
    for (const int32_t id : {-1, INT32_MIN, tokenizer_.vocab_size(), INT32_MAX}) {
        std::memcpy(forged.data() + 144, &id, 4);
        uint32_t length = 0;
        std::memcpy(&length, forged.data() + index_offset, 4);
        const auto sum = static_cast<uint32_t>(XXH3_64bits(forged.data() + 144, size_t{4} * length + (length + 7) / 8));
        std::memcpy(forged.data() + index_offset + 4, &sum, 4);
        const size_t index = static_cast<size_t>(index_offset);
        put(forged, 128, uint64_t{XXH3_64bits(forged.data() + index, forged.size() - index)});
        const TokenCache cache = open();
        try {
            cache.read(0);
            ADD_FAILURE() << id;
        } catch (const UserError& error) {
            EXPECT_THAT(error.what(), testing::HasSubstr("the token cache is damaged: sample 0 has the token"));
        }
    }
}

// A second run reads no rows, and hears of them what the first did.
TEST_F(TokenCacheTest, KeepsTheNotesOnItsRows) {
    folder_.write("rows.jsonl", "{\"text\": \"a b\", \"flavour\": 1}\n{\"text\": \"c d\"}\n");
    for (const bool is_built : {true, false}) {
        testing::internal::CaptureStderr();
        const TokenCache cache = open();
        EXPECT_EQ(cache.was_built(), is_built);
        EXPECT_EQ(cache.report().notes.unread_keys(), (std::map<std::string, int64_t>{{"flavour", 1}}));
        EXPECT_THAT(testing::internal::GetCapturedStderr(), testing::HasSubstr("not read: \"flavour\" (1 row)"));
    }
}

TEST_F(TokenCacheTest, NothingToLearnIsAnError) {
    folder_.write("rows.jsonl", "{\"text\": \"\"}\n");
    EXPECT_THROW(open(), UserError);
    EXPECT_TRUE(real_files().list(folder_.path() + "/cache").empty());
}

TEST_F(TokenCacheTest, SurvivesPowerCutsAnywhere) {
    // Whenever the power goes while the cache is built, the next attempt has a whole one.
    for (int64_t calls = 1;; ++calls) {
        FaultFiles files("/image");
        files.cut_power_after(calls);
        bool failed = false;
        try {
            TokenCache::open_or_build(files, "/image/cache", {data_}, {}, tokenizer_);
        } catch (const Error&) {
            failed = true;
        }
        for (const uint64_t seed : {0, 1, 2}) {
            const auto after = files.crash(seed);
            expect_whole(TokenCache::open_or_build(*after, "/image/cache", {data_}, {}, tokenizer_));
        }
        if (!failed) break;
        ASSERT_LT(calls, 200);
    }
}

}  // namespace
}  // namespace windlass
