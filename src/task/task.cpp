#include "task/task.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "base/json.h"
#include "base/nearest.h"
#include "base/printable.h"

namespace windlass {
namespace {

constexpr int64_t kNewTokensMax = 1 << 16;
constexpr std::array<std::string_view, 16> kMembers = {
    "name",       "about",   "prompt", "candidates",   "listed", "label", "label_is",  "score",
    "completion", "answers", "metric", "answer_after", "stop",   "words", "separator", "max_new_tokens"};
constexpr std::array<std::string_view, 4> kListedMembers = {"field", "after", "separator", "text"};

// The members of a task's JSON, with what is wrong with them.
class TaskReader {
  public:
    TaskReader(const Json& json, std::string_view where) : json_(json), where_(where) {}

    bool has(const char* key) const { return json_.contains(key); }
    std::string place(std::string_view key) const { return fmt::format("{}: {}", where_, excerpt(key)); }

    std::string text(const char* key, bool required) const {
        const auto found = json_.find(key);
        if (found == json_.end() && !required) return "";
        if (found == json_.end() || !found->is_string() || (required && found->get<std::string>().empty()))
            throw UserError(ExitCode::usage, where_, "a task has \"{}\", a text", key);
        return found->get<std::string>();
    }
    RowTemplate row_text(const char* key, bool required) const {
        return RowTemplate::parse(text(key, required), place(key));
    }
    template <size_t N>
    size_t choice(const char* key, const std::array<std::string_view, N>& names) const {
        if (!has(key)) return 0;
        const std::string word = text(key, true);
        const auto found = std::find(names.begin(), names.end(), word);
        if (found == names.end())
            throw UserError(ExitCode::usage, place(key), "\"{}\" is not one of: {}", excerpt(word),
                            fmt::join(names, ", "));
        return static_cast<size_t>(found - names.begin());
    }
    int64_t count(const char* key, int64_t fallback, int64_t most) const {
        const auto found = json_.find(key);
        if (found == json_.end()) return fallback;
        const int64_t value = integer_of(*found).value_or(0);
        if (value < 1 || value > most)
            throw UserError(ExitCode::usage, place(key), "expected a whole number from 1 to {}", most);
        return value;
    }
    const Json& object(const char* key) const {
        const Json& value = json_.at(key);
        if (!value.is_object() || value.empty())
            throw UserError(ExitCode::usage, place(key), "expected a non-empty object");
        return value;
    }
    void refuse_beside(const char* key, const char* other) const {
        if (has(key) && has(other))
            throw UserError(ExitCode::usage, where_, "a task has {} or {}, not both", key, other);
    }

  private:
    const Json& json_;
    std::string_view where_;
};

void check_names(const Json& json, std::span<const std::string_view> known, std::string_view where) {
    if (!json.is_object()) throw UserError(ExitCode::usage, where, "expected a JSON object");
    for (const auto& [key, value] : json.items()) {
        if (std::find(known.begin(), known.end(), key) != known.end()) continue;
        const std::string_view near = nearest_name(key, known);
        throw UserError(ExitCode::usage, where, "there is no member \"{}\"", excerpt(key))
            .hint(near.empty() ? fmt::format("{}", fmt::join(known, ", ")) : std::string(near));
    }
}

std::string text_of(const Json& value, const std::string& place) {
    if (!value.is_string()) throw UserError(ExitCode::usage, place, "expected a string, got {}", value.type_name());
    return value.get<std::string>();
}

void read_candidates(const TaskReader& reader, TaskSpec& task) {
    for (const auto& [label, text] : reader.object("candidates").items()) {
        const std::string place = fmt::format("{}: {}", reader.place("candidates"), excerpt(label));
        task.labels.push_back(label);
        task.texts.push_back(RowTemplate::parse(text_of(text, place), place));
        if (task.texts.back().is_empty()) throw UserError(ExitCode::usage, place, "a candidate is not empty");
    }
    if (task.texts.size() < 2 || task.texts.size() > kTaskCandidatesMax)
        throw UserError(ExitCode::usage, reader.place("candidates"), "{} of them; expected 2 to {}", task.texts.size(),
                        kTaskCandidatesMax);
}

void read_listed(const TaskReader& reader, TaskSpec& task) {
    const std::string where = reader.place("listed");
    const Json& json = reader.object("listed");
    check_names(json, kListedMembers, where);
    const TaskReader listed(json, where);
    task.listed = {.field = listed.text("field", true),
                   .after = listed.text("after", false),
                   .separator = listed.text("separator", false)};
    task.texts.push_back(listed.row_text("text", true));
}

// Pages name fields in two ways: "answer", or ["answer", "answers.text"].
std::vector<std::string> read_paths(const Json& value, const std::string& place) {
    std::vector<std::string> paths;
    if (!value.is_array()) return {text_of(value, place)};
    for (const Json& each : value) paths.push_back(text_of(each, place));
    if (paths.empty()) throw UserError(ExitCode::usage, place, "names no field");
    return paths;
}

void read_words(const TaskReader& reader, TaskSpec& task) {
    for (const auto& [field, table] : reader.object("words").items()) {
        const std::string place = fmt::format("{}: {}", reader.place("words"), field);
        if (!table.is_object()) throw UserError(ExitCode::usage, place, "expected an object of strings");
        for (const auto& [from, to] : table.items()) task.words[field][from] = text_of(to, place);
    }
}

// Which members go together.
void check_kinds(const TaskReader& reader, const TaskSpec& task, std::string_view where) {
    reader.refuse_beside("candidates", "listed");
    const char* const kind = reader.has("candidates") ? "candidates" : reader.has("listed") ? "listed" : nullptr;
    if (kind == nullptr && !reader.has("answers"))
        throw UserError(ExitCode::usage, where, "a task has candidates, listed or answers");
    if (kind != nullptr) {
        for (const char* key : {"answers", "completion", "answer_after", "stop", "max_new_tokens"})
            reader.refuse_beside(kind, key);
        if (task.metric != TaskMetric::accuracy)
            throw UserError(ExitCode::usage, reader.place("metric"), "candidates are judged by accuracy");
        return;
    }
    for (const char* key : {"label", "label_is", "score"}) reader.refuse_beside("answers", key);
    if (task.metric == TaskMetric::accuracy)
        throw UserError(ExitCode::usage, reader.place("metric"), "answers are judged by f1, exact_match or number");
}

}  // namespace

std::string_view name_of(TaskMetric metric) {
    switch (metric) {
        case TaskMetric::accuracy:
            return "accuracy";
        case TaskMetric::f1:
            return "f1";
        case TaskMetric::exact_match:
            return "exact_match";
        case TaskMetric::number:
            return "number";
    }
    return "";
}

TaskSpec parse_task(std::string_view text, std::string_view where) {
    const Json json = parse_json(text, where, ExitCode::usage);
    check_names(json, kMembers, where);
    const TaskReader reader(json, where);
    TaskSpec task{.name = reader.text("name", true),
                  .about = reader.text("about", true),
                  .prompt = reader.row_text("prompt", true)};
    task.metric = TaskMetric(reader.choice<4>("metric", {"accuracy", "f1", "exact_match", "number"}));
    check_kinds(reader, task, where);
    if (reader.has("candidates")) read_candidates(reader, task);
    if (reader.has("listed")) read_listed(reader, task);
    if (task.has_candidates()) {
        task.label = reader.row_text("label", true);
        task.label_is_index = reader.choice<2>("label_is", {"name", "index"}) == 1;
        task.score = CandidateScore(reader.choice<2>("score", {"mean", "sum"}));
    } else {
        task.completion = reader.row_text("completion", true);
        task.answers = read_paths(json.at("answers"), reader.place("answers"));
        task.answer_after = reader.text("answer_after", false);
        task.stop = reader.text("stop", false);
        task.max_new_tokens = reader.count("max_new_tokens", task.max_new_tokens, kNewTokensMax);
    }
    if (reader.has("separator")) task.separator = reader.text("separator", false);
    if (reader.has("words")) read_words(reader, task);
    task.description = json.dump(-1, ' ', false, Json::error_handler_t::replace);
    return task;
}

TaskSpec find_task(FileSystem& files, const std::string& name_or_path) {
    return parse_task(read_embedded(files, task_texts(), name_or_path, kTaskBytesMax, "task"), name_or_path);
}

}  // namespace windlass
