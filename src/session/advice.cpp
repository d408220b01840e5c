#include "session/advice.h"

#include "base/error.h"
#include "base/json.h"
#include "base/units.h"
#include "plan/refusal.h"
#include "session/run_text.h"
#include "session/variation.h"

namespace windlass {
namespace {

double steps_for_one_of_adam(const Method& method, const MethodOptions& options) {
    return method.steps_for_one_of_adam == nullptr ? 1 : method.steps_for_one_of_adam(options);
}

bool is_forward_only(const Method& method) {
    return method.recipe({}).probes();
}
bool uses_gradients_at_once(const Method& method) {
    return method.recipe({}).uses_gradients_at_once;
}

// With any policy, and as many writes as it likes.
std::optional<Planned> plan_method(const Session& session, const MethodAdvice& wanted, StateFormat format) {
    Variation variation = variation_of(session);
    variation.method = wanted.method;
    variation.adapter = wanted.adapter;
    variation.weight_storage = wanted.weight_storage;
    variation.state_format = format;
    variation.policy = variation.update_time = "auto";
    variation.step_disk_writes = 0;
    std::optional<Planned> planned = plan_variation(session, variation);
    if (planned && wanted.method == session.config.method)
        planned->step = in_rounds(planned->step, session.rounds_most);
    return planned;
}

// "adamw", "adamw, qlora"
std::string name_of(const Session& session, const MethodAdvice& wanted) {
    if (wanted.adapter.empty()) return wanted.method;
    const bool own = wanted.adapter == session.config.adapter;
    return fmt::format("{}, {}{}", wanted.method, wanted.weight_storage == "nf4" ? "q" : "",
                       own ? session.model.adapter->kind : wanted.adapter);
}

// What is compared: each method for what the session trains, and those with gradients for all parameters and for
// adapters.
std::vector<MethodAdvice> compared(const Session& session) {
    std::vector<MethodAdvice> list;
    const auto add = [&](std::string_view method, const std::string& adapter, const std::string& storage) {
        MethodAdvice each{.method = std::string(method), .adapter = adapter, .weight_storage = storage};
        each.name = name_of(session, each);
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
    return list;
}

// The session's own plan answers for its method, unless a part of it was fixed that others are free to choose.
std::optional<Planned> plan_of_session(const Session& session, const MethodAdvice& wanted) {
    const PlanRequest& request = session.request;
    const bool is_free =
        request.policy == "auto" && request.update_time == "auto" && request.budgets.step_disk_writes == 0;
    if (!is_of_session(session, wanted) || !is_free) return std::nullopt;
    Planned planned = without_schedules(session.planned);
    planned.step = in_rounds(planned.step, session.rounds_most);
    return planned;
}

// With the format of the state that the session has, or, where any may be taken, the first that fits.
std::optional<Planned> plan_formats(const Session& session, const MethodAdvice& wanted) {
    if (session.config.state_format != "auto" || is_forward_only(find_method(wanted.method)))
        return plan_method(session, wanted, session.method_options.state_format);
    for (const StateFormat format : kStateFormats) {
        if (std::optional<Planned> planned = plan_method(session, wanted, format)) return planned;
    }
    return std::nullopt;
}

double learning_seconds(const MethodAdvice& advice) {
    return advice.planned->mean_seconds * advice.steps_factor;
}

}  // namespace

bool is_of_session(const Session& session, const MethodAdvice& each) {
    return each.method == session.config.method && each.adapter == session.config.adapter &&
           each.weight_storage == session.config.weight_storage;
}

std::vector<MethodAdvice> compare_methods(const Session& session) {
    std::vector<MethodAdvice> methods = compared(session);
    plan_at_once(std::ssize(methods), [&](int64_t index) {
        MethodAdvice& each = methods[static_cast<size_t>(index)];
        std::optional<Planned> own = plan_of_session(session, each);
        each.planned = own ? std::move(own) : plan_formats(session, each);
        each.steps_factor = steps_for_one_of_adam(find_method(each.method), session.method_options);
    });
    return methods;
}

std::string advised_method(const std::vector<MethodAdvice>& methods) {
    // What keeps gradients first: AdamW, of all parameters or of an adapter.
    const auto fits = [](const MethodAdvice& each, bool at_once) {
        const Method& method = find_method(each.method);
        return each.planned && !is_forward_only(method) && uses_gradients_at_once(method) == at_once;
    };
    for (const bool at_once : {false, true}) {
        const auto found = std::ranges::find_if(methods, [&](const auto& each) { return fits(each, at_once); });
        if (found != methods.end()) return found->name;
    }
    const MethodAdvice* best = nullptr;
    for (const MethodAdvice& each : methods) {
        if (!each.planned) continue;
        if (best == nullptr || learning_seconds(each) < learning_seconds(*best)) best = &each;
    }
    return best == nullptr ? "" : best->name;
}

namespace {

// With the words that make a configuration of it.
std::vector<std::pair<std::string, Config>> other_configs(const Config& config) {
    std::vector<std::pair<std::string, Config>> others;
    const auto add = [&](std::string words) -> Config& {
        Config& other = others.emplace_back(std::move(words), config).second;
        other.policy = other.update_time = "auto";
        return other;
    };
    for (const Method* method : all_methods()) {
        if (method->name == config.method) continue;
        Config& other = add(fmt::format("method={}", method->name));
        other = with_method(std::move(other), method->name);
    }
    const bool backward = !is_forward_only(find_method(config.method));
    if (backward && config.adapter.empty()) add("adapter=lora").adapter = "lora";
    if (backward && config.weight_storage != "nf4" && (config.adapter.empty() || config.adapter == "lora")) {
        Config& other = add("adapter=qlora");
        other.adapter = "lora";
        other.weight_storage = "nf4";
    }
    return others;
}

}  // namespace

std::string others_that_fit(FileSystem& files, const Config& config) {
    std::vector<std::string> found;
    for (const auto& [words, other] : other_configs(config)) {
        try {
            const Session session = prepare_session(files, other, std::nullopt, ConfigUse::plan);
            const Planned& planned = session.planned;
            const auto disk = planned.disk_bytes > 0 ? fmt::format(" and {} of disk", format_bytes(planned.disk_bytes))
                                                     : std::string();
            found.push_back(fmt::format("{}, which fits with {} of memory{}: {} a step, {} steps", words,
                                        format_bytes(planned.memory_bytes), disk,
                                        format_seconds(session.seconds_at_most()),
                                        session.recipe.probes()                       ? "many times the"
                                        : is_forward_only(find_method(config.method)) ? "far fewer"
                                                                                      : "as many"));
        } catch (const UserError&) {
            // Too large as well, or not for what the configuration wants beside: the refusal stands without it.
        }
    }
    return fmt::format("{}", fmt::join(found, kNextWayOut));
}

std::string advice_text(const std::vector<MethodAdvice>& methods) {
    std::vector<std::vector<std::string>> rows = {
        {"Methods", "policy", "a step", "device", "memory", "disk", "writes a step", "steps"}};
    for (const MethodAdvice& each : methods) {
        const std::string steps = fmt::format("x {:.3g}", each.steps_factor);
        if (!each.planned) {
            rows.push_back({"  " + each.name, "does not fit", "-", "-", "-", "-", "-", steps});
            continue;
        }
        const Planned& planned = *each.planned;
        const auto bytes = [](int64_t count) { return count > 0 ? format_bytes(count) : std::string("-"); };
        rows.push_back({"  " + each.name, planned.plan.policy, format_seconds(planned.mean_seconds),
                        bytes(planned.device_bytes), bytes(planned.memory_bytes), bytes(planned.disk_bytes),
                        bytes(planned.step.demand.disk_write_bytes), steps});
    }
    const std::string best = advised_method(methods);
    std::string text = aligned_table(rows);
    if (best.empty()) return text + "Advice    no method fits\n";
    const MethodAdvice& advised = *std::ranges::find(methods, best, &MethodAdvice::name);
    text += fmt::format("Advice    {}: {}\n", best,
                        is_forward_only(find_method(advised.method))
                            ? "backpropagation does not fit; expect many times the steps"
                        : uses_gradients_at_once(find_method(advised.method))
                            ? "backpropagation fits where no gradients and no moments are kept"
                        : advised.adapter.empty() ? "backpropagation fits, and learns the same in far fewer steps"
                                                  : "backpropagation fits over an adapter, not over all parameters");
    return text;
}

Json advice_json(const std::vector<MethodAdvice>& methods) {
    Json rows = Json::array();
    for (const MethodAdvice& each : methods) {
        Json row = {{"method", each.method}, {"fits", each.planned.has_value()}, {"steps_factor", each.steps_factor}};
        if (!each.adapter.empty()) row["adapter"] = each.adapter, row["weight_storage"] = each.weight_storage;
        if (each.planned) {
            row["policy"] = each.planned->plan.policy;
            row["step_seconds"] = each.planned->mean_seconds;
            row["device_bytes"] = each.planned->device_bytes;
            row["memory_bytes"] = each.planned->memory_bytes;
            row["disk_bytes"] = each.planned->disk_bytes;
            row["disk_write_bytes"] = each.planned->step.demand.disk_write_bytes;
        }
        rows.push_back(std::move(row));
    }
    return {{"methods", rows}, {"advised", advised_method(methods)}};
}

}  // namespace windlass
