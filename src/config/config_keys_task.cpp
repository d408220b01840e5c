// Keys of tasks, and of the tokens of a task that are trained.
#include "config/config_keys.h"

namespace windlass {

std::vector<ConfigKey> task_keys() {
    return {
        {.name = "task",
         .resume = OnResume::resolved,
         .field = &Config::task,
         .group = kData,
         .help = "task of the rows: a name, or a JSON file (docs/guide/tasks.md); null: rows of text",
         .aliases = {"task_name"},
         .names_files = true},
        {.name = "train_samples",
         .resume = OnResume::resolved,
         .field = &Config::train_samples,
         .group = kData,
         .help = "rows of train_data to train on, after val_split, chosen by the seed; null: all",
         .unit = "rows",
         .aliases = {"num_train", "max_train_samples"},
         .min = 1,
         .max = kCountMax},
        {.name = "eval_samples",
         .resume = OnResume::free,
         .field = &Config::eval_samples,
         .group = kData,
         .help = "rows to evaluate on, chosen by the seed; null: all",
         .unit = "rows",
         .aliases = {"samples", "num_eval", "max_eval_samples"},
         .min = 1,
         .max = kCountMax},
    };
}

std::vector<ConfigKey> objective_keys() {
    return {
        {.name = "objective",
         .resume = OnResume::resolved,
         .field = &Config::objective,
         .group = kMethod,
         .help = "what a step minimises: the loss of the tokens, or, without backpropagation, -log of the right "
                 "candidate's share, 1 - accuracy over candidates, 1 - exact_match, 1 - F1 of generated answers; for "
                 "rows with a chosen and a rejected answer dpo or orpo, with any method",
         .choices = {"loss", "choice_loss", "accuracy", "exact_match", "f1", "dpo", "orpo"}},
        {.name = "preference_beta",
         .resume = OnResume::refused,
         .field = &Config::preference_beta,
         .group = kMethod,
         .help = "dpo: weight of the log-likelihoods compared with the reference's; orpo: weight of the odds compared "
                 "with the loss",
         .aliases = {"dpo_beta", "pref_beta", "orpo_beta"},
         .min = 0,
         .max = 1000},
    };
}

}  // namespace windlass
