// Adapters that peft has saved against what peft computes with them (docs/dev/goldens.md, "Adapters").
#include "tests/unit/model/adapters/adapter_fixtures.h"

#include <filesystem>
#include <set>

namespace windlass {
namespace {

// peft's own fp32 run is so far from the exact result; another order of summation lands within a small multiple of it.
constexpr double kPeftSpread = 10.0;
constexpr double kPeftRounding = 1e-6;
constexpr double kTangentRelative = 1e-4;  // of the largest element, as for goldens without an adapter

// The case, opened as a run opens it.
struct PeftGolden {
    explicit PeftGolden(const std::string& name)
        : path(peft_golden_folder(name)),
          facts(Json::parse(read_text(real_files(), path + "/golden.json", 1 << 20))),
          folder(ModelFolder::open(real_files(), base_path())),
          adapter(AdapterFolder::open(real_files(), path + "/adapter")),
          base(build_folder(folder)),
          numbers(SafetensorsReader::open(real_files(), path + "/golden.safetensors")) {
        const AdapterSettings settings = peft_settings(adapter, base);
        model = with_adapter(base, settings, peft_layers(adapter, settings, base));
        values = read_all(model, first_weights(folder, model, 0, &adapter));
    }

    std::string base_path() const {
        const auto name = facts["base"].get<std::string>();
        return name == "own" ? path + "/model" : golden_folder(name);
    }
    // By ModelSpec::params; of those that are frozen: nothing.
    ParamValues read_added(const std::string& prefix) const {
        ParamValues read(model.params.size());
        for (size_t i = 0; i < read.size(); ++i) {
            if (!model.params[i].learns_with_adapter()) continue;
            const auto theirs = read_numbers<float>(numbers, prefix + peft_name(model, model.params[i]));
            read[i] = in_our_order(model.params[i], theirs);
        }
        return read;
    }
    TokenBatch batch() const {
        const auto ids = read_numbers<int64_t>(numbers, "ids"), targets = read_numbers<int64_t>(numbers, "targets");
        return TokenBatch::make(2, ids, targets, std::vector<int64_t>{0, static_cast<int64_t>(ids.size()) / 2});
    }
    double tolerance(const char* of) const {
        return kPeftSpread * facts["f32_deviation"][of].get<double>() + kPeftRounding;
    }
    RunnerOptions options() const {
        RunnerOptions options;
        for (const ParamSpec& param : model.params) options.trainable.push_back(param.learns_with_adapter() ? 1 : 0);
        return options;
    }

    std::string path;
    Json facts;
    ModelFolder folder;
    AdapterFolder adapter;
    ModelSpec base, model;
    SafetensorsReader numbers;
    ParamValues values;
};

class PeftGoldenCase : public testing::TestWithParam<std::string> {
  protected:
    PeftGolden golden_{GetParam()};
    TokenBatch batch_ = golden_.batch();
};

TEST_P(PeftGoldenCase, LogitsAndLoss) {
    ModelRunner runner(golden_.model, golden_.values, {});
    const auto logits = read_numbers<float>(golden_.numbers, "logits");
    EXPECT_LE(distance(runner.logits(batch_), logits), golden_.tolerance("logits"));
    const double loss = golden_.facts["loss"].get<double>();
    EXPECT_NEAR(mean_loss(runner.losses(batch_), batch_), loss, golden_.tolerance("loss"));
}

TEST_P(PeftGoldenCase, Gradients) {
    const ParamValues expected = golden_.read_added("grad/");
    const GradientResult result = ModelRunner(golden_.model, golden_.values, golden_.options()).gradients(batch_);
    double total = 0;
    for (size_t i = 0; i < expected.size(); ++i) {
        EXPECT_LE(distance(result.gradients[i], expected[i]), golden_.tolerance("grad"))
            << golden_.model.params[i].name;
        total += std::pow(norm(result.gradients[i]), 2);
    }
    const double grad_norm = golden_.facts["grad_norm"].get<double>();
    EXPECT_NEAR(std::sqrt(total), grad_norm, kTangentRelative * grad_norm);
}

TEST_P(PeftGoldenCase, TangentsAlongTheAdapterAlone) {
    ModelRunner runner(golden_.model, golden_.values, {});
    ParamValues direction = golden_.read_added("tangent/");
    for (size_t i = 0; i < direction.size(); ++i) direction[i].resize(golden_.values[i].size(), 0.0f);
    const auto expected = read_numbers<float>(golden_.numbers, "logits_tangent");
    EXPECT_LE(distance(runner.logits_tangent(batch_, direction, 1).tangents, expected),
              kTangentRelative * largest(expected));
    const double slope = golden_.facts["loss_tangent"].get<double>();
    EXPECT_NEAR(mean_loss(runner.loss_tangent(batch_, direction, 1).tangents, batch_), slope,
                kTangentRelative * largest(expected));
}

// Every tensor of the file is a parameter, with the numbers of the file, or a table of the base.
TEST_P(PeftGoldenCase, ReadsEveryTensor) {
    std::set<std::string> names;
    for (size_t i = 0; i < golden_.values.size(); ++i) {
        if (!golden_.model.params[i].learns_with_adapter()) continue;
        const TensorEntry* tensor = golden_.adapter.find(peft_name(golden_.model, golden_.model.params[i]));
        ASSERT_NE(tensor, nullptr) << golden_.model.params[i].name;
        names.insert(tensor->name);
        std::vector<std::byte> bytes(at(tensor->bytes));
        golden_.adapter.read(*tensor, 0, bytes);
        std::vector<float> numbers(golden_.values[i].size());
        decode_numbers(*tensor->dtype, bytes, numbers);
        numbers = less_own_rows(golden_.folder, golden_.model, golden_.model.params[i], numbers);
        EXPECT_EQ(golden_.values[i], in_our_order(golden_.model.params[i], numbers)) << tensor->name;
    }
    const auto tables = std::ranges::count_if(golden_.adapter.tensors(), [](const TensorEntry& tensor) {
        return tensor.name.ends_with(".base_layer.weight");
    });
    EXPECT_EQ(tables, GetParam() == "llama_tables" ? 2 : 0);
    // peft writes a table that stays tied under both names, and its rows where an adapter has nothing else.
    const int64_t twins = golden_.model.adapter->keeps_ties || GetParam() == "tokens" ? 1 : 0;
    EXPECT_EQ(std::ssize(names) + tables + twins, std::ssize(golden_.adapter.tensors()));
    EXPECT_NO_THROW(check_peft_tables(golden_.adapter, *golden_.model.adapter, golden_.folder, golden_.base));
}

INSTANTIATE_TEST_SUITE_P(Adapters, PeftGoldenCase, testing::ValuesIn(peft_golden_names()),
                         [](const auto& info) { return info.param; });

TEST(PeftGoldens, AreThoseOfTheFolder) {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(source_dir() + "/tests/golden/peft"))
        names.push_back(entry.path().filename());
    EXPECT_THAT(names, testing::UnorderedElementsAreArray(peft_golden_names()));
}

}  // namespace
}  // namespace windlass
