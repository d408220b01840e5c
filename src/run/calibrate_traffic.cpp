#include <unistd.h>

#include <list>
#include <map>
#include <optional>
#include <set>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/file_error.h"
#include "base/units.h"
#include "device/cpu/cpu_stream.h"
#include "format/checksum.h"
#include "method/recipe.h"
#include "run/calibrate.h"
#include "run/calibrate_parts.h"
#include "run/update_probe.h"
#include "schedule/kernel_rate.h"
#include "tier/disk_mover.h"

namespace windlass {
namespace {

constexpr int64_t kCopyPiece = 4 * kMiB;
// Drives and what lies between answer the first gigabytes faster than a run that lasts: a probe reads and writes on and
// on over a file that is long, and only the second half of the time counts.
constexpr int64_t kDiskFileBytes = 2 * kGiB;     // or an eighth of what is free; removing a long file takes long
constexpr int64_t kDiskWindow = 128 * kMiB;      // at once, through one buffer
constexpr int64_t kDiskWindowLeast = 16 * kMiB;  // less would be answered by the drive's cache alone
constexpr double kDiskSeconds = 1.5;             // each way
constexpr int kDiskDepth = 8;
constexpr int kUpdateChunks = 2;  // in turns
constexpr int kHandOvers = 200;

double per_second(int64_t bytes, double seconds) {
    return rounded(static_cast<double>(bytes) / seconds);
}

// Both at once; returns when both are done.
void at_once(const std::function<void()>& a, const std::function<void()>& b) {
    std::jthread other(a);
    b();
}

// A number that two threads raise in turns, waiting as lanes wait for each other.
double hand_over_seconds() {
    const double seconds = best_seconds([] {
        std::atomic<int> turn{0};
        const auto take_turns = [&](int parity) {
            for (int mine = parity; mine < kHandOvers; mine += 2) {
                for (int now = turn.load(); now != mine; now = turn.load()) turn.wait(now);
                turn.store(mine + 1);
                turn.notify_all();
            }
        };
        at_once([&] { take_turns(1); }, [&] { take_turns(0); });
    });
    return rounded(seconds / kHandOvers);
}

// A file to measure with. It has its own name, and only until it has its blocks: two processes can measure the same
// drive at once, and a kill leaves no file.
class ProbeFile {
  public:
    ProbeFile(FileSystem& files, const std::string& folder, int64_t bytes, int64_t window)
        : files_(files), bytes_(bytes), buffer_(window, true) {
        const std::string path = fmt::format("{}/.windlass-probe-{}-{}", folder, getpid(), now_ns());
        file_ = files.open(path, {OpenMode::create_new, /*direct=*/true});
        try {
            file_->preallocate(bytes);
        } catch (const Error&) {
            files.remove_tree(path);
            throw;
        }
        files.remove_file(path);
    }
    ProbeFile(const ProbeFile&) = delete;
    ProbeFile& operator=(const ProbeFile&) = delete;

    int64_t window_bytes() const { return buffer_.size(); }
    // Windows follow each other, round and round. Only what was written is read: the rest would not come from the
    // drive.
    void write(int64_t window) {
        const int64_t windows = bytes_ / buffer_.size();
        transfer(FileVerb::write, window % windows, 0, buffer_.size());
        written_ = std::max(written_, window % windows + 1);
    }
    void read(int64_t window) { transfer(FileVerb::read, window % written_, 0, buffer_.size()); }
    // As many bytes read as written, together.
    void transfer_mixed(int64_t window) {
        const int64_t half = buffer_.size() / 2;
        std::exception_ptr failure;
        at_once(
            [&] {
                try {
                    transfer(FileVerb::read, window % written_, 0, half);
                } catch (const Error&) {
                    failure = std::current_exception();
                }
            },
            [&] { transfer(FileVerb::write, window % written_, half, half); });
        if (failure) std::rethrow_exception(failure);
    }

  private:
    void transfer(FileVerb verb, int64_t window, int64_t offset, int64_t bytes) {
        DiskMover mover(files_.make_queue(QueueKind::automatic, kDiskDepth));
        const DiskRange range{file_.get(), window * buffer_.size() + offset,
                              buffer_.span().subspan(static_cast<size_t>(offset), static_cast<size_t>(bytes))};
        mover.transfer(verb, {&range, 1});
    }

    FileSystem& files_;
    int64_t bytes_, written_ = 0;
    HugeBuffer buffer_;
    std::unique_ptr<File> file_;
};

// Bytes per second of work on one window after the other, in the second half of kDiskSeconds.
double sustained_rate(const ProbeFile& file, const std::function<void(int64_t window)>& work) {
    const int64_t start = now_ns();
    int64_t window = 0;
    while (window == 0 || seconds_since(start) < kDiskSeconds / 2) work(window++);
    const int64_t half = now_ns(), first = window;
    while (window == first || seconds_since(half) < kDiskSeconds / 2) work(window++);
    return per_second((window - first) * file.window_bytes(), seconds_since(half));
}

// Repeats work on a thread of its own until it goes out of scope. A failure ends the traffic, not the measurement.
class Traffic {
  public:
    explicit Traffic(std::function<void()> work)
        : thread_([work = std::move(work)](const std::stop_token& stop) {
              try {
                  while (!stop.stop_requested()) work();
              } catch (const Error&) {
                  return;
              }
          }) {}

  private:
    std::jthread thread_;
};

// One recipe over some chunks in turn, more than caches hold.
class UpdatePass {
  public:
    UpdatePass(const Recipe& recipe, int64_t side, Device& device, Stream& stream) : stream_(stream) {
        for (int chunk = 0; chunk < kUpdateChunks; ++chunk)
            chunks_.push_back(std::make_unique<UpdateProbe>(recipe, side, device, stream));
    }
    void operator()() {
        for (const std::unique_ptr<UpdateProbe>& chunk : chunks_) (*chunk)();
        stream_.synchronize();
    }
    int64_t bytes() const { return kUpdateChunks * chunks_[0]->bytes(); }

  private:
    Stream& stream_;
    std::vector<std::unique_ptr<UpdateProbe>> chunks_;
};

// One of each kind of update that methods have.
std::vector<Recipe> updating_recipes() {
    std::vector<Recipe> list;
    std::set<std::string> keys;
    for (const Method* method : all_methods()) {
        for (const StateFormat format : kStateFormats) {
            for (const bool split : {false, true}) {
                Recipe recipe = method->recipe({.split_masters = split, .state_format = format});
                const std::string key = update_key(recipe);
                if (!key.empty() && keys.insert(key).second) list.push_back(std::move(recipe));
            }
        }
    }
    return list;
}

}  // namespace

void calibrate_memory(Stream& stream, int64_t copy_bytes, Machine& machine) {
    HugeBuffer from(copy_bytes, true), to(copy_bytes, true);
    const auto copy = [&](int64_t offset, int64_t bytes) {
        std::memcpy(to.data() + offset, from.data() + offset, static_cast<size_t>(bytes));
    };
    const double by_all = best_seconds([&] {
        cpu_team(stream).parallel_for(copy_bytes / kCopyPiece,
                                      [&](int64_t piece, int) { copy(piece * kCopyPiece, kCopyPiece); });
    });
    machine.memory_bytes_per_s = per_second(2 * copy_bytes, by_all);
    machine.device_memory_bytes_per_s = machine.memory_bytes_per_s;
    const int64_t half = copy_bytes / 2;
    machine.link_up_bytes_per_s = per_second(half, best_seconds([&] { copy(0, half); }));
    machine.link_down_bytes_per_s = machine.link_up_bytes_per_s;  // the same copy
    const double both = best_seconds([&] { at_once([&] { copy(0, half); }, [&] { copy(half, half); }); });
    // Two threads are not faster than twice one: more is noise.
    machine.link_both_bytes_per_s = std::min(per_second(2 * half, both), 2 * machine.link_up_bytes_per_s);
    machine.checksum_bytes_per_s =
        per_second(copy_bytes, best_seconds([&] { static_cast<void>(xxh3_64(from.span())); }));
    machine.task_seconds = hand_over_seconds();
}

int64_t drive_probe_bytes(int64_t free_bytes) {
    const int64_t window = std::min(kDiskWindow, free_bytes / 2 / kMiB * kMiB);
    return window < kDiskWindowLeast ? 0 : window;
}

void calibrate_disk(FileSystem& files, const std::string& folder, Machine& machine) {
    machine.disk_bytes = files.free_bytes(folder);
    const int64_t window = drive_probe_bytes(machine.disk_bytes);
    if (window == 0) throw no_space_error("probe", folder, 2 * kDiskWindowLeast, machine.disk_bytes);
    const int64_t windows = std::clamp(machine.disk_bytes / 8, window, kDiskFileBytes) / window;
    ProbeFile file(files, folder, windows * window, window);
    machine.disk_write_bytes_per_s = sustained_rate(file, [&](int64_t window) { file.write(window); });
    machine.disk_read_bytes_per_s = sustained_rate(file, [&](int64_t window) { file.read(window); });
    machine.disk_mixed_bytes_per_s =
        std::min(sustained_rate(file, [&](int64_t window) { file.transfer_mixed(window); }),
                 machine.disk_read_bytes_per_s + machine.disk_write_bytes_per_s);
    machine.drives = 1;
}

UpdateRates update_rates(Stream& stream, std::span<const std::function<void()>> traffic) {
    const std::unique_ptr<Device> cpu = make_device({});
    const Recipe recipe = make_recipe("adamw", {});  // whose update moves the most
    UpdatePass pass(recipe, kUpdateSide, *cpu, stream);
    const double alone = best_seconds(std::ref(pass));
    std::list<Traffic> going_on;
    for (const std::function<void()>& work : traffic) going_on.emplace_back(work);
    const double beside = best_seconds(std::ref(pass));
    return {per_second(pass.bytes(), alone), std::min(1.0, rounded(alone / beside))};
}

std::map<std::string, double, std::less<>> calibrate_update_kinds(Device& device, Stream& stream, int64_t side) {
    std::map<std::string, double, std::less<>> rates;
    for (const Recipe& recipe : updating_recipes()) {
        UpdatePass pass(recipe, side, device, stream);
        rates[update_key(recipe)] = per_second(pass.bytes(), best_seconds(std::ref(pass)));
    }
    return rates;
}

void calibrate_update(FileSystem& files, const std::string& folder, Stream& stream, Machine& machine) {
    constexpr int64_t kTrafficBytes = 32 * kMiB;
    HugeBuffer from(kTrafficBytes, true), to(kTrafficBytes, true);
    std::vector<std::function<void()>> traffic = {
        [&] { std::memcpy(to.data(), from.data(), static_cast<size_t>(kTrafficBytes)); }};
    std::optional<ProbeFile> file;
    if (!folder.empty()) {
        const int64_t bytes = std::min(2 * kTrafficBytes, drive_probe_bytes(files.free_bytes(folder)));
        if (bytes == 0) throw no_space_error("probe", folder, 2 * kDiskWindowLeast, files.free_bytes(folder));
        file.emplace(files, folder, bytes, bytes);
        file->write(0);
        traffic.emplace_back([&] { file->transfer_mixed(0); });
    }
    const UpdateRates rates = update_rates(stream, traffic);
    machine.update_bytes_per_s = rates.bytes_per_s;
    machine.update_busy_factor = rates.busy_factor;
}

}  // namespace windlass
