// What a log says of its method beside what all logs say: back and forth, its defaults, and what is no setting.
#include "state/trajectory_settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>

#include "base/error.h"
#include "base/json.h"
#include "config/param_group_text.h"
#include "model/adapters/adapter.h"
#include "tests/unit/method/lone_model.h"
#include "tests/unit/model/model_fixtures.h"

namespace windlass {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

TrainedModel model_of(const std::vector<float>& limits) {
    std::vector<LoneParam> params;
    for (const float limit : limits)
        params.push_back({.spec = {.name = "w", .shape = {3}}, .perturb = {.magnitude_limit = limit}});
    return lone_model(params);
}

// As a session has it.
Identity identity_of(const MethodOptions& options, const TrainedModel& model) {
    const auto text = [](const auto& value) { return fmt::format("{}", value); };
    Identity identity{.param_groups = param_group_texts(model),
                      .merge_updates = text(merge_name(options.merge)),
                      .settings = {{"adam_beta1", text(options.beta1)},
                                   {"adam_beta2", text(options.beta2)},
                                   {"adam_epsilon", text(options.epsilon)},
                                   {"layer_drop", text(options.layer_drop)},
                                   {"learning_rate", "0.1"},
                                   {"replay_window", text(options.replay_window)},
                                   {"scalar_clip", text(options.scalar_clip)},
                                   {"sparse_share", text(options.sparse_share)},
                                   {"weight_decay", text(options.weight_decay)},
                                   {"zo_estimator", text(estimator_name(options.estimator))},
                                   {"zo_optimizer", text(moments_name(options.moments))}}};
    if (is_kept_in_8_bits(model)) identity.scale_exponents = scale_exponents(model), identity.weight_storage = "f8";
    if (is_kept_in_4_bits(model)) identity.weight_storage = "nf4";
    return identity;
}

TrajectoryHeader header_of(const MethodOptions& options, const TrainedModel& model = {},
                           const char* method = "zeroth_order") {
    return {.method = method,
            .noise = logged_noise(noise_of(options)),
            .directions = options.directions,
            .eps = options.zo_eps,
            .settings = trajectory_settings(identity_of(options, model), model)};
}

// The settings of a log of this format, with these members too.
std::string with(const std::string& members) {
    return fmt::format(R"({{"format": 1, "param_groups": []{}{}}})", members.empty() ? "" : ", ", members);
}

MethodOptions read(const TrajectoryHeader& header) {
    return logged_options(header, "log");
}

std::vector<std::string> changes(const TrajectoryHeader& was, const TrajectoryHeader& is) {
    std::vector<std::string> texts;
    for (const Difference& each : differences(logged_identity(was, "log"), logged_identity(is, "this run")))
        texts.push_back(each.text());
    return texts;
}

std::string refusal(const TrajectoryHeader& was, const TrajectoryHeader& is) {
    try {
        require_same_log(was, is, "log");
    } catch (const UserError& error) {
        EXPECT_EQ(error.code(), ExitCode::usage);
        return error.what();
    }
    return "";
}

TEST(TrajectorySettings, SayWhatAnUpdateDependsOn) {
    const MethodOptions plain = read(header_of({.weight_decay = 0.3}));
    EXPECT_EQ(plain.layer_drop, 0);
    EXPECT_EQ(read(header_of({.weight_decay = 0.1, .layer_drop = 0.7})).layer_drop, 0.7);
    EXPECT_EQ(read(header_of({.layer_drop = 0.5}, {}, "forward_gradient")).layer_drop, 0.5);
}

TEST(TrajectorySettings, ThatAreLeftOutAreTheDefaults) {
    for (const char* members : {"", R"("settings": {"weight_decay": "0.1", "scalar_clip": "0"})"}) {
        const TrajectoryHeader header{.method = "zeroth_order", .eps = 1e-3, .settings = with(members)};
        EXPECT_EQ(read(header).layer_drop, 0);
        EXPECT_THAT(changes(header, header_of({})), IsEmpty());
        TrainedModel model = model_of({kInfinity});
        read_magnitude_limits(header, "log", model);
        EXPECT_TRUE(std::isinf(model.perturb[0].magnitude_limit));
    }
}

TEST(TrajectorySettings, KeepEveryBitOfALimit) {
    const TrainedModel model = model_of({0.1f, kInfinity, 1e-39f, 0.0f});
    TrainedModel found = model_of({kInfinity, kInfinity, kInfinity, kInfinity});
    read_magnitude_limits(header_of({.sparse_share = 0.5}, model), "log", found);
    for (size_t param = 0; param < 4; ++param)
        EXPECT_EQ(found.perturb[param].magnitude_limit, model.perturb[param].magnitude_limit) << param;
}

TrainedModel in_8_bits(std::vector<int> exponents) {
    std::vector<LoneParam> params;
    for (const int exponent : exponents)
        params.push_back({.spec = {.name = "w", .shape = {3, 3}}, .storage = {.scale_exponent = exponent}});
    params.push_back({.spec = {.name = "b", .shape = {3}}});
    TrainedModel model = lone_model(params);
    set_store(model, StoreType::as_file);
    keep_in_8_bits(model);
    return model;
}

TEST(TrajectorySettings, HoldTheScalesOfWeightsIn8Bits) {
    TrainedModel found = in_8_bits({0, 0}), plain = in_8_bits({0, 0});
    set_store(plain, StoreType::as_file);
    const TrainedModel model = in_8_bits({-11, 4});
    set_store(found, StoreType::as_file);
    read_weight_storage(header_of({}, model), "log", found);
    EXPECT_TRUE(is_kept_in_8_bits(found));
    EXPECT_EQ(scale_exponents(found), std::vector<int>({-11, 4, 0}));
    EXPECT_EQ(found.storage[2].dtype, DType::f32);
    set_store(found, StoreType::as_file);
    read_weight_storage(header_of({}, plain), "log", found);
    EXPECT_FALSE(is_kept_in_8_bits(found));
    EXPECT_THAT(changes(header_of({}, plain), header_of({}, model)), ElementsAre("weight_storage was as_file, is f8"));
    EXPECT_THAT(refusal(header_of({}, model), header_of({}, in_8_bits({-11, 3}))), HasSubstr("another base"));
}

TEST(TrajectorySettings, SayThatMatricesOfLayersAreIn4Bits) {
    TrainedModel plain = lone_model({ParamSpec{.name = "table", .shape = {3, 3}},
                                     {.name = "w", .shape = {3, 3}, .layer = 0},
                                     {.name = "b", .shape = {3}, .layer = 0}});
    set_store(plain, StoreType::as_file);
    TrainedModel model = plain, found = plain;
    keep_in_4_bits(model);
    read_weight_storage(header_of({}, model), "log", found);
    EXPECT_EQ(found.storage[0].dtype, DType::f32);
    EXPECT_EQ(found.storage[1].dtype, DType::nf4);
    EXPECT_EQ(found.storage[2].dtype, DType::f32);
    EXPECT_THAT(changes(header_of({}, plain), header_of({}, model)), ElementsAre("weight_storage was as_file, is nf4"));
}

TEST(TrajectorySettings, RefuseScalesThatNoModelHas) {
    for (const char* text : {R"("weight_storage": "f4")", R"("weight_storage": 8)", R"("weight_storage": "f8")",
                             R"("weight_storage": "nf4", "scale_exponents": [0, 0, 0])",
                             R"("weight_storage": "f8", "scale_exponents": [0])",
                             R"("weight_storage": "f8", "scale_exponents": [0, 1.5, 0])",
                             R"("weight_storage": "f8", "scale_exponents": [0, 18446744073709551615, 0])",
                             R"("weight_storage": "f8", "scale_exponents": [0, -118, 0])",
                             R"("weight_storage": "f8", "scale_exponents": [0, 0, 1])"}) {
        const TrajectoryHeader header{.method = "zeroth_order", .settings = with(text)};
        TrainedModel model = in_8_bits({0, 0});
        set_store(model, StoreType::as_file);
        EXPECT_THROW(read_weight_storage(header, "log", model), UserError) << text;
    }
}

TrainedModel matrix_and_vector() {
    TrainedModel model = lone_model({ParamSpec{.name = "w", .shape = {3, 3}}, {.name = "b", .shape = {3}}});
    set_store(model, StoreType::as_file);
    return model;
}

TEST(TrajectorySettings, HoldWhenUpdatesAreFolded) {
    const auto merged = [](const MethodOptions& options) {
        TrainedModel model = matrix_and_vector();
        set_merge(model, read(header_of(options, model)).merge);
        return std::pair(model.perturb[0].merge, model.perturb[1].merge);
    };
    const MethodOptions window{.noise = NoiseKind::low_rank, .noise_window = 5, .merge = Merge::per_window};
    const MethodOptions never{
        .noise = NoiseKind::low_rank, .noise_window = 0, .noise_keeps_left = true, .merge = Merge::never};
    EXPECT_EQ(merged({}), std::pair(Merge::each_step, Merge::each_step));
    EXPECT_EQ(merged(window), std::pair(Merge::per_window, Merge::per_window));
    EXPECT_EQ(merged(never), std::pair(Merge::never, Merge::each_step));
    MethodOptions each_step = window;
    each_step.merge = Merge::each_step;
    EXPECT_THAT(changes(header_of(each_step), header_of(window)),
                ElementsAre("merge_updates was each_step, is per_window"));
}

// A log alone makes the adapter again, with the ranks and scales of each layer.
TEST(TrajectorySettings, KeepWhatLayersOfAnAdapterHaveOfTheirOwn) {
    const ModelFolder folder = ModelFolder::open(real_files(), golden_folder("llama"));
    const ModelSpec base = build_folder(folder);
    const std::string q = "model.layers.0.self_attn.q_proj";
    for (const AdapterSettings& settings :
         {AdapterSettings{.kind = "lora", .rank = 4, .scale = 2, .layers = {{q, {.rank = 40, .scale = 0.5}}}},
          AdapterSettings{.kind = "lora", .rank = 4, .scale = 2, .has_magnitudes = true},
          AdapterSettings{.kind = "ia3", .layers = {{q, {.scales_input = true}}}}}) {
        std::vector<int> layers = adaptable_layers(base, find_adapter(settings.kind));
        std::erase_if(layers, [&](int layer) { return !may_adapt(base, layer, settings); });
        const TrainedModel model(with_adapter(base, settings, layers));
        const ModelSpec again = with_logged_adapter(header_of({}, model), "log", base);
        ASSERT_EQ(again.params.size(), model.params.size());
        for (size_t param = 0; param < again.params.size(); ++param)
            EXPECT_EQ(again.params[param].shape, model.params[param].shape) << again.params[param].name;
        EXPECT_EQ(again.adapter->layers, settings.layers);
        EXPECT_EQ(adapted_layers(again), layers);
        EXPECT_EQ(again.adapter->has_magnitudes, settings.has_magnitudes);
    }
    const std::vector<int> layers = linear_layers_of_layers(base);
    TrajectoryHeader forged = header_of({}, TrainedModel(with_adapter(base, {.kind = "lora", .rank = 4}, layers)));
    Json json = Json::parse(forged.settings);
    json["adapter"]["own"][q] = {{"rank", -3}, {"scale", 1}, {"scales_input", false}};
    forged.settings = json.dump();
    EXPECT_THROW(with_logged_adapter(forged, "log", base), UserError);
    json["adapter"].erase("own");
    json["adapter"]["magnitudes"] = true;
    json["adapter"]["layers"] = {"model.embed_tokens"};
    forged.settings = json.dump();
    EXPECT_THROW(with_logged_adapter(forged, "log", base), UserError) << "tables have no magnitudes";
}

TEST(TrajectorySettings, RefuseFoldingThatNoNoiseHas) {
    const TrajectoryNoise gaussian, window{.kind = TrajectoryNoiseKind::low_rank, .rank = 2, .window = 5},
        whole{.kind = TrajectoryNoiseKind::low_rank, .rank = 2, .window = 0};
    for (const auto& [text, noise] : {std::pair(R"("merge_updates": "per_window")", gaussian),
                                      {R"("merge_updates": "per_window")", whole},
                                      {R"("merge_updates": "never")", whole},
                                      {R"("merge_updates": "never")", window},
                                      {R"("merge_updates": "each_moon")", window},
                                      {R"("merge_updates": 3)", window}}) {
        const TrajectoryHeader header{.method = "zeroth_order", .noise = noise, .settings = with(text)};
        EXPECT_THROW(read(header), UserError) << text;
    }
}

TEST(TrajectorySettings, NameWhatDiffers) {
    const TrajectoryHeader first = header_of({.directions = 2});
    EXPECT_THAT(changes(first, header_of({.weight_decay = 0.5, .directions = 2, .scalar_clip = 1})), IsEmpty());
    const auto names = [](const MethodOptions& was, const MethodOptions& is) {
        std::vector<std::string> found;
        for (const Difference& each :
             differences(logged_identity(header_of(was), "log"), logged_identity(header_of(is), "this run")))
            found.push_back(each.name);
        return found;
    };
    const MethodOptions plain{.directions = 2, .noise = NoiseKind::low_rank, .moments = NoiseMoments::both};
    for (const auto& [name, change] : std::map<std::string, std::function<void(MethodOptions&)>>{
             {"directions", [](MethodOptions& o) { o.directions = 3; }},
             {"zo_eps", [](MethodOptions& o) { o.zo_eps = 0.5; }},
             {"noise_rank", [](MethodOptions& o) { o.noise_rank = 3; }},
             {"noise_window", [](MethodOptions& o) { o.noise_window = 3; }},
             {"noise_kept", [](MethodOptions& o) { o.noise_keeps_left = true; }},
             {"zo_estimator", [](MethodOptions& o) { o.estimator = ZoEstimator::fzoo; }},
             {"zo_optimizer", [](MethodOptions& o) { o.moments = NoiseMoments::first; }},
             {"replay_window", [](MethodOptions& o) { o.replay_window = 3; }},
             {"adam_beta1", [](MethodOptions& o) { o.beta1 = 0.5; }},
             {"adam_beta2", [](MethodOptions& o) { o.beta2 = 0.5; }},
             {"adam_epsilon", [](MethodOptions& o) { o.epsilon = 0.5; }},
             {"layer_drop", [](MethodOptions& o) { o.layer_drop = 0.5; }},
             {"sparse_share", [](MethodOptions& o) { o.sparse_share = 0.5; }}}) {
        MethodOptions other = plain;
        change(other);
        EXPECT_THAT(names(plain, other), ElementsAre(name));
    }
    EXPECT_THAT(names({}, {.noise = NoiseKind::rademacher}), ElementsAre("noise"));
    EXPECT_THAT(changes(first, header_of({.directions = 2, .layer_drop = 0.5})),
                ElementsAre("layer_drop was 0, is 0.5"));
    const MethodOptions sparse{.sparse_share = 0.5};
    EXPECT_EQ(refusal(header_of(sparse, model_of({1})), header_of(sparse, model_of({1}))), "");
    EXPECT_THAT(refusal(header_of(sparse, model_of({1})), header_of(sparse, model_of({2}))), HasSubstr("another base"));
    TrajectoryHeader narrow = first;
    narrow.storage = DType::f32;
    EXPECT_THAT(refusal(first, narrow), HasSubstr("the parameters are not those"));
}

// In the words that recipes, and so configuration, have for it.
TEST(TrajectorySettings, RefuseWhatContradictsItself) {
    const auto complaint = [](const auto& body) -> std::string {
        try {
            body();
        } catch (const UserError& error) {
            return error.what();
        }
        return "";
    };
    const MethodOptions low_rank{.noise = NoiseKind::low_rank};
    MethodOptions alone{.estimator = ZoEstimator::fzoo}, still{.epsilon = 0, .moments = NoiseMoments::both};
    MethodOptions many = low_rank, unkept = low_rank, short_window = low_rank;
    many.directions = kDirectionsMax;
    many.moments = NoiseMoments::first;
    many.replay_window = kReplayWindowMax;
    unkept.merge = Merge::never;
    short_window.merge = Merge::per_window;
    short_window.noise_window = 1;
    for (const MethodOptions& wrong : {alone, still, many, unkept, short_window}) {
        const auto found = problems("zeroth_order", wrong);
        ASSERT_EQ(found.size(), 1u);
        const TrajectoryHeader header{.method = "zeroth_order",
                                      .noise = logged_noise(noise_of(wrong)),
                                      .directions = wrong.directions,
                                      .eps = wrong.zo_eps,
                                      .settings = trajectory_settings(identity_of(wrong, {}), {})};
        EXPECT_THAT(complaint([&] { read(header); }), HasSubstr(found[0].what));
        EXPECT_THAT(complaint([&] { make_recipe("zeroth_order", wrong); }), HasSubstr(found[0].what));
    }
    EXPECT_EQ(complaint([&] { read(header_of(low_rank)); }), "");
}

TEST(TrajectorySettings, RefuseWhatNoRunHas) {
    const auto complaint = [](const std::string& text) {
        const TrajectoryHeader header{.method = "zeroth_order", .eps = 0, .settings = text};
        try {
            read(header);
            TrainedModel model = model_of({1, 1});
            read_magnitude_limits(header, "log", model);
        } catch (const UserError& error) {
            EXPECT_EQ(error.code(), ExitCode::storage);
            return std::string(error.what());
        }
        return std::string("none");
    };
    EXPECT_EQ(complaint(with("")), "none");
    EXPECT_THAT(complaint("[]"), HasSubstr("not a JSON object"));
    EXPECT_THAT(complaint(R"({"layer_drop": 0.5})"), HasSubstr("an older build of Windlass, which recorded no format"));
    EXPECT_THAT(complaint(with(R"("twist": 2)")), HasSubstr("\"twist\", which this version does not know"));
    EXPECT_THAT(complaint(R"({"format": 1})"), HasSubstr("do not say which run it is of"));
    for (const auto& [setting, words] : {std::pair(R"("layer_drop": "1")", "settings.layer_drop: "),
                                         {R"("layer_drop": "x")", "\"x\" is not a number"},
                                         {R"("layer_drop": 1)", "do not say which run it is of"},
                                         {R"("zo_optimizer": "lion")", "settings.zo_optimizer: "},
                                         {R"("replay_window": "300")", "settings.replay_window: "},
                                         {R"("adam_beta1": "1")", "settings.adam_beta1: "},
                                         {R"("lion_beta": "1")", "settings.lion_beta: there is no such key"}})
        EXPECT_THAT(complaint(with(fmt::format(R"("settings": {{{}}})", setting))), HasSubstr(words));
    EXPECT_THAT(complaint(with(R"("magnitude_limits": [1])")), HasSubstr("a list of 2 numbers"));
    EXPECT_THAT(complaint(with(R"("magnitude_limits": [1, -1])")), HasSubstr("numbers of 0 and more"));
    EXPECT_EQ(complaint(with(R"("magnitude_limits": [1, null])")), "none");
}

// What a run did not train is kept as its computation wants it.
TEST(TrajectorySettings, SayHowFrozenWeightsAreKept) {
    TrainedModel plain = lone_model({ParamSpec{.name = "w", .shape = {3, 3}}, {.name = "b", .shape = {3}}});
    set_store(plain, StoreType::as_file);
    TrainedModel model = plain, found = plain;
    keep_frozen_as(model, DType::bf16);
    EXPECT_THAT(header_of({}, model).settings, testing::Not(HasSubstr("frozen_storage"))) << "all is trained";
    model.training[0].trains = found.training[0].trains = false;
    keep_frozen_as(model, DType::bf16);
    TrajectoryHeader header = header_of({}, model);
    read_weight_storage(header, "log", found);
    EXPECT_EQ(found.storage[0].dtype, DType::bf16);
    EXPECT_EQ(found.storage[1].dtype, DType::f32);
    header.settings.replace(header.settings.find("\"bf16\""), 6, "\"nf4\"");
    EXPECT_THROW(read_weight_storage(header, "log", found), UserError);
}

}  // namespace
}  // namespace windlass
