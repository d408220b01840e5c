#include <sys/resource.h>

#include <fstream>
#include <tuple>

#include "app/cli/output.h"
#include "app/cli/verbs.h"
#include "app/cli/words.h"
#include "base/json.h"
#include "base/log.h"
#include "base/units.h"
#include "device/cpu/isa.h"
#include "device/device.h"
#include "op/gemm.h"
#include "run/calibrate.h"
#include "schedule/machine_profiles.h"
#include "schedule/machine_text.h"
#include "session/budget.h"
#include "session/machine_cache.h"

namespace windlass {
namespace {

struct Finding {
    std::string name, value;
    std::string advice;  // empty: fine
};

std::string processor_name() {
    std::ifstream file("/proc/cpuinfo");
    for (std::string line; std::getline(file, line);) {
        if (line.starts_with("model name") && line.find(": ") != std::string::npos)
            return line.substr(line.find(": ") + 2);
    }
    return "unknown";
}

std::string limit_text(__rlimit_resource resource) {
    rlimit limit{};
    if (getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return "no limit";
    return format_bytes(static_cast<int64_t>(limit.rlim_cur));
}

Finding queue_finding() {
    try {
        make_file_queue(QueueKind::uring, 8);
        return {"disk queue", "io_uring", ""};
    } catch (const Error& error) {
        return {"disk queue", "pread threads",
                fmt::format("io_uring is refused ({}); transfers use threads instead", error.what())};
    }
}

Finding direct_finding(const std::string& folder) {
    const std::string path = folder + "/.windlass-direct";
    FileSystem& files = real_files();
    const bool direct = files.open(path, {OpenMode::create, true})->direct();
    files.remove_file(path);
    if (direct) return {"direct I/O", "yes", ""};
    return {"direct I/O", "no", "this file system goes through the page cache; choose an --ssd on another"};
}

std::vector<Finding> memory_findings(int threads) {
    std::vector<Finding> found;
    const MemoryLimit memory = memory_limit(real_files(), threads);
    const std::string name = memory.name.empty() ? "" : fmt::format(" ({})", memory.name);
    found.push_back({"memory", fmt::format("{} available{}", format_bytes(memory.left), name),
                     memory.left < kGiB ? "less than 1 GiB is available: only tiny models fit" : ""});
    for (const auto& [what, resource, flag] :
         {std::tuple{"address space", RLIMIT_AS, "ulimit -v"}, {"data limit", RLIMIT_DATA, "ulimit -d"}}) {
        const std::string limit = limit_text(resource);
        found.push_back({what, limit, limit == "no limit" ? "" : fmt::format("{} holds the process back", flag)});
    }
    found.push_back({"locked memory", limit_text(RLIMIT_MEMLOCK), ""});
    return found;
}

std::string gflops(double flops) {
    return fmt::format("{:.0f} GFLOP/s", flops * 1e-9);
}
std::string rate(double bytes) {
    return fmt::format("{:.2f} GB/s", bytes * 1e-9);
}

Finding products_finding(const Machine& m, DType dtype) {
    const bool is_slow = dtype == DType::bf16 && m.gemm_bf16_flops < m.gemm_f32_flops;
    return {
        fmt::format("{} products", dtype_name(dtype)),
        fmt::format("{}; {} rows {}, attention {}", gflops(m.gemm_flops(dtype)), kNarrowRows,
                    gflops(m.gemm_flops(dtype, GemmShape::narrow)), gflops(m.gemm_flops(dtype, GemmShape::attention))),
        is_slow ? "bf16 is slower than f32 here; dtype: f32 may be faster" : ""};
}

std::vector<Finding> rate_findings(const Machine& m) {
    return {
        products_finding(m, DType::bf16),
        products_finding(m, DType::f32),
        {"memory copies", rate(m.memory_bytes_per_s), ""},
        {"one's copies", fmt::format("{}; two at once {}", rate(m.link_up_bytes_per_s), rate(m.link_both_bytes_per_s)),
         ""},
        {"updates", fmt::format("{}; {:.0f} % during traffic", rate(m.update_bytes_per_s), m.update_busy_factor * 100),
         ""},
        {"calls",
         fmt::format("{} a kernel, {} a task", format_seconds(m.kernel_seconds), format_seconds(m.task_seconds)), ""},
    };
}

std::vector<Finding> disk_findings(const Machine& m) {
    return {
        {"disk free", format_bytes(m.disk_bytes), ""},
        {"disk reads", rate(m.disk_read_bytes_per_s),
         m.disk_read_bytes_per_s < 0.5e9 ? "a slow drive: steps will wait for it" : ""},
        {"disk writes", rate(m.disk_write_bytes_per_s), ""},
        {"disk, mixed", rate(m.disk_mixed_bytes_per_s), ""},
    };
}

// Whether there is a first CUDA device. A machine without one needs no remark.
Finding cuda_finding() {
    try {
        const DeviceProperties found = make_device({.kind = DeviceKind::cuda, .own_memory = true})->properties();
        return {"cuda", fmt::format("{}; --device cuda measures it", found.name), ""};
    } catch (const Error& error) {  // "device: why. Try: another device"
        const std::string why = error.what();
        const size_t begin = why.find(": ") + 2;
        return {"cuda", fmt::format("none: {}", why.substr(begin, why.find(". Try: ") - begin)), ""};
    }
}

// A device with its own memory, measured together with this host.
std::vector<Finding> device_findings(DeviceId id, const Machine& m) {
    const DeviceProperties device = make_device(id)->properties();
    return {
        {device_name(id), fmt::format("{}, {}, {}", device.name, device.kernel_path, product_path(id.kind)), ""},
        {"its memory", fmt::format("{} of {} free", format_bytes(device.free_bytes), format_bytes(device.memory_bytes)),
         ""},
        products_finding(m, DType::bf16),
        products_finding(m, DType::f32),
        {"its copies", rate(m.device_memory_bytes_per_s), ""},
        {"link",
         fmt::format("up {}, down {}, both ways {}", rate(m.link_up_bytes_per_s), rate(m.link_down_bytes_per_s),
                     rate(m.link_both_bytes_per_s)),
         ""},
        {"updates", fmt::format("{:.0f} % during its traffic", m.update_busy_factor * 100), ""},
        {"its calls", fmt::format("{} a kernel", format_seconds(m.kernel_seconds)), ""},
    };
}

std::vector<Finding> examine(const DoctorArgs& args, const Machine& machine) {
    std::vector<Finding> found = {
        {"processor", processor_name(), ""},
        {"kernels", std::string(isa_name(cpu_isa())),
         cpu_isa() == Isa::baseline ? "no AVX2: training will be slow" : ""},
        {"threads", std::to_string(machine.threads), ""},
    };
    for (Finding& finding : memory_findings(machine.threads)) found.push_back(std::move(finding));
    found.push_back(queue_finding());
    found.push_back(cuda_finding());
    for (Finding& finding : rate_findings(machine)) found.push_back(std::move(finding));
    if (args.ssd_dir.empty()) return found;
    found.push_back(direct_finding(args.ssd_dir));
    for (Finding& finding : disk_findings(machine)) found.push_back(std::move(finding));
    return found;
}

std::string verdict(const std::vector<Finding>& found) {
    const auto count =
        std::count_if(found.begin(), found.end(), [](const Finding& finding) { return !finding.advice.empty(); });
    return count == 0 ? "ready" : fmt::format("ready, with {} remark{}", count, count == 1 ? "" : "s");
}

// machine_text, key by key; rates of kernels and of updates in objects of their own.
Json machine_json(const Machine& machine) {
    constexpr std::pair<std::string_view, std::string_view> kNamed[] = {
        {"kernel ", "kernels"}, {"update ", "updates"}, {"device update ", "device_updates"}};
    Json json = Json::object();
    const std::string text = machine_text(machine);
    for (size_t begin = 0; begin < text.size();) {
        const size_t end = std::min(text.find('\n', begin), text.size());
        const std::string line = text.substr(begin, end - begin);
        begin = end + 1;
        const auto* named =
            std::ranges::find_if(kNamed, [&](const auto& kind) { return line.starts_with(kind.first); });
        const bool has_name = named != std::end(kNamed);
        const size_t colon = has_name ? line.rfind(": ") : line.find(": ");
        const std::string key = line.substr(0, colon), value = line.substr(colon + 2);
        Json& place = has_name ? json[named->second][key.substr(named->first.size())] : json[key];
        place = key != "name" && Json::accept(value) ? Json::parse(value) : Json(value);
    }
    return json;
}

void print_findings(VerbOutput& out, const std::vector<Finding>& found, const Machine& machine) {
    if (!out.is_text()) {
        Json json = {{"verdict", verdict(found)}, {"machine", machine_json(machine)}};
        for (const Finding& f : found)
            json["findings"].push_back({{"name", f.name}, {"value", f.value}, {"advice", f.advice}});
        return out.result(json);
    }
    std::string text;
    for (const Finding& f : found) {
        text += fmt::format("{:<15}{}\n", f.name, f.value);
        if (!f.advice.empty()) text += fmt::format("{:<15}! {}\n", "", f.advice);
    }
    print_result(text + fmt::format("{:<15}{}\n", "verdict", verdict(found)));
}

// A machine that is described, not examined.
ExitCode show_machine(const DoctorArgs& args, const Machine& machine, VerbOutput& out) {
    if (!args.save.empty()) write_text_atomic(real_files(), args.save, machine_text(machine));
    if (out.is_text())
        print_result(machine_text(machine));
    else
        out.result({{"machine", machine_json(machine)}});
    return ExitCode::ok;
}

}  // namespace

ExitCode run_doctor(const DoctorArgs& args, VerbOutput& out) {
    FileSystem& files = real_files();
    if (!args.machine.empty()) return show_machine(args, find_machine(files, args.machine), out);
    const DeviceId device = parse_device(args.device, "--device");
    static_cast<void>(make_device(device));  // what is not there is said before anything is measured
    if (!args.ssd_dir.empty()) files.make_folders(args.ssd_dir);
    const int threads = args.threads > 0 ? args.threads : default_threads(files);
    log_info("measuring processor and memory{}, which takes some seconds",
             args.ssd_dir.empty() ? "" : fmt::format(", and the drive of {}", args.ssd_dir));
    const bool has_room = has_room_to_measure(files, args.ssd_dir);
    const std::string drive = has_room ? args.ssd_dir : "";
    Machine machine = calibrate_machine(files, drive, threads);
    keep_machine(files, drive, threads, machine);
    if (!has_room) {
        assume_drive(files, args.ssd_dir, machine);
        machine.disk_bytes = files.free_bytes(args.ssd_dir);
    }
    std::vector<Finding> found = examine(args, machine);
    if (device.kind == DeviceKind::cuda) {
        measure_device(files, device, {}, machine);
        for (Finding& finding : device_findings(device, machine)) found.push_back(std::move(finding));
    }
    if (!args.save.empty()) write_text_atomic(files, args.save, machine_text(machine));
    print_findings(out, found, machine);
    return ExitCode::ok;
}

}  // namespace windlass
