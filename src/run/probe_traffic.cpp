#include <thread>

#include "base/clock.h"
#include "base/units.h"
#include "device/cpu/cpu_stream.h"
#include "method/recipe.h"
#include "run/probe_parts.h"
#include "tier/disk_mover.h"

namespace windlass {
namespace {

constexpr int64_t kCopyBytes = 128 * kMiB, kCopyPiece = 4 * kMiB;
constexpr int64_t kDiskBytes = 256 * kMiB;
constexpr int kDiskDepth = 8;
constexpr int64_t kUpdateElements = int64_t{1} << 22;  // one chunk, as plans update them
constexpr int kUpdateChunks = 2;                       // in turns: 112 MiB, more than caches hold
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

// A file to measure with, gone when this is.
class ProbeFile {
  public:
    ProbeFile(FileSystem& files, const std::string& folder, int64_t bytes)
        : files_(files), path_(folder + "/.windlass-probe"), buffer_(bytes, true) {
        try {
            file_ = files.open(path_, {OpenMode::create, /*direct=*/true});
            file_->preallocate(bytes);
        } catch (const Error&) {
            files.remove_tree(path_);
            throw;
        }
    }
    ~ProbeFile() {
        try {
            file_.reset();
            files_.remove_file(path_);
        } catch (const Error&) {
            // Nothing can be done about it here, and what was measured is still true.
        }
    }
    ProbeFile(const ProbeFile&) = delete;
    ProbeFile& operator=(const ProbeFile&) = delete;

    void transfer(FileVerb verb, int64_t offset, int64_t bytes) {
        DiskMover mover(files_.make_queue(QueueKind::automatic, kDiskDepth));
        const DiskRange range{file_.get(), offset,
                              buffer_.span().subspan(static_cast<size_t>(offset), static_cast<size_t>(bytes))};
        mover.transfer(verb, {&range, 1});
    }
    // As many bytes read as written, together.
    void transfer_mixed() {
        const int64_t half = buffer_.size() / 2;
        std::exception_ptr failure;
        at_once(
            [&] {
                try {
                    transfer(FileVerb::read, 0, half);
                } catch (const Error&) {
                    failure = std::current_exception();
                }
            },
            [&] { transfer(FileVerb::write, half, half); });
        if (failure) std::rethrow_exception(failure);
    }

  private:
    FileSystem& files_;
    std::string path_;
    HugeBuffer buffer_;
    std::unique_ptr<File> file_;
};

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

// AdamW over two chunks, the method whose update moves the most.
class UpdatePass {
  public:
    UpdatePass() : recipe_(make_recipe("adamw", {})) {
        step_.step = 1;
        step_.learning_rate = 1e-3;
        recipe_.prepare({}, step_);
        for (Chunk& chunk : chunks_) {
            chunk.halves = HugeBuffer(kUpdateElements * 4, true);
            for (HugeBuffer& words : chunk.words) words = HugeBuffer(kUpdateElements * 4, true);
        }
    }
    void run(Stream& stream) {
        for (Chunk& chunk : chunks_) {
            std::byte* const state[] = {chunk.words[0].data(), chunk.words[1].data()};
            const UpdateCall call{.param = &param_,
                                  .count = kUpdateElements,
                                  .hi = reinterpret_cast<uint16_t*>(chunk.halves.data()),
                                  .lo = reinterpret_cast<int16_t*>(chunk.halves.data()) + kUpdateElements,
                                  .state = state,
                                  .gradient = reinterpret_cast<const float*>(chunk.words[2].data()),
                                  .step = &step_};
            recipe_.update[static_cast<size_t>(stream.device())](call, stream);
        }
    }
    int64_t bytes() const { return kUpdateChunks * kUpdateElements * recipe_.update_bytes_per_element; }

  private:
    struct Chunk {
        HugeBuffer halves;
        std::array<HugeBuffer, 3> words;  // two moments and the gradient
    };
    Recipe recipe_;
    ParamSpec param_;
    StepParams step_;
    std::array<Chunk, kUpdateChunks> chunks_;
};

}  // namespace

void probe_memory(Stream& stream, Machine& machine) {
    HugeBuffer from(kCopyBytes, true), to(kCopyBytes, true);
    const auto copy = [&](int64_t offset, int64_t bytes) {
        std::memcpy(to.data() + offset, from.data() + offset, static_cast<size_t>(bytes));
    };
    const double by_all = best_seconds([&] {
        cpu_team(stream).parallel_for(kCopyBytes / kCopyPiece,
                                      [&](int64_t piece, int) { copy(piece * kCopyPiece, kCopyPiece); });
    });
    machine.memory_bytes_per_s = per_second(2 * kCopyBytes, by_all);
    machine.device_memory_bytes_per_s = machine.memory_bytes_per_s;
    constexpr int64_t kHalf = kCopyBytes / 2;
    machine.link_up_bytes_per_s = per_second(kHalf, best_seconds([&] { copy(0, kHalf); }));
    machine.link_down_bytes_per_s = machine.link_up_bytes_per_s;  // the same copy
    const double both = best_seconds([&] { at_once([&] { copy(0, kHalf); }, [&] { copy(kHalf, kHalf); }); });
    // Two threads are not faster than twice one: more is noise.
    machine.link_both_bytes_per_s = std::min(per_second(2 * kHalf, both), 2 * machine.link_up_bytes_per_s);
    machine.task_seconds = hand_over_seconds();
}

void probe_disk(FileSystem& files, const std::string& folder, Machine& machine) {
    machine.disk_bytes = files.free_bytes(folder);
    ProbeFile file(files, folder, kDiskBytes);
    const auto rate = [&](const std::function<void()>& work) { return per_second(kDiskBytes, best_seconds(work)); };
    machine.disk_write_bytes_per_s = rate([&] { file.transfer(FileVerb::write, 0, kDiskBytes); });
    machine.disk_read_bytes_per_s = rate([&] { file.transfer(FileVerb::read, 0, kDiskBytes); });
    machine.disk_mixed_bytes_per_s =
        std::min(rate([&] { file.transfer_mixed(); }), machine.disk_read_bytes_per_s + machine.disk_write_bytes_per_s);
    machine.drives = 1;
}

void probe_update(FileSystem& files, const std::string& folder, Stream& stream, Machine& machine) {
    UpdatePass pass;
    const double alone = best_seconds([&] { pass.run(stream); });
    machine.update_bytes_per_s = per_second(pass.bytes(), alone);
    constexpr int64_t kTrafficBytes = 32 * kMiB;
    HugeBuffer from(kTrafficBytes, true), to(kTrafficBytes, true);
    std::optional<ProbeFile> file;
    if (!folder.empty()) file.emplace(files, folder, 2 * kTrafficBytes);
    std::optional<Traffic> disk;
    const Traffic copies([&] { std::memcpy(to.data(), from.data(), static_cast<size_t>(kTrafficBytes)); });
    if (file) disk.emplace([&] { file->transfer_mixed(); });
    const double beside = best_seconds([&] { pass.run(stream); });
    machine.update_busy_factor = std::min(1.0, rounded(alone / beside));
}

}  // namespace windlass
