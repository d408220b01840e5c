// What a run may use: a share of what is free, its own store on top, and no more than the limits of its process.
#include "session/budget.h"

#include <gmock/gmock.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <functional>

#include "base/file_error.h"
#include "base/json.h"
#include "base/units.h"
#include "schedule/store_room.h"
#include "session/session.h"
#include "tests/sanitizer.h"
#include "tests/train/passing_files.h"
#include "tests/train/train_fixture.h"

namespace windlass {
namespace {

using BudgetTest = TrainTest;

class DriveWithRoom : public PassingFiles {
  public:
    explicit DriveWithRoom(int64_t bytes) : free_(bytes) {}
    int64_t free_bytes(const std::string&) override { return free_; }

  private:
    int64_t free_;
};

int64_t disk_budget(const Config& config, int64_t free) {
    DriveWithRoom files(free);
    MemoryLimit memory{.left = kGiB, .whole = kGiB};
    return resolve_budgets(files, config, 1, memory).disk;
}

TEST_F(BudgetTest, AShareOfADriveIsOfWhatIsFreeWithTheRunsOwnStoreOnTop) {
    Config settings = config("run", {{"ssd_dir", at("ssd")}, {"ssd_space", "50%"}});
    EXPECT_EQ(disk_budget(settings, 1000), 500);
    real_files().make_folders(at("ssd"));
    write_text_atomic(real_files(), working_store_path(settings), std::string(3000, 'x'));
    // Plans reserve room for what a store that exists has already.
    EXPECT_EQ(disk_budget(settings, 1000), 3500 + kStoreMetaRoom);
    // A drive that is full: its own store is what the run continues from.
    EXPECT_EQ(disk_budget(settings, 0), 3000 + kStoreMetaRoom);
    // A size is of everything.
    settings = config("run", {{"ssd_dir", at("ssd")}, {"ssd_space", "2000B"}});
    EXPECT_EQ(disk_budget(settings, 1000), 2000);
}

Budgets under(const Config& config, MemoryLimit& memory) {
    return resolve_budgets(real_files(), config, 1, memory);
}

TEST_F(BudgetTest, ASizeMayExceedWhatIsAvailableButNotALimit) {
    const Config settings = config("run", {{"ram", "8GiB"}});
    MemoryLimit available{.left = kGiB, .whole = 2 * kGiB};
    EXPECT_EQ(under(settings, available).ram, 8 * kGiB);
    MemoryLimit group{.left = kGiB, .whole = 2 * kGiB, .name = "control group"};
    const int64_t ram = under(settings, group).ram;
    EXPECT_GE(ram, kGiB);  // and what the process has of it
    EXPECT_LE(ram, 2 * kGiB);
    EXPECT_EQ(group.name, "control group");
    const Config small = config("run", {{"ram", "100MiB"}});
    EXPECT_EQ(under(small, group).ram, 100 * kMiB);
    EXPECT_EQ(group.name, "") << "it does not hold anything back";
}

TEST_F(BudgetTest, AnEmulatedDeviceIsUnderTheLimitToo) {
    const Config settings = config("run", {{"device", "cpu:emulate"}});
    MemoryLimit group{.left = kGiB, .whole = 2 * kGiB, .name = "control group"};
    const int64_t most = kGiB + private_memory() + 64 * kMiB;
    const Budgets budgets = under(settings, group);
    EXPECT_GE(budgets.device, kGiB / 2);
    EXPECT_LE(budgets.device + budgets.ram, most);
    MemoryLimit available{.left = kGiB, .whole = 2 * kGiB};
    EXPECT_GT(under(settings, available).ram, budgets.ram);
}

TEST_F(BudgetTest, ARefusalNamesTheLimit) {
    NoFit none{.needs = "2 GiB of memory", .allowed = "1 GiB of memory", .ways_out = {"--ram 2GiB"}};
    name_limit({.left = 5, .whole = kGiB, .name = ""}, none);
    EXPECT_EQ(none.ways_out.size(), 1u);
    name_limit({.left = 5, .whole = kGiB, .name = "ulimit -v"}, none);
    EXPECT_EQ(none.allowed, "1 GiB of memory (memory: ulimit -v of 1.00 GiB)");
    // 2 GiB are more than it leaves.
    EXPECT_THAT(none.ways_out, testing::ElementsAre(testing::HasSubstr("ulimit -v unlimited")));
}

// The same command gives other weights where there is less room: one line says so, with the room.
TEST_F(BudgetTest, ANarrowedStateFormatIsNamedWithItsBudget) {
    if (is_second_run()) GTEST_SKIP() << "many plans; other tests plan under budgets";
    Json model = parse_json(bytes("model/config.json"), "config.json", ExitCode::internal);
    model.update({{"hidden_size", 256}, {"intermediate_size", 704}, {"num_hidden_layers", 8}});
    std::filesystem::create_directories(at("larger"));
    write("larger/config.json", model.dump());  // enough to plan
    for (const char* file : {"/tokenizer.json", "/tokenizer_config.json"})
        std::filesystem::copy_file(at("model") + file, at("larger") + file);
    const auto planned = [&](const Settings& changes) {
        Settings settings = {{"model", at("larger")}, {"policy", "three_tier"}, {"ssd_dir", at("ssd")}};
        settings.insert(changes.begin(), changes.end());
        return prepare_session(files_, config("run", settings), std::nullopt, ConfigUse::plan, KeptPlans::ignored);
    };
    const auto notes_of_format = [](const Session& session) {
        std::vector<std::string> notes;
        for (const std::string& note : session.notes)
            if (note.starts_with("state_format")) notes.push_back(note);
        return notes;
    };
    const Session roomy = planned({});
    EXPECT_THAT(notes_of_format(roomy), testing::IsEmpty());
    // Somewhere below, the exact format does not fit any more.
    for (int64_t space = roomy.planned.disk_bytes; space > 0; space -= roomy.planned.disk_bytes / 16) {
        const std::string size = fmt::format("{}B", space);
        const Session session = planned({{"ssd_space", size}, {"state_format", "auto"}, {"ram", "80%"}});
        if (session.numerics().state_format == kStateFormats[0]) continue;
        EXPECT_THAT(
            notes_of_format(session),
            testing::ElementsAre(testing::AllOf(
                testing::HasSubstr("which changes the result: with fp32 the run needs at least"),
                testing::HasSubstr(fmt::format("and {} of disk. Try: --state-format fp32", format_bytes(space))))));
        return;
    }
    ADD_FAILURE() << "the exact format fits everywhere";
}

// In a process of its own, whose limits may be lowered: what `holds` says of it there.
bool in_a_process(const std::function<bool()>& holds) {
    const pid_t child = ::fork();
    if (child == 0) ::_exit(holds() ? 0 : 1);
    int status = 0;
    ::waitpid(child, &status, 0);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

rlim_t soft_limit() {
    rlimit limit{};
    return ::getrlimit(RLIMIT_DATA, &limit) == 0 ? limit.rlim_cur : 0;
}

bool lower(__rlimit_resource resource, int64_t bytes) {
    const rlimit limit{static_cast<rlim_t>(bytes), static_cast<rlim_t>(bytes)};
    return ::setrlimit(resource, &limit) == 0;
}

TEST_F(BudgetTest, LimitsOfTheProcessAreBudgets) {
    if (is_sanitized()) GTEST_SKIP() << "sanitizers reserve terabytes";
    const auto limit_under = [](__rlimit_resource resource, int64_t bytes, std::string_view name) {
        return in_a_process([&] {
            if (!lower(resource, bytes)) return false;
            const MemoryLimit limit = memory_limit(real_files(), 1);
            return limit.name == name && limit.whole == bytes && limit.left > 0 && limit.left < bytes;
        });
    };
    EXPECT_TRUE(limit_under(RLIMIT_AS, kGiB, "ulimit -v"));
    EXPECT_TRUE(limit_under(RLIMIT_DATA, kGiB, "ulimit -d"));
    EXPECT_TRUE(in_a_process([] {
        return lower(RLIMIT_DATA, 4 * kMiB) && memory_limit(real_files(), 1).left == 0;  // less than there is
    }));
}

TEST_F(BudgetTest, EnforcingABudgetRaisesNoLimit) {
    if (is_sanitized()) GTEST_SKIP() << "sanitizers do not run under a data limit";
    EXPECT_TRUE(in_a_process([] {
        const rlimit soft{rlim_t{kGiB}, RLIM_INFINITY};
        if (::setrlimit(RLIMIT_DATA, &soft) != 0) return false;
        const EnforcedMemory enforced(16 * kGiB, 1);
        return soft_limit() == rlim_t{kGiB};
    }));
}

// Else the next run of a process would take it for a limit of the user's.
TEST_F(BudgetTest, ABudgetIsEnforcedNoLongerThanItsRun) {
    if (is_sanitized()) GTEST_SKIP() << "sanitizers do not run under a data limit";
    EXPECT_TRUE(in_a_process([] {
        const rlim_t before = soft_limit();
        {
            const EnforcedMemory enforced(kGiB, 1);
            if (soft_limit() >= before) return false;
        }
        return soft_limit() == before;
    }));
}

}  // namespace
}  // namespace windlass
