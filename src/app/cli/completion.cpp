#include "app/cli/outline.h"
#include "app/cli/output.h"
#include "app/cli/shells.h"
#include "app/cli/verbs.h"
#include "app/cli/words.h"
#include "base/json.h"
#include "config/config_help.h"

namespace windlass {

std::string shown_text(std::string_view text) {
    constexpr size_t kWidth = 64;
    const std::vector<std::string> lines = wrapped(text, kWidth);
    return lines.size() == 1 ? lines[0] : lines[0] + " ...";
}

std::string single_quoted(std::string_view text) {
    std::string quoted = "'";
    for (const char c : text) quoted += c == '\'' ? "'\\''" : std::string(1, c);
    return quoted + "'";
}

ExitCode run_completion(const CompletionArgs& args, const Outline& outline, VerbOutput& out) {
    const std::string script = args.shell == "bash"  ? bash_completion(outline)
                               : args.shell == "zsh" ? zsh_completion(outline)
                                                     : fish_completion(outline);
    if (out.is_text())
        print_result(script);
    else
        out.result({{"shell", args.shell}, {"script", script}});
    return ExitCode::ok;
}

}  // namespace windlass
