// What is not trained beside split masters: it is kept in its own type in the files, or in f8 or nf4, without low
// halves.
#include <gtest/gtest.h>

#include <set>

#include "base/index.h"
#include "model/families.h"
#include "run/working_store.h"
#include "tests/sanitizer.h"
#include "tests/unit/run/forward_only_fixture.h"
#include "tests/unit/run/placement_fixture.h"
#include "tests/unit/schedule/schedule_fixture.h"

namespace windlass {
namespace {

// Of a llama the table, the first layer and some matrices of the others.
bool trains(const ParamSpec& param) {
    return param.name.find("embed_tokens") == std::string::npos && param.name.find(".layers.0.") == std::string::npos &&
           param.name.find("up_proj") == std::string::npos;
}

class KeptFrozen : public testing::TestWithParam<std::tuple<DType, DType>> {};

// Reading a parameter in the narrower type and joining the two halves of its master give the same numbers.
TEST_P(KeptFrozen, ComputesWhatItsMastersWould) {
    const auto [files, compute] = GetParam();
    const TempFolder folder;
    Golden golden("llama");
    golden.folder = write_model(golden, files, folder);
    const std::array<TestBatch, 2> batches = batches_of(golden);
    EngineOptions options{.compute = compute, .micro_batch_size = 1, .micro_batches = 2, .trains = trains};
    const auto run = [&](bool splits_frozen) {
        options.splits_frozen = splits_frozen;
        const auto engine = make_engine(real_files(), golden.folder, options);
        std::vector<double> found;
        for (int64_t step = 1; step <= 3; ++step) {
            const StepReport report = train_on(*engine, batches[at(step % 2)], step, 1e-2);
            found.insert(found.end(), {report.loss_sum, report.grad_norm});
        }
        return std::pair(found, all_masters(*engine));
    };
    const auto split = run(true), narrow = run(false);
    EXPECT_EQ(narrow.first, split.first);
    EXPECT_EQ(narrow.second == split.second, compute == DType::f32 || files == DType::bf16) << "rounded, or not";
    EXPECT_NE(narrow.first[0], narrow.first[4]) << "nothing was learnt";
}

INSTANTIATE_TEST_SUITE_P(Types, KeptFrozen,
                         testing::Combine(testing::Values(DType::f32, DType::bf16, DType::f16),
                                          testing::Values(DType::f32, DType::bf16)),
                         [](const auto& info) {
                             return fmt::format("{}_in_{}", dtype_name(std::get<0>(info.param)),
                                                dtype_name(std::get<1>(info.param)));
                         });

// A base of three types, whose matrices of layers, all but one of each layer, are kept in few bits; beside them vectors
// and matrices are trained, and the table is frozen in a type of its own.
struct NarrowWay {
    bool in_4_bits;
    DType compute;
    StateFormat format;
};
void PrintTo(const NarrowWay& way, std::ostream* out) {
    *out << (way.in_4_bits ? "nf4 in " : "f8 in ") << dtype_name(way.compute) << ", moments in "
         << state_format_name(way.format);
}

class NarrowFrozen : public testing::TestWithParam<NarrowWay> {
  protected:
    NarrowFrozen() {
        std::vector<TestTensor> tensors = read_tensors(ModelFolder::open(real_files(), golden_.folder));
        constexpr DType kTypes[] = {DType::f32, DType::bf16, DType::f16};
        for (size_t index = 0; index < tensors.size(); ++index) {
            TestTensor& tensor = tensors[index];
            std::vector<float> values(static_cast<size_t>(tensor.spec.shape.numel()));
            decode_numbers(tensor.spec.dtype, tensor.bytes, values);
            tensor.spec.dtype = tensor.spec.shape.rank() < 2 ? DType::f32 : kTypes[index % 3];
            tensor.bytes.resize(values.size() * static_cast<size_t>(dtype_bytes(tensor.spec.dtype)));
            encode_numbers(tensor.spec.dtype, values, tensor.bytes);
        }
        write_folder(folder_ / "mixed", read_text(real_files(), golden_.folder + "/config.json", 1 << 20), tensors);
        golden_.folder = folder_ / "mixed";
    }
    static bool is_narrow(const ParamSpec& param) {
        return param.layer >= 0 && param.shape.rank() == 2 && param.name.find("o_proj") == std::string::npos;
    }
    static bool trains_beside(const ParamSpec& param) {
        return !is_narrow(param) && param.name.find("embed_tokens") == std::string::npos &&
               param.name.find("input_layernorm") == std::string::npos;
    }
    EngineOptions options() const {
        const auto& [in_4_bits, compute, format] = GetParam();
        return {.compute = compute,
                .method = {.weight_decay = 0.1, .max_grad_norm = 1.5, .state_format = format},
                .micro_batch_size = 1,
                .micro_batches = 2,
                .trains = trains_beside,
                .in_8_bits = !in_4_bits,
                .in_4_bits = in_4_bits};
    }
    const TempFolder folder_;
    Golden golden_{"llama"};
    const std::array<TestBatch, 2> batches_ = batches_of(golden_);
};

// AdamW over a base in 4 or 8 bits: every placement gives the bits of memory, and the base is not touched.
TEST_P(NarrowFrozen, NeverChangesABit) {
    EngineOptions options = this->options();
    options.in_8_bits = options.in_4_bits = false;
    const Outcome plain = run_steps(golden_, batches_, options);
    options = this->options();
    const Outcome reference = run_steps(golden_, batches_, options);
    expect_some_clipped(reference);
    EXPECT_NE(reference.losses, plain.losses) << "nothing was kept in fewer bits";
    EXPECT_NEAR(reference.losses[0], plain.losses[0], 0.1 * plain.losses[0]);
    EXPECT_NE(reference.losses[0], reference.losses[2]) << "nothing was learnt";
    TrainedModel model = tiny_model("llama");
    for (size_t index = 0; index < model.params.size(); ++index)
        model.training[index].trains = trains_beside(model.params[index]);
    const std::vector<Plan> plans = with_mixed(all_plans(), model);
    const auto& [in_4_bits, compute, format] = GetParam();
    const size_t stride = is_sanitized() ? 11 : 2;
    const size_t first = (in_4_bits ? 1 : 0) + (compute == DType::f32 ? 1 : 0) + static_cast<size_t>(format);
    for (size_t index = first % stride; index < plans.size(); index += stride) {
        options.plan = plans[index];
        options.emulation = {.jitter_seed = index, .jitter_ns = index % 3 == 0 ? 100'000 : 0};
        EXPECT_TRUE(run_steps(golden_, batches_, options) == reference) << describe(options.plan);
    }
}

// What a block holds is of four types at least.
TEST_P(NarrowFrozen, HasBlocksOfManyTypes) {
    const auto engine = make_engine(real_files(), golden_.folder, options());
    const TrainedModel& model = engine->setup().model;
    std::set<std::pair<StoreType, DType>> types;
    for (const int index : model.blocks[1].params) {
        const ParamStorage& storage = model.storage[at(index)];
        types.insert({storage.store, storage.dtype});
    }
    const auto& [in_4_bits, compute, format] = GetParam();
    const DType vector = compute == DType::f32 ? DType::f32 : DType::bf16;
    EXPECT_EQ(types,
              (std::set<std::pair<StoreType, DType>>{{StoreType::split, DType::bf16},
                                                     {StoreType::as_file, vector},
                                                     {StoreType::as_file, in_4_bits ? DType::nf4 : DType::f8_e4m3}}));
}

INSTANTIATE_TEST_SUITE_P(Ways, NarrowFrozen,
                         testing::Values(NarrowWay{true, DType::bf16, StateFormat::fp32},
                                         NarrowWay{true, DType::f32, StateFormat::bf16},
                                         NarrowWay{true, DType::bf16, StateFormat::int8},
                                         NarrowWay{false, DType::bf16, StateFormat::fp32},
                                         NarrowWay{false, DType::f32, StateFormat::int8}),
                         [](const auto& info) {
                             return fmt::format("{}_in_{}_{}", info.param.in_4_bits ? "nf4" : "f8",
                                                dtype_name(info.param.compute), state_format_name(info.param.format));
                         });

// In memory and in stores: low halves and state are of what is trained, and of nothing else.
TEST(FrozenLayout, HasNoLowHalves) {
    const Golden golden("llama");
    const auto engine = make_engine(real_files(), golden.folder, {.compute = DType::f32, .trains = trains});
    const EngineSetup& setup = engine->setup();
    const StoreLayout layout = store_layout(setup.model, setup.recipe, 2, "");
    ASSERT_EQ(layout.sections.size(), 3u);
    std::vector<int> order = store_order(setup.model);
    for (size_t i = 0; i < order.size(); ++i) {
        const Param param = setup.model.param(order[i]);
        const ParamPlace& place = setup.schedules.ids.params[at(order[i])];
        EXPECT_EQ(layout.params[i].sections, param.trains() ? StoreParam::kAllSections : 0) << param.spec.name;
        EXPECT_EQ(place.low.buffer != kNoBuffer, param.trains()) << param.spec.name;
        EXPECT_EQ(layout.params[i].weight_bytes == 0, !param.trains()) << "bf16 halves beside f32 numbers";
    }
}

class FrozenSnapshot : public testing::TestWithParam<const char*> {
  protected:
    EngineOptions options(const std::string& store = "") const {
        EngineOptions options = forward_only_options(GetParam());
        const bool probes = std::string_view(GetParam()) != "adamw";
        if (!probes) options.plan = memory_plan();
        if (!store.empty())
            options.plan = {.policy = "three_tier",
                            .store = true,
                            .common = {.weights = Home::disk,
                                       .state = Home::disk,
                                       .update = probes ? UpdateTime::next_forward : UpdateTime::after_backward}};
        options.trains = trains;
        options.compute = DType::bf16;
        options.store_path = store;
        options.in_4_bits = true;
        return options;
    }
    std::unique_ptr<Engine> restored(const std::string& snapshot, const ReadMasters& base) {
        auto engine = make_engine(real_files(), golden_.folder, options(), false);
        Store store = Store::open(real_files(), snapshot, OpenMode::read);
        EXPECT_EQ(engine->restore(store, base), run_state_of(2));
        return engine;
    }
    ReadMasters base(const Engine& engine) {
        return [this, &engine](int param, int64_t first, std::span<float> out) {
            EXPECT_FALSE(engine.setup().model.training[at(param)].trains);
            load_elements(model_, engine.setup().model.params[at(param)], first, out);
            ++asked_;
        };
    }
    const TempFolder folder_;
    const Golden golden_{"llama"};
    ModelFolder model_ = ModelFolder::open(real_files(), golden_.folder);
    const std::array<TestBatch, 2> batches_ = batches_of(golden_);
    int asked_ = 0;
};

// What is not trained is not in it: it is the base's, from which it comes back.
TEST_P(FrozenSnapshot, HoldsWhatIsTrainedAlone) {
    const auto engine = make_engine(real_files(), golden_.folder, options());
    for (int64_t step = 1; step <= 2; ++step) train_on(*engine, batches_[at(step % 2)], step, 1e-3);
    engine->snapshot(folder_ / "state.wls", 2, run_state_of(2));
    const TrainedModel& model = engine->setup().model;
    const Store store = Store::open(real_files(), folder_ / "state.wls", OpenMode::read);
    EXPECT_LT(store.layout().params.size(), model.params.size());
    std::set<std::string> held;
    for (const StoreParam& param : store.layout().params) held.insert(param.name);
    for (const Param param : model.all_params()) EXPECT_EQ(held.contains(param.spec.name), param.trains());
    const auto again = restored(folder_ / "state.wls", base(*engine));
    EXPECT_GT(asked_, 0);
    EXPECT_TRUE(all_masters(*again) == all_masters(*engine));
    EXPECT_EQ(train_on(*again, batches_[0], 3, 1e-3).loss_sum, train_on(*engine, batches_[0], 3, 1e-3).loss_sum);
}

INSTANTIATE_TEST_SUITE_P(Methods, FrozenSnapshot, testing::Values("adamw", "zeroth_order", "forward_gradient"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace windlass
