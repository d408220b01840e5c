// price.h: what a task takes of a machine when it has it to itself: seconds, and a share of each thing that tasks
// share.
//
// docs/dev/simulator.md has the formulas.
#pragma once

#include <array>
#include <vector>

#include "schedule/machine.h"
#include "schedule/schedule.h"

namespace windlass {

// What tasks of several lanes want at once. link and drives: what two directions get together.
enum class Resource : uint8_t { cores, host_memory, device_memory, link, drives };
inline constexpr int kResources = 5;

struct Price {
    double seconds = 0;                       // alone
    std::array<double, kResources> shares{};  // of each resource, while it runs alone; 1: all of it
};

// Prices of a schedule's tasks. Outlived by both.
class PriceList {
  public:
    PriceList(const Schedule& schedule, const Machine& machine);
    Price of(const Task& task) const;

  private:
    // Seconds of work and amounts of what it uses, before they are set against each other.
    struct Work {
        double seconds = 0;
        double cores = 0;  // taken while it works
        double host_bytes = 0, device_bytes = 0;
    };
    Work segment_work(const Segment& segment) const;
    const ParamTask* param_of(const Task& task) const;  // null: it is another verb's
    bool has_update_rate(const Task& task) const;
    Work compute_work(const Task& task) const;
    Work update_work(const Task& task) const;
    Work copy_work(const Task& task) const;
    Work disk_work(const Task& task) const;
    bool is_summed(const Task& task) const;  // its bytes are checked, or remembered, by their checksums
    // One kernel: its products or the memory that it moves, whichever takes longer.
    double kernel_seconds(double flops, double bytes, double flops_per_s) const;
    double call_rate(const SegmentCall& call, const OpSize& size) const;
    void add_compute_bytes(Work& work, double bytes) const;
    double calls(const Task& task) const;   // of kernels
    double pieces(const Task& task) const;  // of a move
    LaneKind kind_of(const Task& task) const { return schedule_.lanes[static_cast<size_t>(task.lane)].kind; }
    Price finish(const Work& work, LaneKind lane) const;

    const Schedule& schedule_;
    const Machine& machine_;
    double compute_share_ = 1;   // of the host's cores that each lane has
    double products_share_ = 1;  // of the rate of kernels on all of them
    double host_share_ = 1;
    double memory_bytes_per_s_ = 0;  // where the compute lane works
    double host_update_bytes_per_s_ = 0, device_update_bytes_per_s_ = 0;
    std::vector<Work> segments_;  // by segment
};

}  // namespace windlass
