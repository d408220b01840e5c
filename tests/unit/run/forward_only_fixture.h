// forward_only_fixture.h: engines on golden models whose files are of any type, or have tables of several chunks.
#pragma once

#include "base/index.h"
#include "model/load.h"
#include "tests/unit/model/model_fixtures.h"
#include "tests/unit/run/placement_fixture.h"

namespace windlass {

using ChangeTensor = std::function<void(const std::string& name, std::span<float> values)>;

// Writes the golden model with its tensors in this type, `change` having seen each; returns its folder.
inline std::string write_model(const Golden& golden, DType type, const TempFolder& folder,
                               const ChangeTensor& change = {}) {
    std::vector<TestTensor> tensors = read_tensors(ModelFolder::open(real_files(), golden.folder));
    for (TestTensor& tensor : tensors) {
        std::vector<float> values(static_cast<size_t>(tensor.spec.shape.numel()));
        decode_numbers(tensor.spec.dtype, tensor.bytes, values);
        if (change) change(tensor.spec.name, values);
        tensor.spec.dtype = type;
        tensor.bytes.resize(values.size() * static_cast<size_t>(dtype_bytes(type)));
        encode_numbers(type, values, tensor.bytes);
    }
    const std::string path = folder / fmt::format("model_{}", dtype_name(type));
    const std::string config = read_text(real_files(), golden.folder + "/config.json", 1 << 20);
    write_folder(path, config, tensors);
    return path;
}

// The golden model with one table of two chunks, whose rows repeat, for its embedding and its head.
inline std::string with_a_long_table(const Golden& golden, const TempFolder& folder) {
    constexpr int64_t kVocab = 140'000;
    std::vector<TestTensor> tensors = read_tensors(ModelFolder::open(real_files(), golden.folder));
    std::erase_if(tensors, [](const TestTensor& tensor) { return tensor.spec.name == "lm_head.weight"; });
    for (TestTensor& tensor : tensors) {
        if (tensor.spec.name.find("embed_tokens") == std::string::npos) continue;
        const size_t once = tensor.bytes.size(), row = once / at(tensor.spec.shape[0]);
        tensor.spec.shape = Shape{kVocab, tensor.spec.shape[1]};
        tensor.bytes.resize(row * at(kVocab));
        for (size_t byte = once; byte < tensor.bytes.size(); ++byte) tensor.bytes[byte] = tensor.bytes[byte - once];
    }
    std::string config = read_text(real_files(), golden.folder + "/config.json", 1 << 20);
    const std::string_view vocab = "\"vocab_size\": 96", apart = "\"tie_word_embeddings\": false";
    config.replace(config.find(vocab), vocab.size(), fmt::format("\"vocab_size\": {}", kVocab));
    config.replace(config.find(apart), apart.size(), "\"tie_word_embeddings\": true");
    write_folder(folder / "model", config, tensors);
    return folder / "model";
}

// Two batches of two rows of 24 tokens.
inline std::array<TestBatch, 2> batches_of(const Golden& golden) {
    return {TestBatch(golden.ids("ids"), golden.ids("targets"), 2),
            TestBatch(golden.ids("ids_b"), golden.ids("targets_b"), 2)};
}

inline EngineOptions forward_only_options(const std::string& method, const MethodOptions& options = {}) {
    return {.plan = forward_only_memory_plan(), .method_name = method, .method = options};
}

constexpr size_t kPlacedWays = 12;  // accumulation, directions and their kind, moments
inline EngineOptions forward_only_way(const std::string& method, DType compute, size_t way) {
    static constexpr NoiseKind kKinds[] = {NoiseKind::gaussian, NoiseKind::rademacher, NoiseKind::low_rank};
    EngineOptions options = forward_only_options(method, {.weight_decay = 0.1,
                                                          .directions = way / 2 % 2 == 0 ? 1 : 4,
                                                          .noise = kKinds[way / 4 % 3],
                                                          .noise_window = 3,  // of four steps
                                                          .noise_keeps_left = way % 2 == 1,
                                                          .moments = static_cast<NoiseMoments>(way % 3),
                                                          .replay_window = way % 3 == 0 ? kReplayWindow : 3});
    options.compute = compute;
    options.micro_batches = way % 2 == 0 ? 1 : 2;
    options.micro_batch_size = 2 / options.micro_batches;
    return options;
}

// Which plan a trial takes. Trials that follow each other take plans of different kinds, and as many as there are plans
// take each of them once.
inline size_t plan_of_trial(size_t trial, size_t plan_count) {
    constexpr size_t kApart = 23;
    WINDLASS_CHECK(plan_count % kApart != 0, "{} plans would not all be taken", plan_count);
    return trial * kApart % plan_count;
}

}  // namespace windlass
