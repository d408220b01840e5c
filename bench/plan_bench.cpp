// plan_bench: what a plan costs: choices evaluated, processor seconds, and how that compares with lowering, checking
// and simulating the found plan once.
//
//   plan_bench [MODEL_FOLDER]...     default: every folder of examples/plans
//
// AdamW on all parameters, eight rows of 2,048 tokens, on each machine of the list below, without comparisons.
#include <ctime>
#include <filesystem>
#include <set>

#include "base/file.h"
#include "model/families.h"
#include "plan/planner.h"
#include "schedule/machine_profiles.h"

namespace windlass {
namespace {

constexpr int64_t kRows = 8, kLength = 2048;
constexpr double kHostShare = 0.8;    // of the host's memory, as plan takes by default
constexpr double kDeviceShare = 0.9;  // of the device's

double processor_seconds() {
    timespec time{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

PlanRequest request_for(const Machine& machine, const Numerics& numerics) {
    PlanRequest request{.device = {.kind = DeviceKind::fake, .own_memory = true}, .threads = machine.threads};
    request.budgets = {.ram = static_cast<int64_t>(kHostShare * static_cast<double>(machine.memory_bytes)),
                       .disk = int64_t{1} << 43,
                       .device = static_cast<int64_t>(kDeviceShare * static_cast<double>(machine.device_memory_bytes))};
    request.schedules = {{.rows = numerics.micro_batch_size,
                          .sequence_length = kLength,
                          .micro_batches = static_cast<int>(numerics.micro_batches)}};
    return request;
}

void measure(const std::string& folder, const std::string& machine_name) {
    const std::string path = folder + "/config.json";
    HfConfig config = HfConfig::parse(read_text(real_files(), path, HfConfig::kBytesMax), path);
    const TrainedModel model(build_model(config, {}));
    const Recipe recipe = make_recipe("adamw", {});
    const Machine machine = find_machine(real_files(), machine_name);
    const Numerics numerics{.micro_batch_size = kRows, .micro_batches = 1, .sequence_lengths = {kLength}};
    const PlanRequest request = request_for(machine, numerics);
    const double begin = processor_seconds();
    const PlanOutcome outcome = find_plan(model, recipe, numerics, machine, request);
    const double seconds = processor_seconds() - begin;
    const std::string name = std::filesystem::path(folder).filename();
    const auto* planned = std::get_if<Planned>(&outcome);
    if (planned == nullptr) {
        fmt::print("{:<16}{:<24}{:>8.2f} s  does not fit\n", name, machine_name, seconds);
        return;
    }
    const double before = processor_seconds();
    evaluate_plan(model, recipe, numerics, machine, request, planned->plan);
    const double once = processor_seconds() - before;
    fmt::print(
        "{:<16}{:<24}{:>8.2f} s {:>6} evaluations, {:>5.2f} ms each; lowered once {:>6.2f} ms; a step of {:.4f} s\n",
        name, machine_name, seconds, planned->evaluations, 1e3 * seconds / planned->evaluations, 1e3 * once,
        planned->mean_seconds);
}

}  // namespace
}  // namespace windlass

int main(int argc, char** argv) {
    using namespace windlass;
    std::set<std::string> folders(argv + 1, argv + argc);
    if (folders.empty()) {
        for (const auto& entry : std::filesystem::directory_iterator("examples/plans"))
            if (entry.is_directory()) folders.insert(entry.path());
    }
    for (const std::string& folder : folders)
        for (const char* machine : {"rtx4090-desktop", "rtx4090-server-12gen4", "h100-server-4gen5"})
            measure(folder, machine);
    return 0;
}
