#include "session/plan_cache.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <limits>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "format/checksum.h"
#include "plan/plan_again.h"

namespace windlass {
namespace {

constexpr std::string_view kEntryEnding = ".plan";
constexpr std::string_view kEntryHead = "windlass plan 1 ";  // and the checksum of the rest
constexpr int64_t kEntryBytesMax = 16 * 1024;
constexpr size_t kEntriesMax = 1024;
constexpr double kRoom = 1.0 + 1.0 / 32;  // of a budget, over the one that an entry was found under

// A device without memory of its own has no budget: the key is set all the same, to a share of the free memory.
Budgets budgets_of(const PlanRequest& request) {
    Budgets budgets = request.budgets;
    if (!request.device.own_memory) budgets.device = 0;
    return budgets;
}

// A refusal names sizes that the process's memory is a part of, and nothing in it can be checked later: it is not kept.
// That nothing beats a rival is, without words.
std::optional<Json> entry_json(const SearchQuestion& question, const PlanOutcome& outcome) {
    const Budgets b = budgets_of(question.request);
    Json json = {{"ram", b.ram}, {"process", b.process}, {"device", b.device}, {"disk", b.disk}};
    if (const auto* planned = std::get_if<Planned>(&outcome)) {
        json["policy"] = planned->plan.policy;
        json["choice"] = planned->choice;
        json["seconds"] = planned->mean_seconds;
        json["evaluations"] = planned->evaluations;
        return json;
    }
    const NoFit& none = std::get<NoFit>(outcome);
    if (!question.rival || !none.needs.empty()) return std::nullopt;
    json["seconds"] = none.slower_seconds;
    return json;
}

double number(const Json& entry, const char* key) {
    return entry.at(key).get<double>();
}

bool has_more_room(const Budgets& now, const Json& then) {
    const auto is_more = [](int64_t bytes, double before) { return static_cast<double>(bytes) > kRoom * before; };
    return is_more(now.ram - now.process, number(then, "ram") - number(then, "process")) ||
           is_more(now.device, number(then, "device")) || is_more(now.disk, number(then, "disk"));
}

std::optional<Choice> kept_choice(const Json& list) {
    Choice choice{};
    if (!list.is_array() || list.size() != choice.size()) return std::nullopt;
    for (size_t knob = 0; knob < choice.size(); ++knob) {
        const std::optional<int64_t> value = integer_of(list[knob]);
        if (!value || *value < 0 || *value > std::numeric_limits<int>::max()) return std::nullopt;
        choice[knob] = static_cast<int>(*value);
    }
    return choice;
}

// Nothing in it is believed but what was chosen, and how long that was searched for.
std::optional<PlanOutcome> outcome_of(const SearchQuestion& question, const Json& entry) {
    if (has_more_room(budgets_of(question.request), entry)) return std::nullopt;
    if (!entry.contains("policy")) {
        if (!question.rival) return std::nullopt;
        return NoFit{.slower_seconds = number(entry, "seconds")};
    }
    const std::optional<Choice> choice = kept_choice(entry.at("choice"));
    const std::optional<int64_t> evaluations = integer_of(entry.at("evaluations"));
    if (!choice || !evaluations) return std::nullopt;
    std::optional<Planned> planned = plan_again(question.model, question.recipe, question.numerics, question.machine,
                                                question.request, {entry.at("policy").get<std::string>(), *choice});
    if (!planned || planned->mean_seconds != number(entry, "seconds")) return std::nullopt;
    planned->evaluations = static_cast<int>(*evaluations);
    return std::move(*planned);
}

std::optional<PlanOutcome> kept_outcome(const PlanCache& cache, const std::string& path,
                                        const SearchQuestion& question) {
    if (!cache.files->exists(path)) return std::nullopt;
    const std::string text = read_text(*cache.files, path, kEntryBytesMax);
    const size_t end = text.find('\n');
    if (end == std::string::npos) return std::nullopt;
    const std::string body = text.substr(end + 1);
    if (text.substr(0, end) != fmt::format("{}{:016x}", kEntryHead, xxh3_64(bytes_of(body)))) return std::nullopt;
    return outcome_of(question, parse_json(body, path, ExitCode::storage));
}

template <typename Act>
auto ignoring_failures(const Act& act) -> decltype(act()) {
    try {
        return act();
    } catch (const Error&) {
    } catch (const Json::exception&) {
    }
    return decltype(act())();
}

// The oldest quarter, once there are too many. Another process may remove the same ones.
void remove_oldest(const PlanCache& cache) {
    std::vector<std::string> names = cache.files->list(cache.folder);
    std::erase_if(names, [](const std::string& name) { return name.find(kEntryEnding) == std::string::npos; });
    if (names.size() <= kEntriesMax) return;
    std::vector<std::pair<int64_t, std::string>> entries;
    for (const std::string& name : names) {
        const std::string path = fmt::format("{}/{}", cache.folder, name);
        ignoring_failures([&] { entries.emplace_back(cache.files->status(path).modified_ns, path); });
    }
    std::ranges::sort(entries);
    for (size_t i = 0; i < entries.size() / 4; ++i)
        ignoring_failures([&] { cache.files->remove_file(entries[i].second); });
}

// Written under a name of this process's own and renamed, so a reader finds a whole entry or none. Not synced: what a
// power cut leaves of one has a wrong checksum.
void keep_outcome(const PlanCache& cache, const std::string& path, const std::string& body) {
    static std::atomic<int> count = 0;
    const std::string text = fmt::format("{}{:016x}\n{}", kEntryHead, xxh3_64(bytes_of(body)), body);
    if (std::ssize(text) > kEntryBytesMax) return;
    cache.files->make_folders(cache.folder);
    const std::string own = fmt::format("{}.{}.{}", path, getpid(), ++count);
    try {
        const auto file = cache.files->open(own, {.mode = OpenMode::create});
        file->write_at(bytes_of(text), 0);
        cache.files->rename(own, path);
    } catch (const Error&) {
        ignoring_failures([&] { cache.files->remove_file(own); });
        return;
    }
    remove_oldest(cache);
}

}  // namespace

PlanCache plan_cache_of(FileSystem& files, const Config& config, const std::string& user_folder) {
    const auto is_size = [](const ByteLimit& limit) { return !limit.text.empty() && !limit.text.ends_with('%'); };
    PlanCache cache{
        .files = &files,
        .folder = "",
        .build = build_id(),
        .given = {
            .ram = is_size(config.ram), .device = is_size(config.device_memory), .disk = is_size(config.ssd_space)}};
    if (!user_folder.empty()) cache.folder = user_folder + "/plans";
    return cache;
}

PlanOutcome find_plan(const PlanCache& cache, const SearchQuestion& question) {
    const auto search = [&] {
        return find_plan(question.model, question.recipe, question.numerics, question.machine, question.request,
                         question.rival);
    };
    if (cache.folder.empty()) return search();
    const std::optional<uint64_t> key = plan_key(question, cache.given, cache.build);
    if (!key) return search();
    const std::string path = fmt::format("{}/{:016x}{}", cache.folder, *key, kEntryEnding);
    std::optional<PlanOutcome> kept = ignoring_failures([&] { return kept_outcome(cache, path, question); });
    if (kept) return std::move(*kept);
    PlanOutcome outcome = search();
    if (const std::optional<Json> entry = entry_json(question, outcome))
        ignoring_failures([&] { keep_outcome(cache, path, entry->dump() + "\n"); });
    return outcome;
}

}  // namespace windlass
