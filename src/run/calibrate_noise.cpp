#include "base/file.h"
#include "method/recipe.h"
#include "run/calibrate_parts.h"

namespace windlass {
namespace {

constexpr int64_t kRows = 2048, kCols = 4096;  // beyond what caches hold
constexpr double kNumbers = 2;                 // for each weight: of the update and of the probes

}  // namespace

void calibrate_noise(Stream& stream, Machine& machine) {
    const MethodOptions options;
    const Recipe recipe = make_recipe("zeroth_order", options);
    const LoneParam param{.spec = {.name = "noise", .shape = {kRows, kCols}},
                          .training = {},
                          .storage = {.store = StoreType::as_file, .dtype = DType::bf16},
                          .perturb = {}};
    const int64_t count = param.spec.numel(), bytes = count * dtype_bytes(DType::bf16);
    HugeBuffer weights(bytes, true), probes(2 * bytes, true);
    StepParams deferred{.seed = 1, .step = 1, .learning_rate = 1e-6};
    recipe.prepare(options, deferred);
    deferred.perturb().scalars[0] = 1;
    StepParams step = deferred;
    step.step = 2;
    const MaterializeCall call{.param = param,
                               .weights = weights.data(),
                               .steps = {&deferred, 1},
                               .deferred = 1,
                               .step = &step,
                               .compute = DType::bf16,
                               .probes = probes.data()};
    const double seconds =
        best_seconds([&] { recipe.materialize[static_cast<size_t>(stream.device())](call, stream); });
    machine.noise_per_s = rounded(kNumbers * static_cast<double>(count) / seconds);
}

}  // namespace windlass
