// render_template FILE: renders chats as tools/reference/check_templates.py asks for, which compares with transformers.
//
// FILE is JSON: {"templates": {name: text}, "jobs": [{"template": name, "messages": ..., "tools": ..., "extra": {...},
// "add_generation_prompt": bool}], "special_tokens": {name: text}, "now_seconds": n}. Prints a list with one entry a
// job: {"text": ..., "generated": [[begin, end], ...]} in bytes, or {"error": ...}.
#include <fmt/format.h>

#include <cstdio>

#include "base/file.h"
#include "base/json.h"
#include "jinja/chat_template.h"

namespace windlass {
namespace {

constexpr int64_t kJobsBytesMax = int64_t{1} << 30;

Json rendered(const ChatTemplate& chat_template, const Json& job, const TemplateSettings& settings) {
    ChatToRender chat{.messages = &job.at("messages")};
    if (job.contains("tools") && !job["tools"].is_null()) chat.tools = &job["tools"];
    if (job.contains("extra")) chat.extra = &job["extra"];
    chat.add_generation_prompt = job.value("add_generation_prompt", false);
    const RenderedChat result = chat_template.render(chat, settings, "chat");
    return {{"text", result.text}, {"generated", result.generated}};
}

int render_all(const std::string& path) {
    const Json list = parse_json(read_text(real_files(), path, kJobsBytesMax), path, ExitCode::data);
    TemplateSettings settings;
    settings.now_seconds = list.value("now_seconds", int64_t{0});
    for (const auto& [name, text] : list.at("special_tokens").items()) settings.special_tokens[name] = text;
    std::map<std::string, ChatTemplate> templates;
    std::map<std::string, std::string> refused;
    for (const auto& [name, text] : list.at("templates").items()) {
        try {
            templates.emplace(name, ChatTemplate::parse(text.get<std::string>(), name));
        } catch (const UserError& error) {
            refused.emplace(name, error.what());
        }
    }
    Json results = Json::array();
    for (const Json& job : list.at("jobs")) {
        const auto name = job.at("template").get<std::string>();
        try {
            if (refused.contains(name))
                results.push_back({{"error", refused[name]}});
            else
                results.push_back(rendered(templates.at(name), job, settings));
        } catch (const UserError& error) {
            results.push_back({{"error", error.what()}});
        }
    }
    fmt::print("{}\n", results.dump());
    return 0;
}

}  // namespace
}  // namespace windlass

int main(int count, char** arguments) {
    if (count != 2) return 2;
    try {
        return windlass::render_all(arguments[1]);
    } catch (const std::exception& error) {
        fmt::print(stderr, "{}\n", error.what());
        return 1;
    }
}
