// The files of other trainers, translated by the real program; the outcome is planned.
#include <gmock/gmock.h>

#include "tests/cli/sandbox.h"

namespace windlass::cli {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(ConfigFrom, LlamaFactorysFileBecomesOneThatPlans) {
    Sandbox sandbox;
    const std::string rows = sandbox.rows("rows.jsonl", {R"({"text": "abc abc abc"})", R"({"text": "abd abd"})"});
    write_bytes(sandbox / "lf.yaml",
                fmt::format("model_name_or_path: {}\nstage: sft\ndo_train: true\nfinetuning_type: lora\nlora_rank: 4\n"
                            "dataset: {}\ncutoff_len: 64\nper_device_train_batch_size: 2\nlearning_rate: 1.0e-4\n"
                            "num_train_epochs: 1.0\nplot_loss: true\noutput_dir: {}\n",
                            sandbox.model(), rows, sandbox / "tuned"));
    const Finished translated = must_succeed(sandbox.windlass({"config", "from", sandbox / "lf.yaml"}));
    EXPECT_THAT(translated.out, AllOf(HasSubstr("lora_r: 4"), HasSubstr("max_length: 64")));
    EXPECT_THAT(translated.err, HasSubstr("plot_loss"));
    write_bytes(sandbox / "ours.yaml", translated.out);
    must_succeed(sandbox.windlass({"plan", sandbox / "ours.yaml", "train_data=" + rows}));
}

TEST(ConfigFrom, WhatIsNoTrainersFileIsRefused) {
    Sandbox sandbox;
    write_bytes(sandbox / "other.yaml", "colour: red\n");
    const Finished refused = run(sandbox.windlass({"config", "from", sandbox / "other.yaml"}));
    EXPECT_EQ(refused.code, kUsage);
    EXPECT_THAT(refused.err, AllOf(HasSubstr("other.yaml"), HasSubstr("Try: ")));
}

}  // namespace
}  // namespace windlass::cli
