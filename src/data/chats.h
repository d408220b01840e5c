// chats.h: how the conversations of a run's files are written: by which template, on which date.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/file.h"
#include "config/config.h"
#include "text/chat_format.h"

namespace windlass {

// chat_template as the configuration says it: nothing where it is none, or auto and the model has none. `date` as
// ChatFormat takes it. Throws UserError(model) for a template that cannot be read.
std::optional<ChatFormat> open_chat_format(FileSystem& files, const Config& config, const Tokenizer& tokenizer,
                                           const std::string& date);

// The same for these data files: nothing, too, where their first rows are no conversations. Says what is used; where
// Alpaca's rows come in the classic prompt although they might be chats, that.
std::optional<ChatFormat> open_chats_of(FileSystem& files, const Config& config, const Tokenizer& tokenizer,
                                        const std::vector<std::string>& paths);

// Today's, in local time, as year-month-day.
std::string today();

}  // namespace windlass
