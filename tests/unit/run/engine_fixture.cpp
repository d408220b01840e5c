#include "tests/unit/run/engine_fixture.h"

#include <algorithm>

#include "base/json.h"
#include "device/cpu/isa.h"
#include "format/safetensors.h"
#include "method/forward_only/magnitude_limits.h"
#include "method/methods.h"
#include "method/param_groups.h"
#include "model/adapters/adapter.h"
#include "model/load.h"
#include "model/preference_head.h"
#include "schedule/layout.h"
#include "tests/place.h"

namespace windlass {
namespace {

template <typename T>
std::vector<T> read_tensor(const SafetensorsReader& reader, const std::string& name) {
    for (const TensorEntry& entry : reader.entries()) {
        if (entry.name != name) continue;
        std::vector<T> values(static_cast<size_t>(entry.shape.numel()));
        reader.read(entry, 0, std::as_writable_bytes(std::span(values)));
        return values;
    }
    ADD_FAILURE() << "no tensor " << name;
    return {};
}

Recipe recipe_of(const EngineOptions& options) {
    Recipe recipe = make_recipe(options.method_name, options.method);
    if (options.alter_recipe) options.alter_recipe(recipe);
    return recipe;
}

}  // namespace

Golden::Golden(const std::string& name) {
    const std::string root = fmt::format("{}/tests/golden/{}", source_dir(), name);
    folder = root + "/model";
    const std::string facts = root + "/golden.json";
    json = std::make_shared<Json>(parse_json(read_text(real_files(), facts, 1 << 20), facts, ExitCode::internal));
    tensors = std::make_shared<SafetensorsReader>(SafetensorsReader::open(real_files(), root + "/golden.safetensors"));
}

std::vector<float> Golden::floats(const std::string& tensor) const {
    return read_tensor<float>(*tensors, tensor);
}

std::vector<int32_t> Golden::ids(const std::string& tensor) const {
    const auto wide = read_tensor<int64_t>(*tensors, tensor);
    return {wide.begin(), wide.end()};
}

TestBatch::TestBatch(std::vector<int32_t> tokens_in, std::vector<int32_t> targets_in, int64_t rows)
    : tokens(std::move(tokens_in)),
      targets(std::move(targets_in)),
      doc_start(tokens.size(), 0),
      row_count(rows),
      sequence_length(std::ssize(tokens) / rows) {
    for (int64_t t = 0; t < std::ssize(tokens); ++t) positions.push_back(static_cast<int32_t>(t % sequence_length));
}

Batch TestBatch::rows(int64_t first, int64_t count) const {
    const int64_t begin = first * sequence_length;
    return {.rows = count,
            .sequence_length = sequence_length,
            .tokens = tokens.data() + begin,
            .positions = positions.data() + begin,
            .doc_start = doc_start.data() + begin,
            .targets = targets.data() + begin};
}

int64_t TestBatch::target_count() const {
    return std::ssize(targets) - std::count(targets.begin(), targets.end(), kIgnored);
}

ModelSpec adapted(ModelSpec model, const std::optional<AdapterSettings>& adapter, bool with_tables) {
    if (!adapter) return model;
    const std::vector<int> layers =
        with_tables ? adaptable_layers(model, find_adapter(adapter->kind)) : linear_layers_of_layers(model);
    return with_adapter(std::move(model), *adapter, layers);
}

std::unique_ptr<Engine> make_engine(FileSystem& files, const std::string& model_folder, const EngineOptions& options,
                                    bool load) {
    ModelFolder folder = ModelFolder::open(real_files(), model_folder);
    HfConfig config = folder.config();
    ModelSpec model = adapted(build_model(config, folder.tensors()), options.adapter, options.adapts_tables);
    if (options.preference) model = judge_pairs(std::move(model), *options.preference);
    EngineSetup setup{
        .model = TrainedModel(std::move(model)), .recipe = recipe_of(options), .method_options = options.method};
    for (size_t index = 0; options.trains && index < setup.model.params.size(); ++index)
        setup.model.training[index].trains = options.trains(setup.model.params[index]);
    if (!options.groups.empty()) apply_param_groups(options.groups, "groups", setup.model);
    set_store(setup.model, setup.recipe.store);
    if (!options.splits_frozen) keep_frozen_as(setup.model, options.compute);
    if (options.in_8_bits) keep_in_8_bits(setup.model);
    if (options.in_4_bits) keep_in_4_bits(setup.model);
    set_merge(setup.model, setup.recipe.merge);
    for (int index = 0; index < setup.model.param_size(); ++index) {
        const Param param = setup.model.param(index);
        const bool is_writable = param.storage.dtype != DType::nf4 || param.perturb.merge == Merge::never;
        if (!is_writable) setup.model.training[static_cast<size_t>(index)].trains = false;
    }
    if (options.refreshes) set_refreshed(setup.model);
    separate_programs(setup.model);
    set_by_magnitudes(setup.model, options.method.sparse_share, [&](int param, int64_t first, std::span<float> out) {
        load_elements(folder, setup.model.params[static_cast<size_t>(param)], first, out);
    });
    setup.numerics = {.compute = options.compute,
                      .micro_batch_size = options.micro_batch_size,
                      .micro_batches = options.micro_batches,
                      .sequence_lengths = {options.sequence_length},
                      .kernel_path = std::string(isa_name(cpu_isa())),
                      .state_format = options.method.state_format,
                      .gradient_format = options.gradient_format};
    setup.plan = options.plan;
    if (setup.recipe.merge_window > 0) setup.plan.writeback_steps = static_cast<int>(setup.recipe.merge_window);
    using Kind = ScheduleRequest::Kind;
    std::vector<ScheduleRequest> requests = {{.kind = Kind::train,
                                              .rows = options.micro_batch_size,
                                              .sequence_length = options.sequence_length,
                                              .micro_batches = options.micro_batches,
                                              .writes_answers = options.writes_answers},
                                             {Kind::eval, options.micro_batch_size, options.sequence_length, 1}};
    if (options.refreshes)
        requests.push_back({.kind = Kind::phase,
                            .rows = options.micro_batch_size,
                            .sequence_length = options.sequence_length,
                            .micro_batches = 2 * options.micro_batches,
                            .phase = &kProjectorRefresh,
                            .iterations = 3});
    setup.schedules = lower(setup.model, setup.recipe, setup.numerics, setup.plan, requests);
    check(setup.schedules);
    if (options.spoil) options.spoil(setup.schedules);
    setup.store_path = options.store_path;
    setup.seed = 7;
    setup.emulation = options.emulation;
    setup.device = options.device;
    auto engine = std::make_unique<Engine>(files, std::move(setup));
    if (load) engine->load(folder, "{}");
    return engine;
}

Plan mixed_plan(const Plan& plan, size_t blocks) {
    Plan mixed = plan;
    for (size_t block = 0; block < blocks; ++block) {
        mixed.blocks.push_back(plan.common);
        BlockPlan& each = mixed.blocks.back();
        const Home near = plan.own_memory() ? Home::host : Home::device;
        if (block % 2 == 0) each.weights = each.gradients = near;
        if (block % 3 == 0) each.state = near;
        if (block % 2 == 1) each.update = UpdateTime::next_forward;
        if (block % 3 == 2) each.update = UpdateTime::in_backward;
        each.recompute = block % 2 == 1;
    }
    return mixed;
}

StepInput step_input(const Engine& engine, const TestBatch& batch, int64_t step, double learning_rate) {
    const Numerics& numerics = engine.setup().numerics;
    StepInput input;
    for (int64_t micro = 0; micro < numerics.micro_batches; ++micro)
        input.micro.push_back(batch.rows(micro * numerics.micro_batch_size, numerics.micro_batch_size));
    input.params = {.seed = 7,
                    .step = step,
                    .learning_rate = learning_rate,
                    .head = {.loss_scale = 1.0 / static_cast<double>(std::max<int64_t>(1, batch.target_count()))}};
    return input;
}

const Schedule& train_schedule(const Engine& engine, const TestBatch& batch) {
    return *engine.setup().schedules.find(fmt::format("train/{}", batch.sequence_length));
}

std::string run_state_of(int64_t step) {
    return fmt::format("{{\"step\":{}}}", step);
}

StepReport train_on(Engine& engine, const TestBatch& batch, int64_t step, double learning_rate) {
    StepReport report =
        engine.train_step(train_schedule(engine, batch), step_input(engine, batch, step, learning_rate));
    engine.commit(step, run_state_of(step), report);
    return report;
}

StepReport refresh_on(Engine& engine, const TestBatch& fit, const TestBatch& judge, int64_t step) {
    StepInput input = step_input(engine, fit, step, 0);
    const StepInput other = step_input(engine, judge, step, 0);
    input.micro.insert(input.micro.end(), other.micro.begin(), other.micro.end());
    StepReport report =
        engine.run_phase(*engine.setup().schedules.find(fmt::format("refresh/{}", fit.sequence_length)), input);
    engine.commit_phase(step - 1, run_state_of(step - 1));
    return report;
}

std::vector<std::vector<float>> all_masters(Engine& engine) {
    std::vector<std::vector<float>> masters;
    const TrainedModel& model = engine.setup().model;
    for (size_t param = 0; param < model.params.size(); ++param) {
        masters.emplace_back(static_cast<size_t>(model.params[param].numel()));
        engine.read_masters(static_cast<int>(param), 0, masters.back());
    }
    return masters;
}

std::string state_bytes(Engine& engine, FileSystem& files, const std::string& path) {
    files.remove_tree(path);
    engine.snapshot(path, 0, "{}");
    Store store = Store::open(files, path, OpenMode::read);
    std::string bytes;
    bytes.reserve(static_cast<size_t>(store.file().size()));
    const TrainedModel& model = engine.setup().model;
    const std::vector<int> order = stored_params(model, 1);
    for (int64_t chunk = 0; chunk < store.chunk_count(); ++chunk) {
        const ChunkRef ref = store.chunk(chunk);
        const Param param = model.param(order[static_cast<size_t>(ref.param)]);
        const std::vector<int64_t> sections = state_sections(engine.setup().recipe, param, ref.first, ref.count);
        const Extent weight = store.weight_extent(chunk, 0), state = store.state_extent(chunk, 0);
        HugeBuffer buffer(round_up(weight.bytes, kParamAlignment) + round_up(state.bytes, kParamAlignment), false);
        const auto part = [&](int64_t offset, int64_t count) {
            bytes.append(reinterpret_cast<const char*>(buffer.data()) + offset, static_cast<size_t>(count));
        };
        const Recipe& recipe = engine.setup().recipe;
        store.file().read_at(buffer.span().first(static_cast<size_t>(round_up(weight.bytes, kParamAlignment))),
                             weight.offset);
        part(0, weight.bytes);
        if (state.bytes == 0) continue;
        store.file().read_at(buffer.span().first(static_cast<size_t>(round_up(state.bytes, kParamAlignment))),
                             state.offset);
        // Low halves, then each moment without the padding behind it.
        part(0, param.storage.store == StoreType::split ? ref.count * 2 : 0);
        for (size_t s = 1; param.trains() && s + 1 < sections.size(); ++s)
            part(sections[s], windlass::state_bytes(recipe.state[s - 1], param.spec, ref.first, ref.count));
    }
    // A snapshot leaves what is not trained to the base.
    for (int index = 0; index < model.param_size(); ++index) {
        if (model.param(index).trains()) continue;
        std::vector<float> masters(static_cast<size_t>(model.param(index).numel()));
        engine.read_masters(index, 0, masters);
        bytes.append(reinterpret_cast<const char*>(masters.data()), masters.size() * sizeof(float));
    }
    return bytes;
}

}  // namespace windlass
