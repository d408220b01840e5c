// What control groups leave a process, as trees of text files tell it: both versions, nested, in containers.
#include "session/control_group.h"

#include <gtest/gtest.h>

#include "base/file_error.h"
#include "base/units.h"
#include "tests/unit/base/temp_folder.h"

namespace windlass {
namespace {

constexpr const char* kUnified = "31 23 0:41 / /sys/fs/cgroup rw,relatime shared:9 - cgroup2 cgroup2 rw\n";
constexpr const char* kMemory = "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n";
constexpr const char* kCpu = "36 31 0:33 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n";
constexpr const char* kNoLimit = "9223372036854771712\n";  // what version 1 writes

class ControlGroups : public testing::Test {
  protected:
    void put(const std::string& path, const std::string& text) {
        const std::string whole = folder_.path() + path;
        real_files().make_folders(parent_folder(whole));
        write_text_atomic(real_files(), whole, text);
    }
    void process(const std::string& groups, const std::string& mounts) {
        put("/proc/self/cgroup", groups);
        put("/proc/self/mountinfo", "23 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw\n" + mounts);
    }
    // A group of version 2 whose limit, use and unused pages of files are so large.
    void unified(const std::string& folder, const std::string& max, int64_t current, int64_t inactive) {
        put(folder + "/memory.max", max);
        put(folder + "/memory.current", fmt::format("{}\n", current));
        put(folder + "/memory.stat", fmt::format("anon 4096\ninactive_anon 1\ninactive_file {}\n", inactive));
    }
    void version_one(const std::string& folder, const std::string& limit, int64_t usage, int64_t inactive) {
        put(folder + "/memory.limit_in_bytes", limit);
        put(folder + "/memory.usage_in_bytes", fmt::format("{}\n", usage));
        // Of the group alone, and of all below it, which is what counts.
        put(folder + "/memory.stat", fmt::format("inactive_file 17\ntotal_inactive_file {}\n", inactive));
    }
    ControlGroup read() { return read_control_group(real_files(), folder_.path()); }
    // -1 without a limit.
    int64_t left() {
        const ControlGroup group = read();
        return group.memory ? group.memory->left : -1;
    }
    int processors() { return read().processors.value_or(-1); }

    TempFolder folder_;
};

TEST_F(ControlGroups, LimitNothingWhereThereAreNone) {
    EXPECT_EQ(left(), -1);
    EXPECT_EQ(processors(), -1);
    process("", "");
    EXPECT_EQ(left(), -1);
}

TEST_F(ControlGroups, OfVersionTwoLeaveWhatIsNotUsed) {
    process("0::/user.slice/job\n", kUnified);
    unified("/sys/fs/cgroup/user.slice/job", "1000000\n", 300000, 50000);
    EXPECT_EQ(left(), 750000);
    EXPECT_EQ(read().memory->limit, 1000000);
}

TEST_F(ControlGroups, OfVersionTwoWithoutALimitSayMax) {
    process("0::/job\n", kUnified);
    unified("/sys/fs/cgroup/job", "max\n", 300000, 0);
    put("/sys/fs/cgroup/job/cpu.max", "max 100000\n");
    EXPECT_EQ(left(), -1);
    EXPECT_EQ(processors(), -1);
}

TEST_F(ControlGroups, AreSlowedAboveHigh) {
    process("0::/job\n", kUnified);
    unified("/sys/fs/cgroup/job", "1000000\n", 100000, 0);
    put("/sys/fs/cgroup/job/memory.high", "600000\n");
    EXPECT_EQ(left(), 500000);
    put("/sys/fs/cgroup/job/memory.high", "max\n");
    EXPECT_EQ(left(), 900000);
}

TEST_F(ControlGroups, AreBoundByEachGroupAboveThem) {
    process("0::/a/b/c\n", kUnified);
    unified("/sys/fs/cgroup/a/b/c", "1000000\n", 1000, 0);
    unified("/sys/fs/cgroup/a/b", "max\n", 500000, 0);
    unified("/sys/fs/cgroup/a", "2000000\n", 1900000, 0);  // by others
    put("/sys/fs/cgroup/a/b/cpu.max", "300000 100000\n");
    put("/sys/fs/cgroup/a/b/c/cpu.max", "800000 100000\n");
    EXPECT_EQ(left(), 100000);
    EXPECT_EQ(processors(), 3);
}

TEST_F(ControlGroups, OfVersionOneLeaveWhatIsNotUsed) {
    process("4:memory:/job\n1:cpu:/\n", kMemory);
    version_one("/sys/fs/cgroup/memory/job", "1000000\n", 300000, 50000);
    EXPECT_EQ(left(), 750000);
}

TEST_F(ControlGroups, OfVersionOneHaveANumberForNoLimit) {
    process("4:memory:/job\n", kMemory);
    version_one("/sys/fs/cgroup/memory/job", kNoLimit, 300000, 0);
    version_one("/sys/fs/cgroup/memory", kNoLimit, 300000, 0);
    EXPECT_EQ(left(), -1);
}

TEST_F(ControlGroups, OfVersionOneCountAboveOnlyWithHierarchy) {
    process("4:memory:/a/b\n", kMemory);
    version_one("/sys/fs/cgroup/memory/a/b", "1000000\n", 0, 0);
    version_one("/sys/fs/cgroup/memory/a", "700000\n", 0, 0);
    put("/sys/fs/cgroup/memory/a/memory.use_hierarchy", "1\n");
    EXPECT_EQ(left(), 700000);
    put("/sys/fs/cgroup/memory/a/memory.use_hierarchy", "0\n");
    EXPECT_EQ(left(), 1000000);
}

// A host of 64 processors, of which a job may use two.
TEST_F(ControlGroups, GiveWholeProcessorsOfAQuota) {
    process("0::/job\n", kUnified);
    const std::pair<const char*, int> quotas[] = {{"200000 100000\n", 2}, {"250000 100000\n", 2},
                                                  {"50000 100000\n", 1},  {"6400000 100000\n", 64},
                                                  {"200000\n", -1},       {"200000 0\n", -1}};
    for (const auto& [quota, whole] : quotas) {
        put("/sys/fs/cgroup/job/cpu.max", quota);
        EXPECT_EQ(processors(), whole) << quota;
    }
}

TEST_F(ControlGroups, OfVersionOneHaveQuotasToo) {
    process("2:cpu,cpuacct:/job\n", kCpu);
    put("/sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us", "-1\n");
    put("/sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_period_us", "100000\n");
    EXPECT_EQ(processors(), -1);
    put("/sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us", "400000\n");
    EXPECT_EQ(processors(), 4);
    put("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "200000\n");
    put("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
    EXPECT_EQ(processors(), 2);
}

// Reading a model fills a group with pages of files: the kernel takes them back.
TEST_F(ControlGroups, FullOfTheirOwnPageCacheAreEmpty) {
    process("0::/job\n", kUnified);
    unified("/sys/fs/cgroup/job", "1000000\n", 1000000, 950000);
    EXPECT_EQ(left(), 950000);
}

// The page cache of the host, in /proc/meminfo, is not this group's.
TEST_F(ControlGroups, DoNotCountThePagesOfOthers) {
    process("0::/job\n", kUnified);
    put("/proc/meminfo", "MemTotal: 64000000 kB\nMemAvailable: 60000000 kB\nCached: 30000000 kB\n");
    unified("/sys/fs/cgroup/job", fmt::format("{}\n", kGiB), 900 * kMiB, 0);
    EXPECT_EQ(left(), kGiB - 900 * kMiB);
}

TEST_F(ControlGroups, OverTheirLimitLeaveNothing) {
    process("0::/job\n", kUnified);
    unified("/sys/fs/cgroup/job", "1000\n", 900000, 0);
    EXPECT_EQ(left(), 0);
    unified("/sys/fs/cgroup/job", "1000\n", 100, 900000);  // statistics lag
    EXPECT_EQ(left(), 1000);
}

// Of docker on version 1: the path is the host's, and the mount begins at the container's own group.
TEST_F(ControlGroups, AreFoundInAContainerWithoutANamespace) {
    process("4:memory:/docker/x\n2:cpu,cpuacct:/docker/x/y\n",
            "35 31 0:32 /docker/x /sys/fs/cgroup/memory ro,nosuid - cgroup cgroup rw,memory\n"
            "36 31 0:33 /docker/x /sys/fs/cgroup/cpu ro,nosuid - cgroup cgroup rw,cpu,cpuacct\n");
    version_one("/sys/fs/cgroup/memory", "1000000\n", 0, 0);
    put("/sys/fs/cgroup/cpu/y/cpu.cfs_quota_us", "500000\n");
    put("/sys/fs/cgroup/cpu/y/cpu.cfs_period_us", "100000\n");
    EXPECT_EQ(left(), 1000000);
    EXPECT_EQ(processors(), 5);
}

TEST_F(ControlGroups, AreFoundInAContainerWithANamespace) {
    process("0::/\n", kUnified);
    unified("/sys/fs/cgroup", "1000000\n", 0, 0);
    EXPECT_EQ(left(), 1000000);
}

// systemd's hybrid: version 1 has the controllers, version 2 only names.
TEST_F(ControlGroups, OfBothVersionsAtOnceAllCount) {
    process("4:memory:/a\n2:cpu,cpuacct:/b\n1:name=systemd:/init.scope\n0::/init.scope\n",
            std::string(kMemory) + kCpu + "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n");
    version_one("/sys/fs/cgroup/memory/a", "1000000\n", 0, 0);
    put("/sys/fs/cgroup/unified/init.scope/cgroup.procs", "1\n");
    EXPECT_EQ(left(), 1000000);
    EXPECT_EQ(processors(), -1);
    unified("/sys/fs/cgroup/unified/init.scope", "5000\n", 0, 0);
    EXPECT_EQ(left(), 5000);
}

TEST_F(ControlGroups, OfVersionTwoMayLackTheControllerBelowAGroupThatHasIt) {
    process("0::/a/b\n", kUnified);
    unified("/sys/fs/cgroup/a", "1000000\n", 0, 0);
    put("/sys/fs/cgroup/a/b/cgroup.procs", "1\n");
    EXPECT_EQ(left(), 1000000);
}

TEST_F(ControlGroups, ElsewhereThanTheMountDoNotCount) {
    const char* const part = "31 23 0:41 /docker/x /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
    unified("/sys/fs/cgroup", "1000000\n", 0, 0);
    for (const char* group : {"0::/docker/xy\n", "0::/docker\n", "0::/docker/x/../y\n", "0::docker/x\n", "0::\n"}) {
        process(group, part);
        EXPECT_EQ(left(), -1) << group;
    }
    // The whole tree, mounted into a namespace that begins below it: what it is mounted from is above this process.
    process("0::/\n", "31 23 0:41 /../.. /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
    EXPECT_EQ(left(), 1000000);
}

TEST_F(ControlGroups, MayBeMountedUnderANameWithABlank) {
    process("0::/a job\n", "31 23 0:41 / /my\\040groups rw - cgroup2 cgroup2 rw\n");
    unified("/my groups/a job", "1000000\n", 0, 0);
    EXPECT_EQ(left(), 1000000);
}

TEST_F(ControlGroups, WhoseFilesAreNonsenseLimitNothing) {
    for (const std::string& text : {std::string("x"), std::string("-5\n"), std::string(1 << 21, '7'), std::string("\n"),
                                    std::string("0::/job\n::\n:\n"), std::string(" - \n - cgroup2\n")}) {
        process("0::/job\n" + text, kUnified + text);
        unified("/sys/fs/cgroup/job", text, 0, 0);
        put("/sys/fs/cgroup/job/cpu.max", text);
        EXPECT_EQ(left(), -1) << text.substr(0, 9);
        EXPECT_EQ(processors(), -1) << text.substr(0, 9);
    }
}

}  // namespace
}  // namespace windlass
