// Expressions: of tokenizers, of names of modules and parameters, and of tokens.
#include "base/utf8.h"
#include "config/module_pattern.h"
#include "config/param_group_text.h"
#include "rows/row_template.h"
#include "tests/fuzz/input_files.h"
#include "tests/fuzz/samples.h"
#include "tests/fuzz/targets.h"
#include "tokenizer/pattern.h"

namespace windlass {

void fuzz_expression(std::string_view input) {
    const std::vector<InputFile> parts = split_input(input, "expression");
    const std::string_view expression = parts.front().bytes, text = part_of(parts, "text");
    constexpr double kMost = 1024;
    ModulePattern module;
    ModuleToken token;
    ParamGroup group;
    use(read_module_pattern(expression, kMost, module));
    use(read_module_token(expression, token));
    if (read_param_group(expression, group).empty()) use(param_group_text(group));
    const Pattern pattern = Pattern::regex(expression, "expression");
    const std::string valid = to_valid_utf8(text);
    for (const Span& span : pattern.find_all(valid)) use(valid.substr(span.begin, span.end - span.begin));
    use(pattern.replace_all(valid, "ab", valid.size() * 4 + 64));
}

}  // namespace windlass
