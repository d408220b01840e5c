#include "train/inference.h"

#include <unistd.h>

#include "base/error.h"
#include "base/log.h"
#include "device/cpu/isa.h"
#include "method/forward_only/magnitude_limits.h"
#include "model/families.h"
#include "model/load.h"
#include "train/budget.h"
#include "train/machine_cache.h"
#include "train/session.h"

namespace windlass {

Tokenizer open_tokenizer(FileSystem& files, const std::string& path, const ModelSpec& model) {
    Tokenizer tokenizer = Tokenizer::load(files, path);
    if (tokenizer.vocab_size() > model.vocab)
        throw UserError(ExitCode::model, path, "the tokenizer has {} ids, the model {}", tokenizer.vocab_size(),
                        model.vocab)
            .hint("the tokenizer files that belong to these weights");
    return tokenizer;
}

OpenModel open_model(FileSystem& files, const std::string& path, const std::vector<std::string>& ignored_keys) {
    ModelFolder folder = ModelFolder::open(files, path, {.ignored_keys = ignored_keys});
    HfConfig config = folder.config();
    TrainedModel model(build_model(config, folder.tensors()));
    for (const std::string& note : model.config_notes) log_warning("{}", note);
    Tokenizer tokenizer = open_tokenizer(files, path, model);
    return {std::move(folder), std::move(model), std::move(tokenizer)};
}

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
                            .micro_rows = shape.micro_rows,
                            .micro_count = shape.micro_count,
                            .row_lengths = std::move(shape.row_lengths),
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
        for (const char* end : {"", ".new", ".gradients"}) files_.remove_tree(store_path_ + end);
    } catch (const Error& error) {
        log_warning("{} is left behind: {}", store_path_, error.what());
    }
}

}  // namespace windlass
