// chat.h: the chat template that verbs use.
#pragma once

#include "config/config.h"
#include "rows/chat_format.h"

namespace windlass {

// Of the configuration's model. Throws UserError(model) where there is none.
ChatFormat chat_format_of(const Config& config, const Tokenizer& tokenizer);

}  // namespace windlass
