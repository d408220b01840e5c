#include "session/plan_cache.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <limits>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "config/user_folder.h"
#include "format/checksum.h"
#include "plan/plan_again.h"

namespace windlass {
namespace {

constexpr std::string_view kEntryEnding = ".plan";
constexpr std::string_view kEntryHead = "windlass plan 1 ";  // and the checksum of the rest
constexpr int64_t kEntryBytesMax = 16 * 1024;
constexpr size_t kEntriesMax = 1024;
constexpr double kSpare = 1.005;
constexpr double kRoom = 1.0 + 1.0 / 32;  // of a budget, over the one that an entry was found under

// A device without memory of its own has no budget: the key is set all the same, to a share of the free memory.
Budgets budgets_of(const PlanRequest& request) {
    Budgets budgets = request.budgets;
    if (!request.device.own_memory) budgets.device = 0;
    return budgets;
}

Json entry_json(const PlanQuestion& question, const PlanOutcome& outcome) {
    const Budgets b = budgets_of(question.request);
    Json json = {{"ram", b.ram}, {"process", b.process}, {"device", b.device}, {"disk", b.disk}};
    if (const auto* planned = std::get_if<Planned>(&outcome)) {
        json["policy"] = planned->plan.policy;
        json["choice"] = planned->choice;
        json["seconds"] = planned->mean_seconds;
        json["evaluations"] = planned->evaluations;
    } else {
        const NoFit& none = std::get<NoFit>(outcome);
        json["needs"] = none.needs;
        json["allowed"] = none.allowed;
        json["ways_out"] = none.ways_out;
    }
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

// A refusal names sizes, with half a percent to spare: it holds for the same budgets, and a process of as much memory.
// That nothing beats a rival has no words.
std::optional<PlanOutcome> kept_refusal(const PlanQuestion& question, const Json& entry) {
    const Budgets now = budgets_of(question.request);
    NoFit none{entry.at("needs").get<std::string>(), entry.at("allowed").get<std::string>(),
               entry.at("ways_out").get<std::vector<std::string>>()};
    if (question.rival && none.needs.empty()) return none;
    const auto process = static_cast<double>(now.process), before = number(entry, "process");
    const bool is_same = static_cast<double>(now.ram) == number(entry, "ram") &&
                         static_cast<double>(now.device) == number(entry, "device") &&
                         static_cast<double>(now.disk) == number(entry, "disk");
    if (!is_same || process < before || process > before * kSpare) return std::nullopt;
    return none;
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
std::optional<PlanOutcome> outcome_of(const PlanQuestion& question, const Json& entry) {
    if (has_more_room(budgets_of(question.request), entry)) return std::nullopt;
    if (!entry.contains("policy")) return kept_refusal(question, entry);
    const std::optional<Choice> choice = kept_choice(entry.at("choice"));
    const std::optional<int64_t> evaluations = integer_of(entry.at("evaluations"));
    if (!choice || !evaluations) return std::nullopt;
    std::optional<Planned> planned = plan_again(question.model, question.recipe, question.numerics, question.machine,
                                                question.request, {entry.at("policy").get<std::string>(), *choice});
    if (!planned || planned->mean_seconds != number(entry, "seconds")) return std::nullopt;
    planned->evaluations = static_cast<int>(*evaluations);
    return std::move(*planned);
}

std::optional<PlanOutcome> kept_outcome(const PlanCache& cache, const std::string& path, const PlanQuestion& question) {
    if (!cache.files->exists(path)) return std::nullopt;
    const std::string text = read_text(*cache.files, path, kEntryBytesMax);
    const size_t end = text.find('\n');
    if (end == std::string::npos) return std::nullopt;
    const std::string body = text.substr(end + 1);
    if (text.substr(0, end) != fmt::format("{}{:016x}", kEntryHead, xxh3_64(bytes_of(body)))) return std::nullopt;
    return outcome_of(question, parse_json(body, path, ExitCode::storage));
}

// The oldest quarter, once there are too many.
void remove_oldest(const PlanCache& cache) {
    std::vector<std::string> names = cache.files->list(cache.folder);
    if (names.size() <= kEntriesMax) return;
    std::vector<std::pair<int64_t, std::string>> entries;
    for (const std::string& name : names) {
        if (name.find(kEntryEnding) != std::string::npos)
            entries.emplace_back(cache.files->status(cache.folder + "/" + name).modified_ns, name);
    }
    std::ranges::sort(entries);
    for (size_t i = 0; i < entries.size() / 4; ++i) cache.files->remove_file(cache.folder + "/" + entries[i].second);
}

// Not synced: what a power cut leaves of an entry has a wrong checksum.
void keep_outcome(const PlanCache& cache, const std::string& path, const std::string& body) {
    static std::atomic<int> count = 0;
    cache.files->make_folders(cache.folder);
    remove_oldest(cache);
    const std::string text = fmt::format("{}{:016x}\n{}", kEntryHead, xxh3_64(bytes_of(body)), body);
    if (std::ssize(text) > kEntryBytesMax) return;
    const std::string own = fmt::format("{}.{}.{}", path, getpid(), ++count);
    {
        const auto file = cache.files->open(own, {.mode = OpenMode::create});
        file->write_at(bytes_of(text), 0);
    }
    cache.files->rename(own, path);
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

}  // namespace

PlanCache plan_cache_of(FileSystem& files, const Config& config, KeptPlans kept) {
    const auto is_size = [](const ByteLimit& limit) { return !limit.text.empty() && !limit.text.ends_with('%'); };
    PlanCache cache{
        .files = &files,
        .folder = "",
        .given = {
            .ram = is_size(config.ram), .device = is_size(config.device_memory), .disk = is_size(config.ssd_space)}};
    if (kept == KeptPlans::used) cache.folder = ignoring_failures([] { return user_cache_folder() + "/plans"; });
    return cache;
}

PlanOutcome find_plan(const PlanCache& cache, const PlanQuestion& question) {
    const auto search = [&] {
        return find_plan(question.model, question.recipe, question.numerics, question.machine, question.request,
                         question.rival);
    };
    if (cache.folder.empty()) return search();
    const std::optional<uint64_t> key = plan_key(question, cache.given);
    if (!key) return search();
    const std::string path = fmt::format("{}/{:016x}{}", cache.folder, *key, kEntryEnding);
    std::optional<PlanOutcome> kept = ignoring_failures([&] { return kept_outcome(cache, path, question); });
    if (kept) return std::move(*kept);
    PlanOutcome outcome = search();
    ignoring_failures([&] { keep_outcome(cache, path, entry_json(question, outcome).dump() + "\n"); });
    return outcome;
}

}  // namespace windlass
