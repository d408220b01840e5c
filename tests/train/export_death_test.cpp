// An export that dies at any of its changes, loses power there, or has a call fail: the target is what it was or what
// it was to be, each whole, and the next export leaves nothing over.
#include <cstdlib>

#include "base/error.h"
#include "persist/export.h"
#include "tests/place.h"
#include "tests/train/death_trials.h"

namespace windlass {
namespace {

struct ExportTrial {
    const char* name;
    ImageRun run;
    ExportOptions options;  // source and target by their names in the drive
};

void PrintTo(const ExportTrial& trial, std::ostream* out) {
    *out << trial.name;
}

class ExportDeaths : public DeathTrials, public testing::WithParamInterface<ExportTrial> {
  protected:
    // Over an export of an earlier step.
    void SetUp() override {
        files_before_ = drive();
        ImageRun run = GetParam().run;
        if (is_gguf_target(GetParam().options.target)) run.settings["model"] = model_of_bytes();
        ASSERT_EQ(run_in(*files_before_, run, {{"max_steps", "3"}}), 0) << message_;
        files_before_->make_folders(at("drive/out"));
        ASSERT_EQ(act(*files_before_, {}), 0) << message_;
        old_ = left_in(*files_before_, {"out"});
        ASSERT_EQ(finish_in(*files_before_, run, {}), 0) << message_;
        files_before_ = files_before_->crash(kAllKept);
        know_whole();
        ASSERT_NE(difference(whole_, old_), "");
    }
    std::unique_ptr<FaultFiles> begin() const override { return files_before_->crash(kAllKept); }
    int act(FileSystem& files, const Settings& /*place*/) override {
        ExportOptions options = GetParam().options;
        options.source = at("drive/" + options.source);
        options.target = at("drive/out/" + options.target);
        options.overwrite = true;
        try {
            export_model(files, options);
            return 0;
        } catch (const Error& error) {
            message_ = error.what();
            return static_cast<int>(error.code());
        }
    }
    int act_again(FileSystem& files, const Settings& place) override { return act(files, place); }
    RunFiles left(FileSystem& files) const override { return left_in(files, {"out"}); }
    // Between two renames a folder's old content has the other name.
    void expect_after_death(FileSystem& files) const override {
        const std::string target = "out/" + GetParam().options.target, aside = target + ".tmp-replaced/";
        RunFiles found, replaced;
        for (const auto& [name, content] : left(files)) {
            if (name == target || name.starts_with(target + "/")) found[name] = content;
            if (name.starts_with(aside)) replaced[target + "/" + name.substr(aside.size())] = content;
        }
        if (found.empty()) found = replaced;
        EXPECT_TRUE(found == old_ || found == whole_) << difference(found, old_) << difference(found, whole_);
    }

    // llama.cpp has no tokenizer like that of the other tests.
    std::string model_of_bytes() const {
        const std::string words = fmt::format("{}/make_model --shape llama-tiny --hidden 32 --layers 2 --out {} 2>{}",
                                              binary_dir(), at("bytes"), at("made.log"));
        EXPECT_EQ(std::system(words.c_str()), 0) << words;
        return at("bytes");
    }

    static constexpr uint64_t kAllKept = 1;
    std::unique_ptr<FaultFiles> files_before_;
    RunFiles old_;
};

TEST_P(ExportDeaths, LeaveTheOldFileOrTheNewOne) {
    try_some(GetParam().name, 3 * ImageRun::kSample);
}

class SlowExportDeaths : public ExportDeaths {};

TEST_P(SlowExportDeaths, AtAnyChangeLeaveTheOldFileOrTheNewOne) {
    try_all_changes();
}

TEST_P(SlowExportDeaths, OfAnyCallLeaveTheOldFileOrTheNewOne) {
    try_all_calls();
}

std::vector<ExportTrial> export_trials() {
    const ImageRun adamw{.name = "adamw", .settings = {{"save_total_limit", "3"}}};
    const ImageRun lora{.name = "lora", .settings = {{"adapter", "lora"}, {"lora_r", "4"}, {"save_total_limit", "3"}}};
    return {
        {"folder", adamw, {.source = "run", .target = "model"}},
        {"bf16_in_two_files",
         adamw,
         {.source = "run", .target = "model", .dtype = DType::bf16, .shard_bytes_max = 20'000}},
        {"gguf", adamw, {.source = "run", .target = "model.gguf", .type = GgufType::q8_0}},
        {"gguf_of_final", adamw, {.source = "run/final", .target = "model.gguf"}},
        {"adapter", lora, {.source = "run", .target = "adapter"}},
        {"merged", lora, {.source = "run", .target = "model", .form = OutputForm::merged}},
        {"merged_gguf", lora, {.source = "run", .target = "model.gguf", .form = OutputForm::merged}},
    };
}

const auto name_of_export = [](const auto& info) { return std::string(info.param.name); };
INSTANTIATE_TEST_SUITE_P(Kinds, ExportDeaths, testing::ValuesIn(export_trials()), name_of_export);
INSTANTIATE_TEST_SUITE_P(Kinds, SlowExportDeaths, testing::ValuesIn(export_trials()), name_of_export);

}  // namespace
}  // namespace windlass
