// A machine as text: what people edit, and what they get wrong.
#include "schedule/machine_text.h"

#include <fstream>

#include "base/error.h"
#include "schedule/machine_profiles.h"
#include "tests/place.h"

namespace windlass {
namespace {

using testing::HasSubstr;

constexpr std::string_view kLeast =
    "name: small\nthreads: 2\nmemory_bytes: 8 GiB\ngemm_f32_flops: 1e11\nmemory_bytes_per_s: 2e10\n";

std::string complaint(const std::string& text) {
    try {
        parse_machine(text, "m.machine");
    } catch (const UserError& error) {
        EXPECT_EQ(error.code(), ExitCode::usage);
        return error.what();
    }
    return "no complaint";
}
std::string complaint_about(std::string_view lines) {
    return complaint(std::string(kLeast) + std::string(lines));
}

TEST(MachineText, ReadsWhatItWrites) {
    Machine machine{.name = "two words",
                    .threads = 12,
                    .unified_memory = false,
                    .memory_bytes = 68'719'476'737,
                    .device_memory_bytes = 1,
                    .disk_bytes = 4'000'000'000'001,
                    .gemm_bf16_flops = 1.23456789e12,
                    .gemm_f32_flops = 1.0 / 3,
                    .memory_bytes_per_s = 3.1e10,
                    .device_memory_bytes_per_s = 9e11,
                    .link_up_bytes_per_s = 2.5e10,
                    .disk_read_bytes_per_s = 6.9e9,
                    .disk_write_bytes_per_s = 0.1,
                    .price_per_hour = 1.99,
                    .purchase_price = 3,
                    .service_years = 4.5,
                    .drives = 7,
                    .endurance_bytes = 2.4e15};
    machine.kernels = {{"linear backward bf16 384x1152 512", 1.5e11}, {"attention forward bf16 6/6x64 2x512", 9e10}};
    machine.updates = {{"adamw 16", 8e9}};
    machine.device_updates = {{"lomo 8", 2e12}};
    machine = completed(machine);
    EXPECT_EQ(parse_machine(machine_text(machine), "m"), machine);
}

TEST(MachineText, TakesRatesOfSingleKernels) {
    const Machine machine = parse_machine(std::string(kLeast) + "kernel  linear forward f32 8x8 64: 2 TFLOP/s\n", "m");
    EXPECT_EQ(machine.kernels.at("linear forward f32 8x8 64"), 2e12);
    EXPECT_THAT(complaint_about("kernel a: 1\nkernel a: 2\n"), HasSubstr("m.machine:7: \"kernel a\" is set already"));
    EXPECT_THAT(complaint_about("kernel a: 1 GB/s\n"), HasSubstr("is not a number for \"kernel a\""));
    EXPECT_THAT(complaint_about("device update a: 1 TFLOP/s\n"), HasSubstr("is not a number for \"device update a\""));
}

TEST(MachineText, WritesEveryKeyOfAWholeMachine) {
    const Machine machine = find_machine(real_files(), "rtx4090-desktop");
    const std::string text = machine_text(machine);
    for (const std::string_view key : machine_keys()) {
        // What profiles do not know and what follows from nothing else.
        const bool is_absent = key.find("price") != key.npos || key == "service_years" || key == "checksum_bytes_per_s";
        EXPECT_EQ(("\n" + text).find(fmt::format("\n{}: ", key)) == text.npos, is_absent) << key;
    }
}

TEST(MachineText, CompletesWhatIsLeftOut) {
    const Machine machine = parse_machine(kLeast, "m");
    EXPECT_EQ(machine, completed({.name = "small",
                                  .threads = 2,
                                  .memory_bytes = int64_t{8} << 30,
                                  .gemm_f32_flops = 1e11,
                                  .memory_bytes_per_s = 2e10}));
}

TEST(MachineText, TakesUnitsCommentsAndBlanks) {
    const Machine machine = parse_machine(
        "# a comment\n\n  name:  a#1 \t# behind\r\nthreads:4\n\tmemory_bytes: 1.5 GiB  # half\ngemm_bf16_flops: "
        "165.2TFLOP/s\n"
        "memory_bytes_per_s: 75 GB/s\ntask_seconds: 8 us\nendurance_bytes: 84 PB\n#drives: 3",
        "m");
    EXPECT_EQ(machine.name, "a#1");
    EXPECT_EQ(machine.threads, 4);
    EXPECT_EQ(machine.memory_bytes, int64_t{3} << 29);
    EXPECT_DOUBLE_EQ(machine.gemm_bf16_flops, 165.2e12);
    EXPECT_EQ(machine.memory_bytes_per_s, 75e9);
    EXPECT_DOUBLE_EQ(machine.task_seconds, 8e-6);
    EXPECT_EQ(machine.endurance_bytes, 84e15);
    EXPECT_EQ(machine.drives, 0);
}

TEST(MachineText, NamesTheLineAndTheNearestKey) {
    EXPECT_EQ(complaint("name: a\nthread: 3\n"), "m.machine:2: there is no key \"thread\". Try: threads");
    EXPECT_EQ(complaint_about("\ncolour: red\n"), "m.machine:7: there is no key \"colour\"");
    EXPECT_EQ(complaint_about("threads: 3\n"), "m.machine:6: \"threads\" is set already, at m.machine:2");
    EXPECT_EQ(complaint("threads\n"), "m.machine:1: \"threads\" is not \"key: value\"");
}

TEST(MachineText, BoundsItsNumbers) {
    for (const char* value : {"-1", "nan", "inf", "1e99", "fast", "", "4 or 5", "1 GiB/s", "0x10"})
        EXPECT_THAT(complaint_about(fmt::format("disk_bytes: {}\n", value)),
                    AllOf(HasSubstr("m.machine:6: "), HasSubstr("for \"disk_bytes\""), HasSubstr("KiB")))
            << value;
    for (const char* line : {"drives: 1.5", "drives: 65537", "update_busy_factor: 1.1", "task_seconds: 2 s",
                             "service_years: 101", "unified_memory: yes", "link_up_bytes_per_s: 1 GB"})
        EXPECT_THAT(complaint_about(line), HasSubstr("m.machine:6: ")) << line;
    EXPECT_THAT(complaint(std::string(kMachineTextMax + 1, '#')), HasSubstr("bytes are not a description"));
}

TEST(MachineText, WantsWhatNothingFollowsFrom) {
    EXPECT_THAT(complaint("name: a"), HasSubstr("\"memory_bytes\" is missing"));
    EXPECT_THAT(complaint("threads: 2"), HasSubstr("\"name\" is missing"));
    EXPECT_THAT(complaint_about("disk_read_bytes_per_s: 1"), HasSubstr("\"disk_write_bytes_per_s\" is missing"));
    EXPECT_THAT(complaint_about("unified_memory: false"), HasSubstr("\"device_memory_bytes\" is missing"));
    EXPECT_THAT(complaint_about("device_memory_bytes: 1"), HasSubstr("memory is unified"));
    EXPECT_EQ(complaint_about(""), "no complaint");
}

TEST(MachineText, HasAPageThatExplainsEveryKey) {
    std::ifstream file(source_dir() + "/docs/format/machine.md");
    const std::string page{std::istreambuf_iterator<char>(file), {}};
    for (const std::string_view key : machine_keys()) EXPECT_THAT(page, HasSubstr(fmt::format("| `{}` |", key)));
}

TEST(MachineProfiles, AreMachinesThatThereMightBe) {
    EXPECT_GE(machine_profiles().size(), 9u);
    for (const EmbeddedText& profile : machine_profiles()) {
        SCOPED_TRACE(profile.name);
        const Machine m = find_machine(real_files(), std::string(profile.name));
        EXPECT_EQ(m.name, profile.name);
        EXPECT_FALSE(m.unified_memory);
        EXPECT_LT(m.device_memory_bytes, m.memory_bytes);
        EXPECT_GE(m.gemm_bf16_flops, m.gemm_f32_flops);
        for (const DType dtype : {DType::bf16, DType::f32}) {
            EXPECT_GT(m.gemm_flops(dtype, GemmShape::narrow), 0);
            EXPECT_LE(m.gemm_flops(dtype, GemmShape::narrow), m.gemm_flops(dtype));
            EXPECT_LE(m.gemm_flops(dtype, GemmShape::attention), m.gemm_flops(dtype));
        }
        EXPECT_LT(m.gemm_flops(DType::bf16, GemmShape::narrow), m.gemm_flops(DType::bf16));
        EXPECT_GT(m.device_memory_bytes_per_s, m.memory_bytes_per_s);
        EXPECT_LT(m.link_up_bytes_per_s, m.memory_bytes_per_s);
        EXPECT_GT(m.link_both_bytes_per_s, std::max(m.link_up_bytes_per_s, m.link_down_bytes_per_s));
        EXPECT_LE(m.link_both_bytes_per_s, m.link_up_bytes_per_s + m.link_down_bytes_per_s);
        EXPECT_GE(m.disk_read_bytes_per_s, m.disk_write_bytes_per_s);
        EXPECT_GE(m.disk_mixed_bytes_per_s, m.disk_write_bytes_per_s);
        EXPECT_LE(m.disk_mixed_bytes_per_s, m.disk_read_bytes_per_s + m.disk_write_bytes_per_s);
        EXPECT_LE(m.update_bytes_per_s, m.memory_bytes_per_s);
        EXPECT_GT(m.update_busy_factor, 0);
        // A drive outlives a hundred fillings, and none is larger than there are.
        EXPECT_GE(m.drives, 1);
        EXPECT_GT(m.endurance_bytes, 100.0 * static_cast<double>(m.disk_bytes));
        EXPECT_LE(m.disk_bytes / m.drives, int64_t{4'000'000'000'000});
    }
}

TEST(MachineProfiles, SayWhereTheirNumbersAreFrom) {
    for (const EmbeddedText& profile : machine_profiles()) {
        for (const char* word : {"measured: ", "assumed: ", "rated: ", "docs/format/machine.md"})
            EXPECT_THAT(profile.text, HasSubstr(word)) << profile.name;
    }
}

TEST(FindMachine, NamesTheProfilesThereAre) {
    try {
        find_machine(real_files(), "rtx4090-desktob");
        FAIL();
    } catch (const UserError& error) {
        EXPECT_THAT(error.what(), HasSubstr("Try: rtx4090-desktop"));
    }
    try {
        find_machine(real_files(), "no/such/file");
        FAIL();
    } catch (const UserError& error) {
        EXPECT_THAT(error.what(), HasSubstr("h200-server-4gen5, "));
    }
}

TEST(FindMachine, ReadsAFile) {
    const std::string path = fmt::format("{}/{}.machine", testing::TempDir(), getpid());
    write_text_atomic(real_files(), path, kLeast);
    EXPECT_EQ(find_machine(real_files(), path).name, "small");
    real_files().remove_file(path);
}

}  // namespace
}  // namespace windlass
