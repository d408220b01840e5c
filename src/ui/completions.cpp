#include "ui/completions.h"

#include <chrono>

#include "ui/guard.h"
#include "ui/json_line.h"

namespace windlass {
namespace {

constexpr std::chrono::milliseconds kTurnPause(20);
constexpr int kTurnPauses = 30'000;  // ten minutes

int64_t seconds_now() {
    return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch())
        .count();
}

void copy_member(const Json& from, const char* key, Json& to, const char* name) {
    if (const auto found = from.find(key); found != from.end() && !found->is_null()) to[name] = *found;
}

// What `windlass chat` reads (docs/guide/json.md); it checks the values.
std::string line_of_request(const Json& request) {
    if (!request.contains("messages")) throw HttpRefusal(400, "messages", "is missing");
    Json line;
    copy_member(request, "messages", line, "messages");
    copy_member(request, "max_tokens", line, "max_new_tokens");
    copy_member(request, "max_completion_tokens", line, "max_new_tokens");
    copy_member(request, "temperature", line, "temperature");
    copy_member(request, "top_p", line, "top_p");
    copy_member(request, "seed", line, "seed");
    copy_member(request, "stop", line, "stops");
    if (line.contains("stops") && line["stops"].is_string()) line["stops"] = Json::array({line["stops"]});
    return json_line(line);
}

// The frame of one answer, whose parts have the same id.
class AnswerForm {
  public:
    explicit AnswerForm(std::string model) : id_("chatcmpl-" + make_token()), model_(std::move(model)) {}

    std::string whole(const Json& answer) const {
        const auto prompt = answer.value("prompt_tokens", int64_t{0}), written = answer.value("tokens", int64_t{0});
        Json json = frame("chat.completion");
        json["choices"] = Json::array({{{"index", 0},
                                        {"message", {{"role", "assistant"}, {"content", answer.value("content", "")}}},
                                        {"finish_reason", reason(answer)}}});
        json["usage"] = {{"prompt_tokens", prompt}, {"completion_tokens", written}, {"total_tokens", prompt + written}};
        return json_line(json) + "\n";
    }
    std::string part(const std::string& text) const { return chunk({{"content", text}}, Json()); }
    std::string end(const Json& answer) const {
        return chunk(Json::object(), Json(reason(answer))) + "data: [DONE]\n\n";
    }

  private:
    static std::string reason(const Json& answer) {
        return answer.value("ended_by", "") == "length" ? "length" : "stop";
    }
    Json frame(const char* object) const {
        return {{"id", id_}, {"object", object}, {"created", created_}, {"model", model_}};
    }
    std::string chunk(const Json& delta, const Json& reason) const {
        Json json = frame("chat.completion.chunk");
        json["choices"] = Json::array({{{"index", 0}, {"delta", delta}, {"finish_reason", reason}}});
        return "data: " + json_line(json) + "\n\n";
    }

    const std::string id_, model_;
    const int64_t created_ = seconds_now();
};

[[noreturn]] void refuse(const Json& event) {
    const int status = event.value("code", 1) == static_cast<int>(ExitCode::internal) ? 500 : 400;
    throw HttpRefusal(status, event.value("place", "chat"), "{}", event.value("text", ""));
}

Json event_json(const std::string& line) {
    return parse_json(line, "event", ExitCode::internal);
}

}  // namespace

Json openai_models(const Json& models) {
    Json data = Json::array();
    for (const Json& each : models)
        data.push_back({{"id", each["model"]}, {"object", "model"}, {"created", 0}, {"owned_by", each["from"]}});
    return {{"object", "list"}, {"data", data}};
}

// A conversation with the model that writes nothing now; empty if the client is gone before.
Task<std::string> Completions::chat_with(std::string model, const bool& is_gone) {
    const std::string path = root_.checked(model, "model");
    std::erase_if(chats_by_model_, [&](const auto& each) { return !chats_.has(each.second); });
    for (int waited = 0; chats_by_model_.contains(model); ++waited) {
        const std::string id = chats_by_model_[model];
        if (is_gone) co_return "";
        if (!chats_.has(id)) break;
        if (!chats_.is_busy(id)) co_return id;
        if (waited == kTurnPauses) throw HttpRefusal(429, "model", "{} has been busy for ten minutes", model);
        co_await pause(kTurnPause);
    }
    Json last;
    const TakeEvent take = [&](const std::string& line) -> Task<> {
        last = event_json(line);
        co_return;
    };
    const std::string id = Chats::new_id();
    chats_by_model_[model] = id;
    const bool is_ready = co_await chats_.begin(id, words_of("chat", "model=" + path), "", take);
    if (!is_ready) refuse(last);
    co_return id;
}

Task<> Completions::answer(HttpExchange& exchange) {
    const Json request = body_of(exchange);
    const std::string line = line_of_request(request), model = text_member(request, "model");
    const bool streams = flag_member(request, "stream");
    bool is_gone = false;
    std::string id;  // while its answer is written
    exchange.when_gone([&] {
        is_gone = true;
        if (!id.empty()) chats_.interrupt(id);
    });
    std::string free = co_await chat_with(model, is_gone);
    if (is_gone) throw HttpGone();
    id = std::move(free);
    const AnswerForm form(model);
    bool has_begun = false;  // what is refused is an answer of another status
    Json last;
    const TakeEvent take = [&](const std::string& told) -> Task<> {
        last = event_json(told);
        if (!streams || event_of(told) != "text") co_return;
        if (!std::exchange(has_begun, true)) co_await exchange.begin_parts("text/event-stream");
        co_await exchange.send_part(form.part(last.value("delta", "")));
    };
    const std::string end = co_await chats_.say(id, line, take);
    if (end != "answer") refuse(last);
    if (streams) {
        if (!has_begun) co_await exchange.begin_parts("text/event-stream");
        co_await exchange.send_part(form.end(last));
    } else {
        HttpReply reply;
        reply.body = form.whole(last);
        co_await exchange.send(std::move(reply));
    }
}

}  // namespace windlass
