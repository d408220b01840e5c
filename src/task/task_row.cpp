// Rows of a data file, as a task reads them.
#include <fmt/ranges.h>

#include <algorithm>

#include "base/json_row.h"
#include "base/printable.h"
#include "rows/not_finite.h"
#include "task/task.h"

namespace windlass {
namespace {

// The value at a path: "a.b" is the member of that name, or member b of member a.
const SortedJson* find_value(const SortedJson& row, std::string_view path) {
    if (!row.is_object()) return nullptr;
    const auto found = row.find(std::string(path));
    if (found != row.end()) return &*found;
    const size_t dot = path.find('.');
    if (dot == path.npos) return nullptr;
    const auto outer = row.find(std::string(path.substr(0, dot)));
    return outer == row.end() ? nullptr : find_value(*outer, path.substr(dot + 1));
}

// A list counts as its first member.
std::optional<std::string> text_of(const SortedJson& value) {
    if (value.is_array()) return value.empty() ? std::nullopt : text_of(value.front());
    if (value.is_string()) return value.get<std::string>();
    if (value.is_boolean() || (value.is_number() && !is_not_finite(value))) return value.dump();
    return std::nullopt;
}

class RowTexts {
  public:
    RowTexts(const TaskSpec& task, std::string_view json, std::string_view where)
        : task_(task), where_(where), row_(parse_sorted_row(json, where)) {
        if (!row_.is_object())
            throw UserError(ExitCode::data, where_, "the row is {} and not an object", row_.type_name());
    }

    std::string fill(const RowTemplate& text) const { return fill(text, std::nullopt); }
    std::string fill(const RowTemplate& text, const std::optional<std::string>& candidate) const {
        return text.fill(
            [&](const std::string& path) { return candidate && path == "candidate" ? candidate : word(path); }, where_);
    }

    std::vector<std::string> listed() const {
        const ListedCandidates& listed = *task_.listed;
        const SortedJson* const value = find_value(row_, listed.field);
        if (value == nullptr || !(value->is_array() || value->is_string()))
            throw UserError(ExitCode::data, where_, "the row has no list of candidates \"{}\"", listed.field);
        std::vector<std::string> found =
            value->is_array() ? members(*value, listed.field) : parts(value->get<std::string>(), listed);
        if (found.size() < 2 || found.size() > kTaskCandidatesMax)
            throw UserError(ExitCode::data, where_, "\"{}\" lists {} candidates; expected 2 to {}", listed.field,
                            found.size(), kTaskCandidatesMax);
        return found;
    }

    std::vector<std::string> answers() const {
        for (const std::string& path : task_.answers) {
            const SortedJson* const value = find_value(row_, path);
            if (value == nullptr || value->is_null()) continue;
            std::vector<std::string> found =
                value->is_array() ? members(*value, path) : members(SortedJson::array({*value}), path);
            if (found.empty() || found.size() > kTaskAnswersMax)
                throw UserError(ExitCode::data, where_, "\"{}\" holds {} answers; expected 1 to {}", path, found.size(),
                                kTaskAnswersMax);
            return found;
        }
        throw UserError(ExitCode::data, where_, "the row has no answer (\"{}\")", fmt::join(task_.answers, "\" or \""));
    }

  private:
    std::optional<std::string> word(const std::string& path) const {
        const SortedJson* const value = find_value(row_, path);
        if (value) refuse_not_finite(*value, path, where_);
        std::optional<std::string> text = value == nullptr ? std::nullopt : text_of(*value);
        const auto table = task_.words.find(path);
        if (!text || table == task_.words.end()) return text;
        const auto entry = table->second.find(*text);
        return entry == table->second.end() ? text : entry->second;
    }

    std::vector<std::string> members(const SortedJson& list, std::string_view path) const {
        std::vector<std::string> found;
        for (const SortedJson& each : list) {
            const std::optional<std::string> text = each.is_array() ? std::nullopt : text_of(each);
            if (!text) throw UserError(ExitCode::data, where_, "\"{}\" holds {}", path, each.type_name());
            found.push_back(*text);
        }
        return found;
    }

    std::vector<std::string> parts(const std::string& text, const ListedCandidates& listed) const {
        const size_t at = listed.after.empty() ? 0 : text.rfind(listed.after);
        if (at == text.npos)
            throw UserError(ExitCode::data, where_, "\"{}\" does not hold \"{}\"", excerpt(listed.field),
                            excerpt(listed.after));
        const std::string rest = text.substr(at + listed.after.size());
        std::vector<std::string> found;
        for (size_t begin = 0; begin <= rest.size() && found.size() <= kTaskCandidatesMax;) {
            const size_t end =
                listed.separator.empty() ? rest.size() : std::min(rest.find(listed.separator, begin), rest.size());
            found.emplace_back(stripped(std::string_view(rest).substr(begin, end - begin)));
            begin = end + std::max<size_t>(listed.separator.size(), 1);
        }
        return found;
    }

    const TaskSpec& task_;
    std::string_view where_;
    SortedJson row_;
};

int64_t right_candidate(const TaskSpec& task, const TaskRow& row, const std::string& label, std::string_view where) {
    if (task.label_is_index) {
        for (size_t i = 0; i < row.labels.size(); ++i)
            if (label == std::to_string(i)) return static_cast<int64_t>(i);
        throw UserError(ExitCode::data, where, "the row's label \"{}\" is not an index of its {} candidates",
                        excerpt(label), row.labels.size());
    }
    const auto found = std::find(row.labels.begin(), row.labels.end(), label);
    if (found == row.labels.end())
        throw UserError(ExitCode::data, where, "the row's label \"{}\" is not one of: {}", excerpt(label),
                        fmt::join(row.labels, ", "));
    return found - row.labels.begin();
}

}  // namespace

TaskRow read_task_row(const TaskSpec& task, std::string_view json, std::string_view where) {
    const RowTexts texts(task, json, where);
    TaskRow row{.prompt = texts.fill(task.prompt)};
    if (!task.has_candidates()) {
        row.candidates.push_back(texts.fill(task.completion));
        for (const std::string& answer : texts.answers()) row.answers.push_back(judged_part(task, answer));
        return row;
    }
    row.labels = task.listed ? texts.listed() : task.labels;
    for (size_t i = 0; i < row.labels.size(); ++i)
        row.candidates.push_back(task.listed ? texts.fill(task.texts[0], row.labels[i]) : texts.fill(task.texts[i]));
    row.right = right_candidate(task, row, texts.fill(task.label), where);
    return row;
}

std::string judged_part(const TaskSpec& task, std::string_view text) {
    const size_t at = task.answer_after.empty() ? text.npos : text.rfind(task.answer_after);
    return std::string(stripped(at == text.npos ? text : text.substr(at + task.answer_after.size())));
}

}  // namespace windlass
