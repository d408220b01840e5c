#include "session/variation.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "config/choices.h"
#include "data/new_adapter.h"
#include "method/param_groups.h"
#include "model/adapters/adapter.h"
#include "model/families.h"
#include "model/sublayers.h"
#include "session/budget.h"
#include "session/phase.h"

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
    config.dtype = dtype_name(variation.compute);
    set_kept_types(config, recipe, model);
    return recipe.probes() ? in_sublayers(model) : model;
}

// Another adapter's phases come as they do where nothing is said of them.
Config config_for(const Session& session, const Variation& variation) {
    Config config = variation.adapter == session.config.adapter ? session.config : Config();
    config.method = variation.method;
    config.weight_storage = variation.weight_storage;
    if (variation.method != session.config.method) (config.*session.phase.key).reset();
    return config;
}

PlanRequest request_for(const Session& session, const Variation& variation) {
    PlanRequest request = session.request;
    request.policy = variation.policy;
    request.recompute = variation.recompute;
    request.update_time = variation.update_time;
    request.budgets.device = variation.device_bytes;
    request.budgets.step_disk_writes = variation.step_disk_writes;
    const bool trains_the_same = variation.method == session.config.method &&
                                 variation.adapter == session.config.adapter &&
                                 variation.weight_storage == session.config.weight_storage;
    request.start = trains_the_same ? FoundChoice{session.planned.plan.policy, session.planned.choice} : FoundChoice{};
    std::erase_if(request.schedules,
                  [](const ScheduleRequest& each) { return each.kind == ScheduleRequest::Kind::phase; });
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
            .compute = session.numerics().compute,
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

std::optional<Planned> plan_variation(const Session& session, const Variation& variation,
                                      const ShouldStop& should_stop) {
    if (variation == variation_of(session)) return without_schedules(session.planned);
    MethodOptions options = session.method_options;
    options.state_format = variation.state_format;
    options.max_grad_norm = with_method(session.config, variation.method).max_grad_norm;
    options.split_masters = kept_as(variation.weight_storage) == KeptAs::split;
    Numerics numerics = session.numerics();
    numerics.state_format = variation.state_format;
    numerics.compute = variation.compute;
    numerics.micro_batch_size = variation.micro_batch_size;
    numerics.micro_batches = variation.micro_batches;
    const Recipe recipe = make_recipe(variation.method, options);
    if (recipe.uses_gradients_at_once() || !recipe.runs(PassKind::backward))
        numerics.gradient_format = GradientFormat::f32;
    TrainedModel model = model_for(session, recipe, variation);
    PlanRequest request = request_for(session, variation);
    request.should_stop = should_stop;
    if (const PhaseSettings phase = phase_settings(config_for(session, variation), recipe, model); phase.every > 0) {
        phase.phase->set_up(model);
        request.schedules.push_back(phase_request(phase, numerics));
    }
    PlanOutcome outcome = find_plan(session.plan_cache, {model, recipe, options, numerics, session.machine, request});
    if (std::holds_alternative<NoFit>(outcome)) return std::nullopt;
    return without_schedules(std::get<Planned>(std::move(outcome)));
}

namespace {

// Searches that run, and the thread that takes what they find.
class SearchCrew {
  public:
    SearchCrew(int64_t count, const std::function<void(int64_t, const ShouldStop&)>& plan, const SearchOrder& order)
        : plan_(plan), order_(order), ends_(static_cast<size_t>(count)) {
        const int most = order.threads > 0 ? order.threads : default_threads(real_files());
        for (int64_t i = 0; i < std::min<int64_t>(most, count); ++i) threads_.emplace_back([this] { work(); });
    }
    ~SearchCrew() {
        is_left_ = true;
        for (std::thread& thread : threads_) thread.join();
    }
    SearchCrew(const SearchCrew&) = delete;
    SearchCrew& operator=(const SearchCrew&) = delete;

    void take_all() {
        for (size_t index = 0; index < ends_.size(); ++index) {
            const bool done = wait_for(index);
            if (order_.take) order_.take(static_cast<int64_t>(index), done);
        }
    }

  private:
    static constexpr auto kWait = std::chrono::milliseconds(200);
    enum class End : uint8_t { none, done, stopped };

    bool should_stop() const { return is_left_ || (order_.should_stop && order_.should_stop()); }

    void work() {
        for (;;) {
            const auto index = static_cast<size_t>(next_++);
            if (index >= ends_.size()) return;
            End end = End::stopped;
            std::exception_ptr failure;
            try {
                if (!should_stop()) {
                    plan_(static_cast<int64_t>(index), [this] { return should_stop(); });
                    end = End::done;
                }
            } catch (const PlanStopped&) {
            } catch (...) {
                failure = std::current_exception();
            }
            const std::lock_guard lock(mutex_);
            ends_[index] = end;
            done_ += 1;
            if (failure && !failure_) failure_ = failure;
            changed_.notify_all();
        }
    }

    // Whether this search came to its end.
    bool wait_for(size_t index) {
        std::unique_lock lock(mutex_);
        while (ends_[index] == End::none && !failure_) {
            changed_.wait_for(lock, kWait);
            const int64_t done = done_;
            if (!order_.wait) continue;
            lock.unlock();
            order_.wait(done);
            lock.lock();
        }
        if (failure_) std::rethrow_exception(failure_);
        return ends_[index] == End::done;
    }

    const std::function<void(int64_t, const ShouldStop&)>& plan_;
    const SearchOrder& order_;
    std::mutex mutex_;  // of the four below
    std::condition_variable changed_;
    std::vector<End> ends_;
    int64_t done_ = 0;
    std::exception_ptr failure_;
    std::atomic<int64_t> next_ = 0;
    std::atomic<bool> is_left_ = false;
    std::vector<std::thread> threads_;
};

}  // namespace

void plan_in_order(int64_t count, const std::function<void(int64_t index, const ShouldStop& should_stop)>& plan,
                   const SearchOrder& order) {
    SearchCrew(count, plan, order).take_all();
}

}  // namespace windlass
