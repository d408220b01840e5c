#include "papers/ours.h"

#include <algorithm>
#include <set>

#include "base/math.h"
#include "base/rng.h"
#include "model/families.h"
#include "plan/estimate.h"
#include "plan/search.h"

namespace windlass {
namespace {

// What the runtime of a GPU takes of its memory before anything is ours.
constexpr int64_t kContextBytes = int64_t{1} << 30;
constexpr int64_t kProcessBytes = int64_t{2} << 30;  // libraries, tokenizer, index of the data
constexpr int64_t kMicroRowsMost = 16;
constexpr double kWorthwhile = 0.999;  // a micro-batch that gives less than this share of the best ends the search

TrainedModel model_of(const std::string& text, const Recipe& recipe) {
    HfConfig config = HfConfig::parse(text, "config.json");
    TrainedModel model(build_model(config, {}));
    for (ParamStorage& storage : model.storage) storage.store = recipe.store;
    return model;
}

std::string gpt_text(int layers, int width, int heads) {
    return fmt::format(
        R"({{"model_type": "gpt2", "n_embd": {}, "n_layer": {}, "n_head": {}, "n_positions": 2048, "vocab_size": 50257}})",
        width, layers, heads);
}

}  // namespace

TrainedModel gpt_13b() {
    return model_of(gpt_text(40, 5120, 40), make_recipe("adamw", {}));
}

TrainedModel gpt_175b() {
    return model_of(gpt_text(96, 12288, 96), make_recipe("adamw", {}));
}

TrainedModel llama_70b() {
    return model_of(R"({"model_type": "llama", "hidden_size": 8192, "intermediate_size": 28672, "num_hidden_layers": 80,
        "num_attention_heads": 64, "num_key_value_heads": 8, "vocab_size": 128256, "max_position_embeddings": 8192,
        "tie_word_embeddings": false})",
                    make_recipe("adamw", {}));
}

namespace {

int block_chunks(const TrainedModel& model) {
    std::vector<int> chunks(model.blocks.size(), 0);
    for (const Param param : model.all_params())
        chunks[static_cast<size_t>(param.spec.block)] += static_cast<int>(div_up(param.numel(), kChunkElements));
    return *std::max_element(chunks.begin(), chunks.end());
}

PlanRequest request_of(const OurQuestion& question, const Numerics& numerics) {
    return {.device = {DeviceKind::fake, 0, true},
            .threads = question.machine.threads,
            .budgets = {.ram = question.memory_bytes,
                        .disk = question.machine.disk_bytes,
                        .process = kProcessBytes,
                        .device = question.machine.device_memory_bytes - kContextBytes},
            .schedules = {{ScheduleRequest::Kind::train, numerics.micro_batch_size, question.sequence_length,
                           static_cast<int>(numerics.micro_batches)}}};
}

Choice start_of(const Space& space, bool all_on_drives) {
    Choice choice = space.leanest();
    const int share = all_on_drives ? 0 : kShares;
    for (const Knob knob : {Knob::weights, Knob::state}) {
        if (std::ssize(space.of(knob)) > 1) at(choice, knob) = share;
    }
    at(choice, Knob::gradients) = space.of(Knob::gradients).back();
    at(choice, Knob::update) = space.of(Knob::update).back();
    at(choice, Knob::block_input) = static_cast<int>(Home::host);
    at(choice, Knob::read_ahead) = 3;
    at(choice, Knob::update_ahead) = 2;
    at(choice, Knob::group_chunks) = space.of(Knob::group_chunks).back();
    return choice;
}

// What is turned, and to what: a part of the planner's own space, which would take minutes for each row.
struct Turn {
    Knob knob;
    std::vector<int> values;
};
std::vector<Turn> turns_of(bool all_on_drives) {
    std::vector<Turn> turns = {
        {Knob::gradients, {kShares, 0}},
        {Knob::block_input, {static_cast<int>(Home::host), static_cast<int>(Home::disk)}},
        {Knob::update, {static_cast<int>(UpdateTime::next_forward), static_cast<int>(UpdateTime::in_backward)}},
        {Knob::deferred, {0, 1, 2, 4}},
        {Knob::read_ahead, {1, 2, 3}},
        {Knob::update_ahead, {1, 2}},
        {Knob::offload, {0, 1, 2, 3, 4, 5, 6}},
        {Knob::keep, {0, 1, 2, 4}},
    };
    if (!all_on_drives)
        turns.insert(turns.begin(), {{Knob::weights, {0, 4, kShares}}, {Knob::state, {0, 2, 4, 6, kShares}}});
    return turns;
}

bool better(const Evaluation& a, const Evaluation& b) {
    return a.over() != b.over() ? a.over() < b.over() : a.seconds < b.seconds;
}

// Blocks that are treated alike: a share of them is spread over so many.
int period_of(const Choice& choice) {
    const auto is_part = [&](Knob knob) { return at(choice, knob) % kShares != 0; };
    const Knob shares[] = {Knob::weights, Knob::state, Knob::gradients, Knob::deferred};
    return std::any_of(std::begin(shares), std::end(shares), is_part) ? kShares : 1;
}

// One policy with one micro-batch: by estimates down the knobs, then the best that fits as a whole.
class Search {
  public:
    Search(const OurQuestion& question, const Policy& policy, const Recipe& recipe, const Numerics& numerics)
        : question_(question),
          model_(*question.model),
          recipe_(recipe),
          numerics_(numerics),
          request_(request_of(question, numerics)),
          ranks_(rank_saved(model_, request_.schedules[0], request_.device.kind, numerics, question.machine)) {
        space_ = *policy.space(request_, {.saved_most = most_saved(ranks_), .block_chunks = block_chunks(model_)});
    }

    std::optional<Planned> run() {
        best_ = start_of(space_, question_.all_on_drives);
        cost_ = consider(best_);
        descend();
        Random random(1, RandomStream::search);
        for (int shake = 0; shake < kShakes; ++shake) {
            const std::pair<Choice, Evaluation> before = {best_, cost_};
            for (int turned = 0; turned < kShakenKnobs; ++turned) turn_at_random(random);
            cost_ = consider(best_);
            descend();
            if (better(before.second, cost_)) std::tie(best_, cost_) = before;
        }
        std::sort(fitting_.begin(), fitting_.end());
        for (size_t index = 0; index < std::min(fitting_.size(), kTriesMost); ++index) {
            Planned planned = evaluate_plan(model_, recipe_, numerics_, question_.machine, request_,
                                            plan_of(space_, fitting_[index].second, ranks_, programs_of(model_)));
            const Budgets& budgets = request_.budgets;
            if (planned.memory_bytes <= budgets.ram && planned.device_bytes <= budgets.device &&
                planned.disk_bytes <= budgets.disk)
                return planned;
        }
        return std::nullopt;
    }

  private:
    static constexpr size_t kTriesMost = 8;
    static constexpr int kShakes = 2, kShakenKnobs = 3;

    void descend() {
        for (moved_ = true; moved_;) {
            moved_ = false;
            for (const Turn& turn : turns_of(question_.all_on_drives)) {
                for (const int value : turn.values) take(turn.knob, value);
            }
        }
    }

    void turn_at_random(Random& random) {
        const std::vector<Turn> turns = turns_of(question_.all_on_drives);
        const Turn& turn = turns[static_cast<size_t>(random.below(turns.size()))];
        const int value = turn.values[static_cast<size_t>(random.below(turn.values.size()))];
        const std::vector<int>& allowed = space_.of(turn.knob);
        if (std::find(allowed.begin(), allowed.end(), value) != allowed.end()) at(best_, turn.knob) = value;
    }

    void take(Knob knob, int value) {
        const std::vector<int>& allowed = space_.of(knob);
        if (std::find(allowed.begin(), allowed.end(), value) == allowed.end()) return;
        Choice choice = best_;
        at(choice, knob) = value;
        if (!seen_.insert(choice).second) return;
        const Evaluation cost = consider(choice);
        if (!better(cost, cost_)) return;
        best_ = choice;
        cost_ = cost;
        moved_ = true;
    }

    Evaluation consider(const Choice& choice) {
        const auto plan_for = [&](int blocks) { return plan_of(space_, choice, ranks_, programs_of(model_, blocks)); };
        const Estimate found =
            estimate(model_, recipe_, numerics_, question_.machine, plan_for, request_.schedules, period_of(choice));
        const Budgets& budgets = request_.budgets;
        const auto over = [](int64_t need, int64_t have) { return std::max<int64_t>(0, need - have); };
        const Evaluation cost{
            .seconds = found.seconds,
            .memory_over = over(found.arena_bytes[slot(TierKind::host)] + budgets.process, budgets.ram),
            .device_over = over(found.arena_bytes[slot(TierKind::device)], budgets.device)};
        if (cost.fits()) fitting_.emplace_back(cost.seconds, choice);
        return cost;
    }

    const OurQuestion& question_;
    const TrainedModel& model_;
    const Recipe& recipe_;
    Numerics numerics_;
    PlanRequest request_;
    SavedRanks ranks_;
    Space space_;
    Choice best_{};
    Evaluation cost_;
    bool moved_ = false;
    std::set<Choice> seen_;
    std::vector<std::pair<double, Choice>> fitting_;
};

const Policy& policy_of(std::string_view name) {
    for (const Policy* policy : all_policies()) {
        if (policy->name == name) return *policy;
    }
    WINDLASS_CHECK(false, "there is no policy {}", name);
    std::abort();
}

std::optional<OurAnswer> ask_policy(const OurQuestion& question, const Recipe& recipe, std::string_view policy) {
    std::optional<OurAnswer> best;
    const double tokens = static_cast<double>(question.rows * question.sequence_length);
    // From the largest down, as long as smaller ones are better.
    for (int64_t micro = kMicroRowsMost; micro > 0; micro /= 2) {
        if (question.rows % micro != 0) continue;
        const Numerics numerics{.micro_batch_size = micro,
                                .micro_batches = question.rows / micro,
                                .sequence_lengths = {question.sequence_length},
                                .state_format = question.format};
        std::optional<Planned> planned = Search(question, policy_of(policy), recipe, numerics).run();
        if (!planned) continue;
        const double rate = tokens / planned->step.seconds;
        if (best && rate <= best->tokens_per_s * kWorthwhile) break;
        if (best && rate <= best->tokens_per_s) continue;
        planned->schedules = {};
        planned->step.tasks = {};
        best = OurAnswer{.planned = std::move(*planned), .numerics = numerics, .tokens_per_s = rate};
    }
    return best;
}

}  // namespace

std::optional<OurAnswer> ask(const OurQuestion& question) {
    const Recipe recipe = make_recipe("adamw", {.state_format = question.format});
    if (!question.all_on_drives) {
        if (std::optional<OurAnswer> answer = ask_policy(question, recipe, "host_stream")) return answer;
    }
    return ask_policy(question, recipe, "three_tier");
}

}  // namespace windlass
