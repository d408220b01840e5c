// Templates that are made to do harm end within bounds that follow the size of the chat.
#include "tests/unit/jinja/hostile_templates.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "base/error.h"
#include "base/json.h"
#include "jinja/chat_template.h"
#include "tests/sanitizer.h"

namespace windlass {
namespace {

using testing::HasSubstr;

Json conversation(int messages, int bytes) {
    Json list = Json::array();
    for (int i = 0; i < messages; ++i)
        list.push_back({{"role", i % 2 == 0 ? "user" : "assistant"},
                        {"content", std::string(static_cast<size_t>(bytes), static_cast<char>('a' + i % 26))}});
    return list;
}

std::string refusal(const std::string& source, const Json& messages) {
    try {
        const ChatTemplate parsed = ChatTemplate::parse(source, "t.jinja");
        return "rendered: " + parsed.render({.messages = &messages}, {}, "rows.jsonl:7").text.substr(0, 100);
    } catch (const UserError& error) {
        EXPECT_TRUE(error.code() == ExitCode::data || error.code() == ExitCode::model);
        return error.what();
    }
}

// Of the process, in KiB: what it has in memory, and the most that it had since the last call; that is 0 where the
// system does not begin to count again.
struct ResidentMemory {
    int64_t now = 0, peak = 0;
};
ResidentMemory resident_memory() {
    ResidentMemory memory;
    std::ifstream status("/proc/self/status");
    for (std::string word; status >> word;) {
        if (word == "VmRSS:") status >> memory.now;
        if (word == "VmHWM:") status >> memory.peak;
    }
    std::ofstream again("/proc/self/clear_refs");
    if (!(again << "5" << std::flush)) memory.peak = 0;
    return memory;
}

TEST(HostileTemplates, AreOfEveryKind) {
    EXPECT_GE(fixtures::hostile_templates().size(), 115u);
}

TEST(HostileTemplates, AreRefusedInBoundedMemory) {
    const Json messages = conversation(2, 20);
    for (const auto& [name, source] : fixtures::hostile_templates()) {
        const int64_t before = resident_memory().now;
        EXPECT_THAT(refusal(source, messages), HasSubstr("t.jinja")) << name;
        // Values have 4 MiB and what a text needs while it grows is a few times as much; a sanitizer keeps what is
        // freed.
        constexpr int64_t kMostKiB = 48 << 10;
        if (!is_sanitized()) {
            EXPECT_LT(resident_memory().peak - before, kMostKiB) << name;
        }
    }
}

// Longer chats have more of everything, and the same templates are refused all the same.
TEST(HostileTemplates, AreRefusedOfLongChatsToo) {
    const Json messages = conversation(is_second_run() ? 10 : 100, 100);
    for (const auto& [name, source] : fixtures::hostile_templates())
        EXPECT_THAT(refusal(source, messages), HasSubstr("t.jinja")) << name;
}

TEST(TemplateLimits, FollowTheChat) {
    const TemplateLimits none = limits_for(0), some = limits_for(1000);
    EXPECT_EQ(none.work, 1 << 22);
    EXPECT_EQ(none.memory_bytes, 1 << 22);
    EXPECT_EQ(none.output_bytes, 1 << 20);
    EXPECT_EQ(some.work - none.work, 256'000);
    EXPECT_EQ(some.memory_bytes - none.memory_bytes, 128'000);
    EXPECT_EQ(some.output_bytes - none.output_bytes, 32'000);
}

// A template that reads every message for each of them: the work of short chats is enough, of long ones never.
TEST(TemplateLimits, AreOfTheChatAndOfNothingElse) {
    const std::string quadratic =
        "{% for m in messages %}{% for k in messages %}{% if k.role == m.role %}{% endif %}{% endfor %}{% endfor %}";
    EXPECT_EQ(refusal(quadratic, conversation(100, 20)), "rendered: ");
    EXPECT_THAT(refusal(quadratic, conversation(2000, 20)), HasSubstr("units of work"));
    // What is written for each byte of a chat may be long where the chat is.
    const std::string writes = "{% for m in messages %}{{ m.content }}{{ m.content }}{% endfor %}";
    EXPECT_THAT(refusal(writes, conversation(2000, 10'000)), testing::StartsWith("rendered: aaaa"));
    EXPECT_THAT(refusal("{{ 'a' * 999999 }}{{ 'a' * 999999 }}", conversation(2, 20)), HasSubstr("it writes more than"));
}

TEST(TemplateLimits, AreBrokenByTemplateBound) {
    const Json messages = conversation(2, 20);
    const auto render = [&](const char* source) {
        ChatTemplate::parse(source, "t.jinja").render({.messages = &messages}, {}, "rows.jsonl:7");
    };
    EXPECT_THROW(render("{{ 'a' * 2 ** 40 }}"), TemplateBound);
    EXPECT_THROW(render("{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}"),
                 TemplateBound);
    EXPECT_THROW(render("{% for a in range(99999) %}0123456789abcdef{% endfor %}"), TemplateBound);
    try {
        render("{{ 1 // 0 }}");
        ADD_FAILURE();
    } catch (const TemplateBound&) {
        ADD_FAILURE() << "a fault of the chat is no bound";
    } catch (const UserError&) {
    }
}

}  // namespace
}  // namespace windlass
