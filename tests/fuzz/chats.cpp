// Rows that are conversations, through a template of the input's or a small one.
#include "rows/chat_format.h"
#include "rows/rows.h"
#include "tests/fuzz/input_files.h"
#include "tests/fuzz/samples.h"
#include "tests/fuzz/targets.h"

namespace windlass {

void fuzz_chats(std::string_view input) {
    InputFiles folder(input, "rows.jsonl");
    std::optional<ChatTemplateSource> source = find_chat_template(folder.files(), folder.folder());
    if (!source) source = {.place = "small", .text = kSmallTemplate, .tool_use = ""};
    const ChatFormat chats(*source, small_chat_tokenizer(), "2026-01-31");
    if (!folder.has("rows.jsonl")) return;
    // A run reads either kind.
    const bool pairs = input.find("\"rejected\"") != input.npos;
    RowsOptions options{.max_length = 512, .truncation = pairs ? Truncation::left : Truncation::split};
    options.skip_malformed = true;
    options.chats = &chats;
    options.pairs = pairs;
    options.train_turns = input.size() % 2 == 0 ? TrainTurns::last : TrainTurns::all;
    options.on_malformed = [](const UserError&) {};
    for_each_sample(folder.files(), folder.path("rows.jsonl"), options, small_chat_tokenizer(), [](Sample&& sample) {
        use(sample.trained_count());
        return true;
    });
}

}  // namespace windlass
