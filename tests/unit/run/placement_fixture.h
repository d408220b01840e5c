// placement_fixture.h: all that must not depend on placement, of a few steps with a bad one among them.
#pragma once

#include <array>

#include "tests/fault_files.h"
#include "tests/unit/run/engine_fixture.h"

namespace windlass {

struct Outcome {
    std::vector<double> losses, norms, clips;
    std::vector<double> fits;  // biases of refreshed layers, before and after
    int refreshed = 0;         // layers whose fit was accepted
    std::string state;
    bool operator==(const Outcome&) const = default;
};

// Every home of everything, every time of the update, on a device that shares the host's memory and on one of its own.
std::vector<Plan> all_plans();
// These, and those in which blocks may differ once more with each block another way, and each of its saved values.
std::vector<Plan> with_mixed(std::vector<Plan> plans, const TrainedModel& model);

// Trains four steps on two batches that take turns. Before the third one is tried with a loss that overflows: it
// changes nothing. Where projected layers are refreshed, they are so before the first and the third. (Not where that
// would be the end of the state: without a store, where gradients are used at once.) Weights, low halves and moments
// are those behind the last step.
Outcome run_steps(const Golden& golden, const std::array<TestBatch, 2>& batches, EngineOptions options,
                  FileSystem& files, const std::string& folder);
// The same where the working store is an image of a drive in memory.
Outcome run_steps(const Golden& golden, const std::array<TestBatch, 2>& batches, const EngineOptions& options);

// Of the steps some were clipped, and some were not.
void expect_some_clipped(const Outcome& outcome);

}  // namespace windlass
