#include "rows/token_row.h"

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "base/json.h"

namespace windlass {
namespace {

constexpr int64_t kIgnoredLabel = -100;
constexpr const char* kUnpacked = "rows of one document each, and packing: true";

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
        throw UserError(ExitCode::data, where, "\"{}\" is a table and not a list", key).hint(kUnpacked);
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
                .hint(kUnpacked);
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
                    .hint(kUnpacked);
    if (const auto types = numbers(json, "token_type_ids", count, where))
        for (size_t i = part.begin; i < part.end; ++i)
            if ((*types)[i] != 0)
                throw UserError(ExitCode::data, where, "token_type_ids[{}] is {}, and tokens have no types", i,
                                (*types)[i])
                    .hint("rows made with this model's tokenizer");
}

}  // namespace

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

}  // namespace windlass
