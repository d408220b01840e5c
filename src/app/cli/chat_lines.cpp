#include <iostream>

#include "app/cli/chat.h"
#include "app/cli/chat_request.h"
#include "base/failure_json.h"
#include "base/json.h"
#include "base/units.h"
#include "session/signals.h"

namespace windlass {
namespace {

constexpr EventKind kReady{.name = "ready"};
constexpr EventKind kAnswer{.name = "answer"};
constexpr EventKind kObeyed{.name = "obeyed"};
constexpr EventKind kRefused{.name = "refused"};

std::string_view name_of(ReplyEnd end) {
    switch (end) {
        case ReplyEnd::model:
            return "model";
        case ReplyEnd::length:
            return "length";
        case ReplyEnd::interrupt:
            return "interrupt";
    }
    return "";
}

class LineChat {
  public:
    LineChat(Engine& engine, ChatSession& chat, VerbOutput& out) : engine_(engine), chat_(chat), out_(out) {}

    void run() {
        for (std::string line; !is_over_ && std::getline(std::cin, line);) {
            try {
                take(line);
            } catch (const UserError& error) {
                out_.tell(kRefused, failure_json(error.code(), error.what()));
            } catch (const MachineError& error) {  // of a file to save to
                out_.tell(kRefused, failure_json(error.code(), error.what()));
            }
        }
    }

  private:
    void take(const std::string& line) {
        if (std::ssize(line) > kQuestionBytesMax)
            throw UserError(ExitCode::usage, "line", "more than {}", format_bytes(kQuestionBytesMax));
        const Json json = parse_json(line, "line", ExitCode::usage);
        if (!json.is_object()) refuse();
        const std::string command = text_of(json, "command");
        if (json.contains("messages")) return answer_to(json);
        if (command.empty()) return json.contains("content") ? answer(text_of(json, "content")) : refuse();
        obey(command, json);
        out_.tell(kObeyed, {{"command", command}});
    }

    [[noreturn]] static void refuse() {
        throw UserError(ExitCode::usage, "line", "is neither a question nor a command").hint(R"({"content": "..."})");
    }

    // Empty where there is none.
    static std::string text_of(const Json& json, const char* key) {
        const auto found = json.find(key);
        if (found == json.end()) return "";
        if (!found->is_string()) throw UserError(ExitCode::usage, key, "is not a text");
        return found->get<std::string>();
    }

    void obey(const std::string& command, const Json& json) {
        if (command == "system") {
            chat_.set_system(text_of(json, "content"));
        } else if (command == "undo") {
            if (!chat_.undo()) throw UserError(ExitCode::usage, command, "there is nothing to take back");
        } else if (command == "reset") {
            while (chat_.undo()) {
            }
        } else if (command == "save") {
            save_chat(chat_, text_of(json, "file"));
        } else if (command == "quit") {
            is_over_ = true;
        } else {
            throw UserError(ExitCode::usage, "command", "there is no \"{}\"", command)
                .hint("one of: system, undo, reset, save, quit");
        }
    }

    void answer(const std::string& question) {
        tell_answer([&](const ChatSession::OnText& on_text) { return chat_.answer(question, on_text); });
    }

    void answer_to(const Json& json) {
        const ChatOptions options = chat_options_of(json, chat_.options());
        const Json messages = chat_messages_of(json);
        tell_answer([&](const ChatSession::OnText& on_text) { return chat_.answer_to(messages, options, on_text); });
    }

    void tell_answer(const MakeAnswer& make) {
        const Reply reply = ask(engine_, make, [&](const std::string& text) {
            if (!text.empty()) out_.tell(kTextEvent, {{"delta", text}});
        });
        const GenerateResult& result = reply.answer.result;
        out_.tell(kAnswer, {{"content", reply.answer.text},
                            {"tokens", result.ids.size()},
                            {"prompt_tokens", reply.answer.prompt_tokens},
                            {"reused_tokens", reply.answer.reused_tokens},
                            {"prefill_seconds", result.prefill_seconds},
                            {"decode_seconds", result.decode_seconds},
                            {"ended_by", name_of(reply.end)}});
    }

    Engine& engine_;
    ChatSession& chat_;
    VerbOutput& out_;
    bool is_over_ = false;
};

}  // namespace

void chat_by_lines(Engine& engine, ChatSession& chat, int64_t capacity, VerbOutput& out) {
    const LateInterruptScope late;
    out.tell(kReady, {{"capacity", capacity}});
    LineChat(engine, chat, out).run();
}

}  // namespace windlass
