#include "train/next_commands.h"

#include <algorithm>
#include <array>

#include "base/file_error.h"
#include "base/log.h"
#include "base/shell_word.h"
#include "config/model_place.h"
#include "persist/export.h"
#include "state/checkpoint.h"

namespace windlass {
namespace {

constexpr const char* kPlaceholder = "OWNER/NAME";  // of a repository on the Hub

std::string in_run(const std::string& run_folder, std::string_view name) {
    return fmt::format("{}{}{}", run_folder, run_folder.ends_with('/') ? "" : "/", name);
}

std::string named_after(std::string run_folder, std::string_view ending) {
    while (run_folder.size() > 1 && run_folder.ends_with('/')) run_folder.pop_back();
    return fmt::format("{}{}", run_folder, ending);
}

// A name for a server, of the letters that each of them takes.
std::string served_name(const std::string& run_folder) {
    const std::string path = named_after(run_folder, "");
    std::string made;
    for (const char c : path.substr(path.rfind('/') + 1)) {
        const bool fits = c >= 0 && (std::isalnum(c) || c == '-' || c == '_');
        made += fits ? static_cast<char>(std::tolower(c)) : '-';
    }
    return made.find_first_not_of("-_") == made.npos ? "tuned" : made.substr(made.find_first_not_of("-_"));
}

// What vLLM serves next to its base: LoRA without more, of a rank up to the largest that it knows.
bool is_served_as_lora(const AdapterSettings& adapter) {
    return adapter.kind == "lora" && !adapter.has_magnitudes && adapter.whole.empty() && adapter.tokens.empty();
}

std::string serve_command(const Session& session, const std::string& run_folder, const std::string& final_folder) {
    constexpr std::array<int64_t, 8> kRanks = {8, 16, 32, 64, 128, 256, 320, 512};  // --max-lora-rank
    constexpr int64_t kUsualRank = 16;
    if (!ends_as_adapter(session.model)) return shell_command(std::vector<std::string>{"vllm", "serve", final_folder});
    const AdapterSettings& adapter = *session.model.adapter;
    if (!is_served_as_lora(adapter)) return "";
    int64_t rank = adapter.rank;
    for (const auto& [layer, own] : adapter.layers) rank = std::max(rank, own.rank);
    const auto* const most = std::ranges::find_if(kRanks, [&](int64_t each) { return each >= rank; });
    if (most == kRanks.end()) return "";
    std::vector<std::string> words = {"vllm", "serve", name_of_model(session.config.model).name, "--enable-lora"};
    if (rank > kUsualRank) words.insert(words.end(), {"--max-lora-rank", fmt::format("{}", *most)});
    words.insert(words.end(), {"--lora-modules", fmt::format("{}={}", served_name(run_folder), final_folder)});
    return shell_command(words);
}

// A Modelfile in the current folder, and a model made of it. Ollama reads the path to the end of the line.
std::string ollama_command(const std::string& run_folder, const std::string& gguf) {
    const std::string path = gguf.starts_with('/') ? gguf : "./" + gguf;
    return fmt::format("echo {} > Modelfile && {}", shell_word("FROM " + path),
                       shell_command(std::vector<std::string>{"ollama", "create", served_name(run_folder)}));
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
    const bool writes_gguf = has_source && has_gguf(files, session, gguf);
    if (writes_gguf)
        commands.push_back(
            {"export",
             is_adapter
                 ? shell_command(std::vector<std::string>{"windlass", "export", run_folder, "--merged", "--to", gguf})
                 : shell_command(std::vector<std::string>{"windlass", "export", final_folder, "--to", gguf})});
    else if (has_source && is_adapter && is_merged(session, /*as_gguf=*/false))
        commands.push_back(
            {"export", shell_command(std::vector<std::string>{"windlass", "export", run_folder, "--merged", "--to",
                                                              named_after(run_folder, "-merged")})});
    if (writes_gguf) commands.push_back({"ollama", ollama_command(run_folder, gguf)});
    if (std::string serve = serve_command(session, run_folder, final_folder); !serve.empty())
        commands.push_back({"serve", std::move(serve)});
    commands.push_back({"upload", shell_command(std::vector<std::string>{"hf", "upload", kPlaceholder, final_folder})});
    return commands;
}

void tell_next(const std::vector<NextCommand>& commands) {
    for (const NextCommand& each : commands)
        log_info("{}{}", &each == &commands.front() ? "Next: " : "      ", each.command);
}

}  // namespace windlass
