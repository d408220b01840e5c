// Failures under --json: one object on stdout, the message on stderr, the same exit code.
#include <gmock/gmock.h>

#include "tests/cli/sandbox.h"

namespace windlass::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Json error_of(const Command& command, int code) {
    const Finished finished = run(command);
    SCOPED_TRACE(describe(finished));
    EXPECT_EQ(finished.code, code);
    EXPECT_THAT(finished.err, HasSubstr("error: "));
    const Json json = parse_json(finished.out.empty() ? "{}" : finished.out, "stdout", ExitCode::internal);
    EXPECT_EQ(json.value("schema_version", 0), 1);
    const Json error = json.value("error", Json::object());
    EXPECT_EQ(error.value("code", 0), code);
    return error;
}

TEST(JsonErrors, OfWhatDoesNotFitHaveEachWayOutApart) {
    Sandbox sandbox;
    Settings settings = sandbox.training();
    settings["ram"] = "20MiB";
    const Json error = error_of(sandbox.train(settings, {"--json"}), kNoFit);
    EXPECT_EQ(error.value("kind", ""), "no_fit");
    EXPECT_EQ(error.value("place", ""), "plan");
    EXPECT_THAT(error.value("text", ""), testing::StartsWith("does not fit\n"));
    ASSERT_FALSE(error.value("tries", Json::array()).empty());
    EXPECT_THAT(error["tries"][0].get<std::string>(), testing::StartsWith("--"));
}

TEST(JsonErrors, OfUsageNameTheFlag) {
    const Sandbox sandbox;
    const Json error = error_of(sandbox.windlass({"train", "--learning-rate", "fast", "--model", "m", "--train-data",
                                                  "r.jsonl", "--output-dir", "o", "--json"}),
                                kUsage);
    EXPECT_EQ(error.value("kind", ""), "usage");
    EXPECT_EQ(error.value("place", ""), "--learning-rate");
    EXPECT_EQ(error_of(sandbox.windlass({"inspect", "--tenors", "m", "--json"}), kUsage).value("place", ""),
              "--tenors");
    EXPECT_EQ(error_of(sandbox.windlass({"trian", "--json"}), kUsage)["tries"],
              Json::array({"windlass train, or windlass --help"}));
    EXPECT_EQ(error_of(sandbox.windlass({"data", "foo", "--json"}), kUsage)["tries"], Json::array({"show"}));
    const Json several = error_of(sandbox.windlass({"train", "--json"}), kUsage);
    EXPECT_THAT(several.value("text", ""), HasSubstr("3 problems:\n"));
    EXPECT_EQ(several["tries"].size(), 3u);
}

// Each verb, with a mistake that it finds by itself.
TEST(JsonErrors, AreWrittenByEveryVerb) {
    Sandbox sandbox;
    const std::vector<std::vector<std::string>> commands = {
        {"plan", "--model", "absent"},
        {"train", "--model", "absent", "--train-data", "r.jsonl", "--output-dir", sandbox.out()},
        {"eval", "absent", "--data", "r.jsonl"},
        {"generate", "absent", "--prompt", "a"},
        {"data", "show", "--model", sandbox.model(), "--train-data", "absent.jsonl"},
        {"export", "absent", "--to", sandbox / "x"},
        {"replay", sandbox.model(), "absent", "--to", sandbox / "x"},
        {"inspect", "absent"},
        {"doctor", "--machine", "absent"},
        {"config", "from", "absent.yaml"},
        {"version", "--absent"},
        {"chat", sandbox.model()},
    };
    for (std::vector<std::string> words : commands) {
        words.emplace_back("--json");
        const Finished finished = run(sandbox.windlass(words));
        SCOPED_TRACE(fmt::format("{}\n{}", fmt::join(words, " "), describe(finished)));
        EXPECT_NE(finished.code, 0);
        const Json json = parse_json(finished.out.empty() ? "{}" : finished.out, "stdout", ExitCode::internal);
        ASSERT_TRUE(json.contains("error"));
        EXPECT_EQ(json["error"].value("code", 0), finished.code);
        EXPECT_NE(json["error"].value("place", ""), "");
        EXPECT_FALSE(json["error"]["tries"].empty());
    }
}

TEST(JsonErrors, DoNotFollowAResult) {
    Sandbox sandbox;
    const std::string rows = sandbox.rows("empty.jsonl", {R"({"prompt": "a", "completion": ""})"});
    error_of(sandbox.windlass(
                 {"data", "show", "--model", sandbox.model(), "--train-data", rows, "--add-eos", "false", "--json"}),
             kData);
}

TEST(Chat, RefusesJson) {
    Sandbox sandbox;
    const Json error = error_of(sandbox.windlass({"chat", sandbox.model(), "--json"}), kUsage);
    EXPECT_EQ(error["tries"], Json::array({"--json=lines, or windlass generate MODEL --chat --prompt TEXT --json"}));
}

TEST(Enums, NameThemselvesAndTheNearest) {
    Sandbox sandbox;
    const Finished data = run(sandbox.windlass({"data", "chekc", "--model", "m"}));
    EXPECT_EQ(data.code, kUsage);
    EXPECT_THAT(data.err, HasSubstr("data: \"chekc\" is not one of: show, stats, check, keys. Try: check\n"));
    const Finished merged = run(sandbox.windlass({"export", "r", "--to", "x", "--merged", "computd"}));
    EXPECT_THAT(merged.err, HasSubstr("--merged: \"computd\" is not one of: base, computed. Try: --merged computed\n"));
    for (const std::vector<std::string>& words :
         {std::vector<std::string>{"export", "r", "--to", "x.gguf", "--type", "q4_k_m"},
          {"replay", "m", "l", "--to", "x.gguf", "--type", "q4_k_m"}}) {
        const Finished type = run(sandbox.windlass(words));
        EXPECT_EQ(type.code, kUsage) << describe(type);
        EXPECT_THAT(type.err, HasSubstr("f32, f16, bf16 or q8_0"));
    }
    for (const Finished& each : {data, merged})
        for (const char c : each.err) EXPECT_TRUE(c == '\n' || static_cast<unsigned char>(c) >= 0x20) << describe(each);
}

}  // namespace
}  // namespace windlass::cli
