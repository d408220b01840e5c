// The card of what a run made: in final/ and in exports the same one, and never in place of a user's.
#include <gmock/gmock.h>

#include <filesystem>

#include "base/error.h"
#include "tests/cli/sandbox.h"

namespace windlass::cli {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class ModelCards : public testing::TestWithParam<Settings> {
  protected:
    void put_card_of_base() {
        write_bytes(sandbox_.model() + "/README.md", "---\nlicense: mit\n---\n# The base\nIt is good.\n");
    }
    Settings settings() {
        Settings made = sandbox_.training();
        for (const auto& [key, value] : GetParam()) made[key] = value;
        return made;
    }
    std::string card(const std::string& folder = "out/final") const {
        return read_bytes(sandbox_ / folder + "/README.md");
    }
    std::string exported(const std::string& to, std::vector<std::string> more = {}) {
        more.insert(more.begin(), {"export", sandbox_.out(), "--to", sandbox_ / to});
        must_succeed(sandbox_.windlass(more));
        return card(to);
    }
    bool is_adapter() const { return GetParam().contains("adapter"); }

    Sandbox sandbox_;
};

TEST_P(ModelCards, IsTheSameWhereverTheStepIsWritten) {
    put_card_of_base();
    must_succeed(sandbox_.train(settings()));
    const std::string text = card();
    EXPECT_THAT(
        text, AllOf(HasSubstr("license: \"mit\"\n"), HasSubstr("| steps | 2 of 2 |"),
                    HasSubstr("| data | rows.jsonl |"), Not(HasSubstr("It is good")), Not(HasSubstr(sandbox_.path()))));
    EXPECT_THAT(text, HasSubstr(is_adapter() ? "library_name: peft\n" : "library_name: transformers\n"));
    EXPECT_EQ(exported("again"), text);
    must_succeed(sandbox_.windlass({"export", sandbox_.out(), "--to", sandbox_ / "again", "--overwrite"}));
    EXPECT_EQ(card("again"), text);
    must_succeed(sandbox_.train(settings(), {"--resume"}));
    EXPECT_EQ(card(), text);
    fs::rename(sandbox_.out() + "/checkpoint-2", sandbox_ / "moved");
    must_succeed(sandbox_.windlass({"export", sandbox_ / "moved", "--to", sandbox_ / "of-moved"}));
    EXPECT_THAT(card("of-moved"), AllOf(HasSubstr("| steps | 2 of 2 |"), Not(HasSubstr("| data |"))));
}

TEST_P(ModelCards, AUsersOwnIsNotReplaced) {
    must_succeed(sandbox_.train(settings()));
    if (is_adapter()) {
        EXPECT_THAT(exported("merged", {"--merged"}), HasSubstr("library_name: transformers\n"));
    }
    const std::string to = is_adapter() ? "adapter" : "model";
    exported(to);
    write_bytes(sandbox_ / to + "/README.md", "# Mine\n");
    const Finished refused = run(sandbox_.windlass({"export", sandbox_.out(), "--to", sandbox_ / to, "--overwrite"}));
    EXPECT_EQ(refused.code, kStorage) << describe(refused);
    EXPECT_THAT(refused.err, HasSubstr("README.md"));
    EXPECT_EQ(card(to), "# Mine\n");
}

INSTANTIATE_TEST_SUITE_P(Kinds, ModelCards, testing::Values(Settings{}, Settings{{"adapter", "lora"}}),
                         [](const auto& info) { return info.param.contains("adapter") ? "OfAnAdapter" : "OfAModel"; });

}  // namespace
}  // namespace windlass::cli
