// device_run.h: runs on a CUDA device that is the CPU.
#pragma once

#include "session/machine_cache.h"
#include "tests/train/train_fixture.h"

namespace windlass {

inline constexpr DeviceId kCard = {.kind = DeviceKind::cuda, .own_memory = true};

class DeviceRun : public TrainTest {
  protected:
    // A card that was measured already: what it does at full size would take the CPU minutes.
    DeviceRun() : machine_(known_machine(files_, "", 2)) { add_device(files_, kCard, kSmallestProbe, machine_); }

    Machine machine_;
};

}  // namespace windlass
