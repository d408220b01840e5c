// Keys of adapters: small trained parts next to the layers of a model that is only read.
#include "config/config_keys.h"
#include "model/adapters/config_fields.h"

namespace windlass {

std::vector<ConfigKey> adapter_keys() {
    return {
        {.name = "adapter",
         .resume = OnResume::refused,
         .field = &Config::adapter,
         .group = kMethod,
         .help = "train an adapter over the frozen model: lora, ia3, qlora (lora over weights in 4 bits), lsp "
                 "(sparse projectors, docs/guide/lsp.md), or trainable_tokens (rows of single tokens); or a folder "
                 "with one, in peft's layout, to train further or "
                 "to evaluate (docs/guide/adapters.md)",
         .aliases = {"adapter_name_or_path", "lora_model_dir", "finetuning_type"},
         .names_files = true},
        {.name = "lora_r",
         .resume = OnResume::refused,
         .field = &Config::lora_r,
         .group = kMethod,
         .help = "rank of LoRA's pairs of matrices",
         .aliases = {"lora_rank"},
         .min = 1,
         .max = static_cast<double>(kAdapterRankMax)},
        {.name = "lora_alpha",
         .resume = OnResume::refused,
         .field = &Config::lora_alpha,
         .group = kMethod,
         .help = "LoRA scale: lora_alpha / lora_r",
         .min = 1e-6,
         .max = 1e6},
        {.name = "use_rslora",
         .resume = OnResume::refused,
         .field = &Config::use_rslora,
         .group = kMethod,
         .help = "LoRA scale: lora_alpha / sqrt(lora_r) instead",
         .aliases = {"lora_use_rslora", "peft_use_rslora"}},
        {.name = "use_dora",
         .resume = OnResume::refused,
         .field = &Config::use_dora,
         .group = kMethod,
         .help = "DoRA: train a norm for each output of a layer with LoRA, too",
         .aliases = {"lora_use_dora", "peft_use_dora"}},
    };
}

std::vector<ConfigKey> adapted_module_keys() {
    return {
        {.name = "lora_target_modules",
         .resume = OnResume::refused,
         .field = &Config::lora_target_modules,
         .group = kMethod,
         .help = "layers with an adapter: names of modules or ends of names (q_proj, mlp.down_proj; of LoRA also "
                 "embed_tokens, lm_head), regular expressions for whole names, or all-linear: the linear layers of all "
                 "layers, not the head",
         .aliases = {"lora_target", "target_modules"}},
        {.name = "rank_pattern",
         .resume = OnResume::refused,
         .field = &Config::rank_pattern,
         .group = kMethod,
         .help = "ranks of some modules, each by the first pattern that fits the end of its name: q_proj=8",
         .aliases = {"lora_rank_pattern"},
         .pairs = Pairs::one_value},
        {.name = "alpha_pattern",
         .resume = OnResume::refused,
         .field = &Config::alpha_pattern,
         .group = kMethod,
         .help = "lora_alpha of some modules, in the same form",
         .aliases = {"lora_alpha_pattern"},
         .pairs = Pairs::one_value},
        {.name = "modules_to_save",
         .resume = OnResume::refused,
         .field = &Config::modules_to_save,
         .group = kMethod,
         .help = "modules that train whole next to the adapter, such as embed_tokens, lm_head or norm: each whose name "
                 "ends so",
         .aliases = {"lora_modules_to_save", "additional_target"}},
        {.name = "trainable_token_indices",
         .resume = OnResume::refused,
         .field = &Config::trainable_token_indices,
         .group = kMethod,
         .help = "tokens whose rows of the table of tokens train next to the adapter, and of a tied head too, by their "
                 "ids: 5; or of a module: lm_head=5",
         .aliases = {"token_indices"},
         .pairs = Pairs::values},
        {.name = "lora_dropout",
         .resume = OnResume::refused,
         .field = &Config::lora_dropout,
         .group = kMethod,
         .help = "only 0: dropout is not implemented",
         .min = 0,
         .max = 1},
        {.name = "load_in_4bit",
         .resume = OnResume::free,
         .field = &Config::load_in_4bit,
         .group = kMethod,
         .help = "the same as weight_storage: nf4"},
    };
}

std::vector<ConfigKey> projector_keys() {
    return {
        {.name = "lsp_d",
         .resume = OnResume::refused,
         .field = &Config::lsp_d,
         .group = kMethod,
         .help = "columns of LSP's projectors; auto: the most that lsp_host_bytes and lsp_link_bytes allow, or half of "
                 "the model's width",
         .min = 1,
         .max = static_cast<double>(kProjectorWidthMax),
         .empty = "auto"},
        {.name = "lsp_r",
         .resume = OnResume::refused,
         .field = &Config::lsp_r,
         .group = kMethod,
         .help = "numbers in each row of LSP's projectors",
         .min = 1,
         .max = static_cast<double>(kProjectorNumbersMax)},
        {.name = "lsp_host_bytes",
         .resume = OnResume::refused,
         .field = &Config::lsp_host_bytes,
         .group = kMethod,
         .help = "with lsp_d auto: limit of LSP's training state, 12 bytes per number"},
        {.name = "lsp_link_bytes",
         .resume = OnResume::refused,
         .field = &Config::lsp_link_bytes,
         .group = kMethod,
         .help = "with lsp_d auto: limit of the gradients and weights that LSP moves per step, 6 bytes per number, or "
                 "8 in f32"},
        {.name = "lsp_refresh",
         .resume = OnResume::refused,
         .field = &Config::lsp_refresh,
         .group = kMethod,
         .help = "before the first step, and then every this many steps, fit LSP's projectors to gradients and merge "
                 "the learned part into the weights; 0: never, weights are read only; auto: 1000, or 0 if weights are "
                 "kept in few bits or the method has no moments to carry over",
         .min = 0,
         .max = 1e9,
         .empty = "auto"},
        {.name = "lsp_samples",
         .resume = OnResume::refused,
         .field = &Config::lsp_samples,
         .group = kMethod,
         .help = "rows whose gradients a refresh uses: half of them to fit projectors, half to judge the fit",
         .min = 2,
         .max = 4096},
        {.name = "lsp_learn",
         .resume = OnResume::refused,
         .field = &Config::lsp_learn,
         .group = kMethod,
         .help = "most iterations in which a refresh learns the projectors' numbers; 0: projectors are only rescaled",
         .min = 0,
         .max = 1000},
    };
}

}  // namespace windlass
