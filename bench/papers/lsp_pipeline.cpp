#include "papers/lsp_pipeline.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <queue>

namespace windlass {
namespace {

constexpr int kSteps = 12;  // behind which steps are alike
constexpr double kNever = std::numeric_limits<double>::infinity();

// A layer of a step that waits for a stage.
struct Waiting {
    int step = 0, layer = 0, arrival = 0;
};

// One server with a queue.
class PipelineStage {
  public:
    PipelineStage(double seconds, int last_in) : seconds_(seconds), last_in_(last_in) {}
    void put(int step, int layer) { waiting_.push_back({step, layer, arrivals_++}); }
    void start(double now) {
        if (done_at_ != kNever || waiting_.empty()) return;
        const auto next =
            std::min_element(waiting_.begin(), waiting_.end(), [this](const Waiting& a, const Waiting& b) {
                const bool a_first = a.layer < last_in_, b_first = b.layer < last_in_;
                if (a_first != b_first) return a_first;
                return a_first ? a.arrival > b.arrival : a.arrival < b.arrival;
            });
        served_ = *next;
        waiting_.erase(next);
        done_at_ = now + seconds_;
    }
    double done_at() const { return done_at_; }
    Waiting finish() {
        done_at_ = kNever;
        return served_;
    }

  private:
    double seconds_;
    int last_in_;
    std::vector<Waiting> waiting_;
    Waiting served_;
    double done_at_ = kNever;
    int arrivals_ = 0;
};

// Forward from the first layer, whose weights must be there; backward from the last.
class Pipeline {
  public:
    Pipeline(const LayerCosts& costs, const PipelineOrder& order)
        : costs_(costs),
          down_(costs.down, 0),
          host_(costs.host, order.last_in),
          up_(costs.up, order.last_in),
          current_(static_cast<size_t>(costs.layers), 0) {}

    double run() {
        double now = 0;
        while (step_ <= kSteps) {
            start_device(now);
            for (PipelineStage* stage : {&down_, &host_, &up_}) stage->start(now);
            now = std::min({device_done_, down_.done_at(), host_.done_at(), up_.done_at()});
            if (up_.done_at() <= now) current_[static_cast<size_t>(up_.finish().layer)] += 1;
            if (host_.done_at() <= now) pass_on(host_, up_);
            if (down_.done_at() <= now) pass_on(down_, host_);
            if (device_done_ <= now) finish_device(now);
        }
        return ends_[kSteps] - ends_[kSteps - 1];
    }

  private:
    static void pass_on(PipelineStage& from, PipelineStage& to) {
        const Waiting layer = from.finish();
        to.put(layer.step, layer.layer);
    }
    void start_device(double now) {
        if (device_done_ != kNever) return;
        if (!backward_ && current_[static_cast<size_t>(layer_)] < step_) return;
        device_done_ = now + (backward_ ? costs_.backward : costs_.forward);
    }
    void finish_device(double now) {
        device_done_ = kNever;
        if (backward_) down_.put(step_, layer_);
        if (!backward_ && layer_ + 1 == costs_.layers) {
            backward_ = true;
        } else if (backward_ && layer_ == 0) {
            backward_ = false;
            ends_.push_back(now);
            ++step_;
        } else {
            layer_ += backward_ ? -1 : 1;
        }
    }

    LayerCosts costs_;
    PipelineStage down_, host_, up_;
    std::vector<int> current_;  // by layer: updates that are there
    std::vector<double> ends_;
    int step_ = 0, layer_ = 0;
    bool backward_ = false;
    double device_done_ = kNever;
};

}  // namespace

double pipelined_step(const LayerCosts& costs, const PipelineOrder& order) {
    return Pipeline(costs, order).run();
}

}  // namespace windlass
