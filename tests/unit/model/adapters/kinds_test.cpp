// What every kind of adapter promises, over a model of every family: at first it changes nothing, fused it is the
// adapter, and what is written reads back.
#include "tests/unit/model/adapters/adapter_fixtures.h"

#include "tests/unit/base/temp_folder.h"

namespace windlass {
namespace {

struct KindOnBase {
    const AdapterKind* kind;
    std::string base;
    bool everywhere = false;  // next to the table of tokens and the head, too

    std::string name() const { return fmt::format("{}{}_{}", kind->name, everywhere ? "_everywhere" : "", base); }
};

void PrintTo(const KindOnBase& on, std::ostream* out) {
    *out << on.name();
}

std::vector<KindOnBase> kinds_on_bases() {
    std::vector<KindOnBase> all;
    for (const AdapterKind* kind : all_adapters()) {
        for (const std::string& base : golden_names()) {
            all.push_back({kind, base});
            if (kind->write_narrow != nullptr) all.push_back({kind, base, true});
        }
    }
    return all;
}

class AdapterKinds : public testing::TestWithParam<KindOnBase> {
  protected:
    GoldenBase base_{GetParam().base};
    AdapterSettings settings_ = small_settings(*GetParam().kind);
    std::vector<int> layers_ =
        GetParam().everywhere ? adaptable_layers(base_.model, *GetParam().kind) : linear_layers_of_layers(base_.model);
    ModelSpec model_ = with_adapter(base_.model, settings_, layers_);
    TokenBatch batch_ = base_.batch();

    // One end of a tied table has no weight of its own.
    bool is_fusable() const {
        return !GetParam().everywhere ||
               std::ranges::all_of(model_.params, [](const ParamSpec& param) { return param.tied_name.empty(); });
    }

    ParamValues fresh() { return read_all(model_, first_weights(base_.folder, model_, 7)); }
    ParamValues trained() {
        ParamValues values = fresh();
        spread_added(model_, values);
        return values;
    }
};

TEST_P(AdapterKinds, BeginAsTheirBase) {
    const ParamValues own = read_all(base_.model, first_weights(base_.folder, base_.model, 7));
    for (const DType compute : {DType::f32, DType::bf16}) {
        const RunnerOptions options{.compute = compute};
        EXPECT_EQ(ModelRunner(model_, fresh(), options).logits(batch_),
                  ModelRunner(base_.model, own, options).logits(batch_));
    }
}

TEST_P(AdapterKinds, FusedAreTheAdapter) {
    if (!is_fusable()) {
        EXPECT_THROW(require_fusable(model_), UserError);
        return;
    }
    EXPECT_NO_THROW(require_fusable(model_));
    const ParamValues values = trained(), bare(values.begin(), values.begin() + std::ssize(base_.model.params));
    const ReadMasters masters = masters_of(values);
    const ParamValues fused = read_all(base_.model, fused_masters(model_, masters));
    const std::vector<float> adapted = ModelRunner(model_, values, {}).logits(batch_);
    const std::vector<float> whole = ModelRunner(base_.model, fused, {}).logits(batch_);
    const std::vector<float> own = ModelRunner(base_.model, bare, {}).logits(batch_);
    // Each fused weight is rounded once, by 2^-24 of it, and each product with the adapter a few times more: errors of
    // a layer's outputs are some 1e-6 of the largest, and two layers and the head multiply them by less than ten.
    EXPECT_LE(distance(adapted, whole), 1e-5 * largest(adapted));
    EXPECT_GT(distance(adapted, own), 1e-2) << "the adapter does not matter";
    EXPECT_NEAR(mean_loss(ModelRunner(model_, values, {}).losses(batch_), batch_),
                mean_loss(ModelRunner(base_.model, fused, {}).losses(batch_), batch_), 1e-5 * largest(adapted));
}

// Any piece, from any element on: a save writes pieces.
TEST_P(AdapterKinds, FuseAnyPiece) {
    if (!is_fusable()) return;
    const ParamValues values = trained();
    const ReadMasters masters = masters_of(values), fused = fused_masters(model_, masters);
    for (int param = 0; param < static_cast<int>(base_.model.params.size()); ++param) {
        std::vector<float> all(values[at(param)].size()), piece(all.size() / 2);
        fused(param, 0, all);
        const int64_t first = std::ssize(all) / 3;
        fused(param, first, piece);
        EXPECT_TRUE(std::equal(piece.begin(), piece.end(), all.begin() + first)) << model_.params[at(param)].name;
    }
}

TEST_P(AdapterKinds, ReadBackWhatTheyWrote) {
    const TempFolder temp;
    const ParamValues values = trained();
    save_peft(real_files(), temp / "adapter", model_, {.base_name = "some/base"}, masters_of(values));
    const AdapterFolder folder = AdapterFolder::open(real_files(), temp / "adapter");
    const PeftConfig config = read_peft_config(folder);
    EXPECT_EQ(config.settings.kind, settings_.kind);
    EXPECT_EQ(config.base, "some/base");
    EXPECT_FALSE(config.is_expression);
    EXPECT_EQ(config.settings.nonzeros, settings_.nonzeros);
    EXPECT_EQ(config.settings.seed, settings_.seed);
    if (settings_.kind != "ia3") {
        EXPECT_EQ(config.settings.rank, settings_.rank);
        EXPECT_EQ(config.settings.scale, settings_.scale);
    }
    const std::vector<int> layers = peft_layers(folder, config.settings, base_.model);
    EXPECT_EQ(layers, layers_);
    for (const int layer : layers)
        EXPECT_TRUE(is_named_by(module_name(base_.model, layer_name(base_.model, layer)), config.targets));
    const ModelSpec again = with_adapter(base_.model, config.settings, layers);
    const ReadMasters read = first_weights(base_.folder, again, 0, &folder);
    EXPECT_EQ(read_all(again, read), values);
    for (size_t param = base_.model.params.size(); param < values.size(); ++param) {  // any piece, from any element on
        const std::vector<float>& all = values[param];
        std::vector<float> piece(all.size() / 2);
        read(static_cast<int>(param), std::ssize(all) / 3, piece);
        EXPECT_TRUE(std::equal(piece.begin(), piece.end(), all.begin() + std::ssize(all) / 3));
    }
}

TEST_P(AdapterKinds, RecomputingAndThreadsChangeNoBit) {
    const ParamValues values = trained();
    RunnerOptions options;
    for (const ParamSpec& param : model_.params)
        options.trainable.push_back(param.added && param.added->trains ? 1 : 0);
    for (const DType compute : {DType::f32, DType::bf16}) {
        options.compute = compute;
        const GradientResult kept = ModelRunner(model_, values, options).gradients(batch_);
        RunnerOptions other = options;
        other.save = false;
        other.threads = 3;
        const GradientResult again = ModelRunner(model_, values, other).gradients(batch_);
        EXPECT_EQ(kept.losses, again.losses);
        EXPECT_EQ(kept.gradients, again.gradients);
    }
}

INSTANTIATE_TEST_SUITE_P(All, AdapterKinds, testing::ValuesIn(kinds_on_bases()),
                         [](const auto& info) { return info.param.name(); });

// GPT-2's files hold W as [in, out]: what is added is transposed there, and nowhere else.
TEST(Fusing, FollowsTheOrientationOfTheWeight) {
    const GoldenBase base("gpt2");
    const int weight = weight_of_module(base.model, "transformer.h.0.mlp.c_fc");
    const LinearLayer layer = linear_layer(base.model, weight);
    EXPECT_TRUE(layer.in_out);
    const ModelSpec model = with_adapter(base.model, {.kind = "lora", .rank = 1, .scale = 2}, std::vector{weight});
    ParamValues values;
    for (const ParamSpec& param : model.params) values.emplace_back(at(param.numel()), 0.0f);
    const size_t a = base.model.params.size(), b = a + 1;
    ASSERT_EQ(model.params[b].added->part, "lora_B.weight");
    values[a][3] = 5;  // input 3
    values[b][7] = 1;  // output 7
    std::vector<float> fused(values[at(weight)].size());
    const ReadMasters masters = masters_of(values);
    fused_masters(model, masters)(weight, 0, fused);
    const auto changed = std::ranges::find_if(fused, [](float number) { return number != 0; });
    ASSERT_NE(changed, fused.end());
    EXPECT_EQ(changed - fused.begin(), 3 * layer.out_cols + 7);
    EXPECT_EQ(*changed, 10.0f);
    EXPECT_EQ(std::ranges::count(fused, 0.0f), std::ssize(fused) - 1);
}

TEST(AdapterList, NamesWhatThereIs) {
    EXPECT_EQ(find_adapter("lora").peft_type, "LORA");
    try {
        find_adapter("prefix");
        ADD_FAILURE();
    } catch (const UserError& error) {
        EXPECT_EQ(error.code(), ExitCode::usage);
        EXPECT_THAT(error.what(), testing::HasSubstr("lora, ia3, lsp"));
    }
}

}  // namespace
}  // namespace windlass
