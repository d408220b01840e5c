#include "session/cheaper.h"

#include <algorithm>
#include <array>
#include <optional>
#include <span>

#include "base/json.h"
#include "base/units.h"
#include "config/choices.h"
#include "session/cheaper_changes.h"

namespace windlass {
namespace {

constexpr double kWorthALine = 1.1;    // worth a line
constexpr double kWorthAnAdapter = 2;  // for what trains less than was asked for
constexpr double kNearlyAll = 0.8;     // share of the best gain of a kind: a smaller change with that much will do

std::optional<Cheaper> plan_cheaper(const Session& session, const Variation& variation, const ShouldStop& should_stop) {
    std::optional<Planned> planned = plan_variation(session, variation, should_stop);
    if (!planned) return std::nullopt;
    Cheaper found{
        .settings = settings_of(session, variation),
        .planned = std::move(*planned),
        .tokens = variation.micro_batch_size * variation.micro_batches * session.numerics().sequence_lengths.back(),
        .changes = changes_of(session, variation)};
    const Simulation& step = found.planned.step;
    // A redo comes once a step, however many rounds the step has.
    found.step_seconds = in_rounds(step, session.rounds_most).seconds + found.planned.mean_seconds - step.seconds;
    const int64_t tokens = session.rows_per_step() * session.numerics().sequence_lengths.back();
    found.gain = found.tokens_per_second() * session.seconds_at_most() / static_cast<double>(tokens);
    return found;
}

// The first of a kind that gains nearly as much as any of it; the kind's size where none is worth a line.
size_t best_of(std::span<const std::optional<Cheaper>> kind) {
    double most = 0;
    for (const auto& each : kind) most = std::max(most, each ? each->gain : 0);
    // The smallest change that gains nearly as much: larger batches and coarser formats have a price that no simulation
    // knows.
    const double enough = std::max(kWorthALine, kNearlyAll * most);
    const auto found = std::ranges::find_if(kind, [&](const auto& each) { return each && each->gain >= enough; });
    return static_cast<size_t>(found - kind.begin());
}

// How much less an adapter learns is not known. Groups of parameters are named by the model's own, which an
// adapter does not train.
bool offers_adapter(const Session& session, const MethodAdvice& each) {
    return session.config.adapter.empty() && each.adapter == "lora" && session.recipe.runs(PassKind::backward) &&
           session.config.freeze.empty() && session.config.param_groups.empty();
}

// As it was planned: by any policy.
CheaperSettings method_settings(const Session& session, const MethodAdvice& each) {
    const Config& config = session.config;
    const bool is_qlora = each.adapter == "lora" && kept_as(each.weight_storage) == KeptAs::nf4;
    CheaperSettings settings;
    if (each.method != config.method) settings.emplace_back("method", each.method);
    if (each.adapter != config.adapter) settings.emplace_back("adapter", is_qlora ? "qlora" : each.adapter);
    if (each.weight_storage != config.weight_storage && (!is_qlora || each.adapter == config.adapter))
        settings.emplace_back("weight_storage", each.weight_storage);
    const Method& method = find_method(each.method);
    if (gradient_format_of(config) != GradientFormat::f32 &&
        (method.recipe({}).uses_gradients_at_once() || method.recipe({}).probes()))
        settings.emplace_back("gradient_format", "f32");
    if (!session.request.policy.empty()) settings.emplace_back("policy", "auto");
    if (session.request.update_time) settings.emplace_back("update_time", "auto");
    return settings;
}

std::string method_changes(const Session& session, const MethodAdvice& each, double factor) {
    if (each.adapter != session.config.adapter)
        return kept_as(each.weight_storage) == KeptAs::nf4 ? "trains an adapter, over weights in 4 bits"
                                                           : "trains an adapter";
    return factor == 1 ? "" : fmt::format("{:.2g} times the steps", factor);
}

}  // namespace

std::vector<Cheaper> cheaper_methods(const Session& session, const std::vector<MethodAdvice>& methods) {
    const auto own = std::ranges::find_if(methods, [&](const auto& each) { return is_of_session(session, each); });
    std::vector<Cheaper> found;
    if (own == methods.end()) return found;
    for (const MethodAdvice& each : methods) {
        const bool is_adapter = offers_adapter(session, each);
        if (is_of_session(session, each) || !each.planned) continue;
        if (each.adapter != session.config.adapter && !is_adapter) continue;
        const double factor = each.steps_factor / own->steps_factor;
        Cheaper other{.settings = method_settings(session, each),
                      .planned = *each.planned,
                      .step_seconds = each.planned->mean_seconds,
                      .tokens = session.rows_per_step() * session.numerics().sequence_lengths.back(),
                      .changes = method_changes(session, each, factor)};
        // By what is learned, not by steps: a method that needs twice as many must be more than twice as fast.
        other.gain = session.seconds_at_most() / (other.step_seconds * factor);
        if (other.gain >= (is_adapter ? kWorthAnAdapter : kWorthALine)) found.push_back(std::move(other));
    }
    return found;
}

CheaperSearch::CheaperSearch(const Session& session) : session_(session), kinds_(cheaper_changes(session)) {
    for (const ChangeKind& kind : kinds_) {
        for (const Change& change : kind) change(variations_.emplace_back(variation_of(session)));
    }
    planned_.resize(variations_.size());
}

void CheaperSearch::run(const SearchOrder& order, const std::function<void(Cheaper&&)>& found) {
    Variation together = variation_of(session_);
    size_t kind = 0, begin = 0;
    int merged = 0;
    double most = 0;
    // The kinds that end with this variation, and those that have none.
    const auto end_kinds = [&](size_t end) {
        for (; kind < kinds_.size() && begin + kinds_[kind].size() <= end; begin += kinds_[kind++].size()) {
            const size_t best = best_of(std::span(planned_).subspan(begin, kinds_[kind].size()));
            if (best == kinds_[kind].size()) continue;
            kinds_[kind][best](together);
            ++merged;
            most = std::max(most, planned_[begin + best]->gain);
            found(std::move(*planned_[begin + best]));
        }
    };
    SearchOrder taking = order;
    taking.take = [&](int64_t index, bool done) {
        if (!done)
            not_reached_.push_back(settings_words(settings_of(session_, variations_[static_cast<size_t>(index)])));
        end_kinds(static_cast<size_t>(index) + 1);
    };
    plan_in_order(
        count(),
        [&](int64_t index, const ShouldStop& should_stop) {
            const auto at = static_cast<size_t>(index);
            planned_[at] = plan_cheaper(session_, variations_[at], should_stop);
        },
        taking);
    if (merged < 2) return;
    std::optional<Cheaper> all;
    taking.take = [&](int64_t, bool done) {
        if (!done) not_reached_.push_back(settings_words(settings_of(session_, together)));
    };
    plan_in_order(
        1, [&](int64_t, const ShouldStop& should_stop) { all = plan_cheaper(session_, together, should_stop); },
        taking);
    // Together they may gain less than one of them alone, since they compete for the same memory.
    if (all && all->gain > most) found(std::move(*all));
}

namespace {

std::string cheaper_row(const std::array<std::string, 7>& cells) {
    return fmt::format("{:<8}  {:>6}  {:>8}  {:>7}  {:>10}  {:>10}  {:>10}\n", cells[0], cells[1], cells[2], cells[3],
                       cells[4], cells[5], cells[6]);
}

}  // namespace

std::string cheaper_head() {
    return cheaper_row({"Faster", "gain", "a step", "tok/s", "device", "memory", "disk"});
}

// Settings have a line of their own: to be copied, and because with the figures they would pass most terminals.
std::string cheaper_lines(const Cheaper& cheaper) {
    const auto bytes = [](int64_t count) { return count > 0 ? format_bytes(count) : std::string("-"); };
    return fmt::format("  {}{}\n", settings_words(cheaper.settings),
                       cheaper.changes.empty() ? "" : fmt::format("  ({})", cheaper.changes)) +
           cheaper_row({"", fmt::format("{:.3g} x", cheaper.gain), format_seconds(cheaper.step_seconds),
                        fmt::format("{:.0f}", cheaper.tokens_per_second()), bytes(cheaper.planned.device_bytes),
                        bytes(cheaper.planned.memory_bytes), bytes(cheaper.planned.disk_bytes)});
}

Json cheaper_json(const Cheaper& found) {
    Json settings = Json::object();
    for (const auto& [key, value] : found.settings) settings[key] = value;
    return {{"settings", settings},
            {"gain", found.gain},
            {"step_seconds", found.step_seconds},
            {"tokens", found.tokens},
            {"tokens_per_second", found.tokens_per_second()},
            {"device_bytes", found.planned.device_bytes},
            {"memory_bytes", found.planned.memory_bytes},
            {"disk_bytes", found.planned.disk_bytes},
            {"changes", found.changes}};
}

}  // namespace windlass
