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
    bool has_magnitudes = false;

    std::string name() const {
        return fmt::format("{}{}_{}", has_magnitudes ? std::string_view("dora") : kind->name,
                           everywhere ? "_everywhere" : "", base);
    }
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
    for (const std::string& base : golden_names())
        all.push_back({&find_adapter("lora"), base, /*everywhere=*/false, /*has_magnitudes=*/true});
    return all;
}

class AdapterKinds : public testing::TestWithParam<KindOnBase> {
  protected:
    GoldenBase base_{GetParam().base};
    AdapterSettings settings_ = GetParam().has_magnitudes
                                    ? small_settings(*GetParam().kind, /*has_magnitudes=*/true)
                                    : small_settings(base_, *GetParam().kind, GetParam().everywhere);
    std::vector<int> layers_ = GetParam().kind->is_of_tokens ? std::vector<int>()
                               : GetParam().everywhere       ? adaptable_layers(base_.model, *GetParam().kind)
                                                             : linear_layers_of_layers(base_.model);
    ModelSpec model_ = with_adapter(base_.model, settings_, layers_);
    TokenBatch batch_ = base_.batch();

    // One end of a tied table has no weight of its own.
    bool is_fusable() const {
        return !GetParam().everywhere || GetParam().kind->is_of_tokens ||
               std::ranges::all_of(model_.params, [](const ParamSpec& param) { return param.tied_name.empty(); });
    }

    // What is computed in bf16 is kept in bf16.
    ParamValues fresh(DType compute = DType::f32) {
        const AsKept as_kept = [&](int, int64_t, std::span<float> numbers) {
            for (float& number : numbers) number = to_float(to_bf16(number));
        };
        const bool rounds = compute == DType::bf16;
        return read_all(model_, first_weights(base_.folder, model_, 7, nullptr, rounds ? as_kept : AsKept()));
    }
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
        EXPECT_EQ(ModelRunner(model_, fresh(compute), options).logits(batch_),
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
    const AdapterSettings settings = peft_settings(folder, base_.model);
    EXPECT_EQ(settings.kind, settings_.kind);
    EXPECT_EQ(config.base, "some/base");
    EXPECT_FALSE(config.is_expression);
    EXPECT_EQ(settings.nonzeros, settings_.nonzeros);
    EXPECT_EQ(settings.seed, settings_.seed);
    EXPECT_EQ(settings.has_magnitudes, settings_.has_magnitudes);
    EXPECT_EQ(settings.tokens, settings_.tokens);
    if (settings_.kind == "lora" || settings_.kind == "lsp") {
        EXPECT_EQ(settings.rank, settings_.rank);
        EXPECT_EQ(settings.scale, settings_.scale);
    }
    const std::vector<int> layers = peft_layers(folder, settings, base_.model);
    EXPECT_EQ(layers, layers_);
    for (const int layer : layers)
        EXPECT_TRUE(is_named_by(module_name(base_.model, layer_name(base_.model, layer)), config.targets));
    const ModelSpec again = with_adapter(base_.model, settings, layers);
    const ReadMasters read = first_weights(base_.folder, again, 0, &folder);
    const ParamValues read_back = read_all(again, read);
    for (size_t param = 0; param < values.size(); ++param) {
        // Rows of tokens are written as sums with the base's, each rounded once: by 2^-24 of some 0.5.
        const double most = is_token_rows(again, again.params[param]) ? 1e-7 : 0;
        EXPECT_LE(distance(read_back[param], values[param]), most) << again.params[param].name;
    }
    for (size_t param = base_.model.params.size(); param < values.size(); ++param) {  // any piece, from any element on
        const std::vector<float>& all = read_back[param];
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

// DoRA's merged weights: each output's numbers have the norm that was learnt, wherever they lie.
TEST(Fusing, GivesEachOutputItsMagnitude) {
    for (const char* const name : {"gpt2", "qwen2"}) {
        const GoldenBase base(name);
        const ModelSpec model = base.with(small_settings(find_adapter("lora"), /*has_magnitudes=*/true));
        ParamValues values = read_all(model, first_weights(base.folder, model, 7));
        spread_added(model, values);
        const ReadMasters masters = masters_of(values);
        const int weight = linear_layers_of_layers(model)[1];
        const LinearLayer layer = linear_layer(model, weight);
        const std::string part = fmt::format("{}.lora_magnitude_vector", layer_of(model.params[at(weight)]));
        const auto magnitudes = std::ranges::find(model.params, part, &ParamSpec::name);
        ASSERT_NE(magnitudes, model.params.end());
        std::vector<float> fused(values[at(weight)].size());
        fused_masters(model, masters)(weight, 0, fused);
        for (int64_t output = 0; output < layer.out_cols; ++output) {
            double squares = 0;
            for (int64_t input = 0; input < layer.in_cols; ++input)
                squares += std::pow(
                    fused[at(layer.in_out ? input * layer.out_cols + output : output * layer.in_cols + input)], 2);
            const double magnitude = values[at(magnitudes - model.params.begin())][at(output)];
            ASSERT_NEAR(std::sqrt(squares), std::abs(magnitude), 1e-6 * std::abs(magnitude)) << name << " " << output;
        }
    }
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
