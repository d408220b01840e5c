#include "session/variation.h"

#include <algorithm>
#include <exception>
#include <vector>

#include "data/new_adapter.h"
#include "device/cpu/team.h"
#include "method/param_groups.h"
#include "model/adapters/adapter.h"
#include "model/families.h"
#include "model/sublayers.h"
#include "session/budget.h"
#include "session/refresh.h"

namespace windlass {
namespace {

// As it is where nothing else is said of its kind.
ModelSpec with_usual_adapter(ModelSpec spec, const std::string& kind) {
    Config usual;
    usual.adapter = kind;
    const std::vector<int> layers = linear_layers_of_layers(spec);
    const AdapterSettings settings = new_adapter(usual, spec, layers);
    return with_adapter(std::move(spec), settings, layers);
}

TrainedModel model_for(const Session& session, const Recipe& recipe, const Variation& variation) {
    HfConfig hf_config = session.folder.config().apart();  // variations are planned at once
    ModelSpec spec = build_model(hf_config, session.folder.tensors());
    const bool as_session = variation.adapter == session.config.adapter;
    if (as_session && session.model.adapter)
        spec = with_adapter(std::move(spec), *session.model.adapter, adapted_layers(session.model));
    else if (!variation.adapter.empty())
        spec = with_usual_adapter(std::move(spec), variation.adapter);
    TrainedModel model(std::move(spec));
    if (as_session) apply_param_groups(session.model.groups, "param_groups", model);
    Config config = session.config;
    config.weight_storage = variation.weight_storage;
    set_kept_types(config, recipe, session.identity.frozen_storage, model);
    return recipe.probes() ? in_sublayers(model) : model;
}

// Another adapter's refreshes are as they are where nothing is said of them.
Config config_for(const Session& session, const Variation& variation) {
    Config config = variation.adapter == session.config.adapter ? session.config : Config();
    config.method = variation.method;
    config.weight_storage = variation.weight_storage;
    if (variation.method != session.config.method) config.lsp_refresh.reset();
    return config;
}

PlanRequest request_for(const Session& session, const Variation& variation) {
    PlanRequest request = session.request;
    request.policy = variation.policy;
    request.recompute = variation.recompute;
    request.update_time = variation.update_time;
    request.budgets.device = variation.device_bytes;
    request.budgets.step_disk_writes = variation.step_disk_writes;
    std::erase_if(request.schedules,
                  [](const ScheduleRequest& each) { return each.kind == ScheduleRequest::Kind::refresh; });
    for (ScheduleRequest& schedule : request.schedules) {
        schedule.rows = variation.micro_batch_size;
        schedule.micro_batches = static_cast<int>(variation.micro_batches);
    }
    return request;
}

}  // namespace

Variation variation_of(const Session& session) {
    return {.method = session.config.method,
            .adapter = session.config.adapter,
            .weight_storage = session.config.weight_storage,
            .state_format = session.numerics().state_format,
            .micro_batch_size = session.numerics().micro_batch_size,
            .micro_batches = session.numerics().micro_batches,
            .device_bytes = session.request.budgets.device,
            .policy = session.request.policy,
            .recompute = session.request.recompute,
            .update_time = session.request.update_time,
            .step_disk_writes = session.request.budgets.step_disk_writes};
}

Planned without_schedules(Planned planned) {
    planned.schedules = {};
    return planned;
}

std::optional<Planned> plan_variation(const Session& session, const Variation& variation) {
    if (variation == variation_of(session)) return without_schedules(session.planned);
    MethodOptions options = session.method_options;
    options.state_format = variation.state_format;
    options.max_grad_norm = with_method(session.config, variation.method).max_grad_norm;
    options.split_masters = variation.weight_storage == "split";
    Numerics numerics = session.numerics();
    numerics.state_format = variation.state_format;
    numerics.micro_batch_size = variation.micro_batch_size;
    numerics.micro_batches = variation.micro_batches;
    const Recipe recipe = make_recipe(variation.method, options);
    if (recipe.uses_gradients_at_once || !recipe.runs(PassKind::backward))
        numerics.gradient_format = GradientFormat::f32;
    TrainedModel model = model_for(session, recipe, variation);
    PlanRequest request = request_for(session, variation);
    if (const RefreshSettings refresh = refresh_settings(config_for(session, variation), recipe, model);
        refresh.every > 0) {
        set_refreshed(model);
        request.schedules.push_back(refresh_request(refresh, numerics));
    }
    PlanOutcome outcome = find_plan(model, recipe, numerics, session.machine, request);
    if (std::holds_alternative<NoFit>(outcome)) return std::nullopt;
    return without_schedules(std::get<Planned>(std::move(outcome)));
}

void plan_at_once(int64_t count, const std::function<void(int64_t index)>& plan) {
    std::vector<std::exception_ptr> failures(static_cast<size_t>(count));
    Team team(static_cast<int>(std::clamp<int64_t>(count, 1, default_threads())));
    team.parallel_for(count, [&](int64_t index, int) {
        try {
            plan(index);
        } catch (...) {
            failures[static_cast<size_t>(index)] = std::current_exception();
        }
    });
    for (const std::exception_ptr& failure : failures) {
        if (failure) std::rethrow_exception(failure);
    }
}

}  // namespace windlass
