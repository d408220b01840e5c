#!/usr/bin/env python3
"""Records reference results of adapters with peft, for the tests that compare our engine with it.

    peft_goldens.py [--out tests/golden/peft] [case ...]

Needs torch, transformers, safetensors and peft (CPU is enough), and the goldens of make_goldens.py, whose models are
the bases. docs/dev/goldens.md describes the cases and their files. The same versions give the same bytes.
"""

import argparse
import contextlib
import copy
import dataclasses
import json
import pathlib
import shutil
import sys
import unittest.mock
import zlib
from dataclasses import dataclass

import peft
import safetensors.torch
import torch
import transformers
from peft.tuners.lora.dora import DoraLinearLayer
from peft.utils.other import get_pattern_key

import cases
import make_goldens as golden
import quantities as q
from exact import exact

ROOT = pathlib.Path(__file__).resolve().parents[2]
STEPS, MORE_STEPS = 5, 10
RANK, ALPHA = 4, 7  # a scale of 1.75, or 3.5: no power of two, so that a scale that is forgotten or rounded shows
PAIR, TABLE_PAIR = ("lora_A.weight", "lora_B.weight"), ("lora_embedding_A", "lora_embedding_B")
SEVEN = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
F32_ROUNDING_MAX = 1e-4  # some ten times what fp32 is off by here; a wrong formula is off by thousands of times that


@dataclass(frozen=True)
class AdapterCase:
    """An adapter to record on the model of the golden `base`."""

    name: str
    base: str
    config: peft.PeftConfig
    bare: bool = False  # a base of its own: the tensors of `base` without the prefix that transformers gives them
    dtype: torch.dtype = torch.float32  # of the tensors in the adapter's file
    steps: int = STEPS
    save_embedding_layers: bool | str = False  # "auto", peft's own default: also the tables of adapted tables


def lora(target_modules, **changes) -> peft.LoraConfig:
    return peft.LoraConfig(r=RANK, lora_alpha=ALPHA, target_modules=target_modules, task_type="CAUSAL_LM", **changes)


def make_cases() -> list[AdapterCase]:
    conv1d = ["c_attn", "c_proj", "c_fc"]
    attention = ["q_proj", "k_proj", "v_proj", "o_proj"]
    full_paths = [f"model.layers.{path}" for path in ("0.self_attn.k_proj", "0.mlp.down_proj", "1.self_attn.o_proj")]
    scales = peft.IA3Config(target_modules=["k_proj", "v_proj", "up_proj"], feedforward_modules=[],
                            task_type="CAUSAL_LM")  # fmt: skip
    inputs = peft.IA3Config(target_modules=["k_proj", "v_proj", "down_proj"], feedforward_modules=["down_proj"],
                            task_type="CAUSAL_LM")  # fmt: skip
    return [
        AdapterCase("gpt2", "gpt2", lora(conv1d, fan_in_fan_out=True)),
        AdapterCase("gpt2_bare", "gpt2", lora(conv1d, fan_in_fan_out=True), bare=True),
        AdapterCase("opt", "opt", lora(["q_proj", "v_proj", "fc1", "fc2"])),
        AdapterCase("opt_post_norm", "opt_post_norm", lora("all-linear")),
        AdapterCase("llama", "llama", lora("all-linear")),
        AdapterCase("llama_rslora", "llama", lora(["q_proj", "v_proj"], use_rslora=True)),
        AdapterCase("llama3_regex", "llama3", lora(r"model\.layers\.1\.self_attn\.[qo]_proj")),
        AdapterCase("llama_biases_full", "llama_biases", lora(full_paths)),
        AdapterCase("llama_linear_layer", "llama_linear", lora(attention, layers_to_transform=[1])),
        AdapterCase("mistral_window", "mistral_window", lora(["gate_proj", "up_proj", "down_proj"])),
        AdapterCase("qwen2", "qwen2", lora(SEVEN)),
        AdapterCase("qwen3", "qwen3", lora(SEVEN)),
        AdapterCase("qwen3_bf16", "qwen3", lora(SEVEN), dtype=torch.bfloat16),
        AdapterCase("ia3", "llama", scales),
        AdapterCase("ia3_feedforward", "llama_biases", inputs),
        AdapterCase("ia3_conv1d", "gpt2", peft.IA3Config(target_modules=["c_attn", "mlp.c_proj"], fan_in_fan_out=True,
                    feedforward_modules=["mlp.c_proj"], task_type="CAUSAL_LM")),  # fmt: skip
        AdapterCase("llama_ranks", "llama", lora(SEVEN, rank_pattern={"q_proj": 2, "layers.1.mlp.*_proj": 9,
                    "o_proj": 48}, alpha_pattern={r"model\.layers\.0\.self_attn\.[kv]_proj": 3, "q_proj": 5})),  # fmt: skip
        AdapterCase("llama_whole", "llama", lora(["q_proj"], modules_to_save=["lm_head", "embed_tokens", "norm"]),
                    steps=MORE_STEPS),
        AdapterCase("qwen2_whole_head", "qwen2", lora(["v_proj"], modules_to_save=["lm_head"]), steps=MORE_STEPS),
        AdapterCase("qwen2_whole_table", "qwen2", lora(["v_proj"], modules_to_save=["embed_tokens"]), steps=MORE_STEPS),
        AdapterCase("qwen2_whole_ends", "qwen2", lora(["v_proj"], modules_to_save=["lm_head", "embed_tokens"]),
                    steps=MORE_STEPS),
        AdapterCase("qwen2_whole_tied", "qwen2", lora(["v_proj"], modules_to_save=["embed_tokens"],
                    ensure_weight_tying=True), steps=MORE_STEPS),  # fmt: skip
        AdapterCase("ia3_whole", "llama", dataclasses.replace(scales, modules_to_save=["lm_head"]), steps=MORE_STEPS),
        AdapterCase("llama_tables", "llama", lora(["q_proj", "embed_tokens", "lm_head"], rank_pattern={"lm_head": 3},
                    alpha_pattern={"embed_tokens": 5}), save_embedding_layers="auto", steps=MORE_STEPS),  # fmt: skip
        AdapterCase("gemma2_tables", "gemma2", lora(["embed_tokens", "lm_head"]), steps=MORE_STEPS),
        AdapterCase("granite_head", "granite", lora(["v_proj", "lm_head"]), steps=MORE_STEPS),
        AdapterCase("gpt2_table", "gpt2", lora(["c_attn", "wte"], fan_in_fan_out=True), steps=MORE_STEPS),
        AdapterCase("llama_tokens", "llama", lora(["q_proj"], trainable_token_indices={"embed_tokens": [7, 3, 41],
                    "lm_head": [5, 0]}), steps=MORE_STEPS),  # fmt: skip
        AdapterCase("qwen2_tokens", "qwen2", lora(["v_proj"], trainable_token_indices=[11, 2]), steps=MORE_STEPS),
        AdapterCase("tokens", "gemma2", peft.TrainableTokensConfig(token_indices=[9, 4], task_type="CAUSAL_LM"),
                    steps=MORE_STEPS),
        AdapterCase("dora", "qwen2", lora(SEVEN, use_dora=True), steps=MORE_STEPS),
        AdapterCase("dora_conv1d", "gpt2", lora(conv1d, use_dora=True, fan_in_fan_out=True), steps=MORE_STEPS),
        AdapterCase("dora_ranks", "llama", lora(attention, use_dora=True, use_rslora=True, rank_pattern={"q_proj": 2},
                    alpha_pattern={r"layers\.1\..*\.v_proj": 3}), steps=MORE_STEPS),  # fmt: skip
    ]


def strip_prefix(source: pathlib.Path, folder: pathlib.Path, prefix: str) -> None:
    """Writes the model of `source` as some published files have it: the decoder's tensors under bare names."""
    folder.mkdir(parents=True)
    shutil.copy(source / "config.json", folder)
    tensors = safetensors.torch.load_file(source / "model.safetensors")
    bare = {name.removeprefix(prefix): tensor for name, tensor in tensors.items()}
    safetensors.torch.save_file(bare, folder / "model.safetensors", metadata={"format": "pt"})


def assert_same_model(model_class, one: pathlib.Path, other: pathlib.Path) -> None:
    models = [golden.load(model_class, folder, torch.float32).state_dict() for folder in (one, other)]
    assert models[0].keys() == models[1].keys()
    assert all(torch.equal(models[0][name], models[1][name]) for name in models[0])


def name_in_file(parameter: str) -> str:
    """peft keeps out of its files the name of the adapter, the wrapper of what trains whole, and that magnitudes are a
    module's weight."""
    name = parameter.replace("lora_magnitude_vector.default.weight", "lora_magnitude_vector")
    return name.replace(".modules_to_save.default", "").replace(".default", "")


def is_of_base(name: str) -> bool:
    """A table that peft saved next to its adapter."""
    return name.endswith(".base_layer.weight")


def by_name_in_file(tensors: dict) -> dict:
    return {name_in_file(name): value for name, value in tensors.items()}


def write_adapter(case, model_class, base: pathlib.Path, base_path: str, folder: pathlib.Path, generator) -> None:
    """A random adapter, saved by peft; B is not 0, scales are near 1, magnitudes near the norms of the base's rows."""
    model = peft.get_peft_model(golden.load(model_class, base, torch.float32), copy.deepcopy(case.config))
    with torch.no_grad():
        for name, param in q.trained_parameters(model).items():
            noise = torch.randn(param.shape, generator=generator)
            if "lora_magnitude_vector" in name:
                param.mul_(1 + 0.2 * noise)
            elif "modules_to_save" in name or q.TOKEN_ROWS in name:
                param.add_(0.1 * noise)
            else:
                param.copy_(0.2 * noise + (1 if "ia3_l" in name else 0))
    config = model.peft_config["default"]
    config.base_model_name_or_path = base_path  # from the root of the repository
    for key in ("target_modules", "feedforward_modules"):  # sets, whose order differs from run to run
        if isinstance(getattr(config, key, None), set):
            setattr(config, key, sorted(getattr(config, key)))
    model.save_pretrained(folder, save_embedding_layers=case.save_embedding_layers)
    (folder / "README.md").unlink()
    if case.dtype != torch.float32:
        path = folder / "adapter_model.safetensors"
        tensors = {name: tensor.to(case.dtype) for name, tensor in safetensors.torch.load_file(path).items()}
        safetensors.torch.save_file(tensors, path, metadata={"format": "pt"})


def load_adapted(model_class, base: pathlib.Path, adapter: pathlib.Path, dtype):
    """The base in `dtype`, frozen, with the adapter in the same type, trainable."""
    model = peft.PeftModel.from_pretrained(golden.load(model_class, base, dtype), adapter, is_trainable=True).eval()
    file = safetensors.torch.load_file(adapter / "adapter_model.safetensors")
    stored = {name: tensor for name, tensor in file.items() if not is_of_base(name)}
    held = by_name_in_file(q.trained_parameters(model))
    assert held.keys() <= stored.keys()  # peft writes a tied table under both names
    assert all(torch.equal(held[name].double(), stored[name].double()) for name in held)
    assert all(param.dtype == dtype for param in model.parameters())
    return model


@contextlib.contextmanager
def held_norms(model, ids):
    """Within it the norms of DoRA are those of now: its gradients take them for constants."""
    norm_of, norms = DoraLinearLayer.get_weight_norm, {}

    def keep(layer, *args, **kwargs):
        norms[layer] = norm_of(layer, *args, **kwargs).detach()
        return norms[layer]

    with unittest.mock.patch.object(DoraLinearLayer, "get_weight_norm", keep):
        q.logits_of(model, ids)
    with unittest.mock.patch.object(DoraLinearLayer, "get_weight_norm", lambda layer, *args, **kwargs: norms[layer]):
        yield


def delta_of(weight, config, adapter: dict, module: str):
    """What merging should add to a weight, in fp64: W (l - 1) for scales, s B A for LoRA, and with magnitudes what
    gives each output's numbers their norm after that."""
    own = {name: tensor for name, tensor in adapter.items() if name.startswith(f"{module}.")}
    tensors = {name.removeprefix(f"{module}."): tensor.double() for name, tensor in own.items()}
    is_conv1d = getattr(config, "fan_in_fan_out", False)
    if "ia3_l" in tensors:
        return weight * (tensors["ia3_l"].T if is_conv1d else tensors["ia3_l"]) - weight
    is_table = "lora_embedding_A" in tensors
    a, b = [tensors[name] for name in (TABLE_PAIR if is_table else PAIR)]
    path, rank = module.removeprefix("base_model.model."), a.shape[0]
    alpha = config.alpha_pattern.get(get_pattern_key(config.alpha_pattern, path), config.lora_alpha)
    assert rank == config.rank_pattern.get(get_pattern_key(config.rank_pattern, path), config.r)
    scale = alpha / (rank**0.5 if config.use_rslora else rank)
    product = scale * b @ a
    is_in_out = is_table or (is_conv1d and module.rsplit(".", 1)[-1] != "lm_head")  # the head is no Conv1D
    if "lora_magnitude_vector" in tensors:
        rows = (weight.T if is_conv1d else weight) + product
        product = tensors["lora_magnitude_vector"][:, None] * rows / rows.norm(dim=1, keepdim=True) - rows + product
    return product.T if is_in_out else product


def tokens_of(config, module: str) -> list[int]:
    """Those whose rows of a module train."""
    tokens = getattr(config, "trainable_token_indices", None) or config.token_indices
    return tokens[module.rsplit(".", 1)[-1]] if isinstance(tokens, dict) else tokens


def assert_merges(model_class, base: pathlib.Path, adapter: pathlib.Path) -> None:
    """peft's merged weights are those of the formulas that docs/dev/goldens.md states."""
    stored = safetensors.torch.load_file(adapter / "adapter_model.safetensors")
    config, plain = peft.PeftConfig.from_pretrained(adapter), golden.load(model_class, base, torch.float32)
    before = plain.state_dict()
    for name in [name for name in stored if is_of_base(name)]:
        module = name.removeprefix("base_model.model.").removesuffix(".base_layer.weight")
        assert torch.equal(stored.pop(name), before[f"{module}.weight"]), f"{name} is not the base's"
    after = load_adapted(model_class, base, adapter, torch.float32).merge_and_unload().state_dict()
    for name in [name for name in stored if name.endswith(q.TOKEN_ROWS)]:
        module = name.removeprefix("base_model.model.").removesuffix(f".{q.TOKEN_ROWS}").removesuffix(".token_adapter")
        rows = stored.pop(name)
        if f"{module}.weight" not in before:  # the other end of a tied table, whose rows are the same
            continue
        expected = before[f"{module}.weight"].clone()
        expected[tokens_of(config, module)] = rows
        ends = [end for end, tensor in before.items() if tensor.data_ptr() == before[f"{module}.weight"].data_ptr()]
        assert all(torch.equal(after[end], expected) for end in ends), f"{module} merges to something else"
        for end in ends:
            before.pop(end), after.pop(end)
    whole = {name for name in stored if ".lora_" not in name and ".ia3_l" not in name}
    for name in whole:
        weight = name.removeprefix("base_model.model.")
        assert torch.equal(after[weight], stored[name]), f"{weight} merges to something else"
        before.pop(weight), after.pop(weight)
    modules = {name.rsplit(".lora_", 1)[0].removesuffix(".ia3_l") for name in stored.keys() - whole}
    if plain.config.get_text_config().tie_word_embeddings:  # peft adds what one end has learnt to both
        ends = [name for name, tensor in before.items() if tensor.data_ptr() == plain.lm_head.weight.data_ptr()]
        adapted = modules & {f"base_model.model.{name.removesuffix('.weight')}" for name in ends}
        modules -= adapted
        for name in ends if adapted else []:
            before.pop(name), after.pop(name)
    for module in modules:
        weight = module.removeprefix("base_model.model.") + ".weight"
        expected = before[weight].double() + delta_of(before[weight].double(), config, stored, module)
        assert golden.max_difference(after[weight], expected) < 1e-6, f"{weight} merges to something else"
        before.pop(weight), after.pop(weight)
        bias, scales = weight.removesuffix("weight") + "bias", stored.get(f"{module}.ia3_l")
        if scales is not None and scales.shape[1] == 1 and bias in before:  # of a layer's output, bias and all
            assert golden.max_difference(after[bias], before[bias].double() * scales.flatten().double()) < 1e-6
            before.pop(bias), after.pop(bias)
    assert all(torch.equal(before[name], after[name]) for name in before), "merging changed another tensor"


def assert_matters(model, ids, reference) -> None:
    """Without the adapter the logits are others, and every tensor of it has a gradient."""
    with model.disable_adapter(), torch.no_grad():
        assert golden.max_difference(q.logits_of(model, ids), reference["logits"]) > 1e-2
    for name, grad in reference["grads"].items():
        assert (grad.abs() > 1e-9).any(), f"{name} does not matter"


def describe(case) -> dict:
    return {
        "format": "windlass-peft-golden 1",
        "case": case.name,
        "base": "own" if case.bare else case.base,
        "made_with": golden.made_with("peft_goldens.py", peft=peft.__version__),
    }


def read_batches(base: str) -> list[tuple[torch.Tensor, torch.Tensor]]:
    tensors = safetensors.torch.load_file(ROOT / "tests/golden" / base / "golden.safetensors")
    return [(tensors["ids"], tensors["targets"]), (tensors["ids_b"], tensors["targets_b"])]


def record(case, out: pathlib.Path) -> None:
    """Writes one case below `out`."""
    generator = torch.Generator().manual_seed(zlib.crc32(f"peft {case.name}".encode()))
    folder = out / case.name
    shutil.rmtree(folder, ignore_errors=True)
    model_class = golden.class_of({make.__name__: make for make in cases.ALL}[case.base]().config)
    base, base_path = ROOT / "tests/golden" / case.base / "model", f"tests/golden/{case.base}/model"
    if case.bare:
        strip_prefix(base, folder / "model", f"{model_class.base_model_prefix}.")
        assert_same_model(model_class, base, folder / "model")
        base, base_path = folder / "model", f"tests/golden/peft/{case.name}/model"
    adapter = folder / "adapter"
    write_adapter(case, model_class, base, base_path, adapter, generator)
    assert_merges(model_class, base, adapter)
    batches = read_batches(case.base)

    with exact(model_class):
        model = load_adapted(model_class, base, adapter, torch.float64)
        direction = {name: torch.randn(p.shape, generator=generator) for name, p in q.trained_parameters(model).items()}
        reference = golden.measure(model, batches, direction, case.steps, held_norms)
        assert_matters(model, batches[0][0], reference)
    deviation = golden.deviation_of_f32(load_adapted(model_class, base, adapter, torch.float32), batches, reference)
    deviation["final"] = by_name_in_file(deviation["final"])
    assert max(deviation["logits"], deviation["loss"], deviation["grad"], deviation["step_losses"]) < F32_ROUNDING_MAX

    facts = {
        **describe(case),
        **golden.describe_measured(reference),
        "training": golden.describe_training(reference["step_losses"], reference["step_grad_norms"]),
        "f32_deviation": deviation,
    }
    tensors = by_name_in_file(golden.tensors_of(batches, direction, reference))
    safetensors.torch.save_file({name: golden.stored(t) for name, t in tensors.items()}, folder / "golden.safetensors")
    (folder / "golden.json").write_text(json.dumps(facts, indent=1) + "\n")
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    strays = deviation["logits"]
    print(f"{case.name}: loss {facts['loss']:.6f}, {size / 1e3:.0f} kB, logits in fp32 off by {strays:.1e}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "tests/golden/peft")
    parser.add_argument("cases", nargs="*", metavar="case", help="default: all")
    args = parser.parse_args()
    known = {case.name: case for case in make_cases()}
    if unknown := set(args.cases) - set(known):
        sys.exit(f"peft_goldens: no case {sorted(unknown)}; there are {sorted(known)}")
    torch.set_num_threads(1)
    transformers.utils.logging.disable_progress_bar()
    for name in args.cases or known:
        record(known[name], args.out)


if __name__ == "__main__":
    main()
