#include "session/budget.h"

#include <malloc.h>
#include <sched.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>

#include "base/error.h"
#include "base/log.h"
#include "base/units.h"
#include "run/working_store.h"
#include "schedule/store_room.h"
#include "session/control_group.h"
#include "session/kernel_text.h"
#include "session/session.h"

namespace windlass {
namespace {

// Measured: compiled GEMM kernels and their caches, queues, the C library's heaps.
constexpr int64_t kProcessAllowance = 40 * kMiB;
constexpr int64_t kThreadAllowance = 4 * kMiB;
constexpr int64_t kThreadStack = 8 * kMiB;
constexpr int kExtraThreads = 8;  // lanes, queue workers, libraries

constexpr int64_t kStatusBytesMax = 64 * kKiB;

std::string own_status() {
    return read_kernel_text(real_files(), "/proc/self/status", kStatusBytesMax).value_or("");
}

// What a limit on reserved memory leaves after the stacks of threads that a run begins.
std::optional<MemoryLimit> reserved_limit(__rlimit_resource resource, int64_t used, int threads,
                                          std::string_view name) {
    rlimit limit{};
    if (getrlimit(resource, &limit) != 0 || limit.rlim_cur > static_cast<rlim_t>(INT64_MAX)) return std::nullopt;
    const auto whole = static_cast<int64_t>(limit.rlim_cur);
    return MemoryLimit{std::max<int64_t>(0, whole - used - kThreadStack * (threads + kExtraThreads)), whole, name};
}

int64_t limited(const ByteLimit& limit, std::string_view where, int64_t total) {
    return parse_bytes(limit.text.empty() ? "100%" : limit.text, where, total);
}

int64_t device_limit(const Config& config, int64_t total, double share) {
    if (config.device_memory.text.empty()) return static_cast<int64_t>(share * static_cast<double>(total));
    return limited(config.device_memory, "device_memory", total);
}

bool is_share(const ByteLimit& limit) {
    return limit.text.empty() || limit.text.ends_with('%');
}

// Memory beyond a limit with a name is not slow, as beyond what is available: the process is ended, or a call refused.
void keep_within(MemoryLimit& memory, int64_t available, const Config& config, Budgets& budgets) {
    if (memory.name.empty()) return;
    const DeviceId device = parse_device(config.device, "device");
    const bool emulates = device.kind == DeviceKind::cpu && device.own_memory;
    if (emulates) budgets.device = std::min(budgets.device, available);
    const int64_t most = available - (emulates ? budgets.device : 0);
    if (!is_share(config.ram) && budgets.ram <= most) memory.name = "";
    budgets.ram = std::min(budgets.ram, most);
}

// What an earlier part of the run left there is the run's: it continues with it, or begins by removing it. A share is
// of what is free, the run's own on top: a share of both would not hold the store of a run whose drive is full.
int64_t disk_limit(FileSystem& files, const Config& config) {
    files.make_folders(config.ssd_dir);
    const int64_t free = std::max<int64_t>(1, files.free_bytes(config.ssd_dir));  // a share of nothing is an error
    const int64_t allowed = limited(config.ssd_space, "ssd_space", free);
    const std::string store = working_store_path(config);
    if (!is_share(config.ssd_space) || store.empty()) return allowed;
    return allowed + store_file_bytes(files, store) + (files.exists(store) ? kStoreMetaRoom : 0);
}

// Free pages of the heap go back first: else a machine or a token cache that had to be made counts for the whole run,
// and the same words, planned again, give another plan.
int64_t process_memory(int threads) {
    malloc_trim(0);
    return private_memory() + kProcessAllowance + kThreadAllowance * threads;
}

}  // namespace

MemoryLimit memory_limit(FileSystem& files, int threads) {
    const std::string memory = read_kernel_text(files, "/proc/meminfo", kStatusBytesMax).value_or("");
    const std::string status = own_status();
    MemoryLimit least{kernel_bytes(memory, "MemAvailable"), kernel_bytes(memory, "MemTotal"), ""};
    const auto narrow = [&](const std::optional<MemoryLimit>& other) {
        if (other && other->left < least.left) least = *other;
    };
    if (const auto group = read_control_group(files, "").memory)
        narrow(MemoryLimit{group->left, group->limit, "control group"});
    narrow(reserved_limit(RLIMIT_AS, kernel_bytes(status, "VmSize"), threads, "ulimit -v"));
    narrow(reserved_limit(RLIMIT_DATA, kernel_bytes(status, "VmData"), threads, "ulimit -d"));
    return least;
}

std::string larger_limit(const MemoryLimit& limit) {
    if (limit.name.starts_with("ulimit"))
        return fmt::format("{} unlimited, in the shell before the command", limit.name);
    return "more memory for the control group (docker run --memory, systemd-run -p MemoryMax, sbatch --mem)";
}

void name_limit(const MemoryLimit& limit, NoFit& none) {
    if (limit.name.empty()) return;
    // More memory than the limit leaves is no way out.
    constexpr std::string_view kRam = "--ram ";
    std::erase_if(none.ways_out, [&](const std::string& way) {
        if (!way.starts_with(kRam)) return false;
        const std::string size = way.substr(kRam.size(), way.find(' ', kRam.size()) - kRam.size());
        return parse_bytes(size, kRam) > limit.left + private_memory();
    });
    none.allowed += fmt::format(" (memory: {} of {})", limit.name, format_bytes(limit.whole));
    none.ways_out.push_back(larger_limit(limit));
}

int64_t private_memory() {
    return kernel_bytes(own_status(), "RssAnon");
}

int64_t private_memory_peak() {
    const std::string status = own_status();
    const int64_t files = kernel_bytes(status, "RssFile") + kernel_bytes(status, "RssShmem");
    return std::max(kernel_bytes(status, "RssAnon"), kernel_bytes(status, "VmHWM") - files);
}

Budgets resolve_budgets(FileSystem& files, const Config& config, int threads, MemoryLimit& memory,
                        const DeviceProperties& device) {
    Budgets budgets;
    budgets.process = process_memory(threads);
    const int64_t available = memory.left + private_memory();
    budgets.ram = limited(config.ram, "ram", available);
    budgets.device =
        device.memory_bytes > 0
            ? device_limit(config, device.free_bytes, kDeviceShare)
            : device_limit(config, available, kDeviceShareBesideDisplay);  // cpu:emulate: next to the host's
    keep_within(memory, available, config, budgets);
    if (config.ssd_dir.empty()) return budgets;
    budgets.disk = disk_limit(files, config);
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

EnforcedMemory::EnforcedMemory(int64_t ram, int threads) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    static_cast<void>(ram), static_cast<void>(threads);
#else
    const std::string status = own_status();
    const int64_t reserved = std::max<int64_t>(0, kernel_bytes(status, "VmData") - kernel_bytes(status, "RssAnon"));
    const auto limit = static_cast<rlim_t>(ram + reserved + kThreadStack * (threads + kExtraThreads));
    rlimit current{};
    if (getrlimit(RLIMIT_DATA, &current) != 0) return;
    before_ = current.rlim_cur;
    current.rlim_cur = std::min(limit, current.rlim_cur);  // which is no more than rlim_max
    if (setrlimit(RLIMIT_DATA, &current) != 0)
        log_warning("the memory budget cannot be enforced: {}", std::strerror(errno));
#endif
}

EnforcedMemory::~EnforcedMemory() {
    rlimit current{};
    if (!before_ || getrlimit(RLIMIT_DATA, &current) != 0) return;
    current.rlim_cur = *before_;
    setrlimit(RLIMIT_DATA, &current);  // up to the hard limit, which was not changed, any process may
}

int default_threads(FileSystem& files) {
    cpu_set_t set;
    CPU_ZERO(&set);
    const int cores = sched_getaffinity(0, sizeof(set), &set) == 0 ? std::max(1, CPU_COUNT(&set)) : 1;
    return std::min(cores, read_control_group(files, "").processors.value_or(cores));
}

}  // namespace windlass
