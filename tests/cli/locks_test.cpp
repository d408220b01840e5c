// Runs in folders of file systems that have no flock (NFS without its lock service, Lustre as it is mounted by
// default, some FUSE), or no lock at all.
#include <gmock/gmock.h>

#include <csignal>
#include <filesystem>

#include "tests/cli/sandbox.h"

namespace windlass::cli {
namespace {

namespace fs = std::filesystem;

using testing::HasSubstr;

struct LockErrors {
    const char* name;
    int flock = 0;
    std::optional<int> fcntl = {};
    const char* warning;
};

void PrintTo(const LockErrors& errors, std::ostream* out) {
    *out << errors.name;
}

class WithoutLocks : public testing::TestWithParam<LockErrors> {
  protected:
    static Command on_such_a_file_system(Command command) {
        command.flock_error = GetParam().flock;
        command.fcntl_lock_error = GetParam().fcntl;
        return command;
    }
    // With its state on disk, so that its store is locked too.
    Process endless() {
        Settings settings = sandbox_.training_on_disk();
        settings["max_steps"] = "100000";
        return Process(on_such_a_file_system(sandbox_.train(settings)));
    }
    Finished exported(const std::string& name) const {
        return run(on_such_a_file_system(sandbox_.windlass({"export", sandbox_.out(), "--to", sandbox_ / name})));
    }

    Sandbox sandbox_;
};

TEST_P(WithoutLocks, ARunTrainsWithAWarningAndIsExported) {
    const Finished done = must_succeed(on_such_a_file_system(sandbox_.train(sandbox_.training_on_disk())));
    const std::string warning = fmt::format("warning: {}: {}", sandbox_.out(), GetParam().warning);
    EXPECT_THAT(done.err, HasSubstr(warning));
    EXPECT_EQ(done.err.find(warning), done.err.rfind(warning));
    const Finished exported_run = exported("model");
    EXPECT_EQ(exported_run.code, 0) << describe(exported_run);
    EXPECT_THAT(exported_run.err, HasSubstr(warning));
    EXPECT_TRUE(fs::exists(sandbox_ / "model/model.safetensors"));
    EXPECT_FALSE(fs::exists(sandbox_.out() + "/export"));
    EXPECT_FALSE(fs::exists(sandbox_.out() + "/.lock.owner"));
}

TEST_P(WithoutLocks, ASecondRunIsRefusedAndARunIsAskedToExport) {
    Process process(endless());
    ASSERT_TRUE(wait_until([&] { return metrics_of(sandbox_.out()).size() >= 2; }, 60)) << process.messages();
    const Finished second = run(on_such_a_file_system(sandbox_.train(sandbox_.training_on_disk(), {"--overwrite"})));
    EXPECT_EQ(second.code, static_cast<int>(ExitCode::storage)) << describe(second);
    EXPECT_THAT(second.err, HasSubstr(" is training into this folder, or exporting from it"));
    const Finished exported_run = exported("model");
    EXPECT_EQ(exported_run.code, 0) << describe(exported_run);
    EXPECT_THAT(exported_run.err, HasSubstr(" is training; it writes the export"));
    process.send(SIGTERM);
    EXPECT_EQ(process.wait().code, 143);
}

TEST_P(WithoutLocks, ARunThatWasKilledIsExportedAndResumed) {
    {
        Process process(endless());
        ASSERT_TRUE(wait_until([&] { return metrics_of(sandbox_.out()).size() >= 2; }, 60)) << process.messages();
        process.send(SIGKILL);
        process.wait();
    }
    const Finished exported_run = exported("model");
    EXPECT_EQ(exported_run.code, 0) << describe(exported_run);
    EXPECT_FALSE(fs::exists(sandbox_.out() + "/export"));
    Settings settings = sandbox_.training_on_disk();
    settings["max_steps"] = std::to_string(metrics_of(sandbox_.out()).size() + 2);
    must_succeed(on_such_a_file_system(sandbox_.train(settings, {"--resume"})));
}

INSTANTIATE_TEST_SUITE_P(
    FileSystems, WithoutLocks,
    testing::Values(
        LockErrors{"NfsWithoutItsService", ENOLCK, {}, "the file system has no flock (No locks available); "},
        LockErrors{"Lustre", ENOSYS, ENOSYS, "the file system has no locks (Function not implemented); "},
        LockErrors{"Fuse", EOPNOTSUPP, {}, "the file system has no flock (Operation not supported); "},
        LockErrors{"NoLocks", EINVAL, ENOLCK, "the file system has no locks (No locks available); "}),
    [](const auto& info) { return info.param.name; });

// Whether a process on another host lives cannot be seen: no verb waits for it, and a user decides.
TEST(LockOfAnotherHost, IsRefusedAndNamesTheFileThatAUserRemoves) {
    Sandbox sandbox;
    const Settings settings = sandbox.training();
    must_succeed(sandbox.train(settings));
    const std::string owner = sandbox.out() + "/.lock.owner";
    write_bytes(owner, "4711\n12\nnode7\n0a1b2c3d-0000-0000-0000-000000000000 pid:[1]\n");
    for (Command command : {sandbox.windlass({"export", sandbox.out(), "--to", sandbox / "model"}),
                            sandbox.train(settings, {"--resume"})}) {
        command.flock_error = command.fcntl_lock_error = ENOLCK;
        const Finished refused = run(command);
        EXPECT_EQ(refused.code, static_cast<int>(ExitCode::storage)) << describe(refused);
        EXPECT_THAT(refused.err,
                    HasSubstr(fmt::format("process 4711 on node7, which may be over: {} names it", owner)));
        EXPECT_THAT(refused.err, HasSubstr(fmt::format("Try: rm {}, if that process is over", owner)));
    }
    fs::remove(owner);
    Command command = sandbox.windlass({"export", sandbox.out(), "--to", sandbox / "model"});
    command.flock_error = command.fcntl_lock_error = ENOLCK;
    must_succeed(command);
}

}  // namespace
}  // namespace windlass::cli
