#include "infer/inference.h"

#include <unistd.h>

#include "base/error.h"
#include "base/log.h"
#include "device/cpu/isa.h"
#include "method/forward_only/magnitude_limits.h"
#include "model/families.h"
#include "model/load.h"
#include "session/budget.h"
#include "session/machine_cache.h"
#include "session/session.h"

namespace windlass {

namespace {

// What is only read needs no low halves: in 8 or 4 bits it is a fraction of the files.
void keep_narrow(OpenModel& opened, const std::string& weight_storage) {
    if (weight_storage == "as_file") return;
    TrainedModel& model = opened.model;
    set_store(model, StoreType::as_file);
    weight_storage == "f8" ? keep_in_8_bits(model) : keep_in_4_bits(model);
    set_by_magnitudes(model, /*sparse_share=*/1, [&](int param, int64_t first, std::span<float> out) {
        load_elements(opened.folder, model.params[static_cast<size_t>(param)], first, out);
    });
}

}  // namespace

Inference::Inference(FileSystem& files, OpenModel& opened, const InferenceOptions& options, InferenceShape shape)
    : files_(files) {
    keep_narrow(opened, options.weight_storage);
    const int threads = options.threads > 0 ? options.threads : default_threads();
    const Numerics numerics{.compute = resolve_compute(options.dtype, opened.model),
                            .micro_batch_size = shape.micro_batch_size,
                            .micro_batches = shape.micro_batches,
                            .sequence_lengths = std::move(shape.sequence_lengths),
                            .kernel_path = std::string(isa_name(cpu_isa()))};
    Config budgets_config;
    budgets_config.ram = options.ram;
    budgets_config.ssd_dir = options.ssd_dir;
    const Recipe recipe = forward_recipe();
    const PlanRequest request{.threads = threads,
                              .budgets = resolve_budgets(files, budgets_config, threads),
                              .schedules = std::move(shape.schedules)};
    planned_ = make_plan(opened.model, recipe, numerics, known_machine(files, options.ssd_dir, threads), request);
    if (planned_.plan.store) store_path_ = fmt::format("{}/inference-{}.wls", options.ssd_dir, getpid());
    if (options.ram_given) enforce_memory(request.budgets.ram, threads);
    engine_ = std::make_unique<Engine>(files, EngineSetup{.model = opened.model,
                                                          .recipe = recipe,
                                                          .numerics = numerics,
                                                          .plan = planned_.plan,
                                                          .schedules = planned_.schedules,
                                                          .store_path = store_path_,
                                                          .seed = options.seed,
                                                          .profile = options.profile});
    engine_->load(opened.folder, "{}");
}

Inference::~Inference() {
    engine_.reset();
    if (store_path_.empty()) return;
    try {
        for (const char* end : {"", ".new", ".gradients", ".activations"}) files_.remove_tree(store_path_ + end);
    } catch (const Error& error) {
        log_warning("{} is left behind: {}", store_path_, error.what());
    }
}

}  // namespace windlass
