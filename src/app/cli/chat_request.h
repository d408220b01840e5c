// chat_request.h: a conversation that another program keeps, as it sends it with each of its questions.
#pragma once

#include "base/json_fwd.h"
#include "infer/chat.h"

namespace windlass {

// "messages": objects with "role" (system, user, assistant) and "content", a text. UserError(usage) for anything else.
Json chat_messages_of(const Json& request);

// `usual`, with the request's "max_new_tokens", "temperature", "top_p", "top_k", "seed" and "stops". UserError(usage)
// for any other value.
ChatOptions chat_options_of(const Json& request, const ChatOptions& usual);

}  // namespace windlass
