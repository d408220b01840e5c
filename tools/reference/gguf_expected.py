"""What a GGUF file of a model must hold, for check_gguf.py: by the folder, by transformers and by the gguf package."""

import functools
import json
import math

import gguf
import numpy as np
import safetensors.torch
import transformers

TYPES = {"f32": gguf.GGMLQuantizationType.F32, "f16": gguf.GGMLQuantizationType.F16,
         "bf16": gguf.GGMLQuantizationType.BF16, "q8_0": gguf.GGMLQuantizationType.Q8_0}
FILE_TYPES = {"f32": 0, "f16": 1, "bf16": 32, "q8_0": 7}
ARCHITECTURES = {"mistral": "llama", "gemma3_text": "gemma3"}  # where it has another name than the model's type
NEIGHBOURS = ("llama", "smollm3", "granite")  # llama.cpp turns neighbours there
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)


def text_config(folder):
    return transformers.AutoConfig.from_pretrained(folder).get_text_config()


def architecture(config):
    return ARCHITECTURES.get(config.model_type, config.model_type)


def head_size(config):
    return getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads


# ---- tensors ----

def weights_of(folder):
    weights = {}
    for path in sorted(folder.glob("*.safetensors")):
        weights.update(safetensors.torch.load_file(path))
    return {name: tensor.float().numpy() for name, tensor in weights.items()}


def encoded(value, kind):
    """gguf's own numbers; bf16 rounds halves away from zero here, as everywhere in Windlass, and in gguf to even."""
    if kind == TYPES["f32"]:
        return value
    if kind == TYPES["bf16"]:
        return ((value.view(np.uint32).astype(np.uint64) + 0x8000) >> 16).astype(np.uint16)
    return gguf.quantize(value, kind)


def neighbours(value, heads):
    rows = value.reshape(heads, 2, value.shape[0] // heads // 2, -1)
    return rows.swapaxes(1, 2).reshape(value.shape)


def changed(name, value, arch, config):
    """As llama.cpp's converter changes it."""
    if arch in NEIGHBOURS and ".q_proj." in name:
        return neighbours(value, config.num_attention_heads)
    if arch in NEIGHBOURS and ".k_proj." in name:
        return neighbours(value, config.num_key_value_heads)
    if arch == "gpt2" and value.ndim == 2 and any(part in name for part in ("c_attn", "c_fc", "c_proj")):
        return value.T
    if arch.startswith("gemma") and name.endswith("norm.weight"):
        return value + np.float32(1)
    return value


def expected_tensors(folder, weights):
    """By the gguf package's own map of names."""
    config = text_config(folder)
    arch = architecture(config)
    number = next(key for key, name in gguf.MODEL_ARCH_NAMES.items() if name == arch)
    names = gguf.get_tensor_name_map(number, config.num_hidden_layers)
    tensors = {}
    for name, value in weights.items():
        name = name.replace("language_model.model.", "model.").replace("model.language_model.", "model.")
        if name.endswith((".attn.bias", ".rotary_emb.inv_freq")) or "vision_tower." in name or "multi_modal" in name:
            continue
        if name == "lm_head.weight" and config.tie_word_embeddings:
            continue
        to = names.get_name(name, try_suffixes=(".weight", ".bias"))
        tensors[to] = np.ascontiguousarray(changed(name, value, arch, config))
    if arch == "olmo2" and config.tie_word_embeddings:  # llama.cpp has no OLMo 2 without a head
        tensors["output.weight"] = tensors["token_embd.weight"]
    rope = rope_of(config)
    if rope["rope_type"] == "llama3":
        tensors["rope_freqs.weight"] = llama3_factors(config, rope)
    if rope["rope_type"] == "longrope":
        for length in ("long", "short"):
            tensors[f"rope_factors_{length}.weight"] = np.array(rope[f"{length}_factor"], dtype=np.float32)
    return tensors


# ---- rope ----

def rope_of(config):
    """Of the layers that see all; of the others where all have a window."""
    rope = getattr(config, "rope_parameters", None) or {"rope_type": "none"}
    kinds = set(getattr(config, "layer_types", None) or ["full_attention"])
    return rope.get("full_attention" if "full_attention" in kinds else "sliding_attention", rope)


def llama3_factors(config, rope):
    """Before over after, by transformers' own frequencies."""
    size = head_size(config)
    before = 1.0 / rope["rope_theta"] ** (np.arange(0, size, 2) / size)
    length, factor = rope["original_max_position_embeddings"], rope["factor"]
    low, high = length / rope["low_freq_factor"], length / rope["high_freq_factor"]
    factors = []
    for frequency in before:
        wave = 2 * math.pi / frequency
        smooth = (length / wave - rope["low_freq_factor"]) / (rope["high_freq_factor"] - rope["low_freq_factor"])
        middle = 1 / ((1 - smooth) / factor + smooth)
        factors.append(1.0 if wave < high else factor if wave > low else middle)
    return np.array(factors, dtype=np.float32)


def rope_fields(config):
    rope = rope_of(config)
    kind = rope["rope_type"]
    if kind == "none":
        return {}
    turned = int(head_size(config) * rope.get("partial_rotary_factor", 1.0))
    fields = {"rope.dimension_count": turned, "rope.freq_base": rope["rope_theta"]}
    if kind in ("linear", "yarn"):
        fields |= {"rope.scaling.type": kind, "rope.scaling.factor": rope["factor"]}
    original = rope.get("original_max_position_embeddings")
    if kind == "yarn":
        fields["rope.scaling.original_context_length"] = original
        if rope.get("attention_factor"):
            fields["rope.scaling.attn_factor"] = rope["attention_factor"] / (1 + 0.1 * math.log(rope["factor"]))
    if kind == "longrope":
        stretch = rope.get("factor") or config.max_position_embeddings / original
        fields |= {"rope.scaling.type": kind, "rope.scaling.original_context_length": original,
                   "rope.scaling.attn_factor": math.sqrt(1 + math.log(stretch) / math.log(original))}
    local = (getattr(config, "rope_parameters", None) or {}).get("sliding_attention")
    return fields | ({"rope.freq_base_swa": local["rope_theta"]} if local else {})


# ---- fields ----

def model_fields(config):
    arch = architecture(config)
    fields = {"context_length": config.max_position_embeddings, "embedding_length": config.hidden_size,
              "block_count": config.num_hidden_layers, "attention.head_count": config.num_attention_heads}
    if arch == "gpt2":
        return fields | {"feed_forward_length": config.n_inner or 4 * config.hidden_size,
                         "attention.layer_norm_epsilon": config.layer_norm_epsilon}
    fields |= {"vocab_size": config.vocab_size, "feed_forward_length": config.intermediate_size,
               "attention.head_count_kv": config.num_key_value_heads, "attention.key_length": head_size(config),
               "attention.value_length": head_size(config), "attention.layer_norm_rms_epsilon": config.rms_norm_eps}
    if arch == "granite":
        fields |= {"attention.scale": config.attention_multiplier, "embedding_scale": config.embedding_multiplier,
                   "residual_scale": config.residual_multiplier, "logit_scale": config.logits_scaling}
    if arch == "phi3":
        fields["attention.sliding_window"] = config.sliding_window or 0
    if arch.startswith("gemma"):
        fields["attention.sliding_window"] = config.sliding_window
    if arch == "gemma2":
        fields |= {"attn_logit_softcapping": config.attn_logit_softcapping,
                   "final_logit_softcapping": config.final_logit_softcapping}
    return fields | rope_fields(config)


@functools.lru_cache(maxsize=1)  # the same for all types of a file
def token_fields(tokenizer, rows):
    """The table of tokens as the tokenizers package has it."""
    backend = tokenizer.backend_tokenizer
    whole = json.loads(backend.to_str())
    vocab, merges = whole["model"]["vocab"], [tuple(m.split(" ")) if isinstance(m, str) else tuple(m)
                                              for m in whole["model"]["merges"]]
    added = {token["id"]: token for token in whole["added_tokens"]}
    by_id = {number: text for text, number in vocab.items()} | {i: token["content"] for i, token in added.items()}
    characters = bool(whole["model"].get("byte_fallback"))
    # transformers makes Llama's anew from its class, and may leave out what the file says of the model.
    unknown = whole["model"].get("unk_token") or tokenizer.unk_token
    types = []
    for number in range(rows):
        text = by_id.get(number)
        if text is None:
            types.append(UNUSED)
        elif characters and text == unknown:
            types.append(UNKNOWN)
        elif number in added:
            types.append(CONTROL if added[number]["special"] else USER_DEFINED)
        else:
            types.append(BYTE if characters and text.startswith("<0x") and len(text) == 6 else NORMAL)
    alone, padded = backend.encode("x", add_special_tokens=False).ids, backend.encode("x").ids
    fields = {"model": "llama" if characters else "gpt2",
              "tokens": [by_id.get(number, f"[PAD{number}]") for number in range(rows)], "token_type": types,
              "add_bos_token": len(padded) > len(alone) and padded[0] == tokenizer.bos_token_id,
              "add_eos_token": len(padded) > len(alone) and padded[-1] == tokenizer.eos_token_id,
              "add_space_prefix": "Prepend" in json.dumps(whole["normalizer"] or {}) or (
                  (whole["pre_tokenizer"] or {}).get("type") == "Metaspace")}
    if characters:
        first = {}
        for rank, (left, right) in enumerate(merges):
            first.setdefault(left + right, rank)
        fields["scores"] = [-float(first[by_id[i]] + 1) if by_id.get(i) in first else 0.0 for i in range(rows)]
    else:
        fields["merges"] = [f"{left} {right}" for left, right in merges]
    for key, number in (("bos", tokenizer.bos_token_id), ("eos", tokenizer.eos_token_id),
                        ("unknown", tokenizer.unk_token_id), ("padding", tokenizer.pad_token_id)):
        if number is not None:
            fields[f"{key}_token_id"] = number
    return fields


def all_but_tokenizer(folder, name, kind):
    config = text_config(folder)
    arch = architecture(config)
    fields = {"general.architecture": arch, "general.type": "model", "general.name": name,
              "general.file_type": FILE_TYPES[kind], "general.quantization_version": 2}
    return fields | {f"{arch}.{key}": value for key, value in model_fields(config).items()}


def name_of(name, tokenizer):
    """llama.cpp strips white space behind special tokens of models whose name says Phi-3."""
    strips = any(token.rstrip for token in tokenizer.added_tokens_decoder.values())
    says = "phi3" in name or "phi-3" in name
    return (name if says else f"phi-3 {name}") if strips else ("model" if says else name)


def expected_fields(folder, tokenizer, path, kind):
    rows = text_config(folder).vocab_size
    fields = all_but_tokenizer(folder, name_of(path.stem, tokenizer), kind)
    fields |= {f"tokenizer.ggml.{key}": value for key, value in token_fields(tokenizer, rows).items()}
    if tokenizer.chat_template:
        fields["tokenizer.chat_template"] = tokenizer.chat_template
    return fields


def same_value(got, want):
    if isinstance(want, float):
        return np.float32(got) == np.float32(want) or math.isclose(got, want, rel_tol=2e-7)  # one place of f32
    return got == want
