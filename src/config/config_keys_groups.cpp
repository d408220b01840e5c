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
         .help = "parameters that are not trained: patterns of names as in the model's files, with * and ?; looked at "
                 "before param_groups"},
        {.name = "param_groups",
         .resume = OnResume::resolved,
         .field = &Config::param_groups,
         .group = kMethod,
         .help = "parameters trained otherwise than the rest, or not: a pattern of names, and behind it "
                 "learning_rate_scale=X, weight_decay=X or train=false; the first that matches counts "
                 "(docs/guide/parameter-groups.md)"},
    };
}

}  // namespace windlass
