// The keys of one group: which points forward-only methods evaluate, their estimators, and what they leave alone.
#include "config/config_keys.h"
#include "op/batch.h"
#include "perturb/estimator.h"
#include "perturb/moments.h"

namespace windlass {
namespace {}  // namespace

std::vector<ConfigKey> probe_keys() {
    return {
        {.name = "zo_eps",
         .resume = OnResume::refused,
         .field = &Config::zo_eps,
         .group = kMethod,
         .help = "zeroth_order: distance from the weights at which the loss is evaluated, along each direction and "
                 "against it",
         .min = 1e-12,
         .max = 1e3},
        {.name = "directions",
         .resume = OnResume::resolved,
         .field = &Config::directions,
         .group = kMethod,
         .help = "zeroth_order, forward_gradient: random directions per step; weights move once for all of them. auto: "
                 "the most that are nearly free while weights move",
         .aliases = {"num_directions"},
         .min = 1,
         .max = kDirectionsMax,
         .empty = "auto"},
        {.name = "noise",
         .resume = OnResume::refused,
         .field = &Config::noise,
         .group = kMethod,
         .help = "zeroth_order, forward_gradient: distribution of directions; rademacher (+1 or -1) is cheaper, "
                 "low_rank (products of two factors over matrices) cheaper still",
         .choices = {"gaussian", "rademacher", "low_rank"}},
        {.name = "noise_rank",
         .resume = OnResume::refused,
         .field = &Config::noise_rank,
         .group = kMethod,
         .help = "noise low_rank: rank of a matrix's direction, at most the matrix's shorter side",
         .min = 1,
         .max = kDirectionRankMax},
        {.name = "noise_window",
         .resume = OnResume::refused,
         .field = &Config::noise_window,
         .group = kMethod,
         .help =
             "noise low_rank: steps for which a factor is kept; 1: every step draws both, 0: the whole run keeps it",
         .min = 0,
         .max = 4e9},
        {.name = "noise_kept",
         .resume = OnResume::refused,
         .field = &Config::noise_kept,
         .group = kMethod,
         .help = "noise low_rank: which factors are kept for noise_window steps: the right one (LOZO), or both, with "
                 "one number drawn per rank and step (TeZO)",
         .choices = {"right", "both"}},
        {.name = "merge_updates",
         .resume = OnResume::resolved,
         .field = &Config::merge_updates,
         .group = kMethod,
         .help = "noise low_rank: when updates are rounded into the weights. per_window: once, after each "
                 "noise_window; until then weights are read and not written. never: the learned sum of matrices and "
                 "tables is kept apart; with noise_window 0 and noise_kept both",
         .choices = {"each_step", "per_window", "never"}},
    };
}

std::vector<ConfigKey> moment_keys() {
    return {
        {.name = "scalar_clip",
         .resume = OnResume::warned,
         .field = &Config::scalar_clip,
         .group = kMethod,
         .help = "zeroth_order, forward_gradient: limit of the value found along a direction; 0: no limit",
         .min = 0,
         .max = 1e30},
        {.name = "zo_optimizer",
         .resume = OnResume::refused,
         .field = &Config::zo_optimizer,
         .group = kMethod,
         .help = "zeroth_order, forward_gradient: how earlier steps count: not at all, as momentum (adam_beta1), or as "
                 "Adam's two moments; they are replayed from the log, and take no memory",
         .choices = {"sgd", "momentum", "adam"}},
        {.name = "replay_window",
         .resume = OnResume::refused,
         .field = &Config::replay_window,
         .group = kMethod,
         .help =
             "zo_optimizer momentum and adam: steps in the moments; each step's directions are drawn this many times",
         .unit = "steps",
         .min = 1,
         .max = kReplayWindowMax},
    };
}

std::vector<ConfigKey> estimator_keys() {
    std::vector<std::string_view> estimators;
    for (const ZoEstimator each : kZoEstimators) estimators.push_back(estimator_name(each));
    return {
        {.name = "zo_estimator",
         .resume = OnResume::refused,
         .field = &Config::zo_estimator,
         .group = kMethod,
         .help = "zeroth_order: estimate from losses. two_sided: both ways along each direction (MeZO); one_sided: one "
                 "way, and one loss of the weights for all of them; fzoo: one way, divided by the standard deviation "
                 "of the losses; spsa15: both ways, less where the loss bends",
         .choices = estimators},
        {.name = "layer_drop",
         .resume = OnResume::refused,
         .field = &Config::layer_drop,
         .group = kMethod,
         .help = "zeroth_order, forward_gradient: share of the layers that a step neither probes nor updates, "
                 "different ones at each step (LeZO); never embedding and head",
         .min = 0,
         .max = 0.99},
        {.name = "sparse_share",
         .resume = OnResume::refused,
         .field = &Config::sparse_share,
         .group = kMethod,
         .help = "zeroth_order: share of each matrix and table that is probed and updated, its smallest weights "
                 "(Sparse-MeZO); 1: all of them",
         .min = 0.001,
         .max = 1},
    };
}

}  // namespace windlass
