// Five or ten AdamW steps on an adapter against peft with torch.optim.AdamW (docs/dev/goldens.md, "Adapters"), in
// memory and with everything on disk.
#include <gtest/gtest.h>

#include "base/index.h"
#include "base/json.h"
#include "device/cpu/isa.h"
#include "method/param_groups.h"
#include "model/adapters/first_weights.h"
#include "model/adapters/peft.h"
#include "tests/place.h"
#include "tests/unit/model/model_fixtures.h"
#include "tests/unit/run/engine_fixture.h"

namespace windlass {
namespace {

constexpr int64_t kAdapterLength = 24;
// Of all that ten steps changed, in the 2-norm. After five, of scales near 1 and of biases whose gradients are nearly
// 0, peft in f32 is further from peft in f64 than that: the elements' own tolerances hold.
constexpr double kOfTheChange = 1e-5;
constexpr size_t kTenSteps = 10;

// An engine of peft's adapter on its base, with the numbers of both.
std::unique_ptr<Engine> peft_engine(const std::string& base, const std::string& adapter, const Json& adamw,
                                    const Plan& plan, const std::string& store_path) {
    ModelFolder folder = ModelFolder::open(real_files(), base);
    const AdapterFolder opened = AdapterFolder::open(real_files(), adapter);
    const ModelSpec own = build_folder(folder);
    const AdapterSettings settings = peft_settings(opened, own);
    const MethodOptions method{.beta1 = adamw.at("betas")[0],
                               .beta2 = adamw.at("betas")[1],
                               .epsilon = adamw.at("eps"),
                               .weight_decay = adamw.at("weight_decay"),
                               .max_grad_norm = adamw.at("clip_norm")};
    EngineSetup setup{.model = TrainedModel(with_adapter(own, settings, peft_layers(opened, settings, own))),
                      .recipe = make_recipe("adamw", method),
                      .method_options = method};
    set_store(setup.model, setup.recipe.store);
    if (settings.kind == "ia3") {  // torch decays what peft has as a matrix; ours are vectors, which do not decay
        const ParamGroup scales{.match = "*ia3_l", .weight_decay = method.weight_decay};
        apply_param_groups(std::vector{scales}, "groups", setup.model);
    }
    setup.numerics = {.compute = DType::f32,
                      .micro_batch_size = 2,
                      .micro_batches = 1,
                      .sequence_lengths = {kAdapterLength},
                      .kernel_path = std::string(isa_name(cpu_isa()))};
    setup.plan = plan;
    setup.schedules = lower(
        setup.model, setup.recipe, setup.numerics, plan,
        {{.kind = ScheduleRequest::Kind::train, .rows = 2, .sequence_length = kAdapterLength, .micro_batches = 1}});
    check(setup.schedules);
    setup.store_path = store_path;
    auto engine = std::make_unique<Engine>(real_files(), std::move(setup));
    engine->fill(0, "{}", first_weights(folder, engine->setup().model, 0, &opened));
    return engine;
}

class AdapterGolden : public testing::TestWithParam<std::string> {
  protected:
    // Trains, compares, and returns all masters.
    std::vector<std::vector<float>> train(const Plan& plan, const std::string& store_path) {
        const Golden golden("peft/" + GetParam());
        const Json& training = golden.json->at("training");
        const auto engine = peft_engine(base_of(golden), root_ + "/adapter", training.at("adamw"), plan, store_path);
        const TestBatch a(golden.ids("ids"), golden.ids("targets"), 2);
        const TestBatch b(golden.ids("ids_b"), golden.ids("targets_b"), 2);
        const std::vector<std::vector<float>> first = all_masters(*engine);
        for (int64_t step = 0; step < std::ssize(training.at("lrs")); ++step) {
            const TestBatch& batch = step % 2 == 0 ? a : b;
            const StepReport report = train_on(*engine, batch, step + 1, training.at("lrs")[at(step)]);
            const double loss = report.loss_sum / static_cast<double>(batch.target_count());
            EXPECT_NEAR(loss, training.at("step_losses")[at(step)].get<double>(), tolerance(golden, "step_losses"));
            const double norm = training.at("step_grad_norms")[at(step)];
            EXPECT_NEAR(report.grad_norm, norm, 1e-4 * norm) << "step " << step;
        }
        std::vector<std::vector<float>> masters = all_masters(*engine);
        compare(golden, engine->setup().model, first, masters);
        return masters;
    }

    std::string base_of(const Golden& golden) const {
        const auto base = golden.json->at("base").get<std::string>();
        return base == "own" ? root_ + "/model" : golden_folder(base);
    }
    static double tolerance(const Golden& golden, const char* of) {
        return 10 * golden.json->at("f32_deviation").at(of).get<double>() + 1e-6;
    }

    // Masters of the adapter; the base is the base's to the bit.
    void compare(const Golden& golden, const ModelSpec& model, const std::vector<std::vector<float>>& first,
                 const std::vector<std::vector<float>>& masters) {
        double off = 0, changed = 0;  // squares
        ModelFolder folder = ModelFolder::open(real_files(), base_of(golden));
        for (size_t param = 0; param < masters.size(); ++param) {
            const ParamSpec& spec = model.params[param];
            std::vector<float> want(masters[param].size());
            if (spec.added && !spec.added->trains) {
                EXPECT_EQ(masters[param], first[param]) << spec.name;
                continue;
            }
            if (!spec.learns_with_adapter()) {
                load_elements(folder, spec, 0, want);
                EXPECT_EQ(masters[param], want) << spec.name;
                continue;
            }
            const std::string name = peft_name(model, spec);
            want = less_own_rows(folder, model, spec, in_our_order(spec, golden.floats("final/" + name)));
            ASSERT_EQ(want.size(), masters[param].size()) << name;
            const double most = 10 * golden.json->at("f32_deviation").at("final").at(name).get<double>() + 1e-6;
            for (size_t i = 0; i < want.size(); ++i) {
                ASSERT_NEAR(masters[param][i], want[i], most) << name << " " << i;
                off += std::pow(masters[param][i] - want[i], 2);
                changed += std::pow(want[i] - first[param][i], 2);
            }
        }
        if (golden.json->at("training").at("lrs").size() == kTenSteps) {
            EXPECT_LE(std::sqrt(off), kOfTheChange * std::sqrt(changed));
        }
    }

    std::string root_ = peft_golden_folder(GetParam());
};

TEST_P(AdapterGolden, StepsMatchPeft) {
    const std::vector<std::vector<float>> in_memory = train(memory_plan(), "");
    const TempFolder folder;
    EXPECT_TRUE(train(disk_plan(Home::disk, Home::disk), folder / "store.wls") == in_memory)
        << "placement changed a bit";
}

INSTANTIATE_TEST_SUITE_P(Adapters, AdapterGolden, testing::ValuesIn(peft_golden_names()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace windlass
