// This machine, measured: every rate is there, and none contradicts another.
#include "run/calibrate.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "base/clock.h"
#include "base/units.h"
#include "model/families.h"
#include "run/calibrate_parts.h"
#include "schedule/machine_text.h"
#include "tests/fault_files.h"
#include "tests/sanitizer.h"
#include "tests/unit/base/temp_folder.h"

namespace windlass {
namespace {

TEST(Calibrate, RoundsToFourDigits) {
    EXPECT_EQ(rounded(123456), 123500);
    EXPECT_EQ(rounded(1.23456e-6), 1.235e-6);
    EXPECT_EQ(rounded(0.99999), 1);
    EXPECT_EQ(rounded(0), 0);
}

// Work whose calls take so many times as long, one after the other, and how long each took, seen from inside.
struct UnequalWork {
    std::vector<int> lengths;
    std::vector<double> seconds = {};

    void operator()() {
        constexpr auto kUnit = std::chrono::milliseconds(3);
        const int64_t start = now_ns();
        std::this_thread::sleep_for(lengths.at(seconds.size()) * kUnit);
        seconds.push_back(seconds_since(start));
    }
    // Of the rounds: the first call warms up.
    std::vector<double> sorted() const {
        std::vector<double> rounds(seconds.begin() + 1, seconds.end());
        std::ranges::sort(rounds);
        return rounds;
    }
};

// A round takes no less than what its call saw of it, and all of them no more than the whole. So the least of the
// rounds times their number is within the whole, and so is the median times those that are no shorter.
TEST(Calibrate, TakesTheBestRoundOrTheMedian) {
    const auto measure = [](auto how, const std::vector<int>& lengths, UnequalWork& work) {
        work = {lengths};
        const int64_t start = now_ns();
        const double seconds = how([&] { work(); });
        return std::pair(seconds, seconds_since(start));
    };
    UnequalWork work;
    const std::vector<int> one_short = {1, 9, 9, 1, 9, 9}, two_long = {1, 1, 9, 1, 9, 1},
                           two_short = {9, 1, 9, 9, 1, 9};
    const auto [best, best_whole] = measure(best_seconds, one_short, work);
    EXPECT_GE(best, work.sorted().front());
    EXPECT_LE(best * static_cast<double>(work.sorted().size()), best_whole);
    const auto [low, low_whole] = measure(usual_seconds, two_long, work);
    const size_t rounds = work.sorted().size();
    EXPECT_LE(low * static_cast<double>(rounds - rounds / 2), low_whole);
    const auto [high, high_whole] = measure(usual_seconds, two_short, work);
    EXPECT_GE(high, work.sorted()[work.sorted().size() / 2]);
    EXPECT_LE(high, high_whole);
}

TEST(Calibrate, CallsQuickWorkSixTimesAndSlowWorkFourTimes) {
    int calls = 0;
    usual_seconds([&] { ++calls; });
    EXPECT_EQ(calls, 6);  // one warms up
    calls = 0;
    best_seconds([&] {
        ++calls;
        std::this_thread::sleep_for(std::chrono::milliseconds(210));
    });
    EXPECT_EQ(calls, 4);
}

TEST(Calibrate, FillsEveryRate) {
    const TempFolder folder;
    const std::string other = folder / ".windlass-probe";  // as another process may have
    write_text_atomic(real_files(), other, "in use");
    const Machine machine = calibrate_machine(real_files(), folder.path(), 2);
    EXPECT_EQ(machine.threads, 2);
    EXPECT_TRUE(machine.unified_memory);
    EXPECT_GT(machine.memory_bytes, 0);
    EXPECT_GT(machine.disk_bytes, 0);
    // Nothing is left to follow from the rest.
    EXPECT_EQ(completed(machine), machine);
    EXPECT_EQ(parse_machine(machine_text(machine), "probe"), machine);
    for (const DType dtype : {DType::bf16, DType::f32}) EXPECT_GT(machine.gemm_flops(dtype, GemmShape::attention), 0);
    EXPECT_LE(machine.link_both_bytes_per_s, machine.link_up_bytes_per_s + machine.link_down_bytes_per_s);
    EXPECT_LE(machine.disk_mixed_bytes_per_s, machine.disk_read_bytes_per_s + machine.disk_write_bytes_per_s);
    EXPECT_GT(machine.noise_per_s, 0);
    EXPECT_GT(machine.checksum_bytes_per_s, 0);
    EXPECT_GT(machine.one_thread_gain, 0);
    EXPECT_THAT(machine.updates,
                testing::UnorderedElementsAre(
                    testing::Pair("adamw 16", testing::Gt(0)), testing::Pair("adamw 20", testing::Gt(0)),
                    testing::Pair("adamw 28", testing::Gt(0)), testing::Pair("adalomo 18", testing::Gt(0)),
                    testing::Pair("adalomo 24", testing::Gt(0)), testing::Pair("lomo 12", testing::Gt(0)),
                    testing::Pair("lomo 8", testing::Gt(0))));
    EXPECT_GT(machine.update_busy_factor, 0);
    EXPECT_LE(machine.update_busy_factor, 1);
    EXPECT_THAT(real_files().list(folder.path()), testing::ElementsAre(".windlass-probe"));
    EXPECT_EQ(read_text(real_files(), other, 100), "in use");
}

TEST(Calibrate, TakesNoMoreThanHalfOfASmallDrive) {
    EXPECT_EQ(drive_probe_bytes(kGiB), 128 * kMiB);
    EXPECT_EQ(drive_probe_bytes(200 * kMiB), 100 * kMiB);
    EXPECT_EQ(drive_probe_bytes(33 * kMiB), 16 * kMiB);
    EXPECT_EQ(drive_probe_bytes(31 * kMiB), 0);
    EXPECT_EQ(drive_probe_bytes(0), 0);
    FaultFiles files("/drive");
    files.set_capacity(40 * kMiB);
    files.make_folders("/drive");
    Machine machine;
    calibrate_disk(files, "/drive", machine);
    EXPECT_EQ(machine.disk_bytes, 40 * kMiB);
    EXPECT_GT(machine.disk_read_bytes_per_s, 0);
    EXPECT_GT(machine.disk_write_bytes_per_s, 0);
    EXPECT_GT(machine.disk_mixed_bytes_per_s, 0);
    files.set_capacity(20 * kMiB);
    EXPECT_THROW(calibrate_disk(files, "/drive", machine), MachineError);
}

// A calibration takes seconds: two tests share this one.
const Machine& measured_without_drive() {
    static const Machine machine = calibrate_machine(real_files(), "", 1, ProbeMemory::small);
    return machine;
}

TEST(Calibrate, CopiesLessWhereMemoryIsShort) {
    EXPECT_LT(probe_memory(ProbeMemory::small), probe_memory(ProbeMemory::usual));
    if (is_sanitized()) GTEST_SKIP() << "FillsEveryRate measures the same";
    const Machine& machine = measured_without_drive();
    EXPECT_GT(machine.memory_bytes_per_s, 0);
    EXPECT_GT(machine.checksum_bytes_per_s, 0);
}

// In every direction, with every kind of kernel that is measured.
TEST(Calibrate, MeasuresTheKernelsOfAModel) {
    HfConfig config = HfConfig::parse(R"({"model_type": "llama", "hidden_size": 256, "intermediate_size": 320,
        "num_hidden_layers": 1, "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 300, "max_position_embeddings": 64})",
                                      "config.json");
    const TrainedModel model(build_model(config, {}));
    const OpSize size{.rows = 1, .sequence_length = 48, .compute = DType::f32};
    for (const NoiseKind noise : {NoiseKind::gaussian, NoiseKind::low_rank}) {
        const bool adamw = noise == NoiseKind::gaussian;
        const Recipe recipe = make_recipe(adamw ? "adamw" : "forward_gradient", {.directions = 2, .noise = noise});
        const std::vector<KernelCase> cases = kernel_cases(model, recipe, {&size, 1});
        ASSERT_GT(cases.size(), 5u);
        Machine machine;
        machine.kernels[cases[0].key] = 7;
        calibrate_kernels(cases, *make_device({}), 1, machine);
        EXPECT_EQ(machine.kernels.size(), cases.size());
        for (const auto& [kernel, rate] : machine.kernels) EXPECT_GT(rate, 0) << kernel;
        EXPECT_EQ(machine.kernels[cases[0].key], 7);
    }
}

// Of a linear layer's backward: how often it wrote the gradient of its weight, and how often it added to it.
std::array<int, 2> forms_seen;
void note_form(const OpCall& call, Stream&) {
    ++forms_seen[call.sinks[0].first ? 0 : 1];
}

TEST(Calibrate, GradientsOfWeightsAreWrittenAndAddedTo) {
    OpRecord linear = kLinear;
    OpCells& cells = linear.cells[static_cast<size_t>(DeviceKind::cpu)];
    OpKernels kernels = *cells.kernels;
    kernels.vjp = note_form;
    cells.kernels = &kernels;
    const KernelCase backward{.key = "backward",
                              .op = &linear,
                              .spec = {.attrs = LinearAttrs{}, .in = {{64}}, .weights = {{32, 64}}},
                              .size = {.rows = 1, .sequence_length = 16},
                              .mode = DiffMode::vjp};
    Machine machine;
    forms_seen = {};
    calibrate_kernels({&backward, 1}, *make_device({}), 1, machine);
    EXPECT_GT(forms_seen[0], 0);
    EXPECT_EQ(forms_seen[0], forms_seen[1]);
}

TEST(Calibrate, LeavesADriveOutWhereThereIsNone) {
    if (is_sanitized()) GTEST_SKIP() << "FillsEveryRate measures the same, and a drive";
    const Machine& machine = measured_without_drive();
    EXPECT_EQ(machine.disk_bytes, 0);
    EXPECT_EQ(machine.disk_read_bytes_per_s, 0);
    EXPECT_EQ(machine.drives, 0);
    EXPECT_GT(machine.update_bytes_per_s, 0);
}

}  // namespace
}  // namespace windlass
