// trained_model.h: a model, and how each of its parameters is trained, stored and perturbed.
//
// ModelSpec says what is computed. The tables here say what a run does with it; each has one entry for each of
// ModelSpec::params, by the same index.
#pragma once

#include <cstddef>
#include <limits>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "model/adapters/adapter.h"
#include "model/spec.h"

namespace windlass {

class Team;

// How some of the parameters are trained (param_groups.h).
struct ParamGroup {
    std::string match;  // glob over names
    bool train = true;
    double learning_rate_scale = 1;      // of the run's learning rate
    std::optional<double> weight_decay;  // of all that it matches; nothing: the run's, of matrices and tables
    bool operator==(const ParamGroup&) const = default;
};

struct ParamTraining {
    bool trains = true;
    bool is_refreshed = false;           // no step trains it, but what is learnt is written into it now and then
    bool decays = true;                  // weight decay applies: matrices and tables, not norms and biases
    double learning_rate_scale = 1;      // of the run's learning rate
    std::optional<double> weight_decay;  // of its own; nothing: the run's, where `decays` says so
};

// `split`: fp32 masters as two 16-bit halves (trained); `as_file`: numbers of the files' type (forward-only methods).
enum class StoreType : uint8_t { split, as_file };

// How a parameter is kept while Windlass works on it.
struct ParamStorage {
    StoreType store = StoreType::split;
    DType dtype = DType::bf16;  // of the numbers that are kept; of a split master, of its high half
    int scale_exponent = 0;     // f8_e4m3: weights are the numbers that are kept, times 2^scale_exponent
};

// Forward-only methods: when the run's updates are rounded into the stored weights. Until then stored weights are read
// only; the run computes with their difference to the sum of its updates, which is rebuilt from numbers that the run
// has anyway (perturb/README.md).
enum class Merge : uint8_t { each_step, per_window, never };
// "each_step", "per_window", "never": as in configuration.
std::string_view merge_name(Merge merge);
std::optional<Merge> merge_from_name(std::string_view name);

// Forward-only methods.
struct ParamPerturb {
    Merge merge = Merge::each_step;
    float magnitude_limit = std::numeric_limits<float>::infinity();  // larger weights are neither moved nor probed
};

// One parameter with its entries of all tables. Valid while its model is, and while no table is replaced.
struct Param {
    const ParamSpec& spec;
    const ParamTraining& training;
    const ParamStorage& storage;
    const ParamPerturb& perturb;

    int64_t numel() const { return spec.numel(); }
    bool trains() const { return training.trains; }
    // What the run has is other than what it began with.
    bool changes() const { return training.trains || training.is_refreshed; }
    // What is computed with may be other than what is kept.
    bool keeps_sum() const { return training.trains && perturb.merge != Merge::each_step; }
};

// A parameter of no model, for measurements and tests.
struct LoneParam {
    ParamSpec spec;
    ParamTraining training;
    ParamStorage storage;
    ParamPerturb perturb;
    operator Param() const { return {spec, training, storage, perturb}; }
};

struct TrainedModel : ModelSpec {
    TrainedModel() = default;
    // All parameters are trained, or where the model has an adapter that alone; kept as split masters, and perturbed
    // without a limit.
    explicit TrainedModel(ModelSpec spec);

    std::vector<ParamTraining> training;
    std::vector<ParamStorage> storage;
    std::vector<ParamPerturb> perturb;
    std::vector<ParamGroup> groups;  // that were applied to the parameters, in order
    // What is not trained is kept in this type or its own in the files, the narrower; nothing: as what is trained.
    std::optional<DType> frozen_type;

    Param param(int index) const {
        const auto at = static_cast<size_t>(index);
        return {params[at], training[at], storage[at], perturb[at]};
    }
    int param_size() const { return static_cast<int>(params.size()); }

    // Walks param(0), param(1), ... A range of our own: clang 14 and 15 do not compile the views of libstdc++.
    class ParamIterator {
      public:
        using value_type = Param;
        using difference_type = std::ptrdiff_t;
        ParamIterator() = default;
        ParamIterator(const TrainedModel& model, int index) : model_(&model), index_(index) {}
        Param operator*() const { return model_->param(index_); }
        ParamIterator& operator++() {
            ++index_;
            return *this;
        }
        ParamIterator operator++(int) { return {*model_, index_++}; }
        bool operator==(const ParamIterator&) const = default;

      private:
        const TrainedModel* model_ = nullptr;
        int index_ = 0;
    };
    struct AllParams {
        ParamIterator first, last;
        ParamIterator begin() const { return first; }
        ParamIterator end() const { return last; }
    };
    AllParams all_params() const { return {{*this, 0}, {*this, param_size()}}; }
};

// The same with the first layers alone (model/shortened.h), and in sublayers (model/sublayers.h).
TrainedModel shortened(const TrainedModel& model, int layers);
TrainedModel in_sublayers(TrainedModel model);

// Elements of all parameters that are trained.
int64_t trained_count(const TrainedModel& model);

// Of projected layers (model/adapters/adapter.h) whose inner matrix alone is trained, the weight and the projectors are
// refreshed. After the types in which everything is kept are set: f16 becomes f32.
void set_refreshed(TrainedModel& model);
std::vector<ProjectedLayer> refreshed_layers(const TrainedModel& model);

// By parameter, whether it never changes: what a run writes of it is what its base holds (SaveOptions::unchanged).
std::vector<uint8_t> frozen_params(const TrainedModel& model);

// All parameters are kept so. as_file: the type of all files where they agree, else f32, which holds any of them.
void set_store(TrainedModel& model, StoreType store);
// After set_store. What is not trained is kept without low halves, in its type in the files or this one, the narrower;
// what is an adapter's, in its own. What is trained and kept as_file has the type that its own files agree on: a wide
// one widens nothing else.
void keep_frozen_as(TrainedModel& model, DType computed);
// The type of parameters that are trained and kept as_file, unless in few bits.
DType common_type(const TrainedModel& model);

// Of the parameters that are kept as_file and no adapter's: matrices and tables become f8_e4m3, vectors stay as they
// are. Scales are set from the base's weights (method/forward_only/magnitude_limits.h), or by set_scale_exponents.
void keep_in_8_bits(TrainedModel& model);
bool is_kept_in_8_bits(const TrainedModel& model);
// By parameter, 0 for those that have none. UserError(storage, where) where these are not this model's.
std::vector<int> scale_exponents(const TrainedModel& model);
void set_scale_exponents(std::span<const int> exponents, std::string_view where, TrainedModel& model);

// Of the parameters that are kept as_file: the matrices of layers become nf4 (tensor/nf4.h); tables, the head and
// vectors stay as they are. They are only read: what is kept is what the base's were rounded to.
void keep_in_4_bits(TrainedModel& model);
bool is_kept_in_4_bits(const TrainedModel& model);

// per_window: of all parameters; never: of matrices and tables, vectors are merged at each step.
void set_merge(TrainedModel& model, Merge merge);

// Weights as they are kept as fp32, and fp32 so kept (perturb/stored.h).
void decode_kept(const ParamStorage& storage, std::span<const std::byte> bytes, int64_t first, std::span<float> out);
// The same bytes where a team's threads share the work: types of few bits take a while.
void encode_kept(const Param& param, std::span<const float> values, std::span<std::byte> out, Team* team = nullptr);

}  // namespace windlass
