// Disks that fail, lie, or answer in another order.
#include "schedule/layout.h"
#include "tests/fault_files.h"
#include "tests/unit/run/engine_fixture.h"

namespace windlass {
namespace {

constexpr int64_t kDiskSteps = 3;

const Golden& disk_golden() {
    static const Golden read("llama3");
    return read;
}
const TestBatch& batch(int64_t step) {
    static const TestBatch a(disk_golden().ids("ids"), disk_golden().ids("targets"), 2);
    static const TestBatch b(disk_golden().ids("ids_b"), disk_golden().ids("targets_b"), 2);
    return step % 2 == 1 ? a : b;
}

EngineOptions on_image(Home weights, Home gradients, int read_ahead = 1) {
    EngineOptions options{.plan = disk_plan(weights, gradients),
                          .micro_batch_size = 1,
                          .micro_batches = 2,
                          .store_path = "/image/store.wls"};
    options.plan.read_ahead = read_ahead;
    return options;
}

// The state after each step, step 0 first, in memory.
const std::vector<std::string>& states() {
    static const std::vector<std::string> all = [] {
        const TempFolder folder;
        std::vector<std::string> list;
        const auto engine =
            make_engine(real_files(), disk_golden().folder, {.micro_batch_size = 1, .micro_batches = 2});
        for (int64_t step = 0; step <= kDiskSteps; ++step) {
            if (step > 0) train_on(*engine, batch(step), step, 1e-2);
            list.push_back(state_bytes(*engine, real_files(), folder / "state.wls"));
        }
        return list;
    }();
    return all;
}

std::string state(Engine& engine, FileSystem& files) {
    return state_bytes(engine, files, "/image/state.wls");
}

class Disks : public testing::TestWithParam<std::tuple<Home, Home>> {
  protected:
    EngineOptions options(int read_ahead = 1) const {
        return on_image(std::get<0>(GetParam()), std::get<1>(GetParam()), read_ahead);
    }
};

// Transfers that finish late, in pieces, and in any order: every engine on this image draws another.
TEST_P(Disks, TheOrderOfTheirAnswersDoesNotShow) {
    for (int read_ahead = 0; read_ahead < 3; ++read_ahead) {
        FaultFiles files("/image");
        for (int used = 0; used < 10 * read_ahead; ++used) files.make_queue(QueueKind::automatic, 1);  // other seeds
        const auto engine = make_engine(files, disk_golden().folder, options(read_ahead));
        for (int64_t step = 1; step <= kDiskSteps; ++step) train_on(*engine, batch(step), step, 1e-2);
        EXPECT_TRUE(state(*engine, files) == states().back()) << read_ahead;
    }
}

// A call that fails ends the step with its error; the store stays at the last committed step and goes on from there.
TEST_P(Disks, AFailedStepIsNoStep) {
    struct Fault {
        FaultCall call;
        int error_number;
    };
    for (const auto& [call, error_number] :
         {Fault{FaultCall::write, EIO}, {FaultCall::write, ENOSPC}, {FaultCall::read, EIO}}) {
        for (const int64_t nth : {1, 2, 7, 20}) {
            FaultFiles files("/image");
            {
                const auto engine = make_engine(files, disk_golden().folder, options());
                train_on(*engine, batch(1), 1, 1e-2);
                files.fail({.call = call, .nth = nth, .error_number = error_number});
                try {
                    engine->train_step(train_schedule(*engine, batch(2)), step_input(*engine, batch(2), 2, 1e-2));
                    ADD_FAILURE() << "call " << nth << " was to fail";
                } catch (const MachineError& error) {
                    EXPECT_EQ(error.error_number(), error_number);
                    EXPECT_THAT(error.what(), testing::HasSubstr("/image/store.wls"));
                }
                files.clear_rules();
            }
            const auto engine = make_engine(files, disk_golden().folder, options(), false);
            EXPECT_EQ(engine->reopen(), run_state_of(1));
            EXPECT_TRUE(state(*engine, files) == states()[1]);
            for (int64_t step = 2; step <= kDiskSteps; ++step) train_on(*engine, batch(step), step, 1e-2);
            EXPECT_TRUE(state(*engine, files) == states().back());
        }
    }
}

// A commit that fails leaves the step before it, or the step: the store says which.
TEST_P(Disks, AFailedCommitIsOneStepOrTheOther) {
    for (const FaultCall call : {FaultCall::write, FaultCall::sync}) {
        for (const int64_t nth : {1, 2, 3}) {
            FaultFiles files("/image");
            {
                const auto engine = make_engine(files, disk_golden().folder, options());
                const StepReport report =
                    engine->train_step(train_schedule(*engine, batch(1)), step_input(*engine, batch(1), 1, 1e-2));
                files.fail({.call = call, .nth = nth});
                try {
                    engine->commit(1, run_state_of(1), report);
                } catch (const MachineError& error) {
                    EXPECT_EQ(error.error_number(), EIO);
                }
                files.clear_rules();
            }
            const auto engine = make_engine(files, disk_golden().folder, options(), false);
            const std::string found = engine->reopen();
            const int64_t step = found == run_state_of(1) ? 1 : 0;
            EXPECT_EQ(found, step == 1 ? run_state_of(1) : "{}");
            EXPECT_TRUE(state(*engine, files) == states()[static_cast<size_t>(step)]);
        }
    }
}

// Turns over one bit in the middle of what the store holds of a chunk.
void damage(FileSystem& files, const std::string& path, const std::string& param, bool weights) {
    Store store = Store::open(files, path);
    int64_t index = 0;
    while (store.layout().params[static_cast<size_t>(index)].name != param) ++index;
    const int64_t chunk = store.first_chunk(index);
    const int version = store.current_version(chunk);
    const Extent extent = weights ? store.weight_extent(chunk, version) : store.state_extent(chunk, version);
    const auto file = files.open(path, {OpenMode::update});
    std::byte byte{};
    file->read_at({&byte, 1}, extent.offset + extent.bytes / 2);
    byte ^= std::byte{4};
    file->write_at({&byte, 1}, extent.offset + extent.bytes / 2);
}

TEST_P(Disks, ADamagedByteIsNamedByTheNextStep) {
    const std::string param = "model.layers.1.mlp.up_proj.weight";
    for (const bool weights : {false, true}) {
        if (weights && std::get<0>(GetParam()) == Home::device) continue;  // a step reads them from memory
        FaultFiles files("/image");
        const auto engine = make_engine(files, disk_golden().folder, options());
        train_on(*engine, batch(1), 1, 1e-2);
        damage(files, "/image/store.wls", param, weights);
        try {
            train_on(*engine, batch(2), 2, 1e-2);
            ADD_FAILURE() << "the damage went unseen";
        } catch (const UserError& error) {
            EXPECT_EQ(error.code(), ExitCode::storage);
            EXPECT_THAT(error.what(), testing::HasSubstr(param));
            EXPECT_THAT(error.what(), testing::HasSubstr(weights ? "weights" : "optimizer state"));
            EXPECT_THAT(error.what(), testing::HasSubstr("/image/store.wls"));
        }
    }
}

TEST_P(Disks, ADamagedSnapshotIsNotRestored) {
    FaultFiles files("/image");
    const auto engine = make_engine(files, disk_golden().folder, options());
    engine->snapshot("/image/snapshot.wls", 0, "{}");
    damage(files, "/image/snapshot.wls", "model.norm.weight", true);
    const TempFolder folder;
    Store snapshot = Store::open(files, "/image/snapshot.wls", OpenMode::read);
    try {
        make_engine(files, disk_golden().folder, {}, false)->restore(snapshot, {});
        FAIL();
    } catch (const UserError& error) {
        EXPECT_EQ(error.code(), ExitCode::storage);
        EXPECT_THAT(error.what(), testing::HasSubstr("model.norm.weight"));
    }
}

INSTANTIATE_TEST_SUITE_P(Homes, Disks,
                         testing::Combine(testing::Values(Home::device, Home::disk),
                                          testing::Values(Home::device, Home::disk)));

}  // namespace
}  // namespace windlass
