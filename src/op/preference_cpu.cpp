#include "base/error.h"
#include "op/loops_cpu.h"
#include "op/ops.h"
#include "op/preference.h"
#include "op/preference_loss.h"

namespace windlass {
namespace {

// Pairs of rows, one after the other: a step has few, and numbers of a row are added in order.
class Pairs {
  public:
    explicit Pairs(const OpCall& call) : call_(call), attrs_(call.spec->get<PreferenceAttrs>()) {
        WINDLASS_CHECK(call.batch->rows % 2 == 0, "{} rows are not pairs", call.batch->rows);
    }

    int64_t count() const { return call_.batch->rows / 2; }
    int64_t length() const { return call_.batch->sequence_length; }
    PairLoss of(int64_t pair) const {
        return pair_loss(attrs_.kind == PreferenceAttrs::Kind::orpo, row(2 * pair), row(2 * pair + 1), attrs_.beta);
    }
    // Where the answer of a row begins.
    int64_t answer(int64_t row) const { return call_.batch->answers == nullptr ? 0 : call_.batch->answers[row]; }
    // The sum over a row's answer of a matrix [T, 1], or of one of k of them; and over what is in front of it.
    double sum(const Tensor& values, int64_t row, int64_t direction = 0) const {
        return sum_of(values, row, direction, answer(row), length());
    }
    double prompt_sum(const Tensor& values, int64_t row, int64_t direction = 0) const {
        return sum_of(values, row, direction, 0, answer(row));
    }
    static float& at(const Tensor& values, int64_t token) { return values.as<float>()[token * values.row_stride]; }

  private:
    double sum_of(const Tensor& values, int64_t row, int64_t direction, int64_t begin, int64_t end) const {
        double sum = 0;
        for (int64_t i = begin; i < end; ++i) sum += at(values, direction * call_.batch->count() + row * length() + i);
        return sum;
    }
    PairRow row(int64_t row) const {
        const int32_t* const targets = call_.batch->targets + row * length();
        PairRow made{.loss = sum(call_.in[0], row), .prompt_loss = prompt_sum(call_.in[0], row)};
        for (int64_t i = 0; i < length(); ++i)
            (i < answer(row) ? made.prompt_tokens : made.tokens) += targets[i] != kIgnored;
        if (call_.batch->references != nullptr) made.reference = call_.batch->references[row];
        return made;
    }

    const OpCall& call_;
    const PreferenceAttrs& attrs_;
};

void write_losses(const OpCall& call, const Pairs& pairs) {
    for (int64_t pair = 0; pair < pairs.count(); ++pair) {
        const PairLoss made = pairs.of(pair);
        for (int64_t i = 0; i < 2 * pairs.length(); ++i)
            Pairs::at(call.out[0], 2 * pair * pairs.length() + i) =
                pair_number(i, pairs.length(), made.loss, made.chosen_reward, made.rejected_reward);
    }
}

}  // namespace

void preference_forward_cpu(const OpCall& call, Stream&) {
    if (call.head == nullptr || call.head->result == HeadResult::loss) return write_losses(call, Pairs(call));
    for (int64_t i = 0; i < call.batch->count(); ++i) Pairs::at(call.out[0], i) = Pairs::at(call.in[0], i);
}

void preference_backward_cpu(const OpCall& call, Stream&) {
    const Pairs pairs(call);
    if (!call.out.empty() && !call.out[0].empty()) write_losses(call, pairs);
    const Output grad = grad_output(call, 0);
    if (grad.value.empty()) return;
    for (int64_t pair = 0; pair < pairs.count(); ++pair) {
        const PairLoss loss = pairs.of(pair);
        for (int64_t row = 2 * pair; row < 2 * pair + 2; ++row) {
            const double by_row = row % 2 == 0 ? loss.by_chosen : loss.by_rejected;
            const auto of_answer = static_cast<float>(call.head->loss_scale * by_row),
                       of_prompt = static_cast<float>(call.head->loss_scale * (row % 2 == 0 ? loss.by_prompt : 0));
            for (int64_t i = 0; i < pairs.length(); ++i) {
                float& to = Pairs::at(grad.value, row * pairs.length() + i);
                const float value = i < pairs.answer(row) ? of_prompt : of_answer;
                to = grad.add ? to + value : value;
            }
        }
    }
}

void preference_tangent_cpu(const OpCall& call, Stream&) {
    const Pairs pairs(call);
    const Tensor &in = call.tangent_in[0], &out = call.tangent_out[0];
    for (int64_t pair = 0; pair < pairs.count(); ++pair) {
        const PairLoss made = pairs.of(pair);
        for (int j = 0; j < call.size->k; ++j) {
            const double chosen = in.empty() ? 0 : pairs.sum(in, 2 * pair, j);
            const double rejected = in.empty() ? 0 : pairs.sum(in, 2 * pair + 1, j);
            const double prompt = in.empty() ? 0 : pairs.prompt_sum(in, 2 * pair, j);
            const double moved = made.by_chosen * chosen + made.by_rejected * rejected + made.by_prompt * prompt;
            for (int64_t i = 0; i < 2 * pairs.length(); ++i)
                Pairs::at(out, j * call.batch->count() + 2 * pair * pairs.length() + i) = pair_number(
                    i, pairs.length(), moved, made.reward_by_chosen * chosen, made.reward_by_rejected * rejected);
        }
    }
}

}  // namespace windlass
