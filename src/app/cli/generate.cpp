#include "infer/generate.h"

#include <cstdio>
#include <iostream>
#include <iterator>

#include "app/cli/chat.h"
#include "app/cli/output.h"
#include "app/cli/verbs.h"
#include "app/cli/words.h"
#include "base/json.h"
#include "base/log.h"
#include "base/plural.h"
#include "base/units.h"
#include "infer/inference.h"
#include "rows/prompt_ids.h"
#include "rows/stop_text.h"

namespace windlass {
namespace {

constexpr int64_t kPromptBytesMax = 16 * kMiB;

std::string read_prompt(const std::string& prompt) {
    if (prompt != "-") return prompt;
    std::string text;
    char buffer[1 << 14];
    while (std::cin.read(buffer, sizeof(buffer)), std::cin.gcount() > 0) {
        text.append(buffer, static_cast<size_t>(std::cin.gcount()));
        if (std::ssize(text) > kPromptBytesMax)
            throw UserError(ExitCode::usage, "prompt", "more than {}", format_bytes(kPromptBytesMax));
    }
    if (text.starts_with(kByteOrderMark)) text.erase(0, kByteOrderMark.size());
    return text;
}

void log_speed(const GenerateResult& result, int64_t prompt_tokens) {
    const auto rate = [](int64_t tokens, double seconds) {
        return seconds > 0 ? static_cast<double>(tokens) / seconds : 0.0;
    };
    log_info("{} in {} ({:.0f} tok/s), {} in {} ({:.1f} tok/s){}", counted(prompt_tokens, "prompt token"),
             format_seconds(result.prefill_seconds), rate(prompt_tokens, result.prefill_seconds),
             counted(std::ssize(result.ids), "new token"), format_seconds(result.decode_seconds),
             rate(std::ssize(result.ids), result.decode_seconds), result.stopped ? ", end of text" : "");
}

}  // namespace

ExitCode run_generate(const GenerateArgs& args, VerbOutput& out) {
    const Config config =
        config_from_words(name_model(args.words), ConfigUse::generate, download_of(args.download, HubFiles::weights));
    OpenModel opened = open_model(real_files(), config);
    const std::string prompt = read_prompt(args.prompt);
    std::optional<ChatFormat> format;
    if (args.chat) format.emplace(chat_format_of(config, opened.tokenizer));
    const std::vector<int32_t> ids =
        format ? question_ids(*format, prompt) : prompt_ids(opened.tokenizer, prompt, "prompt");
    const int64_t room = opened.model.context_length - std::ssize(ids);
    if (room < 1) {
        throw UserError(ExitCode::usage, "prompt", "has {} tokens, the model was made for {}", ids.size(),
                        opened.model.context_length)
            .hint("a shorter prompt");
    }
    const int64_t new_tokens = std::min(args.max_new_tokens, room);
    if (new_tokens < args.max_new_tokens) log_info("note: at most {} new tokens fit the model's positions", new_tokens);
    const int64_t capacity = std::ssize(ids) + new_tokens;
    Inference inference(real_files(), opened, config,
                        {.sequence_lengths = {1}, .schedules = decode_requests(std::ssize(ids), capacity)});
    StreamDecoder decoder(opened.tokenizer, true);
    StopText stop(args.stops);
    std::string text;
    const auto take = [&](const std::string& piece) {
        text += piece;
        if (out.is_text()) print_prose(piece);
        if (!piece.empty()) out.tell(kTextEvent, {{"delta", piece}});
    };
    const GenerateOptions options{.max_new_tokens = new_tokens,
                                  .sampling = {args.temperature, args.top_k, args.top_p},
                                  .stop_ids = format ? format->turn_ends() : opened.tokenizer.eos_ids(),
                                  .vocab = std::min<int64_t>(opened.tokenizer.vocab_size(), opened.model.vocab),
                                  .seed = static_cast<uint64_t>(config.seed)};
    const GenerateResult result = generate(inference.engine(), ids, options, [&](int32_t id) {
        take(stop.push(decoder.push(id)));
        return !stop.is_over();
    });
    if (!stop.is_over()) take(stop.push(decoder.finish()));
    take(stop.finish());
    if (!out.is_text()) {
        out.result({{"prompt", prompt},
                    {"text", text},
                    {"ids", result.ids},
                    {"stopped", result.stopped || stop.is_over()},
                    {"prefill_seconds", result.prefill_seconds},
                    {"decode_seconds", result.decode_seconds}});
    } else {
        print_result("\n");
    }
    log_speed(result, std::ssize(ids));
    return ExitCode::ok;
}

}  // namespace windlass
