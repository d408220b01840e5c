#include "session/machine_cache.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <functional>
#include <new>
#include <optional>

#include "base/activity.h"
#include "base/error.h"
#include "base/file_error.h"
#include "base/full_disk.h"
#include "base/log.h"
#include "base/shell_word.h"
#include "base/units.h"
#include "config/user_folder.h"
#include "device/cpu/isa.h"
#include "run/calibrate.h"
#include "schedule/machine_text.h"
#include "session/budget.h"
#include "session/signals.h"

namespace windlass {
namespace {

// Raised when a probe measures more: what is kept of an older one is left alone.
constexpr int kProbeVersion = 6, kDeviceProbeVersion = 3;
constexpr double kAssumedDriveRate = 0.5e9;  // bytes a second: a drive on SATA

std::string read_all(int descriptor) {
    std::string text;
    char piece[4096];
    for (ssize_t count; (count = read(descriptor, piece, sizeof piece)) > 0;)
        text.append(piece, static_cast<size_t>(count));
    return text;
}

// How the process that measures ends: with a machine as its answer, or with a message.
enum ProbeEnd : int { kMeasured, kFailed, kNoMemory, kDriveFull };

ProbeEnd measure(const std::function<Machine()>& probe, std::string& answer) {
    try {
        answer = machine_text(probe());
        return kMeasured;
    } catch (const MachineError& error) {
        answer = error.what();
        return is_disk_full(error) ? kDriveFull : kFailed;
    } catch (const Error& error) {
        answer = error.what();
        return error.code() == ExitCode::no_fit ? kNoMemory : kFailed;
    } catch (const std::bad_alloc&) {
        return kNoMemory;
    } catch (const std::exception& error) {
        answer = error.what();
        return kFailed;
    }
}

// What it inherits it closes: the locks of a run are held as long as any copy of their descriptors is open, and a run
// that is killed must be free to start again at once.
void close_all_but(int kept) {
    constexpr unsigned kFirst = 3;
    const auto end = static_cast<unsigned>(kept);
    if (end > kFirst) close_range(kFirst, end - 1, 0);
    close_range(std::max(kFirst, end + 1), ~0U, 0);
}

// If memory runs out, the kernel ends this process first and not the one that waits for it.
void offer_to_be_killed() {
    const int file = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    if (file < 0) return;
    static_cast<void>(!write(file, "1000", 4));
    close(file);
}

// The forked process. Nothing may leave it upward: a second run of everything that main does would follow.
// It ends with its parent: an orphan would measure on.
[[noreturn]] void calibrate_and_exit(const std::function<Machine()>& probe, int answer, pid_t parent) noexcept {
    close_all_but(answer);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(kFailed);
    give_back_signals();
    offer_to_be_killed();
    std::string text;
    const ProbeEnd end = measure(probe, text);
    const bool is_whole = write(answer, text.data(), text.size()) == std::ssize(text);
    _exit(is_whole ? end : kFailed);
}

UserError no_memory(const MemoryLimit& memory) {
    const std::string name = memory.name.empty() ? "" : fmt::format(" ({})", memory.name);
    return std::move(UserError(ExitCode::no_fit, "memory", "measuring this machine takes about {}, {} are left{}",
                               format_bytes(probe_memory(ProbeMemory::small)), format_bytes(memory.left), name)
                         .hint(memory.name.empty() ? "end other programs" : larger_limit(memory)));
}

// In a process of its own: what probing takes of memory is neither in this run's peak nor under its limit.
Machine calibrate_apart(std::string_view what, const MemoryLimit& memory, const std::function<Machine()>& probe) {
    const Activity measuring("measuring this machine", 0, {.has_own_line = true});
    int ends[2];
    if (pipe(ends) != 0) throw MachineError("pipe", "probe", errno);
    const pid_t parent = getpid(), child = fork();
    if (child < 0) throw MachineError("fork", "probe", errno);
    if (child == 0) calibrate_and_exit(probe, ends[1], parent);
    close(ends[1]);
    const std::string text = read_all(ends[0]);
    close(ends[0]);
    int status = 0;
    waitpid(child, &status, 0);
    const int end = WIFEXITED(status) ? WEXITSTATUS(status) : kFailed;
    if (end == kMeasured) return parse_machine(text, "probe");
    if (end == kDriveFull) throw MachineError("probe", what, ENOSPC);
    // A library that was refused memory may end by any signal.
    if (end == kNoMemory || (WIFSIGNALED(status) && (WTERMSIG(status) == SIGKILL || !memory.name.empty())))
        throw no_memory(memory);
    throw UserError(ExitCode::storage, what.empty() ? "probe" : what, "this machine could not be measured{}{}",
                    text.empty() ? "" : ": ", text);
}

void note(const MachineError& error) {
    note_no_cache(user_cache_folder(), std::strerror(error.error_number()), kCacheHomeSetting);
}

// Nothing is kept where there is no cache.
bool has_cache(FileSystem& files, const std::string& path) {
    try {
        if (path.empty()) note_no_cache("", "", kCacheHomeSetting);
        if (!path.empty()) files.make_folders(parent_folder(path));
        return !path.empty();
    } catch (const MachineError& error) {
        note(error);
        return false;
    }
}

void keep(FileSystem& files, const std::string& path, const Machine& machine) {
    if (!has_cache(files, path)) return;
    const std::string own = fmt::format("{}.{}", path, getpid());  // others may be measuring, too
    try {
        write_text_atomic(files, own, machine_text(machine));
        files.rename(own, path);
    } catch (const MachineError& error) {
        note(error);
    }
}

// Nothing if none is kept, or if it is damaged: what can be measured again needs no repair.
std::optional<Machine> kept_machine(FileSystem& files, const std::string& path) {
    try {
        if (path.empty() || !files.exists(path)) return std::nullopt;
        return parse_machine(read_text(files, path, kMachineTextMax), path);
    } catch (const UserError& error) {
        log_warning("{}; this machine is measured again", error.what());
    } catch (const MachineError& error) {
        note(error);
    }
    return std::nullopt;
}

}  // namespace

std::string machine_cache_path(const std::string& disk_folder, int threads) {
    std::string name = fmt::format("machine-v{}-{}-{}", kProbeVersion, isa_name(cpu_isa()), threads);
    struct stat status {};
    if (!disk_folder.empty() && stat(disk_folder.c_str(), &status) == 0)
        name += fmt::format("-drive{}", static_cast<uint64_t>(status.st_dev));
    const std::string cache = user_cache_folder();
    return cache.empty() ? "" : fmt::format("{}/{}.txt", cache, name);
}

bool has_room_to_measure(FileSystem& files, const std::string& disk_folder) {
    return disk_folder.empty() || drive_probe_bytes(files.free_bytes(disk_folder)) > 0;
}

void assume_drive(FileSystem& files, const std::string& disk_folder, Machine& machine) {
    machine.disk_bytes = 0;  // a refusal then offers another folder, not another machine
    machine.disk_read_bytes_per_s = machine.disk_write_bytes_per_s = machine.disk_mixed_bytes_per_s = kAssumedDriveRate;
    machine.drives = 1;
    log_warning(
        "{}: {} are free, too little to measure the drive; {:.0f} MB/s are assumed. Try: free some space, then "
        "windlass doctor --ssd {}",
        disk_folder, format_bytes(files.free_bytes(disk_folder)), kAssumedDriveRate * 1e-6, shell_word(disk_folder));
}

namespace {

// Kept where there is a cache.
Machine measure_machine(FileSystem& files, const std::string& disk_folder, int threads) {
    const std::string path = machine_cache_path(disk_folder, threads);
    if (has_cache(files, path))
        log_info("measuring this machine, once; kept in {}", path);
    else
        log_info("measuring this machine");
    const MemoryLimit memory = memory_limit(files, threads);
    if (!memory.name.empty() && memory.left < probe_memory(ProbeMemory::small)) throw no_memory(memory);
    const ProbeMemory size = memory.left < probe_memory(ProbeMemory::usual) ? ProbeMemory::small : ProbeMemory::usual;
    const Machine machine =
        calibrate_apart(disk_folder, memory, [&] { return calibrate_machine(files, disk_folder, threads, size); });
    keep(files, path, machine);
    return machine;
}

}  // namespace

Machine known_machine(FileSystem& files, const std::string& disk_folder, int threads) {
    if (!disk_folder.empty()) files.make_folders(disk_folder);
    const std::string path = machine_cache_path(disk_folder, threads);
    if (const std::optional<Machine> kept = kept_machine(files, path)) return *kept;
    try {
        if (has_room_to_measure(files, disk_folder)) return measure_machine(files, disk_folder, threads);
    } catch (const MachineError& error) {
        if (disk_folder.empty() || !is_disk_full(error)) throw;  // filled meanwhile
    }
    // Without its drive: assumed rates are not kept.
    Machine machine = known_machine(files, "", threads);
    assume_drive(files, disk_folder, machine);
    return machine;
}

void keep_machine(FileSystem& files, const std::string& disk_folder, int threads, const Machine& machine) {
    keep(files, machine_cache_path(disk_folder, threads), machine);
}

namespace {

// A drive that was measured has a size.
bool is_drive_assumed(const Machine& machine) {
    return machine.disk_bytes == 0 && machine.disk_read_bytes_per_s > 0;
}

Machine without_drive(Machine machine) {
    machine.disk_read_bytes_per_s = machine.disk_write_bytes_per_s = machine.disk_mixed_bytes_per_s = 0;
    machine.drives = 0;
    return machine;
}

// Of many models: those of the others are measured again when they are needed.
void keep_these(std::span<const KernelCase> cases, Machine& machine) {
    if (std::ssize(machine_text(machine)) <= kMachineTextMax) return;
    std::erase_if(machine.kernels, [&](const auto& kernel) {
        return std::none_of(cases.begin(), cases.end(), [&](const KernelCase& c) { return c.key == kernel.first; });
    });
}

// A card's rates, next to those of its host with `threads` threads.
std::string device_cache_path(const DeviceProperties& device, int threads) {
    std::string name = fmt::format("{}-{}", device.name, device.kernel_path);
    std::ranges::replace_if(
        name, [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; }, '-');
    const std::string cache = user_cache_folder();
    return cache.empty() ? "" : fmt::format("{}/device-v{}-{}-{}.txt", cache, kDeviceProbeVersion, name, threads);
}

// What is the device's of `from`.
void take_device(const Machine& from, Machine& machine) {
    for (const auto field :
         {&Machine::gemm_bf16_flops, &Machine::gemm_f32_flops, &Machine::narrow_bf16_flops, &Machine::narrow_f32_flops,
          &Machine::attention_bf16_flops, &Machine::attention_f32_flops, &Machine::device_memory_bytes_per_s,
          &Machine::link_up_bytes_per_s, &Machine::link_down_bytes_per_s, &Machine::link_both_bytes_per_s,
          &Machine::noise_per_s, &Machine::kernel_seconds})
        machine.*field = from.*field;
    machine.update_busy_factor = std::min(machine.update_busy_factor, from.update_busy_factor);
    machine.unified_memory = false;
    machine.device_memory_bytes = from.device_memory_bytes;
    machine.kernels = from.kernels;
    machine.device_updates = from.device_updates;
}

}  // namespace

void add_kernels(FileSystem& files, const std::string& disk_folder, std::span<const KernelCase> cases, int threads,
                 Machine& machine) {
    const auto is_known = [&](const KernelCase& each) { return machine.kernels.contains(each.key); };
    const auto missing = cases.size() - static_cast<size_t>(std::count_if(cases.begin(), cases.end(), is_known));
    if (missing == 0) return;
    log_info("measuring {} kernels of this model, once", missing);
    const auto probe = [&] {
        Machine more = machine;
        calibrate_kernels(cases, *make_device({}), threads, more);
        return more;
    };
    Machine more;
    try {
        more = calibrate_apart("", memory_limit(files, threads), probe);
    } catch (const UserError& error) {
        log_warning("predictions go by the rates of large products: {}", error.what());
        return;
    }
    keep_these(cases, more);
    if (is_drive_assumed(more))
        keep(files, machine_cache_path("", threads), without_drive(more));
    else
        keep(files, machine_cache_path(disk_folder, threads), more);
    machine = std::move(more);
}

void add_device(FileSystem& files, DeviceId id, const DeviceProbe& probe, Machine& machine) {
    const std::string path = device_cache_path(make_device(id)->properties(), machine.threads);
    if (const std::optional<Machine> kept = kept_machine(files, path)) return take_device(*kept, machine);
    measure_device(files, id, probe, machine);
}

// In this process: what was begun with a driver does not survive a fork, and a second process would find less memory
// free.
void measure_device(FileSystem& files, DeviceId id, const DeviceProbe& probe, Machine& machine) {
    const std::unique_ptr<Device> device = make_device(id);
    const DeviceProperties properties = device->properties();
    const std::string path = device_cache_path(properties, machine.threads);
    log_info("measuring {}, {}", device_name(id), properties.name);
    Machine measured = machine;  // whose host a reader leaves aside
    measured.name = properties.name;
    calibrate_device(*device, probe, measured);
    keep(files, path, measured);
    take_device(measured, machine);
}

void add_device_kernels(FileSystem& files, DeviceId id, std::span<const KernelCase> cases, Machine& machine) {
    if (std::ranges::all_of(cases, [&](const KernelCase& each) { return machine.kernels.contains(each.key); })) return;
    const std::unique_ptr<Device> device = make_device(id);
    log_info("measuring kernels of this model on {}, once", device_name(id));
    calibrate_kernels(cases, *device, /*threads=*/1, machine);
    keep_these(cases, machine);
    keep(files, device_cache_path(device->properties(), machine.threads), machine);
}

namespace {

void forget(FileSystem& files, const std::string& path) {
    if (path.empty()) return;
    try {
        files.remove_tree(path);
    } catch (const Error& error) {
        log_warning("the measurement of this machine stays: {}", error.what());
    }
}

}  // namespace

void forget_machine(FileSystem& files, const std::string& disk_folder, int threads) {
    forget(files, machine_cache_path(disk_folder, threads));
}

void forget_device(FileSystem& files, DeviceId id, int threads) {
    forget(files, device_cache_path(make_device(id)->properties(), threads));
}

}  // namespace windlass
