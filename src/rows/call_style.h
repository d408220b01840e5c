// call_style.h: how a chat template reads an answer that calls tools. It is found by trying.
//
// Rows give a call's arguments as an object or as the text of one, and its content as null, empty or not at all. No
// form suits all templates: some print arguments with `tojson`, which would quote text a second time, and some join
// them to text, which an object is not.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/json_fwd.h"
#include "rows/message_form.h"

namespace windlass {

struct CallStyle {
    bool takes_text = false;   // arguments as text, and not as an object
    bool takes_null = false;   // "content": null
    bool takes_absent = true;  // no content
};

// What a template writes of messages and tools (null: none); nothing where it fails.
using TryTemplate = std::function<std::optional<std::string>(const Json& messages, const Json* tools)>;

CallStyle find_call_style(const TryTemplate& write);
// Whether it writes members of messages that it does not know, as those do that print whole messages.
bool writes_whole_messages(const TryTemplate& write);

// Gives each call a form that the template takes: the one that the row has, if it takes that.
void adapt_calls(Json& messages, const std::vector<MessageForm>& forms, const CallStyle& style);

}  // namespace windlass
