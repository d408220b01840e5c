"""The golden cases: one tiny model per family and per variant that changes the maths.

Every size is small enough for a test to run in milliseconds, and chosen so that a mistake shows: grouped heads, a head
size that is not hidden / heads where the family allows it, a window shorter than the sequence, rotary angles for which
each branch of a scaling rule is taken.
"""

from dataclasses import dataclass, field

import transformers

VOCAB = 96
HIDDEN = 32
FFN = 48
POSITIONS = 32


@dataclass(frozen=True)
class Case:
    """A model to record. `noise_only` lists (parameter, begin, end): element ranges whose exact gradient is zero.

    A constant added to every key shifts each row of attention scores by one number, which softmax ignores. Without
    rotation a key bias is such a constant; an optimizer that divides by the gradient's size then amplifies rounding.
    """

    name: str
    family: str
    config: transformers.PretrainedConfig
    classic_config: bool = False  # write config.json in the spelling of transformers 4 instead of 5
    noise_only: list[tuple[str, int, int]] = field(default_factory=list)
    norm_weight: float = 1.0  # about which weights of norms are drawn
    frozen: tuple[str, ...] = ()  # prefixes of parameters that the text does not pass
    renamed: tuple[str, str] = ("", "")  # a prefix of parameters, and what the files have in its place


def rotary_sizes(**changes) -> dict:
    """Sizes shared by the families with rotary positions; four heads over two key heads."""
    return {
        "vocab_size": VOCAB,
        "hidden_size": HIDDEN,
        "intermediate_size": FFN,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 64,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "pad_token_id": None,
        "attention_dropout": 0.0,
        **changes,
    }


def gpt2() -> Case:
    config = transformers.GPT2Config(
        vocab_size=VOCAB, n_embd=HIDDEN, n_inner=FFN, n_layer=2, n_head=4, n_positions=POSITIONS,
        bos_token_id=2, eos_token_id=2, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)  # fmt: skip
    noise = [(f"transformer.h.{layer}.attn.c_attn.bias", HIDDEN, 2 * HIDDEN) for layer in range(2)]
    return Case("gpt2", "gpt2", config, noise_only=noise)


def opt() -> Case:
    config = transformers.OPTConfig(
        vocab_size=VOCAB, hidden_size=HIDDEN, ffn_dim=FFN, num_hidden_layers=2, num_attention_heads=4,
        max_position_embeddings=POSITIONS, word_embed_proj_dim=HIDDEN, do_layer_norm_before=True,
        activation_function="relu", dropout=0.0, attention_dropout=0.0, layerdrop=0.0,
        bos_token_id=2, eos_token_id=2, pad_token_id=1)  # fmt: skip
    noise = [(f"model.decoder.layers.{layer}.self_attn.k_proj.bias", 0, HIDDEN) for layer in range(2)]
    return Case("opt", "opt", config, classic_config=True, noise_only=noise)


def gpt2_variant() -> Case:
    """Scores divided by the layer's number as well, exact gelu, a head of its own."""
    config = transformers.GPT2Config(
        vocab_size=VOCAB, n_positions=POSITIONS, n_embd=HIDDEN, n_layer=2, n_head=4, n_inner=FFN,
        activation_function="gelu", resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, tie_word_embeddings=False,
        scale_attn_by_inverse_layer_idx=True, bos_token_id=2, eos_token_id=2)  # fmt: skip
    noise = [(f"transformer.h.{layer}.attn.c_attn.bias", HIDDEN, 2 * HIDDEN) for layer in range(2)]
    return Case("gpt2_variant", "gpt2", config, noise_only=noise)


def opt_post_norm() -> Case:
    """OPT-350m's form: norms behind the sums, none at the end, and tables narrower than the model."""
    config = transformers.OPTConfig(
        vocab_size=VOCAB, hidden_size=HIDDEN, ffn_dim=FFN, num_hidden_layers=2, num_attention_heads=4,
        max_position_embeddings=POSITIONS, word_embed_proj_dim=20, do_layer_norm_before=False,
        activation_function="relu", dropout=0.0, attention_dropout=0.0, layerdrop=0.0,
        bos_token_id=2, eos_token_id=2, pad_token_id=1)  # fmt: skip
    noise = [(f"model.decoder.layers.{layer}.self_attn.k_proj.bias", 0, HIDDEN) for layer in range(2)]
    return Case("opt_post_norm", "opt", config, classic_config=True, noise_only=noise)


def llama_biases() -> Case:
    rope = {"rope_type": "default", "rope_theta": 10000.0}
    config = transformers.LlamaConfig(
        **rotary_sizes(rope_parameters=rope, rms_norm_eps=1e-5, tie_word_embeddings=True, attention_bias=True,
                       mlp_bias=True))  # fmt: skip
    return Case("llama_biases", "llama", config)


def llama() -> Case:
    rope = {"rope_type": "default", "rope_theta": 10000.0}
    config = transformers.LlamaConfig(
        **rotary_sizes(rope_parameters=rope, rms_norm_eps=1e-5, tie_word_embeddings=False))  # fmt: skip
    return Case("llama", "llama", config, classic_config=True)


def llama_linear() -> Case:
    rope = {"rope_type": "linear", "factor": 4.0, "rope_theta": 500.0}
    config = transformers.LlamaConfig(
        **rotary_sizes(rope_parameters=rope, rms_norm_eps=1e-6, tie_word_embeddings=True))  # fmt: skip
    return Case("llama_linear", "llama", config, classic_config=True)


def llama3() -> Case:
    """Head size 8 and theta 100 put one wavelength below, one between and two above the two thresholds (8 and 32)."""
    rope = {
        "rope_type": "llama3",
        "rope_theta": 100.0,
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 32,
    }
    config = transformers.LlamaConfig(
        **rotary_sizes(rope_parameters=rope, max_position_embeddings=256, rms_norm_eps=1e-5,
                       tie_word_embeddings=True))  # fmt: skip
    return Case("llama3", "llama", config)


def mistral_window() -> Case:
    rope = {"rope_type": "default", "rope_theta": 1000.0}
    config = transformers.MistralConfig(
        **rotary_sizes(rope_parameters=rope, rms_norm_eps=1e-5, tie_word_embeddings=False, sliding_window=7,
                       head_dim=8))  # fmt: skip
    return Case("mistral_window", "mistral", config)


def qwen2() -> Case:
    rope = {"rope_type": "default", "rope_theta": 1000000.0}
    config = transformers.Qwen2Config(
        **rotary_sizes(rope_parameters=rope, rms_norm_eps=1e-6, tie_word_embeddings=True,
                       use_sliding_window=False))  # fmt: skip
    return Case("qwen2", "qwen2", config, classic_config=True)


def qwen3() -> Case:
    rope = {"rope_type": "default", "rope_theta": 1000000.0}
    config = transformers.Qwen3Config(
        **rotary_sizes(rope_parameters=rope, rms_norm_eps=1e-6, tie_word_embeddings=True, head_dim=12,
                       num_attention_heads=4, num_key_value_heads=2, attention_bias=False,
                       use_sliding_window=False))  # fmt: skip
    return Case("qwen3", "qwen3", config)


def gemma_sizes(**changes) -> dict:
    """A layer that slides and one that does not, scores scaled by another number than the size of heads."""
    return rotary_sizes(head_dim=12, query_pre_attn_scalar=10, sliding_window=7, pad_token_id=0,
                        tie_word_embeddings=True, rms_norm_eps=1e-6,
                        layer_types=["sliding_attention", "full_attention"]) | changes  # fmt: skip


GEMMA3_ROPE = {
    "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1000.0},
    "sliding_attention": {"rope_type": "default", "rope_theta": 100.0},
}


def gemma2() -> Case:
    """Softcaps so low that they show."""
    rope = {"rope_type": "default", "rope_theta": 1000.0}
    config = transformers.Gemma2Config(
        **gemma_sizes(rope_parameters=rope, attn_logit_softcapping=3.0, final_logit_softcapping=2.0))  # fmt: skip
    return Case("gemma2", "gemma2", config, classic_config=True, norm_weight=0.0)


def gemma3_text() -> Case:
    config = transformers.Gemma3TextConfig(**gemma_sizes(rope_parameters=GEMMA3_ROPE))
    return Case("gemma3_text", "gemma3_text", config, norm_weight=0.0)


def gemma3() -> Case:
    """The text inside a model that sees as well."""
    sight = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2,
             "image_size": 8, "patch_size": 4}  # fmt: skip
    text = gemma_sizes(rope_parameters=GEMMA3_ROPE)
    config = transformers.Gemma3Config(text_config=text, vision_config=sight, mm_tokens_per_image=4)
    return Case("gemma3", "gemma3", config, classic_config=True, norm_weight=0.0,
                frozen=("model.vision_tower.", "model.multi_modal_projector."),
                renamed=("model.language_model.", "language_model.model."))  # fmt: skip


def llama_yarn() -> Case:
    """Head size 16 and theta 100: the first pair is kept, the last two are stretched by 4, those between are blended."""
    rope = {"rope_type": "yarn", "rope_theta": 100.0, "factor": 4.0, "original_max_position_embeddings": 16,
            "beta_fast": 1.5, "beta_slow": 0.1}  # fmt: skip
    config = transformers.LlamaConfig(
        **rotary_sizes(rope_parameters=rope, rms_norm_eps=1e-5, tie_word_embeddings=True, num_attention_heads=2,
                       num_key_value_heads=1))  # fmt: skip
    return Case("llama_yarn", "llama", config)


def smollm3() -> Case:
    """Positions turn queries and keys in the first layer alone, and a window slides in the second."""
    rope = {"rope_type": "default", "rope_theta": 10000.0}
    config = transformers.SmolLM3Config(
        **rotary_sizes(rope_parameters=rope, rms_norm_eps=1e-6, tie_word_embeddings=True, no_rope_layer_interval=2,
                       use_sliding_window=True, sliding_window=7))  # fmt: skip
    return Case("smollm3", "smollm3", config, classic_config=True)


def olmo2() -> Case:
    rope = {"rope_type": "default", "rope_theta": 500000.0}
    config = transformers.Olmo2Config(**rotary_sizes(rope_parameters=rope, rms_norm_eps=1e-6))
    return Case("olmo2", "olmo2", config)


def granite() -> Case:
    rope = {"rope_type": "default", "rope_theta": 10000.0}
    config = transformers.GraniteConfig(
        **rotary_sizes(rope_parameters=rope, rms_norm_eps=1e-5, tie_word_embeddings=True, embedding_multiplier=3.0,
                       attention_multiplier=0.25, residual_multiplier=0.7, logits_scaling=1.3))  # fmt: skip
    return Case("granite", "granite", config, classic_config=True)


def phi3() -> Case:
    rope = {"rope_type": "default", "rope_theta": 10000.0}
    config = transformers.Phi3Config(
        **rotary_sizes(rope_parameters=rope, rms_norm_eps=1e-5, sliding_window=7, resid_pdrop=0.0, embd_pdrop=0.0))
    return Case("phi3", "phi3", config, classic_config=True)


def phi4_mini() -> Case:
    """Six of eight channels turn. Rows of 24 tokens are longer than the 16 of the first table, packed documents not."""
    rope = {"rope_type": "longrope", "rope_theta": 100.0, "short_factor": [1.0, 1.1, 1.3],
            "long_factor": [1.2, 2.0, 3.5], "partial_rotary_factor": 0.75}  # fmt: skip
    config = transformers.Phi3Config(
        **rotary_sizes(rope_parameters=rope, rms_norm_eps=1e-5, tie_word_embeddings=True, resid_pdrop=0.0,
                       embd_pdrop=0.0, original_max_position_embeddings=16))  # fmt: skip
    return Case("phi4_mini", "phi3", config)


ALL = [gpt2, gpt2_variant, opt, opt_post_norm, llama, llama_biases, llama_linear, llama3, mistral_window, qwen2, qwen3,
       gemma2, gemma3_text, gemma3,
       llama_yarn, smollm3, olmo2, granite, phi3, phi4_mini]
