#include "app/cli/hub_download.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "base/shell_word.h"
#include "session/signals.h"

namespace windlass {
namespace {

using Words = std::vector<std::string>;

constexpr std::array kPrograms = {"hf", "huggingface-cli"};
constexpr int kNotFound = 127, kNotRun = 126;  // as a shell's
// What a model folder is made of, and what a trained copy takes along; neither pickles nor files of other programs.
constexpr std::array kTextPatterns = {"*.json", "*.jinja", "*.txt", "*.model", "*.md", "LICENSE*", "NOTICE*"};
constexpr const char* kWeights = "*.safetensors";
constexpr const char* kSecondCopy = "consolidated*";  // of the weights, in a layout that transformers does not read

std::vector<std::string> patterns_of(HubFiles which) {
    std::vector<std::string> patterns(kTextPatterns.begin(), kTextPatterns.end());
    if (which == HubFiles::weights) patterns.emplace_back(kWeights);
    return patterns;
}

// Since version 1 of huggingface_hub each --include has one pattern; before, the last --include had them all.
enum class IncludeForm : uint8_t { one_each, all_in_one };

Words download_words(const HubModel& model, HubFiles which, IncludeForm form) {
    Words words = {kPrograms[0], "download", model.id, "--cache-dir", hub_cache_folder()};
    if (!model.revision.empty()) words.insert(words.end(), {"--revision", model.revision});
    words.insert(words.end(), {"--exclude", kSecondCopy});
    if (form == IncludeForm::all_in_one) words.emplace_back("--include");
    for (const std::string& pattern : patterns_of(which)) {
        if (form == IncludeForm::one_each) words.emplace_back("--include");
        words.push_back(pattern);
    }
    return words;
}

// After fork(), so only calls that are safe there. The child must not outlive this process, read its stdin, or write
// to its stdout, which belongs to the verb's result.
[[noreturn]] void become_first(const std::array<std::vector<char*>, kPrograms.size()>& commands,
                               pid_t parent) noexcept {
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent) _exit(kNotRun);
    give_back_signals();
    for (const int number : {SIGPIPE, SIGXFSZ}) signal(number, SIG_DFL);
    dup2(open("/dev/null", O_RDONLY | O_CLOEXEC), STDIN_FILENO);
    dup2(STDERR_FILENO, STDOUT_FILENO);
    close_range(STDERR_FILENO + 1, ~0U, 0);
    for (const std::vector<char*>& command : commands) execvp(command[0], command.data());
    _exit(errno == ENOENT ? kNotFound : kNotRun);
}

// The status of the first of the programs that there is, as waitpid() gives it.
int status_of_child(const Words& words) {
    std::array<Words, kPrograms.size()> texts;
    std::array<std::vector<char*>, kPrograms.size()> commands;
    for (size_t i = 0; i < kPrograms.size(); ++i) {
        texts[i] = words;
        texts[i][0] = kPrograms[i];
        for (std::string& word : texts[i]) commands[i].push_back(word.data());
        commands[i].push_back(nullptr);
    }
    const pid_t parent = getpid(), child = fork();
    if (child < 0) throw MachineError("fork", kPrograms[0], errno);
    if (child == 0) become_first(commands, parent);
    int status = 0;
    while (waitpid(child, &status, 0) < 0) {
        if (errno != EINTR) throw MachineError("waitpid", kPrograms[0], errno);
    }
    return status;
}

void run_download(const HubModel& model, const Words& words) {
    log_info("downloading {}: {}", model.id, shell_command(words));
    const int status = status_of_child(words);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return;
    if (WIFEXITED(status) && WEXITSTATUS(status) == kNotFound)
        throw UserError(ExitCode::model, model.id, "cannot be downloaded: there is no program \"{}\" in PATH",
                        kPrograms[0])
            .hint("pip install huggingface_hub, or pipx install huggingface_hub");
    const std::string end = WIFSIGNALED(status) ? fmt::format("was ended by signal {}", WTERMSIG(status))
                                                : fmt::format("ended with exit code {}", WEXITSTATUS(status));
    throw UserError(ExitCode::model, model.id, "was not downloaded: {} {}", kPrograms[0], end)
        .hint(fmt::format("{} auth login, if its message above asks for it; the same command again continues",
                          kPrograms[0]));
}

}  // namespace

void download_model(FileSystem& files, const std::string& name, HubFiles which) {
    const std::optional<HubModel> model = hub_model_of(files, name);
    if (!model || is_in_cache(files, *model, which)) return;
    if (hub_cache_folder().empty())
        throw UserError(ExitCode::usage, "--download", "there is no folder for the Hugging Face cache")
            .hint("HF_HOME=DIR before the command");
    run_download(*model, download_words(*model, which, IncludeForm::one_each));
    // What took the last pattern alone has left out config.json.
    if (!is_in_cache(files, *model, HubFiles::configuration))
        run_download(*model, download_words(*model, which, IncludeForm::all_in_one));
    if (is_in_cache(files, *model, which)) return;
    const bool has_config = is_in_cache(files, *model, HubFiles::configuration);
    throw UserError(ExitCode::model, model->id, "{} ended without an error, but the cache {} has no {} of it",
                    kPrograms[0], hub_cache_folder(), has_config ? "weights (*.safetensors)" : "config.json")
        .hint("a model with both on its page at huggingface.co");
}

}  // namespace windlass
