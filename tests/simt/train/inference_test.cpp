// Evaluating and generating with device: cuda, on a device that is the CPU.
#include <gmock/gmock.h>

#include "base/error.h"
#include "data/open_model.h"
#include "infer/evaluate.h"
#include "infer/generate.h"
#include "infer/inference.h"
#include "tests/simt/emulated.h"
#include "tests/simt/train/device_run.h"

namespace windlass {
namespace {

constexpr int64_t kPrompt = 20, kNew = 12, kLength = 32;

struct Answer {
    std::vector<int32_t> ids;
    std::vector<double> losses;
};

class DeviceInference : public DeviceRun {
  protected:
    Config on_card(const std::string& policy = "auto") const {
        return {.model = at("model"), .dtype = "f32", .policy = policy, .device = "cuda", .threads = 2};
    }
    // Greedy text behind a prompt, and the losses of two rows.
    Answer ask(const Config& config) {
        OpenModel opened = open_model(files_, config);
        std::vector<ScheduleRequest> requests = decode_requests(kPrompt, kPrompt + kNew);
        requests.push_back({.kind = ScheduleRequest::Kind::eval, .rows = 1, .sequence_length = kLength});
        Inference inference(files_, opened, config, {.sequence_lengths = {kLength}, .schedules = requests});
        std::vector<int32_t> prompt;
        for (int32_t i = 0; i < kPrompt; ++i) prompt.push_back(3 + i % 11);
        const GenerateOptions options{.max_new_tokens = kNew, .vocab = opened.tokenizer.vocab_size()};
        Answer answer{.ids = generate(inference.engine(), prompt, options, [](int32_t) { return true; }).ids};
        for (const char* text : {"some words", "and others, more of them"}) {
            const std::vector<RowSamples> row = {{completion_sample(opened.tokenizer, "p", text, kLength)}};
            answer.losses.push_back(evaluate_rows(inference.engine(), 1, [&](int64_t, int64_t) { return row; }).loss());
        }
        return answer;
    }
};

TEST_F(DeviceInference, SaysTheSameWhereverWeightsAreAndWhatTheCpuSays) {
    Config host = on_card("host_stream");
    host.device_memory = {"1 MiB"};
    Config disk = on_card("three_tier");
    disk.device_memory = {"1 MiB"};
    disk.ssd_dir = at("ssd");
    simt::emulate({});
    const Answer resident = ask(on_card("in_memory"));
    EXPECT_GT(simt::calls(), 100) << "the CPU computed";
    for (const Config& elsewhere : {host, disk}) {
        const Answer same = ask(elsewhere);
        EXPECT_EQ(same.ids, resident.ids) << elsewhere.policy;
        EXPECT_EQ(same.losses, resident.losses) << elsewhere.policy;
    }
    Config cpu = on_card();
    cpu.device = "cpu";
    const Answer there = ask(cpu);
    EXPECT_EQ(std::ssize(resident.ids), kNew);
    EXPECT_EQ(there.ids, resident.ids);
    for (size_t row = 0; row < there.losses.size(); ++row)
        EXPECT_NEAR(there.losses[row], resident.losses[row], 1e-5 * there.losses[row]) << "sums in another order";
}

TEST_F(DeviceInference, ADeviceThatIsNotThereIsRefused) {
    Config config = on_card();
    config.device = "cuda:3";
    try {
        ask(config);
        FAIL() << "it was found";
    } catch (const UserError& error) {
        EXPECT_EQ(error.code(), ExitCode::gpu);
        EXPECT_THAT(error.what(), testing::HasSubstr("there is no cuda:3"));
    }
}

}  // namespace
}  // namespace windlass
