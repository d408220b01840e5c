// LSP beside what it is measured by: with identities for projectors, S is trained as its weight would be, to the bit.
#include "base/file.h"
#include "base/index.h"
#include "base/math.h"
#include "format/store.h"
#include "model/adapters/adapter.h"
#include "schedule/layout.h"
#include "tests/unit/run/adapter_fixture.h"

namespace windlass {
namespace {

constexpr const char* kEmptied = "layers.1.mlp.down_proj";  // a layer whose weight is zero
// As wide as every layer, one number a row, seed 0: P and Q are identities where their numbers are 1.
const AdapterSettings kIdentities{.kind = "lsp", .rank = 1 << 15, .nonzeros = 1, .seed = 0};

bool ends(std::string_view name, std::string_view with) {
    return name.find(with) != name.npos;
}

struct Stepped {
    std::vector<std::string> names;              // of what is trained
    std::map<std::string, std::string> moments;  // by layer, the bytes of both
    std::map<std::string, std::vector<float>> masters;
    double loss = 0;
};

// Both moments of each trained parameter, by its layer.
void read_moments(Engine& engine, const std::string& path, Stepped& stepped) {
    engine.snapshot(path, 0, "{}");
    Store store = Store::open(real_files(), path, OpenMode::read);
    const TrainedModel& model = engine.setup().model;
    const std::vector<int> order = stored_params(model, 1);
    for (int64_t chunk = 0; chunk < store.chunk_count(); ++chunk) {
        const ChunkRef ref = store.chunk(chunk);
        const Param param = model.param(order[at(ref.param)]);
        if (!param.trains()) continue;
        const std::vector<int64_t> sections = state_sections(engine.setup().recipe, param, ref.first, ref.count);
        const Extent state = store.state_extent(chunk, 0);
        HugeBuffer buffer(round_up(state.bytes, int64_t{4096}), false);
        store.file().read_at(buffer.span(), state.offset);
        const std::string layer(param.spec.added ? std::string_view(param.spec.added->layer) : layer_of(param.spec));
        for (size_t s = 1; s + 1 < sections.size(); ++s)
            stepped.moments[layer].append(reinterpret_cast<const char*>(buffer.data()) + sections[s],
                                          at(windlass::state_bytes(engine.setup().recipe.state[s - 1], ref.count)));
        stepped.masters[layer].resize(at(param.numel()));
        engine.read_masters(order[at(ref.param)], 0, stepped.masters[layer]);
    }
}

// A step over all linear layers of the model's layers: on their weights, or on S beside them.
Stepped step_of(DType type, bool beside) {
    const TempFolder folder;
    Golden golden("llama");
    golden.folder = write_model(golden, type, folder, [](const std::string& name, std::span<float> values) {
        if (ends(name, kEmptied)) std::ranges::fill(values, 0.0f);
    });
    const TestBatch batch(golden.ids("ids"), golden.ids("targets"), 2);
    EngineOptions options{.compute = type,
                          .method = {.weight_decay = 0.1, .max_grad_norm = 1e30},
                          .sequence_length = batch.sequence_length};
    if (beside)
        options.adapter = kIdentities;
    else
        options.groups = {{.match = "*proj.weight"}, {.match = "*", .train = false}};
    const auto engine = make_engine(real_files(), golden.folder, options, /*load=*/false);
    const TrainedModel& model = engine->setup().model;
    ModelFolder files = ModelFolder::open(real_files(), golden.folder);
    engine->fill(0, "{}", [&](int param, int64_t first, std::span<float> out) {
        const ParamSpec& spec = model.params[at(param)];
        if (!spec.added) return load_elements(files, spec, first, out);
        std::ranges::fill(out, spec.added->trains ? 0.0f : 1.0f);
    });
    Stepped stepped;
    stepped.loss = train_on(*engine, batch, 1, 1e-3).loss_sum;
    read_moments(*engine, folder / "state.wls", stepped);
    return stepped;
}

TEST(LspIdentities, TrainSAsItsWeightBitForBit) {
    for (const DType type : {DType::f32, DType::bf16}) {
        SCOPED_TRACE(dtype_name(type));
        const Stepped plain = step_of(type, false), beside = step_of(type, true);
        EXPECT_EQ(plain.loss, beside.loss);
        EXPECT_EQ(plain.moments.size(), 14u) << "seven matrices in two layers";
        ASSERT_EQ(beside.moments.size(), plain.moments.size());
        int empty = 0;
        for (const auto& [layer, moments] : plain.moments) {
            EXPECT_TRUE(moments == beside.moments.at(layer)) << layer << ": moments";
            empty += std::ranges::all_of(moments, [](char byte) { return byte == 0; }) ? 1 : 0;
            if (!ends(layer, kEmptied)) continue;
            EXPECT_EQ(plain.masters.at(layer), beside.masters.at(layer)) << layer;
        }
        EXPECT_EQ(empty, 2) << "what a weight of zero lets through, gate and up, and nothing else";
    }
}

// The base is read alone: no bit of it, and none of the projectors, is another one behind a step.
TEST(LspSteps, WriteSAlone) {
    const TempFolder folder;
    const Golden golden("llama");
    const TestBatch batch(golden.ids("ids"), golden.ids("targets"), 2);
    for (const bool on_disk : {false, true}) {
        EngineOptions options{.sequence_length = batch.sequence_length, .adapter = kLsp24};
        if (on_disk) {
            options.plan = disk_plan(Home::disk, Home::disk);
            options.store_path = folder / "store.wls";
        }
        const auto engine = make_engine(real_files(), golden.folder, options);
        const auto before = all_masters(*engine);
        const TrainedModel& model = engine->setup().model;
        train_on(*engine, batch, 1, 1e-3);
        const auto after = all_masters(*engine);
        for (size_t param = 0; param < after.size(); ++param)
            EXPECT_EQ(before[param] != after[param], model.training[param].trains) << model.params[param].name;
    }
}

}  // namespace
}  // namespace windlass
