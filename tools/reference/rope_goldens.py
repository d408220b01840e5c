#!/usr/bin/env python3
"""Records what transformers makes of every rope key at every place of config.json: tests/golden/rope.json.

    rope_goldens.py [--older FILE] [--out tests/golden/rope.json]

A change is a set of keys that is written into the configuration of each family in turn. The result is the rope table
that the model builds, in double: inverse frequencies, those for long texts, where these begin, and the scale of the
turned channels; one table a type of layer for Gemma 3, else one. null: transformers fails. FILE is what this script
wrote with transformers 4.57, which does not know rope_parameters: of other changes it has the result where the newer
one fails, and those for which it builds another table are listed as disagreed. Keys without effect are those of the file itself without which all results are the same.
"""

import argparse
import copy
import importlib
import itertools
import json
import logging
import pathlib

import torch
import transformers

from exact import exact

HEAD = 16
PAIRS = HEAD // 2
LAYER_TYPES = ["full_attention", "sliding_attention"]
FILE, OLD, FLAT, FULL, SLIDING = "file", "rope_scaling", "rope_parameters", *LAYER_TYPES
ORIGINAL = "original_max_position_embeddings"
OFTEN = {"factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
LISTS = {"short_factor": [1 + i / 4 for i in range(PAIRS)], "long_factor": [2 + i for i in range(PAIRS)]}
KINDS = {
    "default": {},
    "linear": {"factor": 4.0},
    "llama3": {**OFTEN, ORIGINAL: 16},
    "yarn": {"factor": 4.0, ORIGINAL: 16},
    "longrope": {**LISTS, ORIGINAL: 16},
}


def sizes(model_type: str, **changes) -> dict:
    return {"model_type": model_type, "vocab_size": 96, "hidden_size": 64, "intermediate_size": 48,
            "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": HEAD,
            "max_position_embeddings": 64, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0,
            **changes}  # fmt: skip


FAMILIES = {name: sizes(name) for name in ["llama", "mistral", "qwen2", "qwen3", "smollm3", "olmo2", "granite", "phi3"]}
FAMILIES["gemma2"] = sizes("gemma2", sliding_window=7)
FAMILIES["gemma3_text"] = sizes("gemma3_text", sliding_window=7, sliding_window_pattern=2)
FAMILIES["gemma3"] = {"model_type": "gemma3", "text_config": FAMILIES["gemma3_text"], "vision_config": {
    "model_type": "siglip_vision_model", "hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1,
    "num_attention_heads": 1}}  # fmt: skip


def section(kind: str, name: str = "rope_type", **changes) -> dict:
    return {name: kind, **KINDS[kind], **changes}


def without(keys: dict, *names: str) -> dict:
    return {key: value for key, value in keys.items() if key not in names}


def at(place: str, keys: dict) -> dict:
    """A configuration with these keys at this place."""
    if place == FILE:
        return dict(keys)
    if place in LAYER_TYPES:
        return {FLAT: {place: dict(keys)}}
    return {place: dict(keys)}


def kinds() -> list[dict]:
    found = [{}, {"rope_theta": 88.0}, {"rope_local_base_freq": 33.0}]
    for kind in KINDS:
        for name in ["rope_type", "type"]:
            for place in [OLD, FLAT, FULL, SLIDING]:
                found.append({**at(place, section(kind, name)), "rope_theta": 1000.0})
        found.append({FLAT: {part: section(kind) for part in LAYER_TYPES}, "rope_theta": 1000.0})
        found.append({FLAT: {part: section(kind, rope_theta=1000.0) for part in LAYER_TYPES}})
    for names in [{"rope_type": "linear", "type": "linear"}, {"rope_type": "linear", "type": "default"}]:
        found += [at(place, {**names, "factor": 4.0}) for place in [OLD, FLAT, FULL]]
    for place in [OLD, FLAT, FULL]:
        found += [at(place, {}), at(place, {"factor": 4.0}), at(place, {"rope_type": None, "factor": 4.0}),
                  at(place, {"type": None, "factor": 4.0}), at(place, {"rope_type": "linear", "factor": None}),
                  at(place, {"rope_type": "su", **LISTS, ORIGINAL: 16}), at(place, {"type": "su", **LISTS}),
                  at(place, {"type": "yarn", **LISTS, ORIGINAL: 16}), at(place, section("linear", low_freq_factor=1.0))
                  ]  # fmt: skip
    return found


def bases() -> list[dict]:
    """rope_theta and rope_local_base_freq, alone and next to each other, and next to the same value."""
    found = []
    for place in [OLD, FLAT, FULL, SLIDING]:
        for base, local, own in itertools.product([None, 88.0], [None, 33.0], [None, 44.0, 88.0, 33.0]):
            if own in (88.0, 33.0) and own not in (base, local):
                continue
            keys = {"rope_type": "default", **({"rope_theta": own} if own else {})}
            found.append({**at(place, keys), **({"rope_theta": base} if base else {}),
                          **({"rope_local_base_freq": local} if local else {})})  # fmt: skip
        found.append(at(place, {"rope_type": "default", "rope_theta": None}))
        found.append(at(place, section("linear", rope_theta=50.0)))
    both = {FULL: {"rope_type": "default", "rope_theta": 88.0}, SLIDING: {"rope_type": "default", "rope_theta": 44.0}}
    found += [{FLAT: both, **more} for more in [{}, {"rope_theta": 88.0}, {"rope_theta": 77.0},
                                                {"rope_local_base_freq": 44.0}, {"rope_local_base_freq": 33.0}]]
    found += [{"rope_theta": 88.0, FLAT: {}}, {"rope_theta": None}, {"rope_local_base_freq": None},
              {"rope_theta": 88.0, "rope_local_base_freq": 33.0},
              {"rope_theta": 88.0, "rope_local_base_freq": 33.0, OLD: section("linear")},
              {OLD: None}, {FLAT: None}, {OLD: {}, FLAT: section("linear")}]  # fmt: skip
    return found


def lengths() -> list[dict]:
    """original_max_position_embeddings in the file, in the object, in both, in neither."""
    found = [{ORIGINAL: 32}, {ORIGINAL: 32, OLD: section("linear")}, {ORIGINAL: None},
             {FLAT: section("default"), ORIGINAL: None}]  # fmt: skip
    for kind, place in itertools.product(["llama3", "yarn", "longrope"], [OLD, FLAT, FULL]):
        bare = without(section(kind), ORIGINAL)
        found += [{**at(place, bare), ORIGINAL: 32}, at(place, bare), {**at(place, section(kind)), ORIGINAL: 32},
                  {**at(place, section(kind)), ORIGINAL: 16}, {**at(place, section(kind)), ORIGINAL: None},
                  at(place, {**bare, ORIGINAL: None})]  # fmt: skip
        found.append(at(place, {**bare, ORIGINAL: 4096}))
    return found


def shares() -> list[dict]:
    key = "partial_rotary_factor"
    found = [{key: 0.5}, {key: 1.0}, {key: None}]
    for place in [OLD, FLAT, FULL]:
        for kind in ["default", "linear"]:
            found += [at(place, section(kind, **{key: value})) for value in [0.5, 1.0, None]]
        found += [{**at(place, section("default", **{key: 0.5})), key: file} for file in [0.5, 0.75, 1.0]]
    half = {name: values[:4] for name, values in LISTS.items()}
    for place in [OLD, FLAT]:
        found += [{**at(place, {"rope_type": "longrope", **half}), key: 0.5, ORIGINAL: 16},
                  {**at(place, {"rope_type": "longrope", **half, key: 0.5}), ORIGINAL: 16}]  # fmt: skip
    return found


def details() -> list[dict]:
    """The other keys of yarn and longrope, at each place and where nobody reads them."""
    yarn = [{"attention_factor": 1.3}, {"attention_factor": None}, {"beta_fast": 3.0, "beta_slow": 0.5},
            {"beta_fast": None, "beta_slow": None}, {"mscale": 2.0, "mscale_all_dim": 0.5}, {"mscale": 2.0},
            {"mscale": None, "mscale_all_dim": None}, {"truncate": False}, {"truncate": True},
            {"truncate": None}]  # fmt: skip
    longrope = [{"factor": 2.0}, {"factor": 4.0}, {"factor": None}, {"attention_factor": 1.3},
                {"factor": 2.0, "attention_factor": 1.3}]  # fmt: skip
    found = []
    for place in [OLD, FLAT, FULL]:
        found += [at(place, section("yarn", **more)) for more in yarn]
        found += [at(place, section("longrope", **more)) for more in longrope]
        found += [{**at(place, without(section("longrope"), ORIGINAL)), **more, ORIGINAL: 16}
                  for more in longrope[:2]]  # in the file, where nobody reads them
        found += [{**at(place, without(section("longrope", **more), ORIGINAL)), ORIGINAL: 16} for more in longrope]
        found.append({**at(place, section("yarn")), "truncate": False, "beta_fast": 3.0})
        found.append({**at(place, section("linear")), "factor": 8.0, "attention_factor": 1.3})
    return found


def parts() -> list[dict]:
    """Both objects, parts of other names, and keys next to parts."""
    linear, other = section("linear"), section("linear", factor=2.0)
    found = [{OLD: linear, FLAT: linear}, {OLD: linear, FLAT: other}, {OLD: linear, FLAT: {}},
             {OLD: linear, FLAT: {FULL: linear}}, {OLD: linear, FLAT: {FULL: other}},
             {OLD: linear, FLAT: {FULL: section("linear", rope_theta=50.0)}},
             {OLD: section("default"), FLAT: {FULL: linear}}, {OLD: section("default"), FLAT: {}}, {OLD: {FULL: linear}}, {OLD: {"foo": linear}}]  # fmt: skip
    for part in [linear, section("default"), {}, None, 4.0]:
        found += [{FLAT: {name: part}} for name in ["foo", "chunked_attention", FULL, SLIDING]]
        found.append({FLAT: {**section("linear"), "foo": part}})
        found.append({FLAT: {"rope_type": "default", FULL: linear, "foo": part}})
    for more in [{"rope_type": "default"}, {"type": "default"}, {"rope_theta": 50.0}, {"rope_type": "linear"},
                 {"factor": 2.0}, {"truncate": False}, {"truncate": True}, {"rope_type": None}]:  # fmt: skip
        found.append({FLAT: {FULL: section("yarn"), **more}})
        found.append({FLAT: {FULL: linear, SLIDING: other, **more}})
    return found


def configuration(base: dict, changes: dict):
    """As from_pretrained reads it, or of a model that sees, that of its text."""
    keys = copy.deepcopy({**base, **changes})
    if "text_config" in base:
        keys = copy.deepcopy({**base, "text_config": {**base["text_config"], **changes}})
    return transformers.CONFIG_MAPPING[base["model_type"]].from_dict(keys).get_text_config()


def rotary(config):
    """The class of the rope that the family's models build."""
    module = importlib.import_module(type(config).__module__.replace("configuration_", "modeling_"))
    names = [name for name in vars(module) if name.endswith("RotaryEmbedding") and "Vision" not in name]
    assert len(names) == 1, names
    return getattr(module, names[0])


def table(config, inv_freq, scale, layer_type=None) -> list:
    """[frequencies, scale], and for longrope [..., long frequencies, the length from which they count]."""
    rope = getattr(config, "rope_parameters", None) or getattr(config, "rope_scaling", None) or {}
    if layer_type:
        rope = rope[layer_type]
    found = [inv_freq.tolist(), float(scale)]
    if rope.get("rope_type", rope.get("type")) == "longrope":
        length = rope.get(ORIGINAL) if hasattr(config, "rope_parameters") else None
        length = length or getattr(config, ORIGINAL, None) or config.max_position_embeddings
        init = transformers.modeling_rope_utils.ROPE_INIT_FUNCTIONS["longrope"]
        more = {"layer_type": layer_type} if layer_type else {}
        found += [init(config, torch.device("cpu"), seq_len=length + 1, **more)[0].tolist(), length]
    return found


def tables(base: dict, changes: dict) -> list | None:
    """By type of layer; None where transformers fails."""
    try:
        config = configuration(base, changes)
        model_type = config.model_type
        build = rotary(config)
        with exact(build):
            rope = build(config)
            if model_type != "gemma3_text":
                found = [table(config, rope.inv_freq, rope.attention_scaling)]
            elif hasattr(config, "rope_parameters"):
                found = [table(config, getattr(rope, f"{name}_inv_freq"), getattr(rope, f"{name}_attention_scaling"),
                               name) for name in LAYER_TYPES]  # fmt: skip
            else:
                local = copy.deepcopy(config)
                local.rope_theta, local.rope_scaling = config.rope_local_base_freq, {"rope_type": "default"}
                local_rope = build(local)
                found = [table(config, rope.inv_freq, rope.attention_scaling),
                         table(local, local_rope.inv_freq, local_rope.attention_scaling)]  # fmt: skip
    except Exception:  # whatever it is, no number comes out
        return None
    # Only Phi's attention turns a part of a head; in the others the first product of the forward pass fails.
    whole = all(len(one[0]) == PAIRS for one in found)
    return found if whole or model_type == "phi3" else None


def without_effect(base: dict, every: list[dict]) -> list[str]:
    """Keys of the file itself that change no result of this family, whatever else is there."""
    keys = {key for change in every for key in change if key not in (OLD, FLAT)}
    return sorted(key for key in keys if all(tables(base, change) == tables(base, without(change, key))
                                             for change in every if key in change))  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--older", type=pathlib.Path)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("tests/golden/rope.json"))
    args = parser.parse_args()
    logging.disable(logging.WARNING)
    older = json.loads(args.older.read_text()) if args.older else None
    every = kinds() + bases() + lengths() + shares() + details() + parts()
    every = [json.loads(text) for text in dict.fromkeys(json.dumps(change) for change in every)]
    known: dict[str, int] = {}
    expected, disagreed = {}, {}
    for family, base in FAMILIES.items():
        rows = [tables(base, change) for change in every]
        if older:
            assert older["changes"] == every
            before = [row and [older["tables"][i] for i in row] for row in older["expected"][family]]
            before = [None if change.get(FLAT) else row for change, row in zip(every, before)]
            disagreed[family] = [i for i, (new, old) in enumerate(zip(rows, before)) if new and old and new != old]
            rows = [new or old for new, old in zip(rows, before)]
        expected[family] = [row and [known.setdefault(json.dumps(one), len(known)) for one in row] for row in rows]
    golden = {"made_with": f"transformers {transformers.__version__}, torch {torch.__version__}",
              "older": older and older["made_with"], "families": FAMILIES, "changes": every,
              "without_effect": {family: without_effect(base, every) for family, base in FAMILIES.items()},
              "tables": [json.loads(text) for text in known], "expected": expected, "disagreed": disagreed}  # fmt: skip
    lines = [f"{json.dumps(key)}: " + (json.dumps(value, separators=(",", ":")) if key != "changes" else
             "[\n" + ",\n".join(json.dumps(one, separators=(",", ":")) for one in value) + "\n]")
             for key, value in golden.items()]  # fmt: skip
    args.out.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    print(f"{len(every)} changes, {len(known)} tables, {args.out.stat().st_size} bytes")


if __name__ == "__main__":
    main()
