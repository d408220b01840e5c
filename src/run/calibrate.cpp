#include "run/calibrate.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/clock.h"
#include "base/units.h"
#include "device/cpu/isa.h"
#include "run/calibrate_parts.h"

namespace windlass {
namespace {

constexpr int kRounds = 5, kRoundsLeast = 3;  // one alone may fall into a moment when the process does not run
constexpr int64_t kNoiseRows = 2048, kNoiseCols = 4096;  // beyond what caches hold
constexpr int64_t kCopyBytes = 128 * kMiB, kSmallCopyBytes = 32 * kMiB;
constexpr int64_t kUsualMemory = 320 * kMiB, kSmallMemory = 240 * kMiB;  // measured, and an eighth
constexpr double kSecondsEach = 0.4;                                     // what is slow is measured less often

std::vector<double> seconds_of_rounds(const std::function<void()>& work) {
    const int64_t begin = now_ns();
    work();
    std::vector<double> rounds;
    do {
        const int64_t start = now_ns();
        work();
        rounds.push_back(seconds_since(start));
    } while (std::ssize(rounds) < kRoundsLeast ||
             (std::ssize(rounds) < kRounds && seconds_since(begin) < kSecondsEach));
    return rounds;
}

}  // namespace

double best_seconds(const std::function<void()>& work) {
    return std::ranges::min(seconds_of_rounds(work));
}

double usual_seconds(const std::function<void()>& work) {
    std::vector<double> rounds = seconds_of_rounds(work);
    const auto middle = rounds.begin() + std::ssize(rounds) / 2;
    std::ranges::nth_element(rounds, middle);
    return *middle;
}

double rounded(double rate) {
    if (!(rate > 0)) return 0;
    const double unit = std::pow(10.0, std::floor(std::log10(rate)) - 3);
    return unit < 1 ? std::round(rate / unit) / std::round(1 / unit) : std::round(rate / unit) * unit;
}

int64_t probe_memory(ProbeMemory memory) {
    return memory == ProbeMemory::usual ? kUsualMemory : kSmallMemory;
}

Machine calibrate_machine(FileSystem& files, const std::string& disk_folder, int threads, ProbeMemory memory) {
    Machine machine{.name = fmt::format("cpu-{}", isa_name(cpu_isa())), .threads = threads};
    machine.memory_bytes = int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE);
    const std::unique_ptr<Device> cpu = make_device({});
    const std::unique_ptr<Stream> stream = cpu->make_stream(threads);
    calibrate_products(*cpu, *stream, machine);
    calibrate_memory(*stream, memory == ProbeMemory::usual ? kCopyBytes : kSmallCopyBytes, machine);
    calibrate_noise(*cpu, *stream, kNoiseRows, kNoiseCols, machine);
    if (!disk_folder.empty()) calibrate_disk(files, disk_folder, machine);
    calibrate_update(files, disk_folder, *stream, machine);
    machine.updates = calibrate_update_kinds(*cpu, *stream, kUpdateSide);
    return machine;
}

}  // namespace windlass
