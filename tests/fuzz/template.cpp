// Chat templates, with chats that they render.
#include "base/json.h"
#include "jinja/chat_template.h"
#include "tests/fuzz/input_files.h"
#include "tests/fuzz/samples.h"
#include "tests/fuzz/targets.h"

namespace windlass {
namespace {

constexpr std::string_view kChat = R"({"messages": [{"role": "system", "content": "Be brief."},
{"role": "user", "content": "hello\n"}, {"role": "assistant", "content": "", "tool_calls": [{"type": "function",
"function": {"name": "f", "arguments": {"a": [1, 2.5, null]}}}]}, {"role": "tool", "content": "7"},
{"role": "assistant", "content": "7", "reasoning_content": "so"}],
"tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]})";

}  // namespace

void fuzz_template(std::string_view input) {
    const std::vector<InputFile> parts = split_input(input, "template.jinja");
    const std::string_view given = part_of(parts, "chat.json");
    const Json chat = parse_json(given.empty() ? kChat : given, "chat.json", ExitCode::data);
    const ChatTemplate made = ChatTemplate::parse(parts.front().bytes, "template.jinja");
    const auto member = [&](const char* key) { return chat.is_object() && chat.contains(key) ? &chat[key] : nullptr; };
    const Json none = Json::array();
    const TemplateSettings settings{.special_tokens = {{"bos_token", "<s>"}, {"eos_token", "</s>"}}};
    for (const bool with_tools : {false, true}) {
        const ChatToRender request{.messages = member("messages") ? member("messages") : &none,
                                   .tools = with_tools ? member("tools") : nullptr,
                                   .add_generation_prompt = !with_tools};
        const RenderedChat rendered = made.render(request, settings, "chat.json");
        for (const auto& [begin, end] : rendered.generated) use(rendered.text.substr(begin, end - begin));
    }
}

}  // namespace windlass
