// What a run begins with: of weights that are kept in few bits, DoRA's magnitudes are the norms of what is kept.
#include <gtest/gtest.h>

#include <cmath>

#include "base/index.h"
#include "model/adapters/adapter.h"
#include "run/first_masters.h"
#include "tests/unit/model/model_fixtures.h"

namespace windlass {
namespace {

int index_of(const ModelSpec& model, const std::string& name) {
    return static_cast<int>(std::ranges::find(model.params, name, &ParamSpec::name) - model.params.begin());
}

// Of rows of 48 numbers: blocks of 64 go over their ends.
TEST(FirstMasters, AreNormsOfWeightsAsTheyAreKept) {
    const ModelFolder folder = ModelFolder::open(real_files(), golden_folder("llama"));
    const ModelSpec base = build_folder(folder);
    const AdapterSettings dora{.kind = "lora", .rank = 2, .has_magnitudes = true};
    TrainedModel model(with_adapter(base, dora, linear_layers_of_layers(base)));
    set_store(model, StoreType::as_file);
    const auto first = [&](int param) {
        std::vector<float> numbers(at(model.param(param).numel()));
        first_masters(folder, model, 7)(param, 0, numbers);
        return numbers;
    };
    const std::string layer = "model.layers.1.mlp.down_proj";
    const int weight = index_of(model, layer + ".weight"), param = index_of(model, layer + ".lora_magnitude_vector");
    const std::vector<float> exact = first(param);
    keep_in_4_bits(model);
    ASSERT_EQ(model.storage[at(weight)].dtype, DType::nf4);
    std::vector<float> w = first(weight);
    std::vector<std::byte> kept(at(stored_bytes(DType::nf4, std::ssize(w))));
    encode_kept(model.param(weight), w, kept);
    decode_kept(model.storage[at(weight)], kept, 0, w);
    const std::vector<float> magnitudes = first(param);
    const int64_t cols = model.params[at(weight)].shape[1];
    EXPECT_NE(cols % 64, 0);
    for (size_t row = 0; row < magnitudes.size(); ++row) {
        double squares = 0;
        for (int64_t col = 0; col < cols; ++col) squares += std::pow(w[row * at(cols) + at(col)], 2);
        EXPECT_EQ(magnitudes[row], static_cast<float>(std::sqrt(squares))) << row;
    }
    EXPECT_NE(magnitudes, exact);
}

}  // namespace
}  // namespace windlass
