#include "session/advice.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <functional>

#include "base/error.h"
#include "base/json.h"
#include "base/units.h"
#include "config/choices.h"
#include "plan/refusal.h"
#include "session/run_text.h"

namespace windlass {
namespace {

double steps_for_one_of_adam(const Method& method, const MethodOptions& options) {
    return method.steps_for_one_of_adam == nullptr ? 1 : method.steps_for_one_of_adam(options);
}

bool is_forward_only(const Method& method) {
    return method.recipe({}).probes();
}
bool uses_gradients_at_once(const Method& method) {
    return method.recipe({}).uses_gradients_at_once();
}

// With any policy.
std::optional<Planned> plan_format(const Session& session, const MethodAdvice& wanted, StateFormat format,
                                   const ShouldStop& should_stop) {
    Variation variation = variation_of(session);
    variation.method = wanted.method;
    variation.adapter = wanted.adapter;
    variation.weight_storage = wanted.weight_storage;
    variation.state_format = format;
    variation.policy.clear();
    variation.update_time.reset();
    if (const auto writes = static_cast<double>(variation.step_disk_writes); writes > 0) {
        const double own = steps_for_one_of_adam(method_of(session.config), session.method_options);
        // The limit is on the run: a method that needs more steps may write less in each of them.
        variation.step_disk_writes = std::max<int64_t>(1, static_cast<int64_t>(writes * own / wanted.steps_factor));
    }
    std::optional<Planned> planned = plan_variation(session, variation, should_stop);
    if (planned && wanted.method == session.config.method)
        planned->step = in_rounds(planned->step, session.rounds_most);
    return planned;
}

// "adamw", "adamw, qlora"
std::string name_of(const Session& session, const MethodAdvice& wanted) {
    if (wanted.adapter.empty()) return wanted.method;
    const bool own = wanted.adapter == session.config.adapter;
    return fmt::format("{}, {}{}", wanted.method, kept_as(wanted.weight_storage) == KeptAs::nf4 ? "q" : "",
                       own ? session.model.adapter->kind : wanted.adapter);
}

// The least first: what changes most for a run that is slow or does not fit.
int place_of(const Session& session, const MethodAdvice& each) {
    if (is_of_session(session, each)) return 0;
    const Method& method = find_method(each.method);
    if (is_forward_only(method)) return 4;
    if (uses_gradients_at_once(method)) return 2;
    return each.adapter.empty() || each.adapter == "lora" || each.adapter == session.config.adapter ? 1 : 3;
}

// The session's own plan answers for its method, unless a part of it was fixed that others are free to choose.
std::optional<Planned> plan_of_session(const Session& session, const MethodAdvice& wanted) {
    const PlanRequest& request = session.request;
    const bool is_free = request.policy.empty() && !request.update_time;
    if (!is_of_session(session, wanted) || !is_free) return std::nullopt;
    Planned planned = without_schedules(session.planned);
    planned.step = in_rounds(planned.step, session.rounds_most);
    return planned;
}

// With the format of the state that the session has, or, where any may be taken, the first that fits.
std::optional<Planned> plan_any_format(const Session& session, const MethodAdvice& wanted,
                                       const ShouldStop& should_stop) {
    if (state_format_of(session.config) || is_forward_only(find_method(wanted.method)))
        return plan_format(session, wanted, session.method_options.state_format, should_stop);
    for (const StateFormat format : kStateFormats) {
        if (std::optional<Planned> planned = plan_format(session, wanted, format, should_stop)) return planned;
    }
    return std::nullopt;
}

double steps_of(const MethodAdvice& method, const RunCosts& costs) {
    return method.steps_factor * static_cast<double>(costs.steps);
}
double run_seconds(const MethodAdvice& method, const RunCosts& costs) {
    return method.planned->mean_seconds * steps_of(method, costs);
}
double run_writes(const MethodAdvice& method, const RunCosts& costs) {
    return static_cast<double>(method.planned->step.demand.disk_write_bytes) * steps_of(method, costs);
}

constexpr double kShortRun = 3600;    // seconds: no run this short is too slow
constexpr double kMuchSlower = 4;     // than the fastest
constexpr double kWearOfARun = 0.01;  // of the drives' life

// By how much a step learns; the least place is best.
int learning_place(const MethodAdvice& each) {
    const Method& method = find_method(each.method);
    if (is_forward_only(method)) return 3;
    if (uses_gradients_at_once(method)) return 2;
    return each.adapter.empty() ? 0 : 1;
}

const MethodAdvice* advised(const std::vector<MethodAdvice>& methods, const RunCosts& costs) {
    std::vector<const MethodAdvice*> fitting;
    for (const MethodAdvice& each : methods) {
        if (each.planned) fitting.push_back(&each);
    }
    if (fitting.empty()) return nullptr;
    const auto has_backward = [](const MethodAdvice* each) { return !is_forward_only(find_method(each->method)); };
    // Steps without backpropagation are short, and many times as many are needed. As the fastest one, such a method
    // would make all others dear.
    if (std::ranges::any_of(fitting, has_backward)) std::erase_if(fitting, std::not_fn(has_backward));
    const auto seconds = [&](const MethodAdvice* each) { return run_seconds(*each, costs); };
    const MethodAdvice* const fastest = *std::ranges::min_element(fitting, {}, seconds);
    if (!has_backward(fastest)) return fastest;
    std::ranges::stable_sort(fitting, {}, [](const MethodAdvice* each) { return learning_place(*each); });
    const auto found = std::ranges::find_if(fitting, [&](const MethodAdvice* each) {
        // Both: a run of minutes may well be slower than it must, if each of its steps learns more.
        const bool is_slow = seconds(each) > kShortRun && seconds(each) > kMuchSlower * seconds(fastest);
        return !is_slow && run_writes(*each, costs) <= kWearOfARun * costs.endurance_bytes;
    });
    return found == fitting.end() ? fastest : *found;
}

}  // namespace

bool is_of_session(const Session& session, const MethodAdvice& each) {
    return each.method == session.config.method && each.adapter == session.config.adapter &&
           each.weight_storage == session.config.weight_storage;
}

std::vector<MethodAdvice> methods_to_compare(const Session& session) {
    std::vector<MethodAdvice> list;
    const auto add = [&](std::string_view method, const std::string& adapter, const std::string& storage) {
        MethodAdvice each{.method = std::string(method), .adapter = adapter, .weight_storage = storage};
        each.name = name_of(session, each);
        each.steps_factor = steps_for_one_of_adam(find_method(each.method), session.method_options);
        const bool is_there = std::ranges::any_of(list, [&](const auto& other) { return other.name == each.name; });
        if (!is_there) list.push_back(std::move(each));
    };
    const std::string &adapter = session.config.adapter, &storage = session.config.weight_storage;
    for (const Method* method : all_methods()) {
        if (is_forward_only(*method)) {
            add(method->name, adapter, storage);
            continue;
        }
        const bool is_own = method->name == session.config.method;
        const std::string kept = storage == "split" && !is_own ? "as_file" : storage;
        add(method->name, "", adapter.empty() ? kept : "as_file");
        if (is_own || !uses_gradients_at_once(*method)) add(method->name, adapter, kept);
        if (uses_gradients_at_once(*method)) continue;  // there is little of an adapter to save
        add(method->name, "lora", "as_file");
        add(method->name, "lora", "nf4");
        add(method->name, "lsp", "as_file");
    }
    std::ranges::stable_sort(list, {}, [&](const MethodAdvice& each) { return place_of(session, each); });
    return list;
}

void plan_method(const Session& session, const ShouldStop& should_stop, MethodAdvice& method) {
    std::optional<Planned> own = plan_of_session(session, method);
    method.planned = own ? std::move(own) : plan_any_format(session, method, should_stop);
}

RunCosts run_costs(const Session& session) {
    RunCosts costs;
    if (session.total_steps() > 0) costs.steps = session.total_steps();
    // In steps of AdamW, the measure that methods are compared by.
    const double factor = steps_for_one_of_adam(method_of(session.config), session.method_options);
    costs.steps = std::max<int64_t>(1, static_cast<int64_t>(static_cast<double>(costs.steps) / factor));
    if (session.machine.endurance_bytes > 0) costs.endurance_bytes = session.machine.endurance_bytes;
    return costs;
}

std::string advised_method(const std::vector<MethodAdvice>& methods, const RunCosts& costs) {
    const MethodAdvice* const best = advised(methods, costs);
    return best == nullptr ? "" : best->name;
}

namespace {

// With the flags that make a configuration of it, and leave to the planner what was set by hand. Flags, as in the rest
// of a refusal: an override would lose against a flag that is given already.
std::vector<std::pair<std::string, Config>> other_configs(const Config& config) {
    std::string placement;
    if (!is_open(config.policy)) placement += " --policy auto";
    if (update_time_of(config)) placement += " --update-time auto";
    std::vector<std::pair<std::string, Config>> others;
    const auto add = [&](const std::string& flags) -> Config& {
        Config& other = others.emplace_back(flags, config).second;
        other.policy = other.update_time = "auto";
        return other;
    };
    const std::string recompute = !recompute_of(config) ? "" : " --gradient-checkpointing auto";
    if (const std::string flags = placement + recompute; !flags.empty())
        add(flags.substr(1)).gradient_checkpointing = "auto";
    const bool backward = !is_forward_only(method_of(config));
    if (backward && config.adapter.empty()) add("--adapter lora" + placement).adapter = "lora";
    if (backward && kept_as(config.weight_storage) != KeptAs::nf4 &&
        (config.adapter.empty() || config.adapter == "lora")) {
        Config& other = add("--adapter qlora" + placement);
        other.adapter = "lora";
        other.weight_storage = "nf4";
    }
    for (const Method* method : all_methods()) {
        if (method->name == config.method) continue;
        Config& other = add(fmt::format("--method {}{}", method->name, placement));
        other = with_method(std::move(other), method->name);
    }
    return others;
}

// For a run of `config`, with another one.
std::string_view steps_with(const Config& config, const Session& other) {
    if (other.config.method == config.method) return "the same number of";
    if (other.recipe.probes()) return "many times as many";
    return is_forward_only(method_of(config)) ? "far fewer" : "the same number of";
}

}  // namespace

void find_others_that_fit(FileSystem& files, const Config& config, KeptPlans kept,
                          const std::function<void(const std::string&)>& found) {
    for (const auto& [flags, other] : other_configs(config)) {
        try {
            const Session session = prepare_session(files, other, std::nullopt, ConfigUse::plan, kept);
            const Planned& planned = session.planned;
            const auto disk = planned.disk_bytes > 0 ? fmt::format(" and {} of disk", format_bytes(planned.disk_bytes))
                                                     : std::string();
            found(fmt::format("{}, which fits with {} of {}memory{}: {} a step, {} steps", flags,
                              format_bytes(planned.memory_bytes), planned.plan.own_memory() ? "host " : "", disk,
                              format_seconds(session.seconds_at_most()), steps_with(config, session)));
        } catch (const UserError&) {
            // It is too large as well, or does not go with other settings: the refusal does without it.
        }
    }
}

size_t name_width(const std::vector<MethodAdvice>& methods) {
    size_t width = 0;
    for (const MethodAdvice& each : methods) width = std::max(width, each.name.size());
    return width;
}

namespace {

// Lines come one by one, so columns are as wide as what is usual in them.
std::string methods_row(size_t width, const std::array<std::string, 8>& cells) {
    return fmt::format("{:<{}}  {:>12}  {:>8}  {:>10}  {:>10}  {:>10}  {:>13}  {:>5}\n", cells[0], width + 2, cells[1],
                       cells[2], cells[3], cells[4], cells[5], cells[6], cells[7]);
}

// "1000 steps take 42 min", "... and write 3.2 TiB, 0.1 % of the drives' life"
std::string costs_words(const MethodAdvice& method, const RunCosts& costs, std::string_view take,
                        std::string_view write) {
    std::string text = fmt::format("{} {}", take, format_seconds(run_seconds(method, costs)));
    const double writes = run_writes(method, costs);
    if (writes > 0)
        text += fmt::format(" and {} {}, {:.2g} % of the drives' life", write,
                            format_bytes(static_cast<int64_t>(writes)), 100 * writes / costs.endurance_bytes);
    return text;
}

// Why not a method whose steps learn more; empty if no such method fits.
std::string instead_of(const std::vector<MethodAdvice>& methods, const MethodAdvice& best, const RunCosts& costs) {
    const MethodAdvice* better = nullptr;
    for (const MethodAdvice& each : methods) {
        if (!each.planned || learning_place(each) >= learning_place(best)) continue;
        if (better == nullptr || learning_place(each) < learning_place(*better)) better = &each;
    }
    if (better == nullptr) return "";
    return fmt::format("{} steps {}; {} would {}", costs.steps, costs_words(best, costs, "take", "write"), better->name,
                       costs_words(*better, costs, "take", "write"));
}

std::string reason_for(const std::vector<MethodAdvice>& methods, const MethodAdvice& best, const RunCosts& costs) {
    if (std::string reason = instead_of(methods, best, costs); !reason.empty()) return reason;
    switch (learning_place(best)) {
        case 0:
            return "it fits, and needs the fewest steps";
        case 1:
            return "it fits; training all parameters does not";
        case 2:
            return "it fits, since it keeps almost no state, and the gradients of a few blocks at a time";
        default:
            return "backpropagation does not fit; expect many times as many steps";
    }
}

}  // namespace

std::string methods_head(size_t width) {
    return methods_row(width, {"Methods", "policy", "a step", "device", "memory", "disk", "writes a step", "steps"});
}

std::string method_line(const MethodAdvice& method, size_t width) {
    const std::string name = "  " + method.name, steps = fmt::format("x {:.3g}", method.steps_factor);
    if (!method.planned) return methods_row(width, {name, "does not fit", "-", "-", "-", "-", "-", steps});
    const Planned& planned = *method.planned;
    const auto bytes = [](int64_t count) { return count > 0 ? format_bytes(count) : std::string("-"); };
    return methods_row(width, {name, planned.plan.policy, format_seconds(planned.mean_seconds),
                               bytes(planned.device_bytes), bytes(planned.memory_bytes), bytes(planned.disk_bytes),
                               bytes(planned.step.demand.disk_write_bytes), steps});
}

std::string advice_line(const std::vector<MethodAdvice>& methods, const RunCosts& costs) {
    const MethodAdvice* const best = advised(methods, costs);
    if (best == nullptr) return "Advice    no method fits\n";
    return fmt::format("Advice    use {}: {}\n", best->name, reason_for(methods, *best, costs));
}

Json method_json(const MethodAdvice& method, const RunCosts& costs) {
    Json row = {{"method", method.method}, {"fits", method.planned.has_value()}, {"steps_factor", method.steps_factor}};
    if (!method.adapter.empty()) row["adapter"] = method.adapter, row["weight_storage"] = method.weight_storage;
    if (!method.planned) return row;
    row["policy"] = method.planned->plan.policy;
    row["step_seconds"] = method.planned->mean_seconds;
    row["run_seconds"] = run_seconds(method, costs);
    row["run_write_bytes"] = run_writes(method, costs);
    row["device_bytes"] = method.planned->device_bytes;
    row["memory_bytes"] = method.planned->memory_bytes;
    row["disk_bytes"] = method.planned->disk_bytes;
    row["disk_write_bytes"] = method.planned->step.demand.disk_write_bytes;
    return row;
}

Json advice_json(const std::vector<MethodAdvice>& methods, const RunCosts& costs) {
    Json rows = Json::array();
    for (const MethodAdvice& each : methods) rows.push_back(method_json(each, costs));
    return {{"methods", rows}, {"advised", advised_method(methods, costs)}};
}

}  // namespace windlass
