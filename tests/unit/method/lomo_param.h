// lomo_param.h: one parameter with its state, updated by LOMO's or AdaLomo's own kernel.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "base/rng.h"
#include "method/methods.h"
#include "perturb/stored.h"

namespace windlass {

// What is to be updated, and how it is kept.
struct LomoCase {
    const char* method = "lomo";
    Shape shape;
    DType type = DType::bf16;  // as_file
    bool split = false;        // or as masters
    int64_t start = 0;         // of the parameter in the model
    int64_t low_elements = 0;  // low halves lie in pieces of so many; 0: in one
};

// Bytes: a vector of std::byte that the device sees.
template <typename Bytes>
class LomoParam {
  public:
    LomoParam(const LomoCase& wanted, DeviceKind kind, const MethodOptions& options = {.weight_decay = 0.1})
        : param_{.spec = {.name = "w", .shape = wanted.shape},
                 .storage = {.store = wanted.split ? StoreType::split : StoreType::as_file,
                             .dtype = wanted.split ? DType::bf16 : wanted.type}},
          case_(wanted),
          kind_(kind),
          options_(options) {
        options_.split_masters = wanted.split;
        recipe_ = make_recipe(wanted.method, options_);
        const Param param = param_;
        const int64_t count = param.numel();
        weights_.resize(static_cast<size_t>(stored_bytes(param_.storage.dtype, count)));
        for (int64_t first = 0; wanted.split && first < count; first += piece())
            lows_.emplace_back(static_cast<size_t>(2 * piece()));
        gradient_.resize(static_cast<size_t>(4 * count));
        for (const StateSpec& state : recipe_.state)
            state_.emplace_back(static_cast<size_t>(state_bytes(state, param.spec, 0, count)));
        if (const auto work_bytes = recipe_.update()->work_bytes; work_bytes != nullptr)
            work_.resize(static_cast<size_t>(work_bytes({.params = {&param, 1}})));
        Random random(3, RandomStream::test);
        std::vector<float> values(static_cast<size_t>(count));
        for (float& value : values) value = 0.1f * random.normal();
        set_weights(values);
    }

    std::span<float> gradient() {
        return {reinterpret_cast<float*>(gradient_.data()), gradient_.size() / sizeof(float)};
    }
    std::span<const float> state(size_t index) const {
        return {reinterpret_cast<const float*>(state_[index].data()), state_[index].size() / sizeof(float)};
    }
    std::vector<float> weights() const {
        std::vector<float> values(gradient_.size() / sizeof(float));
        if (!case_.split) {
            decode_stored({param_.storage.dtype}, weights_, 0, values);
            return values;
        }
        for (size_t i = 0; i < values.size(); ++i)
            values[i] =
                std::bit_cast<float>(join_master({reinterpret_cast<const uint16_t*>(weights_.data())[i], low(i)}));
        return values;
    }
    void set_weights(std::span<const float> values) {
        if (!case_.split) return encode_stored({param_.storage.dtype}, param_.storage.dtype, values, weights_);
        for (size_t i = 0; i < values.size(); ++i) {
            const Split halves = split_master(std::bit_cast<uint32_t>(values[i]));
            reinterpret_cast<uint16_t*>(weights_.data())[i] = halves.hi;
            low(i) = halves.lo;
        }
    }
    StepParams prepared(int64_t number, double rate, double clip = 1) const {
        StepParams step{.seed = 11, .step = number, .learning_rate = rate, .clip_scale = clip};
        recipe_.prepare(options_, step);
        return step;
    }
    // All of it, or, where the method takes chunks, in cuts of so many elements.
    void update(Device& device, const StepParams& step, int threads = 1, int64_t cut = INT64_MAX) {
        const std::unique_ptr<Stream> stream = device.make_stream(threads);
        const ParamCell kernel = recipe_.update()->cells[static_cast<size_t>(kind_)];
        ASSERT_NE(kernel, nullptr);
        const int64_t count = std::ssize(gradient());
        if (recipe_.updates_whole_parameters()) cut = count;
        for (int64_t first = 0; first < count; first += cut) {
            ParamCall call = this->call(first, std::min(cut, count - first));
            call.step = &step;
            stream->launch([&](const Launch& launch) { kernel(call, launch.stream()); });
            stream->synchronize();
        }
    }
    // Weights, low halves and state.
    std::string bytes() const {
        std::string all;
        const auto append = [&](const Bytes& part) {
            all.append(reinterpret_cast<const char*>(part.data()), part.size());
        };
        append(weights_);
        for (const Bytes& piece : lows_) append(piece);
        for (const Bytes& part : state_) append(part);
        return all;
    }

  private:
    int64_t piece() const { return case_.low_elements > 0 ? case_.low_elements : Param(param_).numel(); }
    int16_t& low(size_t i) const {
        const auto pieces = static_cast<size_t>(piece());
        return const_cast<int16_t*>(reinterpret_cast<const int16_t*>(lows_[i / pieces].data()))[i % pieces];
    }
    ParamCall call(int64_t first, int64_t count) {
        parts_.clear();
        low_pieces_.clear();
        for (Bytes& part : state_) parts_.push_back(part.data());
        for (Bytes& each : lows_) low_pieces_.push_back(reinterpret_cast<int16_t*>(each.data()));
        if (lows_.size() == 1) low_pieces_[0] += first;
        return {.param = param_,
                .first = first,
                .element = case_.start + first,
                .count = count,
                .hi = reinterpret_cast<uint16_t*>(weights_.data() + stored_bytes(param_.storage.dtype, first)),
                .lo = low_pieces_.empty() ? nullptr : low_pieces_[0],
                .state = parts_,
                .gradient = gradient().data() + first,
                .lows = low_pieces_,
                .low_elements = piece(),
                .work = work_.data()};
    }

    LoneParam param_;
    LomoCase case_;
    DeviceKind kind_;
    MethodOptions options_;
    Recipe recipe_;
    Bytes weights_, gradient_, work_;
    std::vector<Bytes> lows_, state_;
    std::vector<std::byte*> parts_;
    std::vector<int16_t*> low_pieces_;
};

// Gradients over twelve powers of ten, with zeros.
inline void draw_gradient(uint64_t seed, std::span<float> gradient) {
    Random random(seed, RandomStream::test);
    for (float& each : gradient)
        each = random.below(32) == 0 ? 0.0f
                                     : std::pow(10.0f, static_cast<float>(random.below(12)) - 9.0f) * random.normal();
}

// Shapes with rows and columns that no lane, band or block divides; ways to keep them.
inline std::vector<LomoCase> lomo_cases() {
    std::vector<LomoCase> cases;
    for (const char* const method : {"lomo", "adalomo"}) {
        for (const Shape& shape : {Shape{1}, Shape{129}, Shape{2, 3}, Shape{37, 192}, Shape{300, 77}, Shape{5, 4099}}) {
            for (const DType type : {DType::f32, DType::bf16, DType::f16})
                cases.push_back({.method = method, .shape = shape, .type = type, .start = 256 * 77});
            cases.push_back({.method = method, .shape = shape, .split = true});
        }
    }
    return cases;
}

inline std::string name_of(const LomoCase& each) {
    return fmt::format("{} {} {}", each.method, each.shape.to_string(), each.split ? "masters" : dtype_name(each.type));
}

}  // namespace windlass
