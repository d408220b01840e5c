// Twenty AdamW steps with clipping and weight decay against torch.optim.AdamW (docs/dev/goldens.md).
#include "base/json.h"
#include "tests/unit/run/engine_fixture.h"

namespace windlass {
namespace {

struct Distance {
    double difference = 0, reference = 0;
};

// ||dW - dW_ref|| and ||dW_ref||, leaving out elements whose exact gradient is zero.
Distance update_distance(const Golden& golden, const std::string& name, const std::vector<float>& start,
                         const std::vector<float>& ours) {
    const std::vector<float> final_weights = golden.floats("final/" + name);
    std::vector<bool> noise(ours.size(), false);
    for (const Json& entry : golden.json->at("noise_only")) {
        if (entry.at("parameter") != name) continue;
        for (size_t i = entry.at("begin"); i < entry.at("end").get<size_t>(); ++i) noise[i] = true;
    }
    Distance sum;
    for (size_t i = 0; i < ours.size(); ++i) {
        if (noise[i]) continue;
        sum.difference += std::pow(double{ours[i]} - final_weights[i], 2);
        sum.reference += std::pow(double{final_weights[i]} - start[i], 2);
    }
    return {std::sqrt(sum.difference), std::sqrt(sum.reference)};
}

class AdamwGolden : public testing::TestWithParam<const char*> {};

TEST_P(AdamwGolden, TwentyStepsMatchTorch) {
    const Golden golden(GetParam());
    const Json& training = golden.json->at("training");
    const Json& adamw = training.at("adamw");
    EngineOptions options;
    options.method = {.beta1 = adamw.at("betas")[0],
                      .beta2 = adamw.at("betas")[1],
                      .epsilon = adamw.at("eps"),
                      .weight_decay = adamw.at("weight_decay"),
                      .max_grad_norm = adamw.at("clip_norm")};
    const auto engine = make_engine(real_files(), golden.folder, options);
    const auto start = all_masters(*engine);
    const TestBatch a(golden.ids("ids"), golden.ids("targets"), 2);
    const TestBatch b(golden.ids("ids_b"), golden.ids("targets_b"), 2);
    for (int64_t step = 0; step < 20; ++step) {
        const TestBatch& batch = step % 2 == 0 ? a : b;
        const StepReport report = train_on(*engine, batch, step + 1, training.at("lrs")[static_cast<size_t>(step)]);
        const double loss = report.loss_sum / static_cast<double>(batch.target_count());
        EXPECT_NEAR(loss, training.at("step_losses")[static_cast<size_t>(step)].get<double>(), 1e-5) << "step " << step;
        const double norm = training.at("step_grad_norms")[static_cast<size_t>(step)];
        EXPECT_NEAR(report.grad_norm, norm, 1e-4 * norm) << "step " << step;
    }
    const auto masters = all_masters(*engine);
    for (size_t param = 0; param < masters.size(); ++param) {
        const std::string& name = engine->setup().model.params[param].name;
        const Distance distance = update_distance(golden, name, start[param], masters[param]);
        EXPECT_LE(distance.difference, 1e-3 * distance.reference) << name;
    }
}

INSTANTIATE_TEST_SUITE_P(Families, AdamwGolden,
                         testing::Values("gpt2", "opt", "llama", "llama_linear", "llama3", "mistral_window", "qwen2",
                                         "smollm3", "olmo2", "granite", "phi3", "phi4_mini", "llama_yarn", "qwen3",
                                         "gemma2", "gemma3_text", "gemma3"));

}  // namespace
}  // namespace windlass
