#include "rows/row_format.h"

#include <algorithm>
#include <optional>
#include <string_view>

#include "base/error.h"
#include "base/json.h"
#include "base/json_row.h"
#include "rows/jq_command.h"
#include "rows/row_keys.h"
#include "rows/row_template.h"

namespace windlass {
namespace {

constexpr int64_t kIgnoredLabel = -100;
constexpr const char* kDocumentEach = "rows of one document each, and packing: true";

int64_t int_at(const SortedJson& list, size_t i, const char* key, std::string_view where) {
    if (list[i].is_boolean()) return list[i].get<bool>() ? 1 : 0;
    if (!list[i].is_number_integer()) throw UserError(ExitCode::data, where, "{}[{}] is not an integer", key, i);
    const std::optional<int64_t> value = integer_of(list[i]);
    if (!value)
        throw UserError(ExitCode::data, where, "{}[{}] is {}, which is not an id", key, i, list[i].get<uint64_t>());
    return *value;
}

// The numbers under a key, as many as there are ids; nothing where the row lacks it.
std::optional<std::vector<int64_t>> numbers(const SortedJson& json, const char* key, size_t count,
                                            std::string_view where) {
    const auto entry = json.find(key);
    if (entry == json.end()) return std::nullopt;
    if (!entry->is_array() || entry->size() != count)
        throw UserError(ExitCode::data, where, "\"{}\" is not a list as long as \"input_ids\"", key);
    if (count > 0 && entry->front().is_array())
        throw UserError(ExitCode::data, where, "\"{}\" is a table and not a list", key).hint(kDocumentEach);
    std::vector<int64_t> made(count);
    for (size_t i = 0; i < count; ++i) made[i] = int_at(*entry, i, key, where);
    return made;
}

struct Part {
    size_t begin, end;
};

// What the mask does not hide.
Part seen_part(const std::vector<int64_t>& mask, std::string_view where) {
    for (size_t i = 0; i < mask.size(); ++i)
        if (mask[i] != 0 && mask[i] != 1)
            throw UserError(ExitCode::data, where, "attention_mask[{}] is {}, neither 0 nor 1", i, mask[i])
                .hint(kDocumentEach);
    const auto seen = [](int64_t value) { return value == 1; };
    const auto begin = std::ranges::find_if(mask, seen);
    const auto end = std::find_if(mask.rbegin(), mask.rend(), seen).base();
    if (begin >= end)
        throw UserError(ExitCode::data, where, "\"attention_mask\" hides every token").hint("leave such rows out");
    if (const auto hole = std::find(begin, end, 0); hole != end)
        throw UserError(ExitCode::data, where, "attention_mask[{}] hides a token between two that are seen",
                        hole - mask.begin())
            .hint("rows with padding at their ends only");
    return {static_cast<size_t>(begin - mask.begin()), static_cast<size_t>(end - mask.begin())};
}

void read_labels(const SortedJson& json, Row& row, Part part, std::string_view where) {
    const std::optional<std::vector<int64_t>> labels = numbers(json, "labels", row.ids.size(), where);
    if (!labels) return;
    for (size_t i = part.begin; i < part.end; ++i) {
        const int64_t label = (*labels)[i];
        if (label != kIgnoredLabel && label != row.ids[i])
            throw UserError(ExitCode::data, where, "labels[{}] is {}, neither -100 nor input_ids[{}]", i, label, i)
                .hint("do not shift labels: label i belongs to token i");
        row.trained[i] = label != kIgnoredLabel;
    }
}

void read_masks_of_loss(const SortedJson& json, Row& row, std::string_view where) {
    for (const char* key : {"completion_mask", "assistant_masks", "assistant_mask", "loss_mask"}) {
        const std::optional<std::vector<int64_t>> mask = numbers(json, key, row.ids.size(), where);
        if (!mask) continue;
        for (size_t i = 0; i < mask->size(); ++i) {
            if ((*mask)[i] != 0 && (*mask)[i] != 1)
                throw UserError(ExitCode::data, where, "{}[{}] is {}, neither 0 nor 1", key, i, (*mask)[i])
                    .hint("0 for tokens that are not trained, 1 for others");
            if ((*mask)[i] == 0) row.trained[i] = 0;
        }
    }
}

// Positions that begin anew, and types, tell documents apart that a row holds together.
void require_one_document(const SortedJson& json, size_t count, Part part, std::string_view where) {
    if (const auto positions = numbers(json, "position_ids", count, where))
        for (size_t i = part.begin; i < part.end; ++i)
            if ((*positions)[i] != static_cast<int64_t>(i - part.begin))
                throw UserError(ExitCode::data, where, "position_ids[{}] is {}, and positions count from 0", i,
                                (*positions)[i])
                    .hint(kDocumentEach);
    if (const auto types = numbers(json, "token_type_ids", count, where))
        for (size_t i = part.begin; i < part.end; ++i)
            if ((*types)[i] != 0)
                throw UserError(ExitCode::data, where, "token_type_ids[{}] is {}, and tokens have no types", i,
                                (*types)[i])
                    .hint("rows made with this model's tokenizer");
}

// Rows of ids that another program made: {"input_ids", "labels"?, "attention_mask"?, ...}. Reads ids and which of them
// are trained. What "attention_mask" hides at either end is padding and left out. Not trained is what "labels" has as
// -100, and what "completion_mask", "assistant_masks" or "loss_mask" has as 0. Throws UserError(data) naming `where`:
// lists of other types or lengths, a mask with a hole, ids that are no ids, position ids and token types that say that
// several documents share the row.
void read_token_row(const SortedJson& json, Row& row, std::string_view where) {
    const SortedJson& ids = json["input_ids"];
    if (!ids.is_array()) throw UserError(ExitCode::data, where, "\"input_ids\" is not a list");
    if (!ids.empty() && ids.front().is_array())
        throw UserError(ExitCode::data, where, "\"input_ids\" is a list of lists")
            .hint("one row of ids a line: a batch of the tokenizer is several rows");
    for (size_t i = 0; i < ids.size(); ++i) {
        const int64_t id = ids[i].is_boolean() ? -1 : int_at(ids, i, "input_ids", where);
        if (id < 0 || id > INT32_MAX) throw UserError(ExitCode::data, where, "input_ids[{}] is {}", i, ids[i].dump());
        row.ids.push_back(static_cast<int32_t>(id));
    }
    row.trained.assign(row.ids.size(), 1);
    const std::optional<std::vector<int64_t>> mask = numbers(json, "attention_mask", ids.size(), where);
    const Part part = mask ? seen_part(*mask, where) : Part{0, ids.size()};
    read_labels(json, row, part, where);
    read_masks_of_loss(json, row, where);
    require_one_document(json, ids.size(), part, where);
    const auto begin = static_cast<std::ptrdiff_t>(part.begin), end = static_cast<std::ptrdiff_t>(part.end);
    row.ids = {row.ids.begin() + begin, row.ids.begin() + end};
    row.trained = {row.trained.begin() + begin, row.trained.begin() + end};
}

std::string keys_of(const SortedJson& row) {
    std::string out;
    for (const auto& [key, value] : row.items()) {
        if (out.size() > 200) return out + ", ...";
        out += out.empty() ? "" : ", ";
        out += key;
    }
    return out.empty() ? "none" : out;
}

bool is_messages(const SortedJson& value) {
    return value.is_structured();
}

// The format whose keys the row has. With `empty_lists_count` a list without members is one.
std::optional<RowFormat> find_format(const SortedJson& row, const FieldNames& names, bool empty_lists_count) {
    const auto has = [&](const std::string& key) {
        const auto entry = row.find(key);
        return entry != row.end() && (empty_lists_count || !entry->is_structured() || !entry->empty());
    };
    if (has("input_ids")) return RowFormat::tokens;
    if (has("chosen") && has("rejected")) return RowFormat::preference;
    for (const std::string& key : {names.messages, std::string("messages"), std::string("conversations")})
        if (has(key)) return RowFormat::chat;
    if (has(names.prompt) && has(names.completion))
        return is_messages(row[names.prompt]) || is_messages(row[names.completion]) ? RowFormat::chat
                                                                                    : RowFormat::completion;
    if (has(names.instruction) && has(names.output)) return RowFormat::alpaca;
    if (has(names.text)) return RowFormat::text;
    return std::nullopt;
}

RowFormat format_of(const SortedJson& row, const FieldNames& names, std::string_view where) {
    // Tables give rows of one format the empty lists of others.
    for (const bool empty_lists_count : {false, true})
        if (const std::optional<RowFormat> found = find_format(row, names, empty_lists_count)) return *found;
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

// What only a chat template has a place for.
void refuse_conversation_keys(const SortedJson& json, std::string_view where) {
    for (const char* key : {"system", "system_prompt", "history", "tools", "functions", "chat_template_kwargs"})
        if (json.contains(key) && !is_nothing(json[key]))
            throw UserError(ExitCode::data, where,
                            "the row has \"{}\", for which a prompt without a chat template has no place", key)
                .hint("a model with a chat template, or chat_template: FILE");
}

void read_alpaca(const SortedJson& json, const FieldNames& names, Row& row, std::string_view where) {
    refuse_conversation_keys(json, where);
    row.prompt = alpaca_prompt(text_of(json, names.instruction, true, where), text_of(json, names.input, false, where));
    row.text = text_of(json, names.output, true, where);
}

// A field that is not read must repeat a part of one that is.
void require_part(const SortedJson& json, const std::string& key, std::string_view whole, const std::string& of,
                  std::string_view where) {
    if (!json.contains(key) || is_nothing(json[key]) || whole.empty() ||
        whole.find(stripped(text_of(json, key, true, where))) != std::string_view::npos)
        return;
    throw UserError(ExitCode::data, where, "\"{}\" and \"{}\" say different things", key, of)
        .hint(jq_command(where, fmt::format("del({})", jq_member(key))));
}

// Where the question ends that both texts hold, in front of the last word that they share whole; 0 where it is not
// certain: only a question of lines or marks is told from answers that begin alike.
size_t question_size(std::string_view a, std::string_view b) {
    const auto same = static_cast<size_t>(std::ranges::mismatch(a, b).in1 - a.begin());
    std::string_view shared = a.substr(0, same);
    const bool one_begins_other = same == a.size() || same == b.size();
    if (one_begins_other) {  // after the last mark of a turn: "\n\nAssistant:"
        const size_t turn = shared.rfind("\n\n");
        const size_t colon = turn == shared.npos ? turn : shared.find(':', turn);
        return colon == shared.npos || colon + 1 >= std::min(a.size(), b.size()) ? 0 : colon + 1;
    }
    const size_t space = shared.find_last_of(" \n\t");
    const bool has_lines = shared.find('\n') != shared.npos || shared.find("<|") != shared.npos;
    if (space == shared.npos || !has_lines) return 0;
    return shared[space] == ' ' ? space : space + 1;
}

// Texts alone, as hh-rlhf has them: both hold the conversation so far.
void split_pair(const SortedJson& json, Row& row, std::string_view where) {
    for (const auto& [key, value] : json.items())
        if (key != "chosen" && key != "rejected" && use_of(key, RowFormat::preference) != KeyUse::inert &&
            value.is_string() && !is_nothing(value))
            throw UserError(ExitCode::data, where, "\"prompt\" is missing, and the row has \"{}\"", key)
                .hint(fmt::format("prompt_field: {}, if that is the question; else {}", key,
                                  jq_command(where, fmt::format("del({})", jq_member(key)))));
    if (row.text == row.rejected)
        throw UserError(ExitCode::data, where, "\"chosen\" and \"rejected\" are the same text")
            .hint(jq_command(where, "select(.chosen != .rejected)"));
    const size_t size = question_size(row.text, row.rejected);
    if (size == 0)
        throw UserError(ExitCode::data, where,
                        "\"prompt\" is missing, and it cannot be said where the question ends in the two texts")
            .hint("\"prompt\": \"...\", and the answers alone in \"chosen\" and \"rejected\"");
    row.prompt = row.text.substr(0, size);
    row.text.erase(0, size);
    row.rejected.erase(0, size);
}

// Some rows repeat the prompt in both answers.
void strip_prompt(Row& row) {
    const auto repeats = [&](const std::string& text) {
        return text.starts_with(row.prompt) && text.size() > row.prompt.size();
    };
    if (row.prompt.empty() || repeats(row.text) != repeats(row.rejected) || !repeats(row.text)) return;
    row.text.erase(0, row.prompt.size());
    row.rejected.erase(0, row.prompt.size());
}

// Two answers as texts, to a prompt or an instruction; or in messages.
void read_pair(const SortedJson& json, const FieldNames& names, bool alpaca_is_chat, Row& row, std::string_view where) {
    const bool is_instruction = json.contains(names.instruction);
    const auto has_messages = [&](const std::string& key) {
        return json.contains(key) && is_messages(json[key]) && !json[key].empty();
    };
    row.is_chat = has_messages("chosen") || has_messages("rejected") || has_messages(names.prompt) ||
                  has_messages(names.messages) || has_messages("messages") || has_messages("conversations") ||
                  (is_instruction && alpaca_is_chat);
    if (row.is_chat) return;
    refuse_conversation_keys(json, where);
    row.text = text_of(json, "chosen", true, where);
    row.rejected = text_of(json, "rejected", true, where);
    row.prompt = is_instruction ? alpaca_prompt(text_of(json, names.instruction, true, where),
                                                text_of(json, names.input, false, where))
                                : text_of(json, names.prompt, false, where);
    require_part(json, names.prompt, row.prompt, names.instruction, where);
    require_part(json, names.instruction, row.prompt, names.prompt, where);
    require_part(json, names.input, row.prompt, names.prompt, where);
    if (row.prompt.empty())
        split_pair(json, row, where);
    else
        strip_prompt(row);
}

void read_completion(const SortedJson& json, const FieldNames& names, Row& row, std::string_view where) {
    row.prompt = text_of(json, names.prompt, true, where);
    row.text = text_of(json, names.completion, true, where);
    require_part(json, names.instruction, row.prompt, names.prompt, where);
    require_part(json, names.input, row.prompt, names.prompt, where);
    require_part(json, names.output, row.text, names.completion, where);
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
             RowNotes& notes, bool alpaca_is_chat) {
    SortedJson json = parse_sorted_row(text, where);
    if (!json.is_object()) {
        UserError error(ExitCode::data, where, "the row is {} and not an object", json.type_name());
        if (json.is_array())
            error.hint("one object a line; an array of objects is read from a file that ends in .json");
        throw error;
    }
    // Tables give each row the columns of all.
    std::erase_if(json.get_ref<SortedJson::object_t&>(), [](const auto& member) { return member.second.is_null(); });
    Row row;
    row.format = format_of(json, names, where);
    if (expected && *expected != row.format)
        throw UserError(ExitCode::data, where, "the row is {}, the rows before it are {}", name_of(row.format),
                        name_of(*expected))
            .hint("keep one format in each file");
    check_keys(json, row.format, names, where, notes);
    switch (row.format) {
        case RowFormat::text:
            row.text = text_of(json, names.text, true, where);
            break;
        case RowFormat::completion:
            read_completion(json, names, row, where);
            break;
        case RowFormat::alpaca:
            row.is_chat = alpaca_is_chat;
            if (!alpaca_is_chat) read_alpaca(json, names, row, where);
            break;
        case RowFormat::tokens:
            read_token_row(json, row, where);
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
