// A machine's rates as text: kept by the probe, edited by people.
#include "run/probe.h"

#include "base/error.h"

namespace windlass {
namespace {

TEST(MachineText, ReadsWhatItWrites) {
    const Machine machine{.name = "cpu-avx512",
                          .threads = 12,
                          .memory_bytes = 68'719'476'736,
                          .gemm_bf16_flops = 1.234e12,
                          .gemm_f32_flops = 5e11,
                          .memory_bytes_per_s = 3.1e10,
                          .disk_read_bytes_per_s = 6.9e9};
    const Machine read = parse_machine(machine_text(machine), "machine.txt");
    EXPECT_EQ(read.name, machine.name);
    EXPECT_EQ(read.threads, machine.threads);
    EXPECT_EQ(read.memory_bytes, machine.memory_bytes);
    EXPECT_EQ(read.gemm_bf16_flops, machine.gemm_bf16_flops);
    EXPECT_EQ(read.gemm_f32_flops, machine.gemm_f32_flops);
    EXPECT_EQ(read.memory_bytes_per_s, machine.memory_bytes_per_s);
    EXPECT_EQ(read.disk_read_bytes_per_s, machine.disk_read_bytes_per_s);
    EXPECT_EQ(read.disk_write_bytes_per_s, 0);
    EXPECT_EQ(machine_text(read), machine_text(machine));
}

TEST(MachineText, TakesCommentsAndEmptyLines) {
    const Machine read = parse_machine("# of another machine\n\nname: big\nthreads: 64\n\ngemm_bf16_flops: 2e13", "m");
    EXPECT_EQ(read.name, "big");
    EXPECT_EQ(read.threads, 64);
    EXPECT_EQ(read.gemm_bf16_flops, 2e13);
}

TEST(MachineText, NamesTheLineThatIsWrong) {
    const std::pair<const char*, const char*> cases[] = {{"name: a\ngemm_bf16_flops: fast\n", "machine.txt:2"},
                                                         {"threads: -1\n", "is not a number for \"threads\""},
                                                         {"threads: 4 or 5\n", "\"4 or 5\""},
                                                         {"memory_bytes: nan\n", "memory_bytes"},
                                                         {"gemm_f32_flops: 1e99\n", "gemm_f32_flops"},
                                                         {"\n\nspeed: 3\n", "machine.txt:3"},
                                                         {"threads\n", "machine.txt:1"}};
    for (const auto& [text, complaint] : cases) {
        try {
            parse_machine(text, "machine.txt");
            ADD_FAILURE() << text;
        } catch (const UserError& error) {
            EXPECT_EQ(error.code(), ExitCode::usage);
            EXPECT_THAT(error.what(), testing::HasSubstr(complaint)) << text;
        }
    }
}

}  // namespace
}  // namespace windlass
