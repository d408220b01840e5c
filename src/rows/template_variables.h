// template_variables.h: what a row gives its chat template besides the conversation.
#pragma once

#include <string_view>

#include "base/json.h"

namespace windlass {

// The members of "chat_template_kwargs", which the template sees as variables: an object, or null without any.
// Members that are null are left out, as tables give each row those of all. Throws UserError(data) naming `where`:
// no object, and what is an argument of transformers' apply_chat_template and no variable.
Json template_variables(const Json& row, std::string_view where);

}  // namespace windlass
