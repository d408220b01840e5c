#include "run/probe.h"

#include <unistd.h>

#include <charconv>
#include <cstring>
#include <functional>

#include "base/clock.h"
#include "base/rng.h"
#include "base/units.h"
#include "device/cpu/isa.h"
#include "device/cpu/team.h"
#include "op/gemm.h"
#include "tier/disk_mover.h"

namespace windlass {
namespace {

constexpr int kRounds = 5;  // the best of these: the rate without other people's work
constexpr int64_t kDiskProbeBytes = 256 * kMiB;

double best_seconds(const std::function<void()>& work) {
    work();
    double best = 1e30;
    for (int round = 0; round < kRounds; ++round) {
        const int64_t start = now_ns();
        work();
        best = std::min(best, seconds_since(start));
    }
    return best;
}

// y = x W^T at 1024 x 2048 x 2048 with random numbers: large enough for the peak, a few milliseconds long.
double gemm_rate(DType dtype, Team& team) {
    constexpr int64_t kM = 1024, kN = 2048, kK = 2048;
    const int64_t size = dtype_bytes(dtype);
    HugeBuffer a(kM * kK * size, true), b(kN * kK * size, true), c(kM * kN * size, true);
    Random random(1, RandomStream::test);
    const auto fill = [&](HugeBuffer& buffer) {
        for (int64_t i = 0; i < buffer.size() / size; ++i) {
            const float x = random.uniform() - 0.5f;
            if (dtype == DType::f32)
                reinterpret_cast<float*>(buffer.data())[i] = x;
            else
                reinterpret_cast<bf16*>(buffer.data())[i] = to_bf16(x);
        }
    };
    fill(a);
    fill(b);
    const GemmArgs args{.a = Tensor(dtype, {kM, kK}, a.data()),
                        .b = Tensor(dtype, {kN, kK}, b.data()),
                        .c = Tensor(dtype, {kM, kN}, c.data()),
                        .transpose_b = true};
    return 2.0 * kM * kN * kK / best_seconds([&] { gemm(args, team); });
}

double copy_rate(Team& team) {
    constexpr int64_t kBytes = 128 * kMiB, kPiece = 4 * kMiB;
    HugeBuffer from(kBytes, true), to(kBytes, true);
    return 2.0 * kBytes / best_seconds([&] {
               team.parallel_for(kBytes / kPiece, [&](int64_t piece, int) {
                   std::memcpy(to.data() + piece * kPiece, from.data() + piece * kPiece, kPiece);
               });
           });
}

void probe_file(FileSystem& files, const std::string& path, Machine& machine) {
    HugeBuffer buffer(kDiskProbeBytes, true);
    const std::unique_ptr<File> file = files.open(path, {OpenMode::create, /*direct=*/true});
    file->preallocate(kDiskProbeBytes);
    DiskMover mover(files.make_queue(QueueKind::automatic, 8));
    const DiskRange range{file.get(), 0, buffer.span()};
    machine.disk_write_bytes_per_s = kDiskProbeBytes / best_seconds([&] {
                                         mover.transfer(FileVerb::write, {&range, 1});
                                     });
    machine.disk_read_bytes_per_s = kDiskProbeBytes / best_seconds([&] {
                                        mover.transfer(FileVerb::read, {&range, 1});
                                    });
}

void probe_disk(FileSystem& files, const std::string& folder, Machine& machine) {
    const std::string path = folder + "/.windlass-probe";
    try {
        probe_file(files, path, machine);
    } catch (const Error&) {
        files.remove_tree(path);
        throw;
    }
    files.remove_file(path);
}

struct MachineKey {
    std::string_view name;
    double Machine::*rate;
};
constexpr MachineKey kRates[] = {{"gemm_bf16_flops", &Machine::gemm_bf16_flops},
                                 {"gemm_f32_flops", &Machine::gemm_f32_flops},
                                 {"memory_bytes_per_s", &Machine::memory_bytes_per_s},
                                 {"disk_read_bytes_per_s", &Machine::disk_read_bytes_per_s},
                                 {"disk_write_bytes_per_s", &Machine::disk_write_bytes_per_s}};

}  // namespace

Machine probe_machine(FileSystem& files, const std::string& disk_folder, int threads) {
    Machine machine{.name = fmt::format("cpu-{}", isa_name(cpu_isa())), .threads = threads};
    machine.memory_bytes = int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE);
    Team team(threads);
    machine.gemm_bf16_flops = gemm_rate(DType::bf16, team);
    machine.gemm_f32_flops = gemm_rate(DType::f32, team);
    machine.memory_bytes_per_s = copy_rate(team);
    if (!disk_folder.empty()) probe_disk(files, disk_folder, machine);
    return machine;
}

std::string machine_text(const Machine& machine) {
    std::string text =
        fmt::format("name: {}\nthreads: {}\nmemory_bytes: {}\n", machine.name, machine.threads, machine.memory_bytes);
    for (const MachineKey& key : kRates) text += fmt::format("{}: {:.4g}\n", key.name, machine.*key.rate);
    return text;
}

Machine parse_machine(std::string_view text, std::string_view where) {
    Machine machine;
    for (int line = 1; !text.empty(); ++line) {
        const size_t end = std::min(text.find('\n'), text.size());
        const std::string_view entry = text.substr(0, end);
        text.remove_prefix(std::min(end + 1, text.size()));
        if (entry.empty() || entry.front() == '#') continue;
        const size_t colon = entry.find(": ");
        const std::string_view name = entry.substr(0, std::min(colon, entry.size()));
        const std::string_view value = colon == std::string_view::npos ? "" : entry.substr(colon + 2);
        if (name == "name") {
            machine.name = value;
            continue;
        }
        double number = 0;
        const auto [rest, error] = std::from_chars(value.data(), value.data() + value.size(), number);
        if (error != std::errc() || rest != value.data() + value.size() || !(number >= 0 && number < 1e18))
            throw UserError(ExitCode::usage, fmt::format("{}:{}", where, line), "\"{}\" is not a number for \"{}\"",
                            value, name);
        const auto* key =
            std::find_if(std::begin(kRates), std::end(kRates), [&](const MachineKey& k) { return k.name == name; });
        if (key != std::end(kRates))
            machine.*key->rate = number;
        else if (name == "threads")
            machine.threads = static_cast<int>(number);
        else if (name == "memory_bytes")
            machine.memory_bytes = static_cast<int64_t>(number);
        else
            throw UserError(ExitCode::usage, fmt::format("{}:{}", where, line), "unknown key \"{}\"", name);
    }
    return machine;
}

}  // namespace windlass
