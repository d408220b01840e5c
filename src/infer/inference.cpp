#include "infer/inference.h"

#include <unistd.h>

#include "base/activity.h"
#include "base/error.h"
#include "base/log.h"
#include "base/math.h"
#include "config/choices.h"
#include "method/forward_only/magnitude_limits.h"
#include "model/families.h"
#include "model/load.h"
#include "run/working_store.h"
#include "session/budget.h"
#include "session/local_machine.h"
#include "session/session.h"

namespace windlass {

namespace {

// What is only read needs no low halves: in 8 or 4 bits it is a fraction of the files.
void keep_narrow(OpenModel& opened, KeptAs kept, DType compute) {
    if (kept == KeptAs::as_file || kept == KeptAs::split) return;
    TrainedModel& model = opened.model;
    set_store(model, StoreType::as_file);
    if (model.adapter) keep_frozen_as(model, compute);  // an adapter in f32 does not widen the base
    kept == KeptAs::f8 ? keep_in_8_bits(model) : keep_in_4_bits(model);
    set_by_magnitudes(model, /*sparse_share=*/1, opened.weights());
}

}  // namespace

Inference::Inference(FileSystem& files, OpenModel& opened, const Config& config, InferenceShape shape,
                     OpProfile* profile)
    : files_(files) {
    const DType compute = resolve_compute(config, opened.model);
    keep_narrow(opened, kept_as(config.weight_storage), compute);
    const int threads = config.threads ? static_cast<int>(*config.threads) : default_threads(files);
    const LocalMachine local = local_machine(files, config, threads, /*cases=*/{});
    if (!local.note.empty()) log_info("note: {}", local.note);
    const Numerics numerics{.compute = compute,
                            .micro_batch_size = shape.micro_batch_size,
                            .micro_batches = shape.micro_batches,
                            .sequence_lengths = std::move(shape.sequence_lengths),
                            .kernel_path = kernel_path(local.device)};
    const Recipe recipe = forward_recipe();
    const PlanRequest request{.policy = policy_of(config).value_or(""),
                              .device = local.device,
                              .threads = threads,
                              .budgets = local.budgets,
                              .schedules = std::move(shape.schedules)};
    planned_ = make_plan(opened.model, recipe, numerics, local.machine, request,
                         [&](NoFit& none) { name_limit(local.memory, none); });
    if (planned_.plan.store) store_path_ = fmt::format("{}/inference-{}.wls", config.ssd_dir, getpid());
    if (config.was_given("ram")) enforced_.emplace(local.budgets.ram, threads);
    engine_ = std::make_unique<Engine>(files, EngineSetup{.model = opened.model,
                                                          .recipe = recipe,
                                                          .numerics = numerics,
                                                          .plan = planned_.plan,
                                                          .schedules = planned_.schedules,
                                                          .store_path = store_path_,
                                                          .seed = static_cast<uint64_t>(config.seed),
                                                          .emulation = emulation_of(config),
                                                          .profile = profile});
    check_tied(opened.folder, opened.model);
    const Activity reading("reading weights", div_up(opened.model.param_count(), kChunkElements),
                           {.counts_engine_work = true});
    engine_->fill(0, "{}", opened.weights());
}

Inference::~Inference() {
    engine_.reset();
    if (store_path_.empty()) return;
    try {
        remove_store(files_, store_path_);
    } catch (const Error& error) {
        log_warning("{} could not be removed: {}", store_path_, error.what());
    }
}

}  // namespace windlass
