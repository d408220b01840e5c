#include "method/recipe.h"
#include "run/calibrate_parts.h"
#include "run/kernel_call.h"

namespace windlass {
namespace {

constexpr double kNumbers = 2;  // for each weight: of the update and of the probes

}  // namespace

void calibrate_noise(Device& device, Stream& stream, int64_t rows, int64_t cols, Machine& machine) {
    const MethodOptions options;
    const Recipe recipe = make_recipe("zeroth_order", options);
    const LoneParam param{.spec = {.name = "noise", .shape = {rows, cols}},
                          .training = {},
                          .storage = {.store = StoreType::as_file, .dtype = DType::bf16},
                          .perturb = {}};
    const int64_t count = param.spec.numel(), bytes = count * dtype_bytes(DType::bf16);
    const std::unique_ptr<Memory> weights = device.allocate(bytes, MemoryKind::device);
    const std::unique_ptr<Memory> probes = device.allocate(2 * bytes, MemoryKind::device);
    fill_randomly(*weights, DType::bf16);
    StepParams deferred{.seed = 1, .step = 1, .learning_rate = 1e-6};
    recipe.prepare(options, deferred);
    deferred.perturb().scalars[0] = 1;
    StepParams step = deferred;
    step.step = 2;
    const ParamCell kernel = recipe.arrival().cells[static_cast<size_t>(stream.device())];
    const double seconds = best_seconds([&] {
        stream.launch([&](const Launch& launch) {
            const MaterializeCall arrival{.param = param,
                                          .weights = weights->address(launch),
                                          .steps = {&deferred, 1},
                                          .deferred = 1,
                                          .step = &step,
                                          .compute = DType::bf16,
                                          .probes = probes->address(launch)};
            kernel({.param = param, .arrival = &arrival}, launch.stream());
        });
        stream.synchronize();
    });
    machine.noise_per_s = rounded(kNumbers * static_cast<double>(count) / seconds);
}

}  // namespace windlass
