"""Small models with real tokenizers for check_gguf.py."""

import dataclasses
import shutil
from collections.abc import Callable

import torch
import transformers

import gguf_tokenizers as tokenizers

SIZES = dict(hidden_size=64, intermediate_size=160, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2,
             max_position_embeddings=512, initializer_range=0.1)
LLAMA3_ROPE = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
               "original_max_position_embeddings": 64, "rope_theta": 500000.0}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 128, "rope_theta": 10000.0}
LINEAR = {"rope_type": "linear", "factor": 4.0, "rope_theta": 10000.0}


def longrope(pairs, original, **more):
    return {"rope_type": "longrope", "short_factor": [1.0 + 0.05 * i for i in range(pairs)],
            "long_factor": [1.0 + 0.9 * i for i in range(pairs)], "original_max_position_embeddings": original,
            "rope_theta": 10000.0, **more}


@dataclasses.dataclass
class Text:
    """A text that is asked about, and the context in which llama.cpp reads it."""
    context: int = 512
    tokens_min: int = 0  # the text is said again until it has so many


@dataclasses.dataclass
class Model:
    says: str  # in the table of results
    configuration: Callable
    tokenizer: Callable
    texts: tuple = (Text(),)


# longrope: llama.cpp goes by the size of its context, transformers by the length of the text.
SHORT_AND_LONG = (Text(256), Text(512, 270))


def llama(**more):
    return transformers.LlamaConfig(**{**SIZES, **more})


def qwen2(**more):
    return transformers.Qwen2Config(**SIZES, **more)


def smollm3():
    return transformers.SmolLM3Config(**{**SIZES, "num_hidden_layers": 5})


def olmo2(**more):
    return transformers.Olmo2Config(**SIZES, **more)


def granite(**more):
    return transformers.GraniteConfig(**SIZES, embedding_multiplier=3.0, attention_multiplier=0.11,
                                      residual_multiplier=0.6, logits_scaling=1.7, **more)


def phi3(**more):
    return transformers.Phi3Config(**{**SIZES, "original_max_position_embeddings": 512, **more})


# Caps low enough for small numbers to feel them, a window that texts are longer than.
def gemma2():
    return transformers.Gemma2Config(**{**SIZES, "num_hidden_layers": 4}, head_dim=32, query_pre_attn_scalar=32,
                                     sliding_window=16, attn_logit_softcapping=2.0, final_logit_softcapping=3.0)


def gemma3(**more):
    return transformers.Gemma3TextConfig(**{**SIZES, "num_hidden_layers": 7}, head_dim=32, query_pre_attn_scalar=32,
                                         sliding_window=16, **more)


def gemma3_stretched():
    rope = {"full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e6},
            "sliding_attention": {"rope_type": "default", "rope_theta": 1e4}}
    text = gemma3(rope_parameters=rope)
    vision = dict(hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2, image_size=8,
                  patch_size=4)
    return transformers.Gemma3Config(text_config=text.to_dict(), vision_config=vision, mm_tokens_per_image=4)


MODELS = {
    "llama": Model("llama, tokenizer of Llama 2", llama, tokenizers.llama2_tokenizer),
    "llama-biases": Model("llama with biases, tied, tokenizer of GPT-2",
                          lambda: llama(attention_bias=True, mlp_bias=True, tie_word_embeddings=True),
                          tokenizers.gpt2_tokenizer),
    "llama-linear": Model("llama with linear rope", lambda: llama(rope_parameters=LINEAR), tokenizers.gpt2_tokenizer),
    "llama-yarn": Model("llama with yarn", lambda: llama(rope_parameters=YARN), tokenizers.gpt2_tokenizer),
    "llama-longrope": Model("llama with longrope", lambda: llama(rope_parameters=longrope(8, 256, factor=2.0)),
                            tokenizers.gpt2_tokenizer, SHORT_AND_LONG),
    "llama3": Model("llama with Llama 3's rope and tokenizer, tied",
                    lambda: llama(rope_parameters=LLAMA3_ROPE, tie_word_embeddings=True), tokenizers.llama3_tokenizer),
    "mistral": Model("mistral, tokenizer of Llama 2",
                     lambda: transformers.MistralConfig(**SIZES, head_dim=32, sliding_window=None),
                     tokenizers.llama2_tokenizer),
    "qwen2": Model("qwen2, tokenizer of Qwen3", qwen2, tokenizers.qwen_tokenizer),
    "qwen2-yarn": Model("qwen2 with yarn and a scale of its own",
                        lambda: qwen2(rope_parameters={**YARN, "attention_factor": 1.3}), tokenizers.qwen_tokenizer),
    "qwen3": Model("qwen3, tied", lambda: transformers.Qwen3Config(**SIZES, head_dim=32, tie_word_embeddings=True),
                   tokenizers.qwen_tokenizer),
    "gpt2": Model("gpt2", lambda: transformers.GPT2Config(n_embd=64, n_layer=3, n_head=4, n_positions=512,
                                                          initializer_range=0.1), tokenizers.gpt2_tokenizer),
    "smollm3": Model("smollm3, tokenizer of Llama 3", smollm3, tokenizers.llama3_tokenizer),
    "olmo2": Model("olmo2, tokenizer of cl100k", olmo2, tokenizers.olmo2_tokenizer),
    "olmo2-tied": Model("olmo2, tied, with yarn", lambda: olmo2(tie_word_embeddings=True, rope_parameters=YARN),
                        tokenizers.olmo2_tokenizer),
    "granite": Model("granite, words of GPT-2 and single digits", granite, tokenizers.granite_tokenizer),
    "granite-biases": Model("granite with biases, tied, with longrope",
                            lambda: granite(attention_bias=True, mlp_bias=True, tie_word_embeddings=True,
                                            rope_parameters=longrope(8, 256, factor=2.0)),
                            tokenizers.granite_tokenizer, SHORT_AND_LONG),
    "phi3": Model("phi3 as Phi-3, tokenizer of Llama 2", phi3, tokenizers.phi3_tokenizer),
    "phi3.5": Model("phi3 as Phi-3.5, with longrope",
                    lambda: phi3(original_max_position_embeddings=256, rope_parameters=longrope(8, 256)),
                    tokenizers.phi3_tokenizer, SHORT_AND_LONG),
    "phi4": Model("phi3 as Phi-4, tokenizer of cl100k", phi3, tokenizers.phi4_tokenizer),
    "phi4-mini": Model("phi3 as Phi-4-mini: tied, 3/4 of a head turn, longrope, tokenizer of o200k",
                       lambda: phi3(original_max_position_embeddings=256, tie_word_embeddings=True,
                                    rope_parameters=longrope(6, 256, partial_rotary_factor=0.75)),
                       tokenizers.phi4_mini_tokenizer, SHORT_AND_LONG),
    "gemma2": Model("gemma2, window 16, words of Llama 2", gemma2, tokenizers.gemma2_tokenizer),
    "gemma3_text": Model("gemma3_text, window 16, words of Llama 2", gemma3, tokenizers.gemma3_tokenizer),
    "gemma3": Model("gemma3, the one that sees, linear rope", gemma3_stretched, tokenizers.gemma3_tokenizer),
}


def make(name, data, folder):
    """A model of the family whose vocabulary has more rows than the tokenizer has tokens, as many have."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    MODELS[name].tokenizer(data, folder)
    tokens = len(transformers.AutoTokenizer.from_pretrained(folder))
    torch.manual_seed(1)
    config = MODELS[name].configuration()
    config.get_text_config().vocab_size = -(-tokens // 64) * 64
    for part in (config, config.get_text_config()):
        part.bos_token_id = part.eos_token_id = part.pad_token_id = None
    model = transformers.AutoModelForCausalLM.from_config(config).float()
    with torch.no_grad():  # norms and biases that are not all one and zero
        for parameter in model.parameters():
            if parameter.ndim == 1:
                parameter += 0.1 * torch.randn_like(parameter)
    model.save_pretrained(folder)
    return folder


def folders(data, work, smollm2, only):
    """(name, what the table says, texts, folder) of each model."""
    wanted = lambda name: not only or name in only
    if wanted("stories260K"):
        yield "stories260K", "stories260K (llama)", (Text(),), data / "model-stories260K-hf"
    if smollm2 and wanted("smollm2-135m"):
        yield "smollm2-135m", "SmolLM2-135M (llama)", (Text(),), smollm2
    for name, model in MODELS.items():
        if wanted(name):
            folder = work / name
            yield name, model.says, model.texts, make(name, data, folder)
            shutil.rmtree(folder, ignore_errors=True)
