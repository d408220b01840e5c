// What backward reads, choice by choice, on segments as data: every set of values to compute again.
#include "model/saved.h"

#include <algorithm>
#include <set>

#include "base/index.h"
#include "model/segment_writer.h"
#include "op/ops.h"
#include "tests/unit/model/choice_models.h"
#include "tests/unit/model/segment_values.h"

namespace windlass {
namespace {

constexpr OpSize kSize{.rows = 2, .sequence_length = 5, .compute = DType::bf16};  // slots that fill no whole line
constexpr uint64_t kSeed = 3;

using ProgramPtr = std::shared_ptr<const Program>;
using Choices = std::vector<SaveChoice>;

PassOptions with(const Program& program, Choices choices) {
    return {.size = kSize, .want_grad_input = !program.inputs.empty(), .choices = std::move(choices)};
}

// Of the forward calls that backward runs with these choices, without building a segment.
Cost recompute_cost(const Program& program, const Choices& choices) {
    const std::vector<bool> read = values_backward_reads(program, {}, values_with_gradient(program, {}, true));
    const std::vector<bool> runs = nodes_to_run_again(program, read, regions_of_saved(program, {}, choices));
    Cost cost;
    for (size_t n = 0; n < runs.size(); ++n) {
        const Node& node = program.nodes[n];
        if (runs[n]) add_cost(cost, node.op->cost(node.spec, kSize, DiffMode::forward));
    }
    return cost;
}

std::vector<ProgramPtr> programs_of(const std::string& model) {
    std::vector<ProgramPtr> programs;
    for (const Block& block : choice_model(model).blocks) {
        if (std::ranges::find(programs, block.program) == programs.end()) programs.push_back(block.program);
    }
    return programs;
}

// What follows is checked of every set of values to compute again that is tried.
struct Pass {
    Choices choices;
    Segment forward, backward;
};
using Check = void (*)(const Pass&);

// Every set of values to compute again, where there are not more than these, else a sample of so many.
void for_each_set(const std::string& model, uint64_t sets_max, const std::vector<Check>& checks) {
    Random random(kSeed, RandomStream::test);
    for (const ProgramPtr& program : programs_of(model)) {
        const size_t count = saved_values(*program, kSize, {}).size();
        const uint64_t sets = uint64_t{1} << count;
        for (uint64_t i = 0; count > 0 && i < std::min(sets, sets_max); ++i) {
            const PassOptions options =
                with(*program, choices_of(sets <= sets_max ? i : random.below(sets), count, random));
            const Pass pass{options.choices, forward_pass(program, options), backward_pass(program, options)};
            for (const Check check : checks) check(pass);
            if (testing::Test::HasFailure()) return;
        }
    }
}

class Saved : public testing::TestWithParam<std::string> {
  protected:
    void sample(Check check) const { for_each_set(GetParam(), 128, {check}); }
};

void expect_same_segment(const Segment& a, const Segment& b) {
    EXPECT_EQ(a.to_string(), b.to_string());  // calls, their places, and what regions hold
    EXPECT_EQ(a.bytes, b.bytes);
    EXPECT_EQ(saved_places(a), saved_places(b));
}

TEST_P(Saved, KeepingAllAndNothingIsWhatTheFlagSays) {
    for (const ProgramPtr& program : programs_of(GetParam())) {
        const size_t count = saved_values(*program, kSize, {}).size();
        if (count == 0) continue;
        for (const bool save : {true, false}) {
            PassOptions flag = with(*program, {});
            flag.save = save;
            const PassOptions each = with(*program, Choices(count, save ? SaveChoice::keep : SaveChoice::recompute));
            expect_same_segment(forward_pass(program, flag), forward_pass(program, each));
            expect_same_segment(backward_pass(program, flag), backward_pass(program, each));
        }
    }
}

void bytes_add_up(const Pass& pass) {
    const auto& [choices, forward, backward] = pass;
    std::array<int64_t, kRegions> bytes{};
    const std::vector<SavedValue> values = saved_values(*forward.program, kSize, {});
    for (size_t i = 0; i < values.size(); ++i) {
        EXPECT_EQ(values[i].bytes % 64, 0);
        if (choices[i] != SaveChoice::recompute)
            bytes[static_cast<size_t>(kSavedRegions[static_cast<size_t>(choices[i])])] += values[i].bytes;
    }
    for (const Region region : kSavedRegions) {
        EXPECT_EQ(forward.region_bytes(region), bytes[static_cast<size_t>(region)]);
        EXPECT_EQ(backward.region_bytes(region), bytes[static_cast<size_t>(region)]);
    }
}
TEST_P(Saved, BytesAddUpToTheRegions) {
    sample(bytes_add_up);
}

void values_lie_where_chosen(const Pass& pass) {
    const auto& [choices, forward, backward] = pass;
    const Program& program = *forward.program;
    const std::vector<SavedValue> values = saved_values(program, kSize, {});
    const std::map<int, Place> kept = saved_places(forward);
    std::map<std::string, Region> region_of;
    for (const auto& [value, place] : kept) region_of[program.values[at(value)].name] = place.first;
    size_t kept_count = 0;
    for (size_t i = 0; i < values.size(); ++i) {
        if (choices[i] == SaveChoice::recompute) {
            EXPECT_FALSE(region_of.contains(values[i].name)) << values[i].name;
        } else {
            EXPECT_EQ(region_of.at(values[i].name), kSavedRegions[static_cast<size_t>(choices[i])]);
            ++kept_count;
        }
    }
    EXPECT_EQ(kept.size(), kept_count);
    for (const auto& [value, place] : saved_places(backward)) EXPECT_EQ(kept.at(value), place);
}
TEST_P(Saved, EachValueLiesWhereItWasChosenTo) {
    sample(values_lie_where_chosen);
}

void values_live(const Pass& pass) {
    const auto& [choices, forward, backward] = pass;
    expect_values_live_until_read(forward);
    expect_values_live_until_read(backward);
}
TEST_P(Saved, ValuesLiveUntilTheyAreRead) {
    sample(values_live);
}

void kept_is_only_read(const Pass& pass) {
    const auto& [choices, forward, backward] = pass;
    for (const SegmentCall* call : calls_of(backward, DiffMode::forward)) {
        for (const auto* made : {&call->out, &call->saved}) {
            for (const Slot& slot : *made) EXPECT_EQ(slot.region, Region::work) << call->node->op->name;
        }
    }
}
TEST_P(Saved, ReverseOnlyReadsWhatWasKept) {
    sample(kept_is_only_read);
}

bool made_by(const Node& node, int value) {
    return std::ranges::count(node.out, value) + std::ranges::count(node.saved, value) > 0;
}

// Whether a later call reads in work memory what this one makes.
bool is_read_later(const Segment& segment, size_t index) {
    const auto reads = [&](const std::vector<int>& values, const std::vector<Slot>& slots) {
        for (size_t i = 0; i < values.size(); ++i) {
            if (slots[i].region == Region::work && made_by(*segment.calls[index].node, values[i])) return true;
        }
        return false;
    };
    for (size_t later = index + 1; later < segment.calls.size(); ++later) {
        const SegmentCall& call = segment.calls[later];
        if (reads(call.node->in, call.in)) return true;
        if (call.mode == DiffMode::forward) continue;
        if (reads(call.node->out, call.out) || reads(call.node->saved, call.saved)) return true;
    }
    return false;
}

// Together with ValuesLiveUntilTheyAreRead: exactly the calls that are needed.
void nothing_is_run_in_vain(const Pass& pass) {
    const auto& [choices, forward, backward] = pass;
    const size_t again = calls_of(backward, DiffMode::forward).size();
    EXPECT_EQ(again > 0, std::ranges::count(choices, SaveChoice::recompute) > 0);
    for (size_t i = 0; i < again; ++i) {
        EXPECT_EQ(backward.calls[i].mode, DiffMode::forward);  // before all backward calls
        EXPECT_TRUE(is_read_later(backward, i)) << backward.calls[i].node->op->name;
        if (i > 0) {
            EXPECT_LT(backward.calls[i - 1].node, backward.calls[i].node);
        }
    }
}
TEST_P(Saved, ReverseRunsNothingAgainThatNobodyReads) {
    sample(nothing_is_run_in_vain);
}

void recompute_cost_is_the_difference(const Pass& pass) {
    const auto& [choices, forward, backward] = pass;
    const Cost cost = recompute_cost(*backward.program, choices);
    const Segment kept =
        backward_pass(backward.program, with(*backward.program, Choices(choices.size(), SaveChoice::keep)));
    EXPECT_EQ(kept.cost.flops + cost.flops, backward.cost.flops);
    EXPECT_EQ(kept.cost.bytes + cost.bytes, backward.cost.bytes);
}
TEST_P(Saved, TheCostOfRecomputingIsWhatReverseCostsMore) {
    sample(recompute_cost_is_the_difference);
}

TEST_P(Saved, AValueCostsWhatRecomputingItAloneCosts) {
    for (const ProgramPtr& program : programs_of(GetParam())) {
        const std::vector<SavedValue> values = saved_values(*program, kSize, {});
        for (size_t i = 0; i < values.size(); ++i) {
            Choices choices(values.size(), SaveChoice::keep_second);
            choices[i] = SaveChoice::recompute;
            const Cost cost = recompute_cost(*program, choices);
            EXPECT_EQ(values[i].recompute_flops, cost.flops);
            EXPECT_EQ(values[i].recompute_bytes, cost.bytes);
            EXPECT_GT(cost.bytes, 0);
        }
    }
}

std::vector<std::string> models() {
    std::vector<std::string> models = golden_names();
    models.emplace_back("norms_around");
    return models;
}

class SlowSaved : public testing::TestWithParam<std::string> {};

TEST_P(SlowSaved, EverySetOfValuesPassesEveryCheck) {
    constexpr uint64_t kSetsMax = uint64_t{1} << 13;
    for_each_set(GetParam(), kSetsMax,
                 {bytes_add_up, values_lie_where_chosen, values_live, kept_is_only_read, nothing_is_run_in_vain,
                  recompute_cost_is_the_difference});
}

INSTANTIATE_TEST_SUITE_P(Models, SlowSaved, testing::ValuesIn(models()), [](const auto& info) { return info.param; });
INSTANTIATE_TEST_SUITE_P(Models, Saved, testing::ValuesIn(models()), [](const auto& info) { return info.param; });

// ---- on layers that are known ----

struct Layer {
    explicit Layer(const std::string& model) : program(choice_model(model).blocks[1].program) {
        for (const SavedValue& value : saved_values(*program, kSize, {})) names.push_back(value.name);
    }
    // All kept but these.
    Choices recompute(const std::set<std::string>& again) const {
        Choices choices;
        size_t found = 0;
        for (const std::string& name : names) {
            choices.push_back(again.contains(name) ? SaveChoice::recompute : SaveChoice::keep);
            found += again.count(name);
        }
        EXPECT_EQ(found, again.size());
        return choices;
    }
    // The values that backward makes again, in order.
    std::vector<std::string> made_again(PassOptions options) const {
        std::vector<std::string> made;
        const Segment backward = backward_pass(program, options);
        for (const SegmentCall* call : calls_of(backward, DiffMode::forward))
            made.push_back(program->values[at(call->node->out[0])].name);
        return made;
    }
    std::vector<std::string> made_again(const std::set<std::string>& again) const {
        return made_again(with(*program, recompute(again)));
    }
    double flops(const std::set<std::string>& again) const { return recompute_cost(*program, recompute(again)).flops; }
    ProgramPtr program;
    std::vector<std::string> names;
};

TEST(SavedValues, AreThoseThatBackwardReads) {
    const Layer gpt2("gpt2");
    EXPECT_THAT(gpt2.names,
                testing::ElementsAre("ln_1.saved0", "ln_1", "attn.c_attn", "attn.attention.saved0", "attn.attention",
                                     "attn.residual", "ln_2.saved0", "ln_2", "mlp.c_fc", "mlp.act"));
    const Layer llama("llama");
    EXPECT_THAT(llama.names,
                testing::ElementsAre("input_layernorm.saved0", "input_layernorm", "self_attn.v_proj",
                                     "self_attn.q_rope", "self_attn.k_rope", "self_attn.attention.saved0",
                                     "self_attn.attention", "self_attn.residual", "post_attention_layernorm.saved0",
                                     "post_attention_layernorm", "mlp.gate_proj", "mlp.up_proj", "mlp.act"));
}

TEST(SavedValues, HaveTheBytesOfTheirRows) {
    for (const SavedValue& value : saved_values(*Layer("llama").program, kSize, {})) {
        const int64_t tokens = kSize.tokens(), line = 64;
        if (value.name == "mlp.act") {
            EXPECT_EQ(value.bytes, (tokens * 48 * 2 + line - 1) / line * line);
        }
        if (value.name == "self_attn.attention.saved0") {
            EXPECT_EQ(value.bytes, (tokens * 4 * 4 + line - 1) / line * line);
        }
    }
}

TEST(EarlyStop, TheLastProjectionIsNeverMadeAgain) {
    const Layer llama("llama");
    const std::vector<std::string> all = llama.made_again({llama.names.begin(), llama.names.end()});
    EXPECT_EQ(all.back(), "mlp.act");
    EXPECT_THAT(all, testing::Contains("self_attn.o_proj"));  // for the norm behind it
    // Where a norm follows it, the norm's backward reads it.
    const Layer around("norms_around");
    EXPECT_THAT(around.made_again({around.names.begin(), around.names.end()}), testing::Contains("down_proj"));
    EXPECT_THAT(around.made_again({"down_proj"}), testing::ElementsAre("down_proj"));
}

TEST(EarlyStop, StartsFromWhatWasKept) {
    const Layer llama("llama");
    EXPECT_THAT(llama.made_again({"mlp.act"}), testing::ElementsAre("mlp.act"));
    EXPECT_THAT(llama.made_again({"mlp.act", "mlp.up_proj"}), testing::ElementsAre("mlp.up_proj", "mlp.act"));
    // Values that nobody keeps, since nobody reads them, are on the way.
    EXPECT_THAT(llama.made_again({"self_attn.q_rope"}), testing::ElementsAre("self_attn.q_proj", "self_attn.q_rope"));
    EXPECT_THAT(llama.made_again({"self_attn.residual"}),
                testing::ElementsAre("self_attn.o_proj", "self_attn.residual"));
}

// A frozen projection hands its gradient down without its input: what is left is read by norms, attention and act.
TEST(SavedValues, AreFewerWhereLittleIsTrained) {
    const Layer llama("llama");
    const std::vector<uint8_t> frozen(llama.program->weights.size(), 0);
    std::vector<std::string> names;
    for (const SavedValue& value : saved_values(*llama.program, kSize, frozen)) names.push_back(value.name);
    EXPECT_THAT(names, testing::ElementsAre("input_layernorm.saved0", "self_attn.v_proj", "self_attn.q_rope",
                                            "self_attn.k_rope", "self_attn.attention.saved0", "self_attn.attention",
                                            "self_attn.residual", "post_attention_layernorm.saved0", "mlp.gate_proj",
                                            "mlp.up_proj"));
}

TEST(EarlyStop, WhatIsNotReadIsNotMadeAgain) {
    const Layer llama("llama");
    PassOptions options = with(*llama.program, llama.recompute({"mlp.act", "mlp.up_proj", "self_attn.residual"}));
    options.want_grad_input = false;
    EXPECT_EQ(llama.made_again(options).size(), 4u);
    options.trainable.assign(llama.program->weights.size(), 0);
    // The list is that of these weights: a new one.
    options.choices.assign(saved_values(*llama.program, kSize, options.trainable).size(), SaveChoice::recompute);
    EXPECT_THAT(llama.made_again(options), testing::IsEmpty());
}

TEST(RecomputeCost, CountsACallOnce) {
    const Layer llama("llama");
    const double attention = llama.flops({"self_attn.attention"});
    EXPECT_GT(attention, 0);
    EXPECT_EQ(llama.flops({"self_attn.attention.saved0"}), attention);
    EXPECT_EQ(llama.flops({"self_attn.attention", "self_attn.attention.saved0"}), attention);
    // 2 T C F of one projection, and of two; those of the hidden layer on top.
    const double projection = 2.0 * static_cast<double>(kSize.tokens()) * 32 * 48;
    EXPECT_EQ(llama.flops({"mlp.gate_proj"}), projection);
    EXPECT_EQ(llama.flops({"mlp.gate_proj", "mlp.up_proj"}), 2 * projection);
    EXPECT_EQ(llama.flops({"mlp.gate_proj", "mlp.act"}), projection + llama.flops({"mlp.act"}));
    EXPECT_EQ(llama.flops({}), 0);
}

TEST(SavedChoicesDeath, OneIsDueForEachValue) {
    const Layer llama("llama");
    EXPECT_DEATH(forward_pass(llama.program, with(*llama.program, Choices(3, SaveChoice::keep))),
                 "3 choices for 13 saved values");
}

}  // namespace
}  // namespace windlass
