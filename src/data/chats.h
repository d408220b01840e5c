// chats.h: how the conversations of a run's files are written: by which template, on which date.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/file.h"
#include "config/config.h"
#include "rows/chat_format.h"

namespace windlass {

// The chat_template of the configuration: nothing if it is none, or if it is auto and the model has none. An adapter's
// folder may have its own, with which it was trained. It prints template_date, or today's, in local time. Throws
// UserError(model) for a template that cannot be read.
std::optional<ChatFormat> open_chat_format(FileSystem& files, const Config& config, const Tokenizer& tokenizer);

// The same for these data files: nothing, too, where their first rows are no conversations. Says what is used; where
// Alpaca's rows come in the classic prompt although they might be chats, that.
std::optional<ChatFormat> open_chats_of(FileSystem& files, const Config& config, const Tokenizer& tokenizer,
                                        const std::vector<std::string>& paths);

// The template of a model folder (find_chat_template), whose text may be written into other files. UserError(model) for
// one that a link takes from elsewhere.
std::optional<ChatTemplateSource> copyable_template(FileSystem& files, const std::string& folder);

// The text of a template of its own that a folder has, a run's or an adapter's; empty where it has none.
// UserError(model) for a link out of it.
std::string template_beside(FileSystem& files, const std::string& folder);

// The same of the adapter that a run begins with.
std::string adapters_template(FileSystem& files, const Config& config);

}  // namespace windlass
