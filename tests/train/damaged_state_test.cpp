// What a run says, and does, if a small file that it continues from is damaged, or was written by an older build.
#include <gmock/gmock.h>

#include <filesystem>

#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "base/rng.h"
#include "format/checksummed_json.h"
#include "tests/train/train_fixture.h"

namespace windlass {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class DamagedState : public TrainTest {
  protected:
    // What it threw, or nothing.
    std::string problem(const std::string& name, const Settings& changes) {
        set_log_level(LogLevel::warning);
        std::string words;
        try {
            run(name, changes);
        } catch (const Error& error) {
            EXPECT_EQ(error.code(), ExitCode::storage) << error.what();
            words = error.what();
        }
        set_log_level(LogLevel::error);
        return words;
    }
    static std::string replaced(std::string text, const std::string& from, const std::string& to) {
        const size_t at = text.find(from);
        EXPECT_NE(at, text.npos) << text;
        return at == text.npos ? text : text.replace(at, from.size(), to);
    }
    // As it was before there were checksums.
    static std::string without_checksum(const std::string& text) {
        Json json = Json::parse(text);
        EXPECT_EQ(json.erase("checksum"), 1u);
        return json.dump() + "\n";
    }
};

// ---- trajectory.json ----

class DamagedTrajectory : public DamagedState {
  protected:
    static Settings probes(const Settings& more) {
        Settings settings = {{"method", "zeroth_order"}};
        settings.insert(more.begin(), more.end());
        return settings;
    }
    // A run of 5 steps that continues to 7.
    void begin(const Settings& more = {}) {
        Settings first = probes({{"max_steps", "5"}});
        first.insert(more.begin(), more.end());
        run("run", first);
        fs::remove_all(at("run/final"));
        state_ = bytes("run/trajectory.json");
    }
    std::string resumed(const std::string& from) {
        return problem("run", probes({{"max_steps", "7"}, {"resume", from}}));
    }
    bool is_as_straight() {
        if (!files_.exists(at("straight"))) run("straight", probes({{"max_steps", "7"}}));
        return bytes(std::string("run") + kWeights) == bytes(std::string("straight") + kWeights);
    }
    std::string state_;
};

TEST_F(DamagedTrajectory, IsRefusedWithTheStepThatItsLogLeadsTo) {
    for (const char* save_steps : {"null", "2"}) {
        SCOPED_TRACE(save_steps);
        fs::remove_all(at("run"));
        begin({{"save_steps", save_steps}});
        fs::remove_all(at("run/checkpoint-5"));
        write("run/trajectory.json", replaced(state_, "\"row\":20", "\"row\":16"));
        EXPECT_THAT(resumed("auto"),
                    HasSubstr("/trajectory.json: is damaged: its checksum does not match. Try: --resume=5"));
        EXPECT_EQ(resumed("5"), "");
        EXPECT_TRUE(is_as_straight());
        EXPECT_EQ(text_checksum(bytes("run/trajectory.json")), TextChecksum::right);
    }
}

TEST_F(DamagedTrajectory, WithoutAChecksumIsReadOnceWithAWarning) {
    begin();
    write("run/trajectory.json", without_checksum(state_));
    testing::internal::CaptureStderr();
    EXPECT_EQ(resumed("auto"), "");
    EXPECT_THAT(testing::internal::GetCapturedStderr(),
                HasSubstr("trajectory.json: has no checksum, as an older build"));
    EXPECT_TRUE(is_as_straight());
    EXPECT_EQ(text_checksum(bytes("run/trajectory.json")), TextChecksum::right);
}

// The checksum is right, and what it covers is wrong.
TEST_F(DamagedTrajectory, APlaceThatItsStepsDoNotLeadToIsRefused) {
    begin();
    const std::string plain = without_checksum(state_);
    for (const auto& [from, to] : {std::pair("\"row\":20", "\"row\":16"),
                                   {"\"row\":20", "\"row\":19"},
                                   {"\"epoch\":0", "\"epoch\":1"},
                                   {"\"step\":5", "\"step\":4"}}) {
        write("run/trajectory.json", with_checksum(replaced(plain, from, to)));
        EXPECT_THAT(resumed("auto"), HasSubstr("is damaged: it continues with row ")) << to;
    }
    write("run/trajectory.json", with_checksum(replaced(plain, "\"step\":5", "\"step\":6")));
    EXPECT_THAT(resumed("auto"), HasSubstr("is of step 6, the log holds steps 1 to 5. Try: --resume=5"));
    write("run/trajectory.json", state_);
    EXPECT_EQ(resumed("auto"), "");
    EXPECT_TRUE(is_as_straight());
}

TEST_F(DamagedTrajectory, PackedRowsAreCountedPassByPass) {
    const Settings packed = probes({{"packing", "true"}, {"max_steps", "9"}, {"gradient_accumulation_steps", "1"}});
    run("packed", packed);
    fs::remove_all(at("packed/final"));
    Settings more = packed;
    more["max_steps"] = "10";
    more["resume"] = "auto";
    EXPECT_GE(Json::parse(bytes("packed/trajectory.json"))["epoch"], 1) << "it was to be in a later pass";
    EXPECT_EQ(problem("packed", more), "");
}

// ---- references.json ----

class DamagedReferences : public DamagedState {
  protected:
    DamagedReferences() {
        Random random(1, RandomStream::test);
        std::string pairs;
        for (int row = 0; row < 7; ++row) {
            const auto words = [&] {
                std::string text;
                for (uint64_t i = 0; i < 5 + random.below(5); ++i) text += static_cast<char>('a' + random.below(6));
                return text;
            };
            pairs += Json({{"prompt", words()}, {"chosen", words()}, {"rejected", words()}}).dump() + "\n";
        }
        write("pairs.jsonl", pairs);
        run("run", dpo({{"max_steps", "2"}, {"save_steps", "2"}}));
        whole_ = bytes(kFile);
        fs::copy(at("run"), at("begun"), fs::copy_options::recursive);
        EXPECT_EQ(resumed(whole_), "");
        expected_ = bytes(std::string("run") + kWeights);
    }
    Settings dpo(const Settings& more) const {
        Settings settings = {{"objective", "dpo"}, {"train_data", "[" + at("pairs.jsonl") + "]"}};
        settings.insert(more.begin(), more.end());
        return settings;
    }
    void remove_cache() const { fs::remove_all(at("cache/windlass/tokens")); }
    std::string resumed(const std::string& references) {
        fs::remove_all(at("run"));
        fs::copy(at("begun"), at("run"), fs::copy_options::recursive);
        write(kFile, references);
        return problem("run", dpo({{"max_steps", "3"}, {"resume", "auto"}}));
    }
    // One digit of the numbers.
    std::string damaged() const {
        std::string text = whole_;
        const size_t digit = text.find_first_of("0123456789", text.find("\"train\""));
        text[digit] = text[digit] == '1' ? '2' : '1';
        return text;
    }
    bool is_as_expected() const { return bytes(std::string("run") + kWeights) == expected_; }

    static constexpr const char* kFile = "run/references.json";
    std::string whole_, expected_;
};

TEST_F(DamagedReferences, StopARunWhoseReferenceIsGone) {
    remove_cache();
    EXPECT_THAT(resumed(damaged()),
                HasSubstr("/references.json: is damaged: its checksum does not match. Try: begin again"));
    EXPECT_EQ(bytes(kFile), damaged());
}

TEST_F(DamagedReferences, AreReplacedByACopyThatIsWhole) {
    testing::internal::CaptureStderr();
    EXPECT_EQ(resumed(damaged()), "");
    EXPECT_THAT(testing::internal::GetCapturedStderr(),
                HasSubstr("is damaged: its checksum does not match; a copy in cache_dir is used"));
    EXPECT_TRUE(is_as_expected());
    EXPECT_EQ(bytes(kFile), whole_);
}

TEST_F(DamagedReferences, OfTheCacheAreComputedAgain) {
    for (const auto& entry : fs::directory_iterator(at("cache/windlass/tokens")))
        if (entry.path().string().ends_with(".references.json"))
            write(fs::relative(entry.path(), folder_).string(), damaged());
    testing::internal::CaptureStderr();
    EXPECT_EQ(problem("new", dpo({{"max_steps", "3"}})), "");
    EXPECT_THAT(testing::internal::GetCapturedStderr(),
                HasSubstr("is damaged: its checksum does not match; it is computed again"));
    EXPECT_TRUE(bytes(std::string("new") + kWeights) == expected_);
}

TEST_F(DamagedReferences, OfOtherTypesAreDamaged) {
    const std::string plain = without_checksum(whole_);
    const std::string key = Json(Json::parse(plain).at("of")).dump();
    for (const std::string& text :
         {replaced(plain, "\"version\":1", "\"version\":\"1\""), replaced(plain, "\"version\":1", "\"version\":1.5"),
          replaced(plain, key, "5"), std::string("[1]"), std::string("7"),
          replaced(plain, "\"train\":[", "\"train\":[\"x\","), replaced(plain, "\"eval\":[", "\"eval\":[1"),
          with_checksum(R"({"a":1})"), with_checksum(R"({"version":"1","of":5})")}) {
        remove_cache();
        EXPECT_THAT(resumed(text), HasSubstr("/references.json: is damaged: ")) << text;
    }
}

TEST_F(DamagedReferences, WithoutAChecksumAreReadOnceWithAWarning) {
    remove_cache();
    testing::internal::CaptureStderr();
    EXPECT_EQ(resumed(without_checksum(whole_)), "");
    EXPECT_THAT(testing::internal::GetCapturedStderr(),
                HasSubstr("references.json: has no checksum, as an older build"));
    EXPECT_TRUE(is_as_expected());
    EXPECT_EQ(bytes(kFile), whole_);
}

}  // namespace
}  // namespace windlass
