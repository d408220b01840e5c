// Keys of the best step, early stopping and samples.
#include "config/config_keys.h"

namespace windlass {

std::vector<ConfigKey> best_keys() {
    return {
        {.name = "load_best_model_at_end",
         .resume = OnResume::free,
         .field = &Config::load_best_model_at_end,
         .group = kIntervals,
         .help = "end with the weights of the best evaluated step in final/; every step that is better than all before "
                 "it is saved, whatever save_steps is, and the best one is kept in addition to save_total_limit"},
        {.name = "metric_for_best_model",
         .resume = OnResume::free,
         .field = &Config::metric_for_best_model,
         .group = kIntervals,
         .help = "what makes a step better: loss, or the score of a task's evaluation: accuracy over candidates, "
                 "exact_match of short answers; eval_ may precede it"},
        {.name = "greater_is_better",
         .resume = OnResume::free,
         .field = &Config::greater_is_better,
         .group = kIntervals,
         .help = "auto: according to the metric; a contradiction is refused",
         .choices = {"auto", "true", "false"}},
        {.name = "early_stopping_patience",
         .resume = OnResume::free,
         .field = &Config::early_stopping_patience,
         .group = kIntervals,
         .help = "stop after this many evaluations in a row without improvement; null: never",
         .unit = "evaluations",
         .min = 1,
         .max = 4e9},
        {.name = "early_stopping_threshold",
         .resume = OnResume::free,
         .field = &Config::early_stopping_threshold,
         .group = kIntervals,
         .help = "minimum improvement that early stopping counts",
         .min = 0,
         .max = 1e9},
    };
}

std::vector<ConfigKey> sample_keys() {
    return {
        {.name = "sample_prompts",
         .resume = OnResume::free,
         .field = &Config::sample_prompts,
         .group = kIntervals,
         .help = "texts that the model continues greedily during training, into samples.jsonl and the log; in a run on "
                 "chats, questions that it answers"},
        {.name = "sample_steps",
         .resume = OnResume::free,
         .field = &Config::sample_steps,
         .group = kIntervals,
         .help = "steps between samples; null: at each evaluation",
         .min = 1,
         .max = 4e9},
        {.name = "sample_max_new_tokens",
         .resume = OnResume::free,
         .field = &Config::sample_max_new_tokens,
         .group = kIntervals,
         .help = "longest continuation",
         .unit = "tokens",
         .min = 1,
         .max = 65536},
    };
}

}  // namespace windlass
