#include "infer/chat.h"

#include <editline/readline.h>
#include <unistd.h>

#include <clocale>
#include <cstdlib>
#include <iostream>

#include "app/cli/chat.h"
#include "app/cli/output.h"
#include "app/cli/verbs.h"
#include "app/cli/words.h"
#include "base/log.h"
#include "base/units.h"
#include "data/chats.h"
#include "infer/inference.h"
#include "session/signals.h"

namespace windlass {
namespace {

constexpr int kHistoryLines = 1000;
constexpr int64_t kUsualCapacity = 4096;  // keys and values of a model's whole context may be more than its weights
constexpr int64_t kPromptTokens = 256;    // as generate() feeds them

constexpr const char* kCommands =
    "/system TEXT   the system message of the conversation; without TEXT none\n"
    "/undo          take back the last question and its answer\n"
    "/reset         forget everything but /system\n"
    "/save FILE     add the conversation to FILE, a row of training data\n"
    "/quit          leave; so do Ctrl-D, and Ctrl-C while nothing is written\n"
    "A line that ends in \\ continues on the next one. Ctrl-C ends an answer.\n";

// What a person types: lines, some continued on the next.
class Questions {
  public:
    explicit Questions(bool is_terminal) : is_terminal_(is_terminal) {
        if (!is_terminal_) return;
        std::setlocale(LC_CTYPE, "");  // what is typed may be more than ASCII
        ::using_history();
        ::stifle_history(kHistoryLines);
    }

    // False at the end.
    bool next(std::string& text) {
        text.clear();
        for (std::string line; read_line(line, text.empty() ? "> " : "  ");) {
            const bool goes_on = line.ends_with('\\');
            if (goes_on) line.pop_back();
            text += line;
            if (std::ssize(text) > kQuestionBytesMax)
                throw UserError(ExitCode::usage, "question", "more than {}", format_bytes(kQuestionBytesMax));
            if (!goes_on) return true;
            text += '\n';
        }
        return !text.empty();
    }

  private:
    // In a terminal with editing and history, as shells have them.
    bool read_line(std::string& line, const char* prompt) const {
        if (!is_terminal_) return static_cast<bool>(std::getline(std::cin, line));
        char* const typed = ::readline(prompt);
        if (typed == nullptr) return false;
        line = typed;
        std::free(typed);
        if (!line.empty()) ::add_history(line.c_str());
        return true;
    }

    bool is_terminal_;
};

// The rest of a line after a command and its spaces; nothing if the line is not this command.
std::optional<std::string> argument(const std::string& line, std::string_view command) {
    if (!line.starts_with(command)) return std::nullopt;
    const std::string rest = line.substr(command.size());
    if (!rest.empty() && rest[0] != ' ') return std::nullopt;
    const size_t begin = rest.find_first_not_of(' ');
    return begin == std::string::npos ? "" : rest.substr(begin);
}

class Chatting {
  public:
    Chatting(Engine& engine, ChatSession& chat, bool is_terminal)
        : engine_(engine), chat_(chat), questions_(is_terminal) {}

    void run() {
        for (std::string line; !is_over_ && questions_.next(line);) {
            try {
                if (line.starts_with('/'))
                    obey(line);
                else if (!line.empty())
                    answer(line);
            } catch (const UserError& error) {
                log_line(LogLevel::error, error.what());
            }
        }
    }

  private:
    void obey(const std::string& line) {
        if (const auto text = argument(line, "/system")) {
            chat_.set_system(*text);
        } else if (argument(line, "/undo")) {
            log_info("{}", chat_.undo() ? "taken back" : "there is nothing to take back");
        } else if (argument(line, "/reset")) {
            while (chat_.undo()) {
            }
        } else if (const auto path = argument(line, "/save")) {
            save_chat(chat_, *path);
        } else if (argument(line, "/quit") || argument(line, "/exit") || argument(line, "/bye")) {
            is_over_ = true;
        } else if (argument(line, "/help") || argument(line, "/?")) {
            print_result(kCommands);
        } else {
            throw UserError(ExitCode::usage, line.substr(0, line.find(' ')), "there is no such command").hint("/help");
        }
    }

    void answer(const std::string& question) {
        const auto make = [&](const ChatSession::OnText& on_text) { return chat_.answer(question, on_text); };
        const Reply reply = ask(engine_, make, print_prose);
        print_prose("\n");
        if (reply.end == ReplyEnd::length) log_info("note: the answer was cut; --max-new-tokens is the longest");
    }

    Engine& engine_;
    ChatSession& chat_;
    Questions questions_;
    bool is_over_ = false;
};

}  // namespace

Reply ask(Engine& engine, const MakeAnswer& make, const std::function<void(const std::string& text)>& on_text) {
    RunControl control;
    const ControlledRun running(control, engine);
    const SignalScope signals(control);
    bool was_stopped = false;
    ChatAnswer answer = make([&](std::string_view text) {
        on_text(std::string(text));
        was_stopped = control.wants_stop();
        return !was_stopped;
    });
    const ReplyEnd end = was_stopped ? ReplyEnd::interrupt : answer.result.stopped ? ReplyEnd::model : ReplyEnd::length;
    return {std::move(answer), end};
}

void save_chat(const ChatSession& chat, const std::string& path) {
    if (path.empty()) throw UserError(ExitCode::usage, "save", "names no file").hint("/save chat.jsonl");
    std::unique_ptr<File> file = real_files().open(path, {.mode = OpenMode::append});
    const std::string row = chat.row() + "\n";
    file->write_at(std::as_bytes(std::span(row)), file->size());
    log_info("added to {}", path);
}

ChatFormat chat_format_of(const Config& config, const Tokenizer& tokenizer) {
    std::optional<ChatFormat> format = open_chat_format(real_files(), config, tokenizer);
    if (!format)
        throw UserError(ExitCode::model, config.model, "has no chat template")
            .hint("--chat-template FILE.jinja, or windlass generate MODEL --prompt TEXT");
    return *std::move(format);
}

ExitCode run_chat(const ChatArgs& args, VerbOutput& out) {
    if (!out.is_text() && !out.has_events())
        throw UserError(ExitCode::usage, "--json", "a conversation has no single result")
            .hint("--json=lines, or windlass generate MODEL --chat --prompt TEXT --json");
    const Config config =
        config_from_words(name_model(args.words), ConfigUse::generate, download_of(args.download, HubFiles::weights));
    OpenModel opened = open_model(real_files(), config);
    const ChatFormat format = chat_format_of(config, opened.tokenizer);
    const int64_t context = opened.model.context_length;
    if (config.was_given("max_length") && config.max_length > context)
        throw UserError(ExitCode::usage, "max_length", "{} tokens, but the model was made for {}", config.max_length,
                        context);
    const int64_t capacity = config.was_given("max_length") ? config.max_length : std::min(context, kUsualCapacity);
    Inference inference(
        real_files(), opened, config,
        {.sequence_lengths = {1}, .schedules = decode_requests(std::min(kPromptTokens, capacity), capacity)});
    ChatOptions options{.generate = {.max_new_tokens = args.max_new_tokens,
                                     .sampling = {args.temperature, args.top_k, args.top_p},
                                     .stop_ids = format.turn_ends(),
                                     .vocab = std::min<int64_t>(opened.tokenizer.vocab_size(), opened.model.vocab),
                                     .seed = static_cast<uint64_t>(config.seed)},
                        .stops = args.stops,
                        .capacity = capacity};
    ChatSession chat(inference.engine(), format, std::move(options));
    if (!args.system.empty()) chat.set_system(args.system);
    if (out.has_events()) {
        chat_by_lines(inference.engine(), chat, capacity, out);
        return ExitCode::ok;
    }
    const bool is_terminal = ::isatty(STDIN_FILENO) == 1;
    if (is_terminal) log_info("{}, up to {} tokens; /help lists commands", config.model, capacity);
    Chatting(inference.engine(), chat, is_terminal).run();
    return ExitCode::ok;
}

}  // namespace windlass
