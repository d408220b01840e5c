// disk_run.h: training on a CUDA device over disk, step by step, and what it comes to.
#pragma once

#include "tests/simt/emulated.h"
#include "tests/unit/run/forward_only_fixture.h"

namespace windlass {

inline constexpr DeviceId kEmulatedCard = {.kind = DeviceKind::cuda, .own_memory = true};

struct CardRun {
    explicit CardRun(const Plan& plan) : golden("llama"), batches(batches_of(golden)) {
        options.plan = plan;
        if (plan.store) options.store_path = "/image/store.wls";
    }
    const TestBatch& rows(int64_t step) const { return batches[step % 2 == 1 ? 0 : 1]; }
    void step(Engine& engine, int64_t number) const { train_on(engine, rows(number), number, /*rate=*/1e-2); }
    std::string state(Engine& engine, FileSystem& files) const {
        engine.flush();
        return state_bytes(engine, files, "/image/state.wls");
    }

    Golden golden;
    std::array<TestBatch, 2> batches;
    EngineOptions options;
};

inline Plan plan_over_disk() {
    return {.policy = "three_tier",
            .device = kEmulatedCard,
            .host_threads = 1,
            .store = true,
            .read_ahead = 1,
            .common = {.weights = Home::disk, .state = Home::disk, .gradients = Home::host}};
}

// The state behind two steps, and the calls that the second one makes.
struct Undisturbed {
    std::string state;
    int64_t calls = 0;
};
inline Undisturbed undisturbed(const CardRun& run) {
    FaultFiles files("/image");
    const auto engine = make_engine(files, run.golden.folder, run.options);
    run.step(*engine, 1);
    simt::emulate({});
    run.step(*engine, 2);
    const int64_t calls = simt::calls();
    return {run.state(*engine, files), calls};
}

}  // namespace windlass
