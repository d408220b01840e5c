// Limits of the process, through the real program: a control group, ulimit -v and ulimit -d. A run fits them, or is
// refused before it begins: no signal ends it.
#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/units.h"
#include "tests/cli/sandbox.h"
#include "tests/place.h"

namespace windlass::cli {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

// The command as a shell starts it after these words.
Command in_shell(const std::string& words, Command command) {
    std::vector<std::string> shell = {"/bin/sh", "-c", words + "; exec \"$@\"", "sh"};
    command.words.insert(command.words.begin(), shell.begin(), shell.end());
    return command;
}

std::string make_limited(const TempFolder& place, const char* hidden) {
    std::string folder = place / "model";
    must_succeed({.words = {binary_dir() + "/make_model", "--shape", "llama-tiny", "--hidden", hidden, "--layers", "8",
                            "--ffn", "704", "--dtype", "bf16", "--seed", "1", "--out", folder}});
    return folder;
}

// 6 million parameters: with what the program takes, methods need from 65 to 160 MiB.
const std::string& limited_model() {
    static const TempFolder place;
    static const std::string folder = make_limited(place, "256");
    return folder;
}

struct Limited {
    const char* name;
    Settings settings;
};

std::vector<Limited> limited_methods() {
    return {{"adamw", {}},
            {"three_tier", {{"policy", "three_tier"}}},
            {"lora", {{"adapter", "lora"}}},
            {"lsp", {{"preset", "lsp"}}},
            {"zo2", {{"preset", "zo2"}}},
            {"lomo", {{"method", "lomo"}}}};
}

Settings limited_settings(Sandbox& sandbox, const Limited& method) {
    Settings settings = sandbox.training();
    settings["model"] = limited_model();
    settings["overwrite"] = "true";
    for (const auto& [key, value] : method.settings) settings[key] = value;
    if (method.settings.contains("policy")) settings["ssd_dir"] = sandbox / "ssd";
    return settings;
}

// Without a limit, so that the rates of the machine and of the method's kernels are kept.
void measure_once(Sandbox& sandbox) {
    for (const Limited& method : limited_methods()) must_succeed(sandbox.train(limited_settings(sandbox, method)));
}

// Exit code 0, 3 or 6. The program may be larger than the limit: then it does not begin.
int end_under(Sandbox& sandbox, const Limited& method, char flag, int64_t mebibytes) {
    const std::string limit = fmt::format("ulimit -{} {}", flag, mebibytes * 1024);
    const Finished finished = run(in_shell(limit, sandbox.train(limited_settings(sandbox, method))));
    const bool is_loaded = finished.err.find("error while loading shared libraries") == std::string::npos;
    if (!is_loaded && finished.code == 127) return -1;
    EXPECT_THAT(finished.code, testing::AnyOf(0, kNoFit, kStorage))
        << method.name << ", " << limit << ": " << describe(finished);
    if (finished.code == kNoFit) {
        EXPECT_THAT(finished.err, HasSubstr(fmt::format("ulimit -{}", flag)));
    }
    return finished.code;
}

// From 40 to 400 MiB.
constexpr int kLimits = 20;
int64_t limit_at(int step) {
    return 40 + 360 * step / (kLimits - 1);
}

TEST(Limits, OfReservedMemoryAreKeptOrRefused) {
    Sandbox sandbox;
    measure_once(sandbox);
    const std::vector<Limited> methods = limited_methods();
    for (int i = 0; i < std::ssize(methods); ++i) {
        const Limited& method = methods[static_cast<size_t>(i)];
        EXPECT_EQ(end_under(sandbox, method, 'd', limit_at(3 + i % 2)), kNoFit) << method.name;
        end_under(sandbox, method, 'd', limit_at(7 + i));
        end_under(sandbox, method, 'v', limit_at(5 + 2 * i));
    }
    EXPECT_EQ(end_under(sandbox, methods[4], 'd', 400), 0);
    EXPECT_EQ(end_under(sandbox, methods[4], 'v', 600), 0);
}

TEST(SlowLimits, OfReservedMemoryAreKeptOrRefused) {
    Sandbox sandbox;
    measure_once(sandbox);
    for (const Limited& method : limited_methods())
        for (int step = 0; step < kLimits; ++step)
            for (const char flag : {'v', 'd'}) end_under(sandbox, method, flag, limit_at(step));
}

// A control group of version 1 or 2 with a limit of memory; needs root, and a tree that may be written.
class MemoryGroup {
  public:
    explicit MemoryGroup(int64_t bytes) {
        for (const auto& [tree, file] :
             {std::pair{"/sys/fs/cgroup/memory", "memory.limit_in_bytes"}, {"/sys/fs/cgroup", "memory.max"}}) {
            folder_ = fmt::format("{}/windlass-test-{}-{}", tree, ::getpid(), bytes);
            std::error_code refused;
            if (!fs::exists(fmt::format("{}/cgroup.procs", tree)) || !fs::create_directory(folder_, refused)) continue;
            std::ofstream(fmt::format("{}/{}", folder_, file)) << bytes;
            int64_t limit = 0;
            std::ifstream(fmt::format("{}/{}", folder_, file)) >> limit;
            is_there_ = limit == bytes;
            if (is_there_) return;
            ::rmdir(folder_.c_str());
        }
    }
    ~MemoryGroup() {
        if (is_there_) ::rmdir(folder_.c_str());
    }
    MemoryGroup(const MemoryGroup&) = delete;
    MemoryGroup& operator=(const MemoryGroup&) = delete;

    bool is_there() const { return is_there_; }
    Command with(Command command) const {
        return in_shell(fmt::format("echo $$ > {}/cgroup.procs", folder_), std::move(command));
    }

  private:
    std::string folder_;
    bool is_there_ = false;
};

TEST(Limits, OfAControlGroupAreKeptOrRefused) {
    const MemoryGroup group(200 * kMiB);
    if (!group.is_there()) GTEST_SKIP() << "may not make a control group";
    Sandbox sandbox;
    measure_once(sandbox);
    for (const Limited& method : limited_methods()) {
        const Finished finished = run(group.with(sandbox.train(limited_settings(sandbox, method))));
        EXPECT_THAT(finished.code, testing::AnyOf(0, kNoFit)) << method.name << ": " << describe(finished);
        EXPECT_THAT(finished.err, HasSubstr("control group")) << method.name;
    }
    // More than the group has, and all of it.
    for (const char* ram : {"4GiB", "100%"}) {
        Settings settings = limited_settings(sandbox, {"lora", {{"adapter", "lora"}, {"ram", ram}}});
        const Finished finished = run(group.with(sandbox.train(settings)));
        EXPECT_EQ(finished.code, 0) << ram << ": " << describe(finished);
        EXPECT_THAT(finished.err, HasSubstr("MiB (control group)")) << ram;
    }
    // Too large for the group: named, with what would help.
    const MemoryGroup small(100 * kMiB);
    const Finished refused = run(small.with(sandbox.train(limited_settings(sandbox, {"adamw", {}}))));
    EXPECT_EQ(refused.code, kNoFit) << describe(refused);
    EXPECT_THAT(refused.err, HasSubstr("(memory: control group of 100.00 MiB)"));
    EXPECT_THAT(refused.err, HasSubstr("or: more memory for the control group"));
}

// Nothing was measured yet: probing the machine does not exceed the group either.
TEST(Limits, OfAControlGroupHoldTheProbeToo) {
    const MemoryGroup group(260 * kMiB);  // less than a probe usually takes
    if (!group.is_there()) GTEST_SKIP() << "may not make a control group";
    Sandbox sandbox;
    Command command = sandbox.train(limited_settings(sandbox, {"lora", {{"adapter", "lora"}}}));
    command.environment["XDG_CACHE_HOME"] = sandbox / "empty";
    const Finished finished = run(group.with(command));
    EXPECT_EQ(finished.code, 0) << describe(finished);
    EXPECT_THAT(finished.err, HasSubstr("measuring this machine"));
}

TEST(Limits, ThatLeaveLessThanAProbeTakesAreNamed) {
    Sandbox sandbox;
    Command command = sandbox.train(limited_settings(sandbox, {"lora", {{"adapter", "lora"}}}));
    command.environment["XDG_CACHE_HOME"] = sandbox / "empty";
    const Finished finished = run(in_shell(fmt::format("ulimit -d {}", 200 * 1024), command));
    EXPECT_EQ(finished.code, kNoFit) << describe(finished);
    EXPECT_THAT(finished.err, HasSubstr("measuring this machine takes"));
    EXPECT_THAT(finished.err, HasSubstr("Try: ulimit -d unlimited"));
}

}  // namespace
}  // namespace windlass::cli
