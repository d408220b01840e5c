// Keys of parameters that are trained otherwise than the rest.
#include "config/config_keys.h"

namespace windlass {
namespace {}  // namespace

std::vector<ConfigKey> group_keys() {
    return {
        {.name = "freeze",
         .resume = OnResume::resolved,
         .field = &Config::freeze,
         .group = kMethod,
         .help = "parameters to freeze: patterns of names as in the model's files, with * and ?; checked before "
                 "param_groups"},
        {.name = "param_groups",
         .resume = OnResume::resolved,
         .field = &Config::param_groups,
         .group = kMethod,
         .help = "parameters with other settings: a pattern of names, and after it learning_rate_scale=X, "
                 "weight_decay=X or train=false; the first match counts (docs/guide/parameter-groups.md)"},
    };
}

}  // namespace windlass
