#include "session/cheaper.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <sstream>

#include "base/json.h"
#include "base/units.h"
#include "schedule/kernel_rate.h"
#include "session/budget.h"
#include "session/run_text.h"
#include "session/variation.h"

namespace windlass {
namespace {

constexpr double kWorthALine = 1.1;  // worth a line
constexpr double kNearlyAll = 0.8;   // of what the best of a kind gains: then a smaller change will do
constexpr int64_t kTimesRows = 16;   // rows of a step that are tried, over those it has
constexpr int64_t kMicroBatchesMost = 64;
constexpr std::string_view kAuto = "auto";

// Changes of different kinds can all be made to one variation.
using Change = std::function<void(Variation&)>;
// Changes of one kind, the least first. One of them is made.
using Kind = std::vector<Change>;

Kind other_formats(const Session& session) {
    Kind kind;
    if (session.recipe.state.empty()) return kind;
    for (const StateFormat format : kStateFormats) {
        if (format > session.numerics().state_format)
            kind.emplace_back([format](Variation& variation) { variation.state_format = format; });
    }
    return kind;
}

// A kernel that was not measured goes by the rate of large products, which says too little to compare by.
bool knows_kernels(const Session& session, int64_t micro_batch_size) {
    if (session.machine.kernels.empty()) return true;
    std::vector<OpSize> sizes;
    for (const int64_t length : session.numerics().sequence_lengths)
        sizes.push_back({.rows = micro_batch_size,
                         .sequence_length = length,
                         .device = session.request.device.kind,
                         .compute = session.numerics().compute});
    const std::vector<KernelCase> cases = kernel_cases(session.model, session.recipe, sizes);
    return std::ranges::all_of(cases, [&](const KernelCase& c) { return session.machine.kernels.contains(c.key); });
}

// The same rows cut into other micro-batches. Where the user has not said how, the planner has looked at all.
Kind other_micro_batches(const Session& session) {
    Kind kind;
    const Numerics& now = session.numerics();
    const int64_t rows = session.rows_per_step();
    for (int64_t cut = session.rows_per_example(); cut <= rows; cut *= 2) {
        if (!session.config.per_device_train_batch_size || rows % cut != 0 || cut == now.micro_batch_size) continue;
        if (!knows_kernels(session, cut)) continue;
        kind.emplace_back([cut](Variation& variation) {
            variation.micro_batches = variation.micro_batch_size * variation.micro_batches / cut;
            variation.micro_batch_size = cut;
        });
    }
    return kind;
}

// Weights cross a link once a step, however many rows it has. Of a step that has many micro-batches there is little to
// gain, and planning takes as long as there are micro-batches.
Kind more_rows(const Session& session) {
    Kind kind;
    for (int64_t times = 4; times <= kTimesRows; times *= 4) {
        if (times * session.numerics().micro_batches > kMicroBatchesMost) break;
        kind.emplace_back([times](Variation& variation) { variation.micro_batches *= times; });
        if (session.config.per_device_train_batch_size &&
            knows_kernels(session, times * session.numerics().micro_batch_size))
            kind.emplace_back([times](Variation& variation) { variation.micro_batch_size *= times; });
    }
    return kind;
}

Kind more_of_the_device(const Session& session) {
    const auto bytes = static_cast<int64_t>(kDeviceShare * static_cast<double>(session.machine.device_memory_bytes));
    if (bytes <= session.request.budgets.device) return {};
    return {[bytes](Variation& variation) { variation.device_bytes = bytes; }};
}

// What the user has decided, decided by the planner: which values are kept, when updates run, where things live.
Kind planners_choice(const Session& session) {
    Kind kind;
    const Variation now = variation_of(session);
    for (const auto field : {&Variation::recompute, &Variation::update_time, &Variation::policy}) {
        if (now.*field != kAuto) kind.emplace_back([field](Variation& variation) { variation.*field = kAuto; });
    }
    if (kind.size() > 1)
        kind.emplace_back([all = kind](Variation& variation) {
            for (const Change& change : all) change(variation);
        });
    return kind;
}

using Settings = std::vector<std::pair<std::string, std::string>>;

// What differs from the session, as words of a configuration.
Settings settings_of(const Session& session, const Variation& variation) {
    const Variation now = variation_of(session);
    const int64_t accumulation = session.config.gradient_accumulation_steps;
    Settings settings;
    const auto add = [&](std::string key, std::string_view value) { settings.emplace_back(std::move(key), value); };
    if (variation.state_format != now.state_format) add("state_format", state_format_name(variation.state_format));
    if (variation.micro_batch_size != now.micro_batch_size)
        add("per_device_train_batch_size", fmt::format("{}", variation.micro_batch_size / session.rows_per_example()));
    if (variation.micro_batches != now.micro_batches)
        add("gradient_accumulation_steps",
            fmt::format("{}", accumulation * variation.micro_batches / now.micro_batches));
    if (variation.device_bytes != now.device_bytes) add("device_memory", fmt::format("{:.0f}%", 100 * kDeviceShare));
    if (variation.recompute != now.recompute) add("gradient_checkpointing", variation.recompute);
    if (variation.update_time != now.update_time) add("update_time", variation.update_time);
    if (variation.policy != now.policy) add("policy", variation.policy);
    return settings;
}

std::string changes_of(const Session& session, const Variation& variation) {
    const int64_t rows = variation.micro_batch_size * variation.micro_batches;
    return rows == session.rows_per_step() ? "" : fmt::format("{} rows a step, not {}", rows, session.rows_per_step());
}

std::optional<Cheaper> plan_cheaper(const Session& session, const Variation& variation) {
    std::optional<Planned> planned = plan_variation(session, variation);
    if (!planned) return std::nullopt;
    Cheaper found{
        .settings = settings_of(session, variation),
        .planned = std::move(*planned),
        .tokens = variation.micro_batch_size * variation.micro_batches * session.numerics().sequence_lengths.back(),
        .changes = changes_of(session, variation)};
    const Simulation& step = found.planned.step;
    found.step_seconds = in_rounds(step, session.rounds_most).seconds + found.planned.mean_seconds - step.seconds;
    const int64_t tokens = session.rows_per_step() * session.numerics().sequence_lengths.back();
    found.gain = found.tokens_per_second() * session.seconds_at_most() / static_cast<double>(tokens);
    return found;
}

// In the order of the variations; nothing where one does not fit.
std::vector<std::optional<Cheaper>> plan_all(const Session& session, const std::vector<Variation>& variations) {
    std::vector<std::optional<Cheaper>> found(variations.size());
    plan_at_once(std::ssize(variations), [&](int64_t index) {
        const auto at = static_cast<size_t>(index);
        found[at] = plan_cheaper(session, variations[at]);
    });
    return found;
}

// The first of a kind that gains nearly as much as any of it; the kind's size where none is worth a line.
size_t best_of(std::span<const std::optional<Cheaper>> kind) {
    double most = 0;
    for (const auto& each : kind) most = std::max(most, each ? each->gain : 0);
    const double enough = std::max(kWorthALine, kNearlyAll * most);
    const auto found = std::ranges::find_if(kind, [&](const auto& each) { return each && each->gain >= enough; });
    return static_cast<size_t>(found - kind.begin());
}

// Another method where it learns as much sooner.
std::vector<Cheaper> other_methods(const Session& session, const std::vector<MethodAdvice>& methods) {
    const auto is_own = [&](const MethodAdvice& each) { return is_of_session(session, each); };
    const auto own = std::ranges::find_if(methods, is_own);
    std::vector<Cheaper> found;
    if (own == methods.end()) return found;
    for (const MethodAdvice& each : methods) {
        // How much less an adapter learns nobody knows beforehand.
        if (is_own(each) || !each.planned || each.adapter != session.config.adapter) continue;
        const double factor = each.steps_factor / own->steps_factor;
        Settings settings;
        if (each.method != session.config.method) settings.emplace_back("method", each.method);
        if (each.weight_storage != session.config.weight_storage)
            settings.emplace_back("weight_storage", each.weight_storage);
        Cheaper other{.settings = std::move(settings),
                      .planned = *each.planned,
                      .step_seconds = each.planned->mean_seconds,
                      .tokens = session.rows_per_step() * session.numerics().sequence_lengths.back(),
                      .changes = factor == 1 ? "" : fmt::format("{:.2g} times the steps", factor)};
        other.gain = session.seconds_at_most() / (other.step_seconds * factor);
        if (other.gain >= kWorthALine) found.push_back(std::move(other));
    }
    return found;
}

}  // namespace

std::vector<Cheaper> find_cheaper(const Session& session, const std::vector<MethodAdvice>& methods) {
    const std::vector<Kind> kinds = {other_formats(session), other_micro_batches(session), more_rows(session),
                                     more_of_the_device(session), planners_choice(session)};
    const Variation now = variation_of(session);
    std::vector<Variation> variations;
    for (const Kind& kind : kinds) {
        for (const Change& change : kind) change(variations.emplace_back(now));
    }
    std::vector<std::optional<Cheaper>> planned = plan_all(session, variations);
    std::vector<Cheaper> found = other_methods(session, methods);
    Variation together = now;
    size_t begin = 0, merged = 0;
    for (const Kind& kind : kinds) {
        const size_t best = best_of(std::span(planned).subspan(begin, kind.size()));
        if (best < kind.size()) {
            kind[best](together);
            ++merged;
            found.push_back(std::move(*planned[begin + best]));
        }
        begin += kind.size();
    }
    std::ranges::stable_sort(found, std::greater(), &Cheaper::gain);
    if (merged < 2) return found;
    std::optional<Cheaper> all = plan_cheaper(session, together);
    if (all && all->gain > found.front().gain) found.insert(found.begin(), std::move(*all));
    return found;
}

std::string cheaper_text(const std::vector<Cheaper>& found) {
    if (found.empty()) return "Cheaper   no other setting that was tried learns a tenth faster\n";
    const auto bytes = [](int64_t count) { return count > 0 ? format_bytes(count) : std::string("-"); };
    std::vector<std::vector<std::string>> rows = {{"Cheaper", "gain", "a step", "tok/s", "device", "memory", "disk"}};
    for (const Cheaper& each : found)
        rows.push_back({"", fmt::format("{:.3g} x", each.gain), format_seconds(each.step_seconds),
                        fmt::format("{:.0f}", each.tokens_per_second()), bytes(each.planned.device_bytes),
                        bytes(each.planned.memory_bytes), bytes(each.planned.disk_bytes)});
    // Settings have a line of their own: to be copied, and because beside the figures they would pass most terminals.
    std::istringstream figures(aligned_table(rows));
    std::string text, line;
    std::getline(figures, line);
    text = line + "\n";
    for (const Cheaper& each : found) {
        std::getline(figures, line);
        text += " ";
        for (const auto& [key, value] : each.settings) text += fmt::format(" {}={}", key, value);
        text += (each.changes.empty() ? "" : fmt::format("  ({})", each.changes)) + "\n" + line + "\n";
    }
    return text;
}

Json cheaper_json(const std::vector<Cheaper>& found) {
    Json rows = Json::array();
    for (const Cheaper& each : found) {
        Json settings = Json::object();
        for (const auto& [key, value] : each.settings) settings[key] = value;
        rows.push_back({{"settings", settings},
                        {"gain", each.gain},
                        {"step_seconds", each.step_seconds},
                        {"tokens", each.tokens},
                        {"tokens_per_second", each.tokens_per_second()},
                        {"device_bytes", each.planned.device_bytes},
                        {"memory_bytes", each.planned.memory_bytes},
                        {"disk_bytes", each.planned.disk_bytes},
                        {"changes", each.changes}});
    }
    return rows;
}

}  // namespace windlass
