#include "train/next_commands.h"

#include "base/file_error.h"
#include "base/log.h"
#include "base/shell_word.h"
#include "persist/export.h"
#include "state/checkpoint.h"

namespace windlass {
namespace {

constexpr const char* kPlaceholder = "NAME";  // of a repository on the Hub

std::string in_run(const std::string& run_folder, std::string_view name) {
    return fmt::format("{}{}{}", run_folder, run_folder.ends_with('/') ? "" : "/", name);
}

std::string named_after(std::string run_folder, std::string_view ending) {
    while (run_folder.size() > 1 && run_folder.ends_with('/')) run_folder.pop_back();
    return fmt::format("{}{}", run_folder, ending);
}

// The same questions as an export asks before it writes.
bool is_merged(const Session& session, bool as_gguf) {
    try {
        if (ends_as_adapter(session.model)) require_merged(session.model, session.config.model, as_gguf);
        return true;
    } catch (const UserError&) {
        return false;
    }
}

bool has_gguf(FileSystem& files, const Session& session, const std::string& target) {
    if (!is_merged(session, /*as_gguf=*/true)) return false;
    try {
        const OutputSource source = output_of(session);
        return gguf_output(files, {.target = target}, source.base_folder, source.model, source.chat_template)
            .has_value();
    } catch (const UserError&) {
        return false;
    }
}

}  // namespace

std::string resume_command(const std::string& run_folder) {
    return shell_command(std::vector<std::string>{"windlass", "train", in_run(run_folder, "run.yaml"), "--resume"});
}

std::string overwrite_command(const std::string& run_folder) {
    return shell_command(std::vector<std::string>{"windlass", "train", in_run(run_folder, "run.yaml"), "--overwrite"});
}

std::vector<NextCommand> next_commands(FileSystem& files, const Session& session, const std::string& run_folder) {
    const std::string final_folder = in_run(run_folder, kFinalName), gguf = named_after(run_folder, ".gguf");
    std::vector<NextCommand> commands;
    if (session.data && session.data->has_chats())
        commands.push_back({"chat", shell_command(std::vector<std::string>{"windlass", "chat", final_folder})});
    else
        commands.push_back({"generate", shell_command(std::vector<std::string>{"windlass", "generate", final_folder,
                                                                               "--prompt", "Once upon a time"})});
    // An adapter is merged from a checkpoint: its folder alone has no state.
    const bool is_adapter = ends_as_adapter(session.model);
    const bool has_source = !is_adapter || !list_checkpoints(files, run_folder).empty();
    if (has_source && has_gguf(files, session, gguf))
        commands.push_back(
            {"export",
             is_adapter
                 ? shell_command(std::vector<std::string>{"windlass", "export", run_folder, "--merged", "--to", gguf})
                 : shell_command(std::vector<std::string>{"windlass", "export", final_folder, "--to", gguf})});
    else if (has_source && is_adapter && is_merged(session, /*as_gguf=*/false))
        commands.push_back(
            {"export", shell_command(std::vector<std::string>{"windlass", "export", run_folder, "--merged", "--to",
                                                              named_after(run_folder, "-merged")})});
    commands.push_back({"upload", shell_command(std::vector<std::string>{"hf", "upload", kPlaceholder, final_folder})});
    return commands;
}

void tell_next(const std::vector<NextCommand>& commands) {
    for (const NextCommand& each : commands)
        log_info("{}{}", &each == &commands.front() ? "Next: " : "      ", each.command);
}

}  // namespace windlass
