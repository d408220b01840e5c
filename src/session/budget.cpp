#include "session/budget.h"

#include <malloc.h>
#include <sched.h>
#include <sys/resource.h>

#include <charconv>
#include <fstream>
#include <sstream>

#include "base/error.h"
#include "base/log.h"
#include "base/units.h"
#include "run/working_store.h"
#include "session/session.h"

namespace windlass {
namespace {

// Measured: compiled GEMM kernels and their caches, queues, the C library's heaps.
constexpr int64_t kProcessAllowance = 40 * kMiB;
constexpr int64_t kThreadAllowance = 4 * kMiB;
constexpr int64_t kThreadStack = 8 * kMiB;
constexpr int kExtraThreads = 8;  // lanes, queue workers, libraries

std::string read_kernel_file(const char* path) {
    std::ifstream file(path);
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
}

// The number after "name:" in kB, as bytes; 0 when there is no such line.
int64_t kernel_bytes(const std::string& text, std::string_view name) {
    const size_t at = text.find(fmt::format("{}:", name));
    if (at == std::string::npos) return 0;
    const size_t digit = text.find_first_of("0123456789", at + name.size());
    int64_t value = 0;
    if (digit != std::string::npos) std::from_chars(text.data() + digit, text.data() + text.size(), value);
    return value * 1024;
}

// A number in a file of the control group; -1 for "max" or no such file.
int64_t group_number(const char* path) {
    const std::string text = read_kernel_file(path);
    int64_t value = -1;
    if (!text.empty()) std::from_chars(text.data(), text.data() + text.size(), value);
    return value;
}

int64_t limited(const ByteLimit& limit, std::string_view where, int64_t total) {
    return parse_bytes(limit.text.empty() ? "100%" : limit.text, where, total);
}

int64_t device_limit(const Config& config, int64_t total, double share) {
    if (config.device_memory.text.empty()) return static_cast<int64_t>(share * static_cast<double>(total));
    return limited(config.device_memory, "device_memory", total);
}

// Free pages of the heap go back first: else a machine or a token cache that had to be made counts for the whole run,
// and the same words, planned again, give another plan.
int64_t process_memory(int threads) {
    malloc_trim(0);
    return private_memory() + kProcessAllowance + kThreadAllowance * threads;
}

}  // namespace

int64_t available_memory() {
    const int64_t available = kernel_bytes(read_kernel_file("/proc/meminfo"), "MemAvailable");
    const int64_t limit = group_number("/sys/fs/cgroup/memory.max");
    const int64_t used = group_number("/sys/fs/cgroup/memory.current");
    if (limit < 0 || used < 0) return available;
    const int64_t cache = kernel_bytes(read_kernel_file("/proc/meminfo"), "Cached");
    return std::min(available, std::max<int64_t>(0, limit - std::max<int64_t>(0, used - cache)));
}

int64_t private_memory() {
    return kernel_bytes(read_kernel_file("/proc/self/status"), "RssAnon");
}

int64_t private_memory_peak() {
    const std::string status = read_kernel_file("/proc/self/status");
    const int64_t files = kernel_bytes(status, "RssFile") + kernel_bytes(status, "RssShmem");
    return std::max(kernel_bytes(status, "RssAnon"), kernel_bytes(status, "VmHWM") - files);
}

Budgets resolve_budgets(FileSystem& files, const Config& config, int threads, const DeviceProperties& device) {
    Budgets budgets;
    budgets.process = process_memory(threads);
    const int64_t available = available_memory() + private_memory();
    budgets.ram = limited(config.ram, "ram", available);
    budgets.device =
        device.memory_bytes > 0
            ? device_limit(config, device.free_bytes, kDeviceShare)
            : device_limit(config, available, kDeviceShareBesideDisplay);  // cpu:emulate: next to the host's
    if (config.ssd_dir.empty()) return budgets;
    files.make_folders(config.ssd_dir);
    // What an earlier part of the run left there is the run's: it continues with it, or begins by removing it.
    const std::string store = working_store_path(config);
    const int64_t own = store.empty() ? 0 : store_file_bytes(files, store);
    budgets.disk = limited(config.ssd_space, "ssd_space", files.free_bytes(config.ssd_dir) + own);
    return budgets;
}

Budgets machine_budgets(const Machine& machine, const Config& config, int threads) {
    Budgets budgets;
    budgets.process = process_memory(threads);
    budgets.ram = limited(config.ram, "ram", machine.memory_bytes);
    if (machine.device_memory_bytes > 0)
        budgets.device = device_limit(config, machine.device_memory_bytes, device_memory_share(machine));
    if (machine.disk_bytes > 0) budgets.disk = limited(config.ssd_space, "ssd_space", machine.disk_bytes);
    return budgets;
}

double device_memory_share(const Machine& machine) {
    return machine.device_has_display ? kDeviceShareBesideDisplay : kDeviceShare;
}

void enforce_memory(int64_t ram, int threads) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    static_cast<void>(ram), static_cast<void>(threads);
#else
    const std::string status = read_kernel_file("/proc/self/status");
    const int64_t reserved = std::max<int64_t>(0, kernel_bytes(status, "VmData") - kernel_bytes(status, "RssAnon"));
    const auto limit = static_cast<rlim_t>(ram + reserved + kThreadStack * (threads + kExtraThreads));
    rlimit current{};
    if (getrlimit(RLIMIT_DATA, &current) != 0) return;
    current.rlim_cur = std::min(limit, current.rlim_max);
    if (setrlimit(RLIMIT_DATA, &current) != 0)
        log_warning("the memory budget cannot be enforced: {}", std::strerror(errno));
#endif
}

int default_threads() {
    cpu_set_t set;
    CPU_ZERO(&set);
    return sched_getaffinity(0, sizeof(set), &set) == 0 ? std::max(1, CPU_COUNT(&set)) : 1;
}

}  // namespace windlass
