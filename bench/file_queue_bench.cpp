// file_queue_bench: how fast the file queues move 2 MiB requests, over what fio reaches on the same file in the same
// run, and the CPU time of the process that each takes for a gigabyte.
//
//   file_queue_bench [folder] [file size] [rounds] [seconds]      (., 512MiB, 3, 1)
//
// Each measurement goes round the file for some seconds; ours and fio take turns, and medians over the rounds are
// printed. The file is removed at the end. Without fio only ours is printed.

#include <sys/resource.h>

#include <cstdio>
#include <cstdlib>

#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/math.h"
#include "base/rng.h"
#include "base/units.h"

namespace windlass {
namespace {

constexpr int kDepth = 8;
// What the io_uring queue is held to: the share of fio's rate, and CPU seconds for a gigabyte.
constexpr double kShareWanted = 0.90, kCpuWanted = 0.1;

enum class Load { read, write, mixed };

constexpr const char* name_of(Load load) {
    return load == Load::read ? "read" : load == Load::write ? "write" : "mixed";
}

struct Measured {
    double gb_per_s = 0;
    double cpu_s_per_gb = 0;  // 0.1 is a tenth of a core at 1 GB/s
};

double cpu_seconds() {
    struct rusage usage {};
    ::getrusage(RUSAGE_SELF, &usage);
    const auto seconds = [](const timeval& t) {
        return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
    };
    return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// Goes round the file, at least once. Mixed: reads walk its first half while writes walk the second.
Measured measure_ours(QueueKind kind, Load load, File& file, const HugeBuffer& memory, double seconds_least) {
    const auto queue = make_file_queue(kind, kDepth);
    const int64_t requests = file.size() / kRequestBytesMax;
    std::vector<size_t> free_buffers;
    for (size_t i = 0; i < kDepth; ++i) free_buffers.push_back(i);
    const auto take_back = [&] {
        for (const FileResult& result : queue->reap()) {
            if (result.error_number != 0) throw UserError(ExitCode::storage, "transfer", "{}", result.message);
            free_buffers.push_back(result.tag);
        }
    };
    const int64_t start = now_ns();
    const double cpu_start = cpu_seconds();
    int64_t moved = 0;
    for (int64_t i = 0; moved < requests || seconds_since(start) < seconds_least; i = (i + 1) % requests, ++moved) {
        while (free_buffers.empty()) take_back();
        const size_t buffer = free_buffers.back();
        free_buffers.pop_back();
        const bool writes = load == Load::write || (load == Load::mixed && i % 2 == 1);
        const int64_t at = load == Load::mixed ? i / 2 + (writes ? requests / 2 : 0) : i;
        queue->submit({.verb = writes ? FileVerb::write : FileVerb::read,
                       .file = &file,
                       .offset = at * kRequestBytesMax,
                       .buffer = memory.span().subspan(buffer * kRequestBytesMax, kRequestBytesMax),
                       .tag = buffer});
    }
    while (queue->in_flight() > 0) take_back();
    const double seconds = seconds_since(start);
    const double gigabytes = static_cast<double>(moved * kRequestBytesMax) * 1e-9;
    return {.gb_per_s = gigabytes / seconds, .cpu_s_per_gb = (cpu_seconds() - cpu_start) / gigabytes};
}

// Nothing where fio is not installed. It gets huge pages as we do: from small ones a request is hundreds of segments,
// and runs at a third of the speed where this was written.
std::optional<Measured> measure_fio(Load load, const File& file, int64_t bytes, double seconds) {
    const std::string command = fmt::format(
        "GLIBC_TUNABLES=glibc.malloc.hugetlb=1 fio --iomem_align=2M --name=windlass --ioengine=io_uring --direct=1 "
        "--bs=2M --iodepth={} --rw={} --size={} --filename='{}' "
        "--fallocate=none --thread --time_based --runtime={}ms --output-format=json 2>/dev/null",
        kDepth, load == Load::mixed ? "rw" : name_of(load), bytes, file.path(), static_cast<int64_t>(1000 * seconds));
    std::FILE* const pipe = ::popen(command.c_str(), "r");
    if (pipe == nullptr) return std::nullopt;
    std::string text;
    std::array<char, 4096> part;
    while (const size_t got = std::fread(part.data(), 1, part.size(), pipe)) text.append(part.data(), got);
    if (::pclose(pipe) != 0) return std::nullopt;
    const Json job = parse_json(std::string_view(text).substr(text.find('{')), "fio", ExitCode::internal)["jobs"][0];
    const double moved = job["read"]["io_bytes"].get<double>() + job["write"]["io_bytes"].get<double>();
    const double ms = std::max(job["read"]["runtime"].get<double>(), job["write"]["runtime"].get<double>());
    const double cpu_percent = job["usr_cpu"].get<double>() + job["sys_cpu"].get<double>();
    const double gb_per_s = moved / ms * 1e-6;
    return Measured{.gb_per_s = gb_per_s, .cpu_s_per_gb = cpu_percent / 100 / gb_per_s};
}

Measured median(std::vector<Measured> all) {
    std::ranges::sort(all, {}, &Measured::gb_per_s);
    return all[all.size() / 2];
}

void bench_load(Load load, File& file, const HugeBuffer& memory, int rounds, double seconds) {
    std::vector<Measured> uring, threads, fio;
    for (int round = 0; round < rounds; ++round) {
        uring.push_back(measure_ours(QueueKind::automatic, load, file, memory, seconds));
        if (const auto one = measure_fio(load, file, file.size(), seconds)) fio.push_back(*one);
        threads.push_back(measure_ours(QueueKind::pread, load, file, memory, seconds));
    }
    const auto print = [&](std::string_view queue, const Measured& ours) {
        std::string ratio = "no fio";
        if (!fio.empty()) {
            const Measured peer = median(fio);
            ratio = fmt::format("fio {:.3f} GB/s, {:.4f} CPU s/GB: {:.2f} of fio", peer.gb_per_s, peer.cpu_s_per_gb,
                                ours.gb_per_s / peer.gb_per_s);
        }
        fmt::print("{:<6} {:<9} {:.3f} GB/s, {:.4f} CPU s/GB; {}\n", name_of(load), queue, ours.gb_per_s,
                   ours.cpu_s_per_gb, ratio);
    };
    print(make_file_queue(QueueKind::automatic, 1)->name(), median(uring));
    print("pread", median(threads));
}

void run(const std::string& folder, int64_t bytes, int rounds, double seconds) {
    const std::string path = folder + "/file_queue_bench.tmp";
    const HugeBuffer memory(kDepth * kRequestBytesMax, true);
    Random random(1, RandomStream::test);
    for (std::byte& value : memory.span()) value = static_cast<std::byte>(random.next());
    try {
        const auto file = real_files().open(path, {.mode = OpenMode::create, .direct = true});
        file->preallocate(round_up(bytes, 2 * kRequestBytesMax));
        measure_ours(QueueKind::automatic, Load::write, *file, memory, 0);  // gives every block its place
        file->sync();
        fmt::print("{} of {}, requests of 2 MiB, depth {}, {}, median of {} times {} s\n", format_bytes(file->size()),
                   path, kDepth, file->direct() ? "O_DIRECT" : "buffered (O_DIRECT refused)", rounds, seconds);
        fmt::print("wanted of io_uring: {:.2f} of fio at least, {} CPU s/GB at most\n", kShareWanted, kCpuWanted);
        for (const Load load : {Load::read, Load::write, Load::mixed}) bench_load(load, *file, memory, rounds, seconds);
    } catch (...) {
        real_files().remove_file(path);
        throw;
    }
    real_files().remove_file(path);
}

}  // namespace
}  // namespace windlass

int main(int argc, char** argv) {
    using namespace windlass;
    try {
        run(argc > 1 ? argv[1] : ".", parse_bytes(argc > 2 ? argv[2] : "512MiB", "file size"),
            argc > 3 ? std::max(1, std::atoi(argv[3])) : 3, argc > 4 ? std::atof(argv[4]) : 1);
    } catch (const Error& error) {
        fmt::print(stderr, "error: {}\n", error.what());
        return static_cast<int>(error.code());
    }
    return 0;
}
