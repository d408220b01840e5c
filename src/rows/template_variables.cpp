#include "rows/template_variables.h"

#include <algorithm>

#include "base/error.h"
#include "base/printable.h"
#include "rows/jq_command.h"
#include "rows/message.h"
#include "rows/not_finite.h"
#include "rows/tool_call.h"

namespace windlass {
namespace {

constexpr const char* kKey = "chat_template_kwargs";

// Arguments of apply_chat_template. The first ones say what a row of another key says.
constexpr std::string_view kOwnKeys[] = {"messages", "conversation", "tools"};
constexpr std::string_view kArguments[] = {"chat_template",
                                           "add_generation_prompt",
                                           "continue_final_message",
                                           "tokenize",
                                           "padding",
                                           "truncation",
                                           "max_length",
                                           "return_tensors",
                                           "return_dict",
                                           "return_assistant_tokens_mask",
                                           "tokenizer_kwargs",
                                           "processor_kwargs"};

void refuse_arguments(const Json& variables, std::string_view where) {
    for (const auto& [key, value] : variables.items()) {
        const bool is_key = std::ranges::find(kOwnKeys, key) != std::end(kOwnKeys);
        if (!is_key && std::ranges::find(kArguments, key) == std::end(kArguments)) continue;
        const std::string member = fmt::format(".{}{}", kKey, jq_member(key));
        const std::string own = key == "tools" ? "tools" : "messages";
        UserError error(ExitCode::data, where, "\"{}\" has \"{}\", which is no variable of a template", kKey, key);
        throw error.hint(jq_command(where, is_key ? fmt::format(".{} = {} | del({})", own, member, member)
                                                  : fmt::format("del({})", member)) +
                         (key == "chat_template" ? ", and that template in chat_template: FILE" : ""));
    }
}

}  // namespace

Json template_variables(const Json& row, std::string_view where) {
    const Json* const given = find_member(row, {kKey});
    if (!given || is_nothing(*given)) return {};
    if (!given->is_object())
        throw UserError(ExitCode::data, where, "\"{}\" is {} and not an object", kKey, given->type_name())
            .hint(R"("chat_template_kwargs": {"enable_thinking": false})");
    refuse_not_finite_in(*given, kKey, where);
    Json variables = *given;
    drop_empty_members(variables);
    refuse_arguments(variables, where);
    return variables;
}

}  // namespace windlass
