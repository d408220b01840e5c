// The keys of one group: what forward-only methods look at, and what they leave alone.
#include "method/zeroth_order/estimator.h"
#include "train/config_keys.h"

namespace windlass {

std::vector<ConfigKey> estimator_keys() {
    constexpr std::string_view kMethod = "Method";
    std::vector<std::string_view> estimators;
    for (const ZoEstimator each : kZoEstimators) estimators.push_back(estimator_name(each));
    return {
        {.name = "zo_estimator",
         .field = &Config::zo_estimator,
         .group = kMethod,
         .help =
             "zeroth_order: what is made of losses. two_sided: both ways along each direction (MeZO); one_sided: one "
             "way, and one loss of the weights for all of them; fzoo: one way, divided by the deviation of the "
             "losses; spsa15: both ways, less where the loss bends",
         .choices = estimators},
        {.name = "exact_inplace",
         .field = &Config::exact_inplace,
         .group = kMethod,
         .help =
             "zeroth_order: round as MeZO does that perturbs weights in place, drift and all, to compare with it; of "
             "one direction, two_sided"},
        {.name = "layer_drop",
         .field = &Config::layer_drop,
         .group = kMethod,
         .help =
             "zeroth_order, forward_gradient: share of the layers that a step neither probes nor updates, others at "
             "each step (LeZO); not of embedding and head",
         .min = 0,
         .max = 0.99},
        {.name = "sparse_share",
         .field = &Config::sparse_share,
         .group = kMethod,
         .help = "zeroth_order: share of each matrix and table that is probed and updated, its smallest weights "
                 "(Sparse-MeZO); 1: all of them",
         .min = 0.001,
         .max = 1},
    };
}

}  // namespace windlass
