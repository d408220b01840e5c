// file_image.h: one file in memory that knows which of its changes have reached stable storage.
//
// FaultFiles is built on it. Not thread-safe: its owner holds a lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/rng.h"

namespace windlass {

// Decides what a power cut does to each change that was not synced: it is kept, lost or torn.
class PowerCut {
  public:
    enum class Fate { lost, kept, torn };
    // Seed 0 loses every change, seed 1 keeps every change, any other draws for each.
    explicit PowerCut(uint64_t seed) : seed_(seed), random_(seed, RandomStream::test) {}
    Fate draw();
    bool draw_kept() { return draw_half(seed_ == 1); }    // of a change that cannot tear
    bool draw_sector() { return draw_half(seed_ == 1); }  // of each sector of a torn write

  private:
    bool draw_half(bool fixed) { return seed_ <= 1 ? fixed : random_.below(2) == 0; }

    uint64_t seed_;
    Random random_;
};

class FileImage {
  public:
    static constexpr int64_t kSectorBytes = 512;  // what a drive writes whole or not at all

    FileImage() = default;
    explicit FileImage(std::vector<std::byte> durable) : now_(durable), durable_(std::move(durable)) {}

    int64_t size() const { return static_cast<int64_t>(now_.size()); }
    std::span<const std::byte> bytes() const { return now_; }
    void write(std::span<const std::byte> from, int64_t offset);
    void resize(int64_t bytes);
    void sync();
    // What is left of the file after the power went: each change since the last sync meets its own fate, and those
    // that survive need not be the first ones.
    std::vector<std::byte> after(PowerCut& cut) const;

  private:
    struct Change {
        int64_t offset = 0;            // of a write, or the new size
        std::vector<std::byte> bytes;  // of a write
        bool is_write = false;
    };
    static void apply(const Change& change, std::vector<std::byte>& bytes);

    std::vector<std::byte> now_;      // what every reader sees
    std::vector<std::byte> durable_;  // as of the last sync
    std::vector<Change> pending_;     // since then, oldest first
};

}  // namespace windlass
