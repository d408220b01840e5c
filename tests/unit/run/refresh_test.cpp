// A refresh of projected layers: it changes what is kept and not what is computed, goes by the gradients that dense
// products have, and leaves everything where its fit is no better.
#include <cmath>

#include "base/index.h"
#include "model/adapters/adapter.h"
#include "op/sparse_positions.h"
#include "tests/unit/run/adapter_fixture.h"

namespace windlass {
namespace {

using Matrix = std::vector<double>;  // row by row

struct Refreshed {
    TempFolder folder;
    Golden golden;
    std::array<TestBatch, 2> batches;
    EngineOptions options;
    std::unique_ptr<Engine> engine;

    Refreshed(const char* model, DType type) : golden(model), batches(batches_of(golden)) {
        golden.folder = write_model(golden, type, folder);
        options.compute = type;
        options.adapter = kLsp24;
        options.refreshes = true;
        options.method.max_grad_norm = 1e30;
        engine = make_engine(real_files(), golden.folder, options);
    }
    double loss(const TestBatch& batch) {
        const StepInput input = step_input(*engine, batch, 1, 0);
        return engine->evaluate(*engine->setup().schedules.find(fmt::format("eval/{}", batch.sequence_length)), input)
            .loss_sum;
    }
    std::vector<float> masters(int param) {
        std::vector<float> numbers(at(engine->setup().model.params[at(param)].numel()));
        engine->read_masters(param, 0, numbers);
        return numbers;
    }
};

// Some are stored [in, out], where the projectors change places.
constexpr const char* kRefreshModels[] = {"llama", "gpt2"};

TEST(Refresh, WritesWhatWasLearntAndChangesNoLoss) {
    for (const char* const name : kRefreshModels) {
        SCOPED_TRACE(name);
        Refreshed run(name, DType::f32);
        for (int64_t step = 1; step <= 3; ++step) train_on(*run.engine, run.batches[0], step, 1e-2);
        const auto before = all_masters(*run.engine);
        const double loss = run.loss(run.batches[0]);
        const StepReport report = refresh_on(*run.engine, run.batches[0], run.batches[1], 4);
        const auto after = all_masters(*run.engine);
        // W takes the sum of as many products as there are numbers in a row and a column of P and Q, each rounded.
        EXPECT_NEAR(run.loss(run.batches[0]), loss, 1e-5 * loss);
        const std::vector<ProjectedLayer> layers = refreshed_layers(run.engine->setup().model);
        ASSERT_EQ(report.groups.size(), layers.size());
        int accepted = 0;
        for (const ProjectedLayer& layer : layers) {
            const auto found = std::ranges::find(report.groups, layer.weight, &GroupReport::param);
            ASSERT_NE(found, report.groups.end());
            const bool changes = found->figures[4] != 0;
            accepted += changes ? 1 : 0;
            for (const int param : {layer.weight, layer.left, layer.right})
                EXPECT_EQ(before[at(param)] != after[at(param)], changes)
                    << run.engine->setup().model.params[at(param)].name;
            const auto is_zero = [](float number) { return number == 0; };
            EXPECT_FALSE(std::ranges::all_of(before[at(layer.inner)], is_zero));
            EXPECT_EQ(std::ranges::all_of(after[at(layer.inner)], is_zero), changes);
        }
        EXPECT_GT(accepted, 0);
    }
}

// [rows, cols] of a sparse matrix.
Matrix dense(const SparseShape& shape, const std::vector<float>& values) {
    const auto positions = sparse_positions(shape);
    Matrix made(at(shape.rows * shape.cols));
    for (int64_t row = 0; row < shape.rows; ++row)
        for (int64_t k = 0; k < shape.nonzeros; ++k)
            made[at(row * shape.cols + positions->by_row.source[at(row * shape.nonzeros + k)])] +=
                values[positions->by_row.value[at(row * shape.nonzeros + k)]];
    return made;
}

// A A^T
Matrix square_of(const Matrix& a, int64_t rows, int64_t cols) {
    Matrix made(at(rows * rows));
    for (int64_t i = 0; i < rows; ++i)
        for (int64_t j = 0; j < rows; ++j)
            for (int64_t k = 0; k < cols; ++k) made[at(i * rows + j)] += a[at(i * cols + k)] * a[at(j * cols + k)];
    return made;
}

// |A G B - G| / |G|
double bias_of(const Matrix& a, const Matrix& g, const Matrix& b, int64_t rows, int64_t cols) {
    Matrix half(at(rows * cols));
    for (int64_t i = 0; i < rows; ++i)
        for (int64_t k = 0; k < rows; ++k)
            for (int64_t j = 0; j < cols; ++j) half[at(i * cols + j)] += a[at(i * rows + k)] * g[at(k * cols + j)];
    double difference = 0, size = 0;
    for (int64_t i = 0; i < rows; ++i)
        for (int64_t j = 0; j < cols; ++j) {
            double shown = -g[at(i * cols + j)];
            for (int64_t k = 0; k < cols; ++k) shown += half[at(i * cols + k)] * b[at(k * cols + j)];
            difference += shown * shown;
            size += g[at(i * cols + j)] * g[at(i * cols + j)];
        }
    return std::sqrt(difference / size);
}

// How AdamW moves weights behind a first step with an epsilon beside which gradients are nothing: by the gradient.
std::map<std::string, Matrix> gradients_of(const Golden& golden, const TestBatch& batch) {
    constexpr double kEpsilon = 1e9, kMoved = 1e3;
    const auto engine = make_engine(real_files(), golden.folder,
                                    {.method = {.epsilon = kEpsilon, .weight_decay = 0, .max_grad_norm = 1e30}});
    const auto before = all_masters(*engine);
    train_on(*engine, batch, 1, kMoved * kEpsilon);
    const auto after = all_masters(*engine);
    std::map<std::string, Matrix> gradients;
    for (size_t param = 0; param < before.size(); ++param) {
        Matrix& gradient = gradients[engine->setup().model.params[param].name];
        for (size_t i = 0; i < before[param].size(); ++i)
            gradient.push_back((double{before[param][i]} - after[param][i]) / kMoved);
    }
    return gradients;
}

// The base's gradient is that of its own weights, since S is zero at first.
TEST(Refresh, GoesByTheGradientsOfTheWeights) {
    for (const char* const name : kRefreshModels) {
        SCOPED_TRACE(name);
        Refreshed run(name, DType::f32);
        const auto gradients = gradients_of(run.golden, run.batches[1]);
        std::map<int, std::vector<float>> numbers;
        const std::vector<ProjectedLayer> layers = refreshed_layers(run.engine->setup().model);
        for (const ProjectedLayer& layer : layers)
            for (const int param : {layer.left, layer.right}) numbers[param] = run.masters(param);
        const StepReport report = refresh_on(*run.engine, run.batches[0], run.batches[1], 1);
        for (const ProjectedLayer& layer : layers) {
            const ParamSpec& weight = run.engine->setup().model.params[at(layer.weight)];
            const int64_t rows = weight.shape[0], cols = weight.shape[1];
            const Matrix a = square_of(dense(layer.left_shape, numbers[layer.left]), rows, layer.left_shape.cols),
                         b = square_of(dense(layer.right_shape, numbers[layer.right]), cols, layer.right_shape.cols);
            const auto found = std::ranges::find(report.groups, layer.weight, &GroupReport::param);
            // Gradients are told by differences of f32 weights.
            EXPECT_NEAR(found->figures[0], bias_of(a, gradients.at(weight.name), b, rows, cols),
                        1e-3 * found->figures[0])
                << weight.name;
        }
    }
}

// Rows without a target have no gradient: nothing is fitted to them, and nothing is better on them.
TEST(Refresh, LeavesEverythingWhereItIsNotBetter) {
    Refreshed run("llama", DType::bf16);
    train_on(*run.engine, run.batches[0], 1, 1e-2);
    TestBatch empty = run.batches[1];
    std::ranges::fill(empty.targets, kIgnored);
    const std::string before = state_bytes(*run.engine, real_files(), run.folder / "before.wls");
    for (const bool fits_on_empty : {false, true}) {
        const StepReport report = fits_on_empty ? refresh_on(*run.engine, empty, run.batches[0], 2)
                                                : refresh_on(*run.engine, run.batches[0], empty, 2);
        EXPECT_TRUE(state_bytes(*run.engine, real_files(), run.folder / "after.wls") == before) << fits_on_empty;
        EXPECT_GT(report.groups.size(), 0u);
        const auto is_accepted = [](const GroupReport& each) { return each.figures[4] != 0; };
        EXPECT_TRUE(std::ranges::none_of(report.groups, is_accepted)) << fits_on_empty;
    }
}

}  // namespace
}  // namespace windlass
