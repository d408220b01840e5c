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

// With any policy, and as many writes as it likes.
std::optional<Planned> plan_method(const Session& session, std::string_view method, StateFormat format) {
    Variation variation = variation_of(session);
    variation.method = method;
    variation.state_format = format;
    variation.policy = variation.update_time = "auto";
    variation.step_disk_writes = 0;
    std::optional<Planned> planned = plan_variation(session, variation);
    if (planned && method == session.config.method) planned->step = in_rounds(planned->step, session.rounds_most);
    return planned;
}

// The session's own plan answers for its method, unless a part of it was fixed that others are free to choose.
std::optional<Planned> plan_of_session(const Session& session, std::string_view method) {
    const PlanRequest& request = session.request;
    const bool is_free =
        request.policy == "auto" && request.update_time == "auto" && request.budgets.step_disk_writes == 0;
    if (method != session.config.method || !is_free) return std::nullopt;
    Planned planned = without_schedules(session.planned);
    planned.step = in_rounds(planned.step, session.rounds_most);
    return planned;
}

// With the format of the state that the session has, or, where any may be taken, the first that fits.
std::optional<Planned> plan_formats(const Session& session, std::string_view method) {
    if (session.config.state_format != "auto" || is_forward_only(find_method(method)))
        return plan_method(session, method, session.method_options.state_format);
    for (const StateFormat format : kStateFormats) {
        if (std::optional<Planned> planned = plan_method(session, method, format)) return planned;
    }
    return std::nullopt;
}

double learning_seconds(const MethodAdvice& advice) {
    return advice.planned->mean_seconds * advice.steps_factor;
}

}  // namespace

std::vector<MethodAdvice> compare_methods(const Session& session) {
    std::vector<MethodAdvice> methods;
    for (const Method* method : all_methods()) {
        std::optional<Planned> own = plan_of_session(session, method->name);
        methods.push_back({.method = std::string(method->name),
                           .planned = own ? std::move(own) : plan_formats(session, method->name),
                           .steps_factor = steps_for_one_of_adam(*method, session.method_options)});
    }
    return methods;
}

std::string advised_method(const std::vector<MethodAdvice>& methods) {
    const MethodAdvice* best = nullptr;
    for (const MethodAdvice& each : methods) {
        if (!each.planned) continue;
        if (!is_forward_only(find_method(each.method))) return each.method;
        if (best == nullptr || learning_seconds(each) < learning_seconds(*best)) best = &each;
    }
    return best == nullptr ? "" : best->method;
}

std::string others_that_fit(FileSystem& files, const Config& config) {
    std::vector<std::string> found;
    for (const Method* each : all_methods()) {
        const std::string_view method = each->name;
        if (method == config.method) continue;
        Config other = config;
        other.method = method;
        other.policy = other.update_time = "auto";
        try {
            const Session session = prepare_session(files, other, std::nullopt, ConfigUse::plan);
            const Planned& planned = session.planned;
            const auto disk = planned.disk_bytes > 0 ? fmt::format(" and {} of disk", format_bytes(planned.disk_bytes))
                                                     : std::string();
            found.push_back(fmt::format("method={}, which fits with {} of memory{}: {} a step, {} steps", method,
                                        format_bytes(planned.memory_bytes), disk,
                                        format_seconds(session.seconds_at_most()),
                                        is_forward_only(*each) ? "many times the" : "far fewer"));
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
            rows.push_back({"  " + each.method, "does not fit", "-", "-", "-", "-", "-", steps});
            continue;
        }
        const Planned& planned = *each.planned;
        const auto bytes = [](int64_t count) { return count > 0 ? format_bytes(count) : std::string("-"); };
        rows.push_back({"  " + each.method, planned.plan.policy, format_seconds(planned.mean_seconds),
                        bytes(planned.device_bytes), bytes(planned.memory_bytes), bytes(planned.disk_bytes),
                        bytes(planned.step.demand.disk_write_bytes), steps});
    }
    const std::string best = advised_method(methods);
    std::string text = aligned_table(rows);
    if (best.empty()) return text + "Advice    no method fits\n";
    text += fmt::format("Advice    {}: {}\n", best,
                        is_forward_only(find_method(best))
                            ? "backpropagation does not fit; expect many times the steps"
                            : "backpropagation fits, and learns the same in far fewer steps");
    return text;
}

Json advice_json(const std::vector<MethodAdvice>& methods) {
    Json rows = Json::array();
    for (const MethodAdvice& each : methods) {
        Json row = {{"method", each.method}, {"fits", each.planned.has_value()}, {"steps_factor", each.steps_factor}};
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
