#include "text/row_format.h"

#include "base/json.h"

namespace windlass {
namespace {

constexpr int64_t kIgnoredLabel = -100;

std::string keys_of(const SortedJson& row) {
    std::string out;
    for (const auto& [key, value] : row.items()) {
        if (out.size() > 200) return out + ", ...";
        out += out.empty() ? "" : ", ";
        out += key;
    }
    return out.empty() ? "none" : out;
}

RowFormat format_of(const SortedJson& row, const FieldNames& names, std::string_view where) {
    if (row.contains("input_ids")) return RowFormat::tokens;
    if (row.contains("chosen") && row.contains("rejected")) return RowFormat::preference;
    for (const std::string& key : {names.messages, std::string("messages"), std::string("conversations")})
        if (row.contains(key)) return RowFormat::chat;
    if (row.contains(names.prompt) && row.contains(names.completion))
        return row[names.prompt].is_array() ? RowFormat::chat : RowFormat::completion;
    if (row.contains(names.instruction) && row.contains(names.output)) return RowFormat::alpaca;
    if (row.contains(names.text)) return RowFormat::text;
    throw UserError(ExitCode::data, where, "the row's keys make no known format: {}", keys_of(row))
        .hint(
            "use {\"text\"}, {\"messages\"}, {\"prompt\", \"completion\"}, {\"instruction\", \"input\", \"output\"} or "
            "{\"input_ids\"}, "
            "or name your keys in the configuration");
}

std::string text_of(const SortedJson& row, const std::string& key, bool required, std::string_view where) {
    const auto entry = row.find(key);
    if (entry == row.end() || entry->is_null()) {
        if (!required) return "";
        throw UserError(ExitCode::data, where, "\"{}\" is missing", key);
    }
    if (!entry->is_string())
        throw UserError(ExitCode::data, where, "\"{}\" is {} and not a string", key, entry->type_name());
    return entry->get<std::string>();
}

int64_t int_at(const SortedJson& list, size_t i, const char* key, std::string_view where) {
    if (!list[i].is_number_integer()) throw UserError(ExitCode::data, where, "{}[{}] is not an integer", key, i);
    const std::optional<int64_t> value = integer_of(list[i]);
    if (!value)
        throw UserError(ExitCode::data, where, "{}[{}] is {}, which is not an id", key, i, list[i].get<uint64_t>());
    return *value;
}

void read_tokens(const SortedJson& json, Row& row, std::string_view where) {
    const SortedJson& ids = json["input_ids"];
    if (!ids.is_array()) throw UserError(ExitCode::data, where, "\"input_ids\" is not a list");
    for (size_t i = 0; i < ids.size(); ++i) {
        const int64_t id = int_at(ids, i, "input_ids", where);
        if (id < 0 || id > INT32_MAX) throw UserError(ExitCode::data, where, "input_ids[{}] is {}", i, id);
        row.ids.push_back(static_cast<int32_t>(id));
    }
    row.trained.assign(row.ids.size(), 1);
    if (!json.contains("labels")) return;
    const SortedJson& labels = json["labels"];
    if (!labels.is_array() || labels.size() != ids.size())
        throw UserError(ExitCode::data, where, "\"labels\" is not a list as long as \"input_ids\"");
    for (size_t i = 0; i < labels.size(); ++i) {
        const int64_t label = int_at(labels, i, "labels", where);
        if (label != kIgnoredLabel && label != row.ids[i])
            throw UserError(ExitCode::data, where, "labels[{}] is {}, neither -100 nor input_ids[{}]", i, label, i)
                .hint("do not shift labels: label i belongs to token i");
        row.trained[i] = label != kIgnoredLabel;
    }
}

void read_alpaca(const SortedJson& json, const FieldNames& names, Row& row, std::string_view where) {
    for (const char* key : {"system", "history"}) {
        const auto entry = json.find(key);
        const bool is_empty_text =
            entry != json.end() && entry->is_string() && entry->get_ref<const std::string&>().empty();
        if (entry != json.end() && !entry->is_null() && !entry->empty() && !is_empty_text)
            throw UserError(ExitCode::data, where, "the row has a \"{}\", for which the Alpaca prompt has no place",
                            key)
                .hint("a model with a chat template, or chat_template: FILE");
    }
    row.prompt = alpaca_prompt(text_of(json, names.instruction, true, where), text_of(json, names.input, false, where));
    row.text = text_of(json, names.output, true, where);
}

// Two answers as texts, to a prompt or an instruction; or in messages.
void read_pair(const SortedJson& json, const FieldNames& names, bool alpaca_is_chat, Row& row, std::string_view where) {
    const bool is_instruction = json.contains(names.instruction);
    row.is_chat = !json["chosen"].is_string() || !json["rejected"].is_string() || (is_instruction && alpaca_is_chat);
    if (row.is_chat) return;
    row.prompt = is_instruction ? alpaca_prompt(text_of(json, names.instruction, true, where),
                                                text_of(json, names.input, false, where))
                                : text_of(json, names.prompt, true, where);
    row.text = text_of(json, "chosen", true, where);
    row.rejected = text_of(json, "rejected", true, where);
}

}  // namespace

std::string_view name_of(RowFormat format) {
    switch (format) {
        case RowFormat::text:
            return "text";
        case RowFormat::completion:
            return "prompt/completion";
        case RowFormat::alpaca:
            return "alpaca";
        case RowFormat::tokens:
            return "pre-tokenised";
        case RowFormat::preference:
            return "a pair of answers";
        case RowFormat::chat:
            return "a chat";
    }
    return "";
}

std::string alpaca_prompt(std::string_view instruction, std::string_view input) {
    if (input.empty())
        return fmt::format(
            "Below is an instruction that describes a task. Write a response that appropriately completes the request."
            "\n\n### Instruction:\n{}\n\n### Response:\n",
            instruction);
    return fmt::format(
        "Below is an instruction that describes a task, paired with an input that provides further context. "
        "Write a response that appropriately completes the request."
        "\n\n### Instruction:\n{}\n\n### Input:\n{}\n\n### Response:\n",
        instruction, input);
}

Row read_row(std::string_view text, const FieldNames& names, std::optional<RowFormat> expected, std::string_view where,
             bool alpaca_is_chat) {
    const SortedJson json = parse_sorted_json(text, where, ExitCode::data);
    if (!json.is_object()) {
        UserError error(ExitCode::data, where, "the row is {} and not an object", json.type_name());
        if (json.is_array())
            error.hint("one object a line; an array of objects is read from a file that ends in .json");
        throw error;
    }
    Row row;
    row.format = format_of(json, names, where);
    if (expected && *expected != row.format)
        throw UserError(ExitCode::data, where, "the row is {}, the rows before it are {}", name_of(row.format),
                        name_of(*expected))
            .hint("keep one format in each file");
    switch (row.format) {
        case RowFormat::text:
            row.text = text_of(json, names.text, true, where);
            break;
        case RowFormat::completion:
            row.prompt = text_of(json, names.prompt, true, where);
            row.text = text_of(json, names.completion, true, where);
            break;
        case RowFormat::alpaca:
            row.is_chat = alpaca_is_chat;
            if (!alpaca_is_chat) read_alpaca(json, names, row, where);
            break;
        case RowFormat::tokens:
            read_tokens(json, row, where);
            break;
        case RowFormat::preference:
            read_pair(json, names, alpaca_is_chat, row, where);
            break;
        case RowFormat::chat:
            row.is_chat = true;
            break;
    }
    return row;
}

}  // namespace windlass
