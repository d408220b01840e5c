// One projected layer as a run keeps it: what S has learnt is written into W, P and Q are fitted to W's gradient, and
// S's moments are carried over. Where the fit is no better than what was there nothing changes.
#include <algorithm>
#include <bit>
#include <cmath>

#include "base/index.h"
#include "base/math.h"
#include "device/cpu/cpu_stream.h"
#include "method/methods.h"
#include "method/projector/projector.h"

namespace windlass {
namespace {

// The numbers of one layer as f32, one after the other, each array aligned to 64 bytes.
class LayerNumbers {
  public:
    LayerNumbers(const ProjectedLayer& layer, std::byte* base) : base_(base) {
        const int64_t left = layer.left_shape.rows * layer.left_shape.nonzeros,
                      right = layer.right_shape.rows * layer.right_shape.nonzeros,
                      inner = layer.left_shape.cols * layer.right_shape.cols;
        for (ProjectorValues* each : {&values, &changed}) {
            each->left = take(left);
            each->right = take(right);
        }
        for (std::span<float>* each : {&s, &first, &second, &other}) *each = take(inner);
    }

    ProjectorValues values, changed;
    std::span<float> s, first, second;
    std::span<float> other;  // one of them, transposed
    int64_t bytes() const { return end_; }

  private:
    std::span<float> take(int64_t count) {
        // From null it only counts: planners ask for bytes of layers that have no memory yet.
        float* const at_end = base_ == nullptr ? nullptr : reinterpret_cast<float*>(base_ + end_);
        end_ += round_up(count * 4, int64_t{64});
        return {at_end, at(count)};
    }
    std::byte* base_;
    int64_t end_ = 0;
};

void turn(std::span<const float> from, int64_t rows, int64_t cols, std::span<float> to) {
    for (int64_t row = 0; row < rows; ++row)
        for (int64_t col = 0; col < cols; ++col) to[at(col * rows + row)] = from[at(row * cols + col)];
}

// Bytes follow from shapes alone: planners ask for them often, and positions take a while to make.
int64_t refresh_work_bytes(const ProjectedLayer& layer, int threads) {
    const SparsePositions left{.shape = layer.left_shape}, right{.shape = layer.right_shape};
    return LayerNumbers(layer, nullptr).bytes() + projector_scratch_bytes({&left, &right}, threads);
}

// Each product of a sparse matrix with something as large as G reads `nonzeros` numbers for each of its own, most of
// them from a cache: counted as half of memory's traffic, which is near the 15 ms an iteration of 2048 x 2048 with 8 of
// them that refresh_bench found on two cores.
int64_t refresh_traffic(const ProjectedLayer& layer, int iterations) {
    constexpr int64_t kProducts = 5, kMeasured = 3;  // an iteration; biases of both halves, and of the scale
    const int64_t products = kProducts * iterations + 2 * kMeasured;
    return products * 4 * layer.left_shape.rows * layer.right_shape.rows * layer.left_shape.nonzeros / 2;
}

// One layer as its call has it: the chunks of S, with their state, then those of W, P and Q.
class LayerRefresh {
  public:
    LayerRefresh(const ParamCall& call, const ProjectedLayer& layer, Team& team)
        : call_(call),
          layer_(layer),
          left_(sparse_positions(layer.left_shape)),
          right_(sparse_positions(layer.right_shape)),
          shape_{left_.get(), right_.get()},
          weight_(first_of(layer.weight)),
          left_values_(first_of(layer.left)),
          right_values_(first_of(layer.right)),
          numbers_(layer, call.work),
          context_{shape_, scratch(layer, team), team} {
        for (const ParamCall& chunk : call.group) {
            if (&chunk.param.spec == &call.param.spec) inner_.push_back(&chunk);
        }
    }

    ProjectorRefit run() {
        decode(left_values_, numbers_.values.left);
        decode(right_values_, numbers_.values.right);
        const auto weights = at(weight_.param.numel());
        const ProjectorRefit refit =
            refit_projector(context_, {{weight_.gradient, weights}, {weight_.judge, weights}},
                            {.iterations = call_.iterations}, numbers_.values, numbers_.changed);
        // Nothing has been written so far, so a fit that is not taken changes nothing.
        if (!refit.accepted) return refit;
        // S belongs to the projectors that it was trained with: it goes into W before they change.
        read_inner();
        write_back(context_, numbers_.values, numbers_.s,
                   {.key = call_.step->seed, .step = static_cast<uint32_t>(call_.step->step), .first = weight_.element},
                   weight_.param.storage.dtype, bytes_of(weight_));
        carry_moments(context_, numbers_.values, numbers_.changed, {numbers_.first, numbers_.second});
        write_inner();
        encode_kept(left_values_.param, numbers_.changed.left, bytes_of(left_values_));
        encode_kept(right_values_.param, numbers_.changed.right, bytes_of(right_values_));
        return refit;
    }

  private:
    // A parameter's weights are in one piece, where its first chunk begins; so are its gradients.
    const ParamCall& first_of(int param) const {
        return *std::ranges::find(call_.group, &call_.model->params[at(param)],
                                  [](const ParamCall& each) { return &each.param.spec; });
    }
    static std::span<std::byte> bytes_of(const ParamCall& first) {
        return {first.weights(), at(stored_bytes(first.param.storage.dtype, first.param.numel()))};
    }
    static void decode(const ParamCall& first, std::span<float> values) {
        decode_kept(first.param.storage, bytes_of(first), 0, values);
    }
    std::span<std::byte> scratch(const ProjectedLayer& layer, const Team& team) const {
        return {call_.work + numbers_.bytes(), at(refresh_work_bytes(layer, team.size()) - numbers_.bytes())};
    }

    // S and its moments, of W as it is stored.
    void read_inner() {
        for (const ParamCall* const chunk : inner_) {
            const auto first = at(chunk->first), count = at(chunk->count);
            for (size_t i = 0; i < count; ++i)
                numbers_.s[first + i] = std::bit_cast<float>(join_master({call_.hi[first + i], chunk->lo[i]}));
            call_.recipe->moments.read(chunk->state, numbers_.first.subspan(first, count),
                                       numbers_.second.subspan(first, count));
        }
        for (const std::span<float> each : {numbers_.s, numbers_.first, numbers_.second})
            turn_inner(each, shape_.right_cols(), shape_.left_cols());
    }
    void turn_inner(std::span<float> numbers, int64_t rows, int64_t cols) {
        if (!layer_.inner_is_turned) return;
        turn(numbers, rows, cols, numbers_.other);
        std::ranges::copy(numbers_.other, numbers.begin());
    }
    // S is zero now, in both of its halves.
    void write_inner() {
        for (const std::span<float> each : {numbers_.first, numbers_.second})
            turn_inner(each, shape_.left_cols(), shape_.right_cols());
        for (const ParamCall* const chunk : inner_) {
            const auto first = at(chunk->first), count = at(chunk->count);
            std::fill_n(call_.hi + first, count, uint16_t{0});
            std::fill_n(chunk->lo, count, int16_t{0});
            call_.recipe->moments.write(*chunk, numbers_.first.subspan(first, count),
                                        numbers_.second.subspan(first, count));
        }
    }

    const ParamCall& call_;
    const ProjectedLayer& layer_;
    std::shared_ptr<const SparsePositions> left_, right_;
    ProjectorShape shape_;
    const ParamCall &weight_, &left_values_, &right_values_;
    LayerNumbers numbers_;
    ProjectorContext context_;
    std::vector<const ParamCall*> inner_;
};

const ProjectedLayer& layer_of(const ParamTuple& tuple) {
    return *static_cast<const ProjectedLayer*>(tuple.detail.get());
}

int64_t work_of_refresh(const ParamWork& work) {
    return refresh_work_bytes(layer_of(*work.tuple), work.threads);
}

int64_t traffic(const ParamWork& work) {
    return refresh_traffic(layer_of(*work.tuple), work.iterations);
}

void refresh_layer(const ParamCall& call, Stream& stream) {
    const ProjectedLayer& layer = layer_of(*call.tuple);
    const ProjectorRefit refit = LayerRefresh(call, layer, cpu_team(stream)).run();
    *call.report = {layer.weight,
                    {refit.before, refit.after, std::sqrt(refit.scale), static_cast<double>(refit.iterations),
                     refit.accepted ? 1.0 : 0.0}};
}

const ParamKernel kRefreshLayer{.name = "refresh",
                                .uses = {{ParamSlot::weights, Access::update},
                                         {ParamSlot::low, Access::update},
                                         {ParamSlot::state, Access::update},
                                         {ParamSlot::gradient},
                                         {ParamSlot::judge}},
                                .grain = Grain::group,
                                .is_update = true,
                                .has_update_rate = true,
                                .traffic = traffic,
                                .work_bytes = work_of_refresh,
                                .cells = {refresh_layer, nullptr, nullptr}};

ParamTuples layer_tuples(const TrainedModel& model) {
    ParamTuples tuples;
    for (const ProjectedLayer& layer : refreshed_layers(model))
        tuples.push_back(std::make_shared<ParamTuple>(ParamTuple{{layer.inner, layer.weight, layer.left, layer.right},
                                                                 layer.weight,
                                                                 std::make_shared<const ProjectedLayer>(layer)}));
    return tuples;
}

bool has_projectors(const TrainedModel& model) {
    return model.adapter && find_adapter(model.adapter->kind).projection != nullptr;
}

std::string problem_of(const Recipe& recipe) {
    if (recipe.moments.read == nullptr)
        return fmt::format("method {} has no moments to carry over to other projectors", recipe.name);
    return "";
}

enum Position : size_t { kBefore, kAfter, kScale, kIterations, kAccepted };
constexpr std::array kFigures = {Figure{"bias_before"}, Figure{"bias_after"}, Figure{"scale"},
                                 Figure{"iterations", Figure::Kind::count}, Figure{"accepted", Figure::Kind::flag}};

double median(std::span<const GroupReport> reports, double (*figure)(const GroupReport& report)) {
    std::vector<double> values;
    for (const GroupReport& report : reports) values.push_back(figure(report));
    const auto middle = values.begin() + std::ssize(values) / 2;
    std::ranges::nth_element(values, middle);
    return *middle;
}

std::string summary(std::span<const GroupReport> reports) {
    const auto accepted =
        std::ranges::count_if(reports, [](const GroupReport& each) { return each.figures[kAccepted] != 0; });
    const auto before = [](const GroupReport& each) { return each.figures[kBefore]; };
    const auto after = [](const GroupReport& each) {
        return each.figures[each.figures[kAccepted] != 0 ? kAfter : kBefore];
    };
    const auto scale = [](const GroupReport& each) { return each.figures[kScale]; };
    return fmt::format(
        "{} of {} layers have new projectors; relative bias {:.2f}, was {:.2f}, effective scale {:.2f} (medians)",
        accepted, reports.size(), median(reports, after), median(reports, before), median(reports, scale));
}

}  // namespace

const Phase kProjectorRefresh{.name = "refresh",
                              .of = "projectors",
                              .kernel = &kRefreshLayer,
                              .calls_for = has_projectors,
                              .tuples = layer_tuples,
                              .set_up = set_refreshed,
                              .problem = problem_of,
                              .figures = kFigures,
                              .summary = summary};

}  // namespace windlass
