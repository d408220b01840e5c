#include "rows/row_keys.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "base/printable.h"
#include "rows/jq_command.h"
#include "rows/not_finite.h"

namespace windlass {
namespace {

using enum KeyUse;

constexpr std::string_view kNoMedia = "pictures, sound and films are not trained";
constexpr std::string_view kDropMedia = "rows of text alone: leave those out that have some";
constexpr std::string_view kBadAnswer = "rows that call an answer bad are for KTO, which is not supported";
constexpr std::string_view kKeepGood = "rows of good answers: ";
constexpr std::string_view kSelect = "select({0} != {1})";
constexpr std::string_view kWeight = "rows have no weights";
constexpr std::string_view kNoWeight = "repeat the rows that matter more, or remove the key";
constexpr std::string_view kOwnPrompt = "this format writes no conversation and has no place for it";
constexpr std::string_view kUseMessages = "a model with a chat template and rows of \"messages\"";
constexpr std::string_view kHalfPair = "one of \"chosen\" and \"rejected\" is missing";
constexpr std::string_view kWholePair = "both for a pair of answers (objective: dpo), or \"messages\" alone";
constexpr std::string_view kOneRow = "rows that others packed are not read: their documents would see each other";
constexpr std::string_view kUnpacked = "rows of one document each, and packing: true";
constexpr std::string_view kRenders = "the template sees only what \"chat_template_kwargs\" holds";
constexpr std::string_view kMove = "the same in there: ";
constexpr std::string_view kMoved = ".chat_template_kwargs{0} = {0} | del({0})";
constexpr std::string_view kPartly = "answers are trained whole or not at all";
constexpr std::string_view kTrainFlag = "\"train\": false in messages that are not to be trained";

constexpr std::string_view kContext = "a part of the question that this format reads under another name";
constexpr std::string_view kNameContext = "input_field: context, or a row without it";
constexpr std::string_view kMaskName = "for rows of ids \"labels\", with -100 for what is not trained";
constexpr std::string_view kLabelIds = "labels are read under another name";
constexpr std::string_view kNameLabels = "the name \"labels\"";
constexpr std::string_view kNotTrained = "the row is not to be trained";
constexpr std::string_view kLeaveOut = "rows that are to be trained: ";

// Columns: text, prompt/completion, alpaca, pre-tokenised, a pair of answers, a chat.
constexpr RowKey kKeys[] = {
    {"text", {read, unread, unread, unread, unread, unread}},
    {"prompt", {unread, read, unread, unread, read, agrees}},
    {"completion", {unread, read, unread, unread, unread, agrees}},
    {"instruction", {unread, agrees, read, unread, read, agrees}},
    {"input", {unread, agrees, read, unread, read, agrees}},
    {"output", {unread, agrees, read, unread, unread, agrees}},
    {"messages", {unread, unread, unread, unread, read, read}},
    {"conversations", {unread, unread, unread, unread, read, read}},
    {"system", {unread, empty, read, unread, read, read}, kOwnPrompt, kUseMessages},
    {"system_prompt", {unread, empty, read, unread, read, read}, kOwnPrompt, kUseMessages},
    {"context", {unread, unread, empty, unread, empty, unread}, kContext, kNameContext},
    {"history", {unread, empty, read, unread, read, agrees}, kOwnPrompt, kUseMessages},
    {"tools", {unread, empty, read, unread, read, read}, kOwnPrompt, kUseMessages},
    {"functions", {unread, empty, read, unread, read, read}, kOwnPrompt, kUseMessages},
    {"chosen", {empty, empty, empty, unread, read, empty}, kHalfPair, kWholePair},
    {"rejected", {empty, empty, empty, unread, read, empty}, kHalfPair, kWholePair},
    {"input_ids", {read, read, read, read, read, read}},
    {"labels", {unread, unread, unread, read, unread, unread}},
    {"attention_mask", {unread, unread, unread, read, unread, unread}},
    {"completion_mask", {unread, unread, unread, read, unread, unread}},
    {"assistant_masks", {unread, unread, unread, read, unread, unread}},
    {"assistant_mask", {unread, unread, unread, read, unread, unread}},
    {"loss_mask", {empty, empty, empty, read, empty, empty}, kPartly, kTrainFlag},
    {"mask", {empty, empty, empty, empty, empty, empty}, kPartly, kMaskName},
    {"prompt_mask", {unread, unread, unread, empty, unread, unread}, kPartly, kMaskName},
    {"label_ids", {unread, unread, unread, empty, unread, unread}, kLabelIds, kNameLabels},
    {"segments", {empty, empty, empty, unread, empty, empty}, kPartly, kTrainFlag},
    {"position_ids", {unread, unread, unread, read, unread, unread}},
    {"token_type_ids", {unread, unread, unread, read, unread, unread}},
    {"seq_lengths", {unread, unread, unread, empty, unread, unread}, kOneRow, kUnpacked},
    {"seqlens", {unread, unread, unread, empty, unread, unread}, kOneRow, kUnpacked},
    {"seq_idx", {unread, unread, unread, empty, unread, unread}, kOneRow, kUnpacked},
    {"sequence_lengths", {unread, unread, unread, empty, unread, unread}, kOneRow, kUnpacked},
    {"cu_seqlens", {unread, unread, unread, empty, unread, unread}, kOneRow, kUnpacked},
    {"cu_seq_lens_q", {unread, unread, unread, empty, unread, unread}, kOneRow, kUnpacked},
    {"document_ids", {unread, unread, unread, empty, unread, unread}, kOneRow, kUnpacked},
    {"segment_ids", {unread, unread, unread, empty, unread, unread}, kOneRow, kUnpacked},
    {"label", {not_false, good, good, not_false, unread, good}, kBadAnswer, kKeepGood, kSelect},
    {"kto_tag", {good, good, good, good, unread, good}, kBadAnswer, kKeepGood, kSelect},
    {"desirable", {good, good, good, good, unread, good}, kBadAnswer, kKeepGood, kSelect},
    {"train", {good, good, good, good, good, good}, kNotTrained, kLeaveOut, kSelect},
    {"loss_scale", {one, one, one, one, one, one}, kWeight, kNoWeight},
    {"weight", {one, one, one, one, one, one}, kWeight, kNoWeight},
    {"loss_weight", {one, one, one, one, one, one}, kWeight, kNoWeight},
    {"sample_weight", {one, one, one, one, one, one}, kWeight, kNoWeight},
    {"image", {empty, empty, empty, empty, empty, empty}, kNoMedia, kDropMedia},
    {"images", {empty, empty, empty, empty, empty, empty}, kNoMedia, kDropMedia},
    {"image_url", {empty, empty, empty, empty, empty, empty}, kNoMedia, kDropMedia},
    {"image_path", {empty, empty, empty, empty, empty, empty}, kNoMedia, kDropMedia},
    {"pixel_values", {empty, empty, empty, empty, empty, empty}, kNoMedia, kDropMedia},
    {"video", {empty, empty, empty, empty, empty, empty}, kNoMedia, kDropMedia},
    {"videos", {empty, empty, empty, empty, empty, empty}, kNoMedia, kDropMedia},
    {"audio", {empty, empty, empty, empty, empty, empty}, kNoMedia, kDropMedia},
    {"audios", {empty, empty, empty, empty, empty, empty}, kNoMedia, kDropMedia},
    {"chat_template_kwargs", {unread, unread, read, unread, read, read}},
    {"enable_thinking", {unread, unread, empty, unread, empty, empty}, kRenders, kMove, kMoved},
    {"documents", {unread, unread, empty, unread, empty, empty}, kRenders, kMove, kMoved},
};

// Names and counts that people keep with their rows.
constexpr std::string_view kInert[] = {"id",
                                       "_id",
                                       "idx",
                                       "index",
                                       "uid",
                                       "uuid",
                                       "guid",
                                       "row_id",
                                       "sample_id",
                                       "example_id",
                                       "question_id",
                                       "prompt_id",
                                       "conversation_id",
                                       "conv_id",
                                       "session_id",
                                       "thread_id",
                                       "__index_level_0__",
                                       "source",
                                       "sources",
                                       "origin",
                                       "dataset",
                                       "dataset_name",
                                       "data_source",
                                       "subset",
                                       "split",
                                       "category",
                                       "categories",
                                       "topic",
                                       "topics",
                                       "task",
                                       "task_type",
                                       "task_name",
                                       "domain",
                                       "lang",
                                       "language",
                                       "languages",
                                       "url",
                                       "title",
                                       "author",
                                       "user",
                                       "date",
                                       "time",
                                       "timestamp",
                                       "created",
                                       "created_at",
                                       "model",
                                       "model_name",
                                       "generator",
                                       "license",
                                       "meta",
                                       "metadata",
                                       "tags",
                                       "hash",
                                       "md5",
                                       "sha256",
                                       "length",
                                       "num_tokens",
                                       "n_tokens",
                                       "token_count",
                                       "num_turns",
                                       "turn",
                                       "turns",
                                       "difficulty",
                                       "quality",
                                       "score",
                                       "scores",
                                       "rating",
                                       "ratings",
                                       "score_chosen",
                                       "score_rejected",
                                       "chosen_score",
                                       "rejected_score",
                                       "chosen_model",
                                       "rejected_model",
                                       "chosen_rating",
                                       "rejected_rating",
                                       "special_tokens_mask",
                                       "offset_mapping",
                                       "toxic",
                                       "redacted"};

constexpr std::string_view kUseNames[kKeyUses] = {"read",          "must agree", "not read",     "without effect",
                                                  "must be empty", "must be 1",  "must be true", "must not be false"};

bool is_inert(std::string_view key) {
    return std::ranges::find(kInert, key) != std::end(kInert);
}

const RowKey* find_key(std::string_view key) {
    const auto found = std::ranges::find(kKeys, key, &RowKey::key);
    return found == std::end(kKeys) ? nullptr : found;
}

bool is_one(const SortedJson& value) {
    return is_nothing(value) || value == 1 || value == "1" || value == "1.0";
}

// What a table says of whether an answer is good; nothing for a value that is no judgement, such as the name or the
// number of a class.
std::optional<bool> judgement(const SortedJson& value) {
    if (value.is_boolean()) return value.get<bool>();
    if (value.is_number())
        return value == 0 || value == -1 ? std::optional(false) : value == 1 ? std::optional(true) : std::nullopt;
    if (!value.is_string()) return std::nullopt;
    std::string text = value.get<std::string>();
    std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::tolower(c); });
    for (const std::string_view no : {"false", "0", "-1", "bad", "undesirable", "rejected"})
        if (text == no) return false;
    for (const std::string_view yes : {"true", "1", "good", "desirable", "chosen"})
        if (text == yes) return true;
    return std::nullopt;
}

// 0 and -1, which may be a judgement or a class.
bool may_be_class(const SortedJson& value) {
    return value.is_number() || value == "0" || value == "-1";
}

enum class Verdict { fine, refused, unread };

Verdict verdict_of(KeyUse use, const SortedJson& value) {
    switch (use) {
        case KeyUse::read:
        case KeyUse::agrees:
        case KeyUse::inert:
            return Verdict::fine;
        case KeyUse::unread:
            return is_nothing(value) ? Verdict::fine : Verdict::unread;
        case KeyUse::empty:
            return is_nothing(value) ? Verdict::fine : Verdict::refused;
        case KeyUse::one:
            return is_one(value) ? Verdict::fine : Verdict::refused;
        case KeyUse::not_false:
            if (value.is_boolean() && !value.get<bool>()) return Verdict::refused;
            return is_nothing(value) || value.is_boolean() ? Verdict::fine : Verdict::unread;
        case KeyUse::good: {
            const std::optional<bool> is_good = judgement(value);
            if (!is_good) return is_nothing(value) ? Verdict::fine : Verdict::unread;
            return *is_good ? Verdict::fine : Verdict::refused;
        }
    }
    return Verdict::fine;
}

std::string shown(const SortedJson& value) {
    std::string text = value.dump(-1, ' ', false, SortedJson::error_handler_t::replace);
    if (text.size() > 40) text = text.substr(0, 37) + "...";
    return printable(text);
}

std::string way_out(const RowKey& entry, std::string_view key, const SortedJson& value, std::string_view where) {
    const std::string member = jq_member(key);
    std::string way(entry.way);
    if (!entry.filter.empty()) way += jq_command(where, fmt::format(fmt::runtime(entry.filter), member, shown(value)));
    if (entry.key == "label" && may_be_class(value))
        way += ", or where it is a class: " + jq_command(where, fmt::format("del({})", member));
    return way;
}

std::string listed(const std::vector<std::string_view>& keys) {
    std::string text;
    for (const std::string_view key : keys) text += fmt::format("{}`{}`", text.empty() ? "" : ", ", key);
    return text;
}

}  // namespace

std::span<const RowKey> row_keys() {
    return kKeys;
}

std::string_view standard_key(std::string_view key, const FieldNames& names) {
    const FieldNames standard;
    const std::pair<const std::string*, const std::string*> fields[] = {
        {&names.text, &standard.text},        {&names.prompt, &standard.prompt},
        {&names.output, &standard.output},    {&names.completion, &standard.completion},
        {&names.input, &standard.input},      {&names.instruction, &standard.instruction},
        {&names.messages, &standard.messages}};
    for (const auto& [own, usual] : fields)
        if (key == *own) {
            const RowKey* const entry = find_key(*usual);
            return entry->key;
        }
    // The user has said that another key holds this field.
    for (const auto& [own, usual] : fields)
        if (key == *usual) return "";
    return key;
}

KeyUse use_of(std::string_view standard, RowFormat format) {
    if (is_inert(standard)) return KeyUse::inert;
    const RowKey* const entry = find_key(standard);
    return entry ? entry->uses[static_cast<size_t>(format)] : KeyUse::unread;
}

void check_keys(const SortedJson& row, RowFormat format, const FieldNames& names, std::string_view where,
                RowNotes& notes) {
    for (const auto& [key, value] : row.items()) {
        const std::string_view standard = standard_key(key, names);
        const KeyUse use = use_of(standard, format);
        if (use != KeyUse::unread && use != KeyUse::inert) refuse_not_finite(value, key, where);
        switch (verdict_of(use, value)) {
            case Verdict::fine:
                break;
            case Verdict::unread:
                notes.add_unread_key(key);
                break;
            case Verdict::refused: {
                const RowKey& entry = *find_key(standard);
                throw UserError(ExitCode::data, where, "\"{}\" is {}: {}", printable(key), shown(value), entry.reason)
                    .hint(way_out(entry, key, value, where));
            }
        }
    }
}

std::string row_keys_table() {
    std::string text = "| key |";
    for (int format = 0; format < kRowFormats; ++format)
        text += fmt::format(" {} |", name_of(static_cast<RowFormat>(format)));
    text += "\n| --- |";
    for (int format = 0; format < kRowFormats; ++format) text += " --- |";
    text += "\n";
    for (const RowKey* entry = kKeys; entry != std::end(kKeys);) {
        std::vector<std::string_view> same;
        const RowKey* next = entry;
        for (; next != std::end(kKeys) && std::ranges::equal(next->uses, entry->uses); ++next)
            same.push_back(next->key);
        text += fmt::format("| {} |", listed(same));
        for (const KeyUse use : entry->uses) text += fmt::format(" {} |", kUseNames[static_cast<size_t>(use)]);
        text += "\n";
        entry = next;
    }
    text += fmt::format("| {} |", listed({std::begin(kInert), std::end(kInert)}));
    for (int format = 0; format < kRowFormats; ++format) text += fmt::format(" {} |", kUseNames[3]);
    return text + "\n| any other |" + [] {
        std::string cells;
        for (int format = 0; format < kRowFormats; ++format) cells += fmt::format(" {} |", kUseNames[2]);
        return cells;
    }() + "\n";
}

}  // namespace windlass
