#!/usr/bin/env python3
"""Writes tests/golden/gguf.json: what GGUF files of the golden models hold, by transformers and the gguf package.

    gguf_goldens.py [tests/golden]

{"made_with": ..., "cases": [{"case", "golden", "changes", "fields", "tensors"}]}: `changes` (RFC 7386) are made to the
config.json of `golden`, where llama.cpp does not compute that model; `fields` are all but the tokenizer's; `tensors` are lists
[name, dims innermost first, CRC-32 of its bytes in f32].
"""

import importlib.metadata
import json
import pathlib
import shutil
import sys
import tempfile
import zlib

import numpy as np
import transformers

import gguf_expected

NAME = "tuned"  # of the file, without its ending
YARN = {"beta_fast": None, "beta_slow": None}  # llama.cpp's are the usual ones
LONGROPE = {"rope_type": "longrope", "factor": 2.0, "original_max_position_embeddings": 32, "rope_theta": 10000.0,
            "short_factor": [1.0, 1.25, 1.5, 1.75], "long_factor": [1.0, 2.0, 3.0, 4.5]}
GEMMA3 = {"query_pre_attn_scalar": 12, "layer_types": ["sliding_attention", "sliding_attention"]}

# (name, golden model, keys that differ)
CASES = [
    ("llama", "llama", {}), ("llama_biases", "llama_biases", {}), ("llama_linear", "llama_linear", {}),
    ("llama3", "llama3", {}), ("llama_yarn", "llama_yarn", {"rope_parameters": YARN}),
    ("llama_yarn_scaled", "llama_yarn", {"rope_parameters": {**YARN, "attention_factor": 1.3}}),
    ("mistral_window", "mistral_window", {}), ("qwen2", "qwen2", {}), ("qwen3", "qwen3", {}), ("gpt2", "gpt2", {}),
    ("smollm3", "smollm3", {"no_rope_layers": [1, 1], "no_rope_layer_interval": 4}),
    ("olmo2", "olmo2", {}), ("granite", "granite", {}),
    ("granite_longrope", "granite", {"rope_parameters": LONGROPE, "rope_scaling": None}),
    ("phi3", "phi3", {}), ("phi4_mini", "phi4_mini", {}), ("gemma2", "gemma2", {"query_pre_attn_scalar": 12}),
    ("gemma3_text", "gemma3_text", GEMMA3),
    ("gemma3", "gemma3", {"text_config": GEMMA3}),
]


def changed_config(config, changes):
    """RFC 7386: objects are changed key by key, null takes a key out."""
    for key, value in changes.items():
        if value is None:
            config.pop(key, None)
        elif isinstance(value, dict):
            config[key] = changed_config(config.get(key) or {}, value)
        else:
            config[key] = value
    return config


def case_of(name, folder, changes, work):
    shutil.copytree(folder, work, dirs_exist_ok=True)
    config = changed_config(json.loads((work / "config.json").read_text()), changes)
    (work / "config.json").write_text(json.dumps(config))
    tensors = gguf_expected.expected_tensors(work, gguf_expected.weights_of(work))
    return {"case": name, "golden": folder.parent.name, "changes": changes,
            "fields": gguf_expected.all_but_tokenizer(work, NAME, "f32"),
            "tensors": [[to, list(reversed(value.shape)), zlib.crc32(np.ascontiguousarray(value, "<f4").tobytes())]
                        for to, value in sorted(tensors.items())]}


def main():
    target = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "tests/golden")
    cases = []
    for name, golden, changes in CASES:
        with tempfile.TemporaryDirectory() as work:
            cases.append(case_of(name, target / golden / "model", changes, pathlib.Path(work)))
    versions = f"gguf {importlib.metadata.version('gguf')}, transformers {transformers.__version__}"
    lines = ",\n".join(json.dumps(case) for case in cases)
    (target / "gguf.json").write_text(f'{{"made_with": {json.dumps(versions)}, "cases": [\n{lines}\n]}}\n')


if __name__ == "__main__":
    main()
