// preference_loss.h: the loss of a pair of answers, the preferred one and the other, from the log-likelihoods that the
// model gives them. For kernels of the processor and of devices, and for evaluation.
//
//   dpo   -log sigma(m),  m = beta ((log p(c) - log ref(c)) - (log p(r) - log ref(r)))
//         Rafailov et al., "Direct Preference Optimization", arXiv 2305.18290, equation 7
//   orpo  -log p(c) / n_c - beta log sigma(o(c) - o(r)),  o(y) = log(P / (1 - P)) with log P = log p(y) / n_y
//         Hong et al., "ORPO", arXiv 2403.07691, equations 3 to 7; here the first term is over the answer alone, or,
//         where the prompt has targets, over both, as in the authors' program
//
// Rewards are what TRL logs of an answer: beta (log p - log ref), of orpo beta log p / n.
#pragma once

#include <cmath>
#include <cstdint>

#ifdef __CUDACC__
#define WINDLASS_ANYWHERE __host__ __device__
#else
#define WINDLASS_ANYWHERE
#endif

namespace windlass {

inline constexpr int64_t kRewardTokens = 3;  // of a row that has room for its reward (pair_number)

namespace {

struct PairRow {
    double loss = 0;         // -log p, over the answer's tokens
    int64_t tokens = 0;      // of the answer
    double reference = 0;    // the same of the reference model; dpo alone
    double prompt_loss = 0;  // over the prompt's targets; orpo's preferred answer alone
    int64_t prompt_tokens = 0;
};

struct PairLoss {
    double loss = 0;
    double margin = 0;                      // what sigma is taken of
    double by_chosen = 0, by_rejected = 0;  // d loss / d PairRow::loss
    double by_prompt = 0;                   // d loss / d PairRow::prompt_loss of the preferred answer
    double chosen_reward = 0, rejected_reward = 0;
    double reward_by_chosen = 0, reward_by_rejected = 0;  // d of a reward / d PairRow::loss of its row
};

// log(1 + exp(x)), without overflow.
WINDLASS_ANYWHERE inline double softplus(double x) {
    return (x > 0 ? x : 0) + log1p(exp(x > 0 ? -x : x));
}

WINDLASS_ANYWHERE inline double sigmoid(double x) {
    return x > 0 ? 1 / (1 + exp(-x)) : exp(x) / (1 + exp(x));
}

WINDLASS_ANYWHERE inline PairLoss dpo_loss(const PairRow& chosen, const PairRow& rejected, double beta) {
    PairLoss pair;
    pair.chosen_reward = beta * (chosen.reference - chosen.loss);
    pair.rejected_reward = beta * (rejected.reference - rejected.loss);
    pair.reward_by_chosen = pair.reward_by_rejected = -beta;
    pair.margin = beta * ((chosen.reference - chosen.loss) - (rejected.reference - rejected.loss));
    pair.loss = softplus(-pair.margin);
    pair.by_chosen = beta * sigmoid(-pair.margin);
    pair.by_rejected = -pair.by_chosen;
    return pair;
}

// 1 - exp(-mean) of an answer's mean loss, which rounding may make zero.
WINDLASS_ANYWHERE inline double unlikely(double mean) {
    const double rest = -expm1(-mean);
    return rest > 1e-12 ? rest : 1e-12;
}

WINDLASS_ANYWHERE inline PairLoss orpo_loss(const PairRow& chosen, const PairRow& rejected, double beta) {
    const double c = chosen.loss / static_cast<double>(chosen.tokens),
                 r = rejected.loss / static_cast<double>(rejected.tokens);
    const double rest_c = unlikely(c), rest_r = unlikely(r);
    PairLoss pair;
    pair.chosen_reward = -beta * c;
    pair.rejected_reward = -beta * r;
    pair.reward_by_chosen = -beta / static_cast<double>(chosen.tokens);
    pair.reward_by_rejected = -beta / static_cast<double>(rejected.tokens);
    pair.margin = (-c - log(rest_c)) - (-r - log(rest_r));
    pair.loss = c + beta * softplus(-pair.margin);
    const double slope = beta * sigmoid(-pair.margin);
    pair.by_chosen = (1 + slope / rest_c) / static_cast<double>(chosen.tokens);
    pair.by_rejected = -slope / rest_r / static_cast<double>(rejected.tokens);
    if (chosen.prompt_tokens == 0) return pair;
    pair.by_prompt = 1 / static_cast<double>(chosen.tokens + chosen.prompt_tokens);
    pair.loss += (chosen.loss + chosen.prompt_loss) * pair.by_prompt - c;
    pair.by_chosen = pair.by_prompt + slope / rest_c / static_cast<double>(chosen.tokens);
    return pair;
}

// A pair with an empty answer adds no loss: it is padding of a step.
WINDLASS_ANYWHERE inline PairLoss pair_loss(bool is_orpo, const PairRow& chosen, const PairRow& rejected, double beta) {
    if (chosen.tokens == 0 || rejected.tokens == 0) return {};
    return is_orpo ? orpo_loss(chosen, rejected, beta) : dpo_loss(chosen, rejected, beta);
}

// What is after token `i` of the 2 * length of a pair, so that its sum is the loss: that at the first token; and
// the reward of either row at the row's second, taken away again at its third, where rows are that long.
WINDLASS_ANYWHERE inline float pair_number(int64_t i, int64_t length, double loss, double chosen_reward,
                                           double rejected_reward) {
    if (i == 0) return static_cast<float>(loss);
    if (length < kRewardTokens) return 0;
    const int64_t token = i < length ? i : i - length;
    const auto reward = static_cast<float>(i < length ? chosen_reward : rejected_reward);
    return token == 1 ? reward : token == 2 ? -reward : 0.0f;
}

}  // namespace
}  // namespace windlass
