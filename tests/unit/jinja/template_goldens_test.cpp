// Frozen renderings of transformers and jinja2 (tools/reference/template_goldens.py).
#include <gtest/gtest.h>

#include "base/json.h"
#include "jinja/chat_template.h"
#include "tests/place.h"
#include "tests/unit/tokenizer/fixtures.h"

namespace windlass {
namespace {

using Spans = std::vector<std::pair<size_t, size_t>>;

windlass::Json template_golden(const std::string& name) {
    const std::string path = source_dir() + "/tests/golden/templates/" + name;
    return parse_json(fixtures::read(path), path, ExitCode::data);
}

std::string fnv1a(std::string_view text) {
    uint64_t value = 0xCBF29CE484222325;
    for (const char c : text) value = (value ^ static_cast<unsigned char>(c)) * 0x100000001B3;
    return fmt::format("{:016x}", value);
}

// The twenty conversations, and what they are rendered with.
struct Chats {
    windlass::Json file = template_golden("chats.json");
    TemplateSettings settings;

    Chats() {
        settings.now_seconds = file["now_seconds"].get<int64_t>();
        for (const auto& [name, text] : file["special_tokens"].items()) settings.special_tokens[name] = text;
    }
    const windlass::Json& list() const { return file["chats"]; }

    // Nothing where the template refuses the chat.
    std::optional<RenderedChat> render(const ChatTemplate& chat_template, const windlass::Json& chat) const {
        ChatToRender request{.messages = &chat["messages"]};
        if (chat.contains("tools")) request.tools = &chat["tools"];
        if (chat.contains("extra")) request.extra = &chat["extra"];
        request.add_generation_prompt = chat.value("add_generation_prompt", false);
        try {
            return chat_template.render(request, settings, "chat");
        } catch (const UserError& error) {
            return std::nullopt;
        }
    }
};

TEST(TemplateGoldens, OwnTemplatesWithEveryConstruct) {
    const Chats chats;
    const windlass::Json own = template_golden("own.json");
    for (const auto& [name, golden] : own.items()) {
        const ChatTemplate chat_template = ChatTemplate::parse(golden["template"].get<std::string>(), name);
        ASSERT_EQ(golden["rendered"].size(), 20u);
        for (size_t i = 0; i < chats.list().size(); ++i) {
            const windlass::Json& wanted = golden["rendered"][i];
            const std::optional<RenderedChat> got = chats.render(chat_template, chats.list()[i]);
            ASSERT_EQ(got.has_value(), !wanted.is_null()) << name << ": " << chats.list()[i]["name"];
            if (!got) continue;
            EXPECT_EQ(got->text, wanted["text"].get<std::string>()) << name << ": " << chats.list()[i]["name"];
            EXPECT_EQ(got->generated, wanted["generated"].get<Spans>()) << name << ": " << chats.list()[i]["name"];
        }
    }
}

TEST(TemplateGoldens, PublishedTemplates) {
    WINDLASS_NEEDS_SHARED_DATA("chat-templates/SOURCE.txt");
    const Chats chats;
    const windlass::Json published = template_golden("published.json");
    for (const auto& [name, golden] : published.items()) {
        const std::string source = fixtures::read(fixtures::shared("chat-templates/" + name));
        ASSERT_EQ(fnv1a(source), golden["template"].get<std::string>()) << name;
        const ChatTemplate chat_template = ChatTemplate::parse(source, name);
        for (size_t i = 0; i < chats.list().size(); ++i) {
            const windlass::Json& wanted = golden["rendered"][i];
            const std::optional<RenderedChat> got = chats.render(chat_template, chats.list()[i]);
            ASSERT_EQ(got.has_value(), !wanted.is_null()) << name << ": " << chats.list()[i]["name"];
            if (!got) continue;
            EXPECT_EQ(fnv1a(got->text), wanted.get<std::string>()) << name << ": " << chats.list()[i]["name"];
        }
    }
}

// A case: the index of its context, the template, and its text and spans, null for what jinja2 cannot render.
TEST(TemplateGoldens, TwoThousandGeneratedTemplates) {
    const windlass::Json golden = template_golden("generated.json");
    const windlass::Json no_messages = windlass::Json::array();
    TemplateSettings settings;
    settings.now_seconds = template_golden("chats.json")["now_seconds"].get<int64_t>();
    ASSERT_EQ(golden["cases"].size(), 2000u);
    for (const windlass::Json& one : golden["cases"]) {
        const auto source = one[1].get<std::string>();
        const windlass::Json& context = golden["contexts"][one[0].get<size_t>()];
        std::string error;
        RenderedChat got;
        try {
            got = ChatTemplate::parse(source, "generated")
                      .render({.messages = &no_messages, .extra = &context}, settings, "chat");
        } catch (const UserError& refused) {
            error = refused.what();
        }
        ASSERT_EQ(error.empty(), !one[2].is_null()) << one[1] << "\n" << error;
        if (!error.empty()) continue;
        EXPECT_EQ(got.text, one[2].get<std::string>()) << one[1];
        EXPECT_EQ(got.generated, one[3].get<Spans>()) << one[1];
    }
}

}  // namespace
}  // namespace windlass
