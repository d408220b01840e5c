// completions.h: OpenAI's chat completions, for programs that compare models (lm_eval's local-chat-completions, Kiln)
// and know no other interface. One answer of a model at a time; a model is loaded with its first request.
#pragma once

#include <map>
#include <string>

#include "base/json_fwd.h"
#include "ui/chats.h"

namespace windlass {

// GET /v1/models, of the models of places.h.
Json openai_models(const Json& models);

class Completions {
  public:
    Completions(Chats& chats, const Root& root) : chats_(chats), root_(root) {}

    // POST /v1/chat/completions: model, messages, and what of max_tokens (or max_completion_tokens), temperature,
    // top_p, seed, stop and stream is there; other members are ignored. A request waits while the model answers another
    // one.
    Task<> answer(HttpExchange& exchange);

  private:
    Task<std::string> chat_with(std::string model, const bool& is_gone);

    Chats& chats_;
    const Root& root_;
    std::map<std::string, std::string> chats_by_model_;  // ids
};

}  // namespace windlass
