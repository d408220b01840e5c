#!/usr/bin/env python3
"""Whether others can open an adapter that Windlass wrote, and get from it what Windlass got.

    check_peft.py --base DIR --adapter DIR --ids FILE --logits FILE [--merged DIR]

FILEs are safetensors: `ids` I64 [B, T], and `logits` F32 [B, T, V] as Windlass computed them with the adapter; they may
be one file. DIR of --merged is the model folder into which Windlass merged it. Prints a line for each check, and exits
with 1 if one failed. Needs torch, transformers, safetensors and peft; docs/dev/goldens.md says what is checked and why.
"""

import argparse
import json
import pathlib
import sys
import textwrap
import warnings

import peft
import safetensors.torch
import torch
import transformers
from peft.tuners.trainable_tokens.layer import TrainableTokensLayer
from peft.tuners.tuners_utils import BaseTunerLayer

import make_goldens as golden
import quantities as q
from peft_goldens import name_in_file

LOGITS_RELATIVE_MAX = 1e-4  # two engines in f32 that sum in different orders, as the other goldens
MESSAGE_LENGTH_MAX = 400
VLLM_RANK_MAX = 512  # the largest that --max-lora-rank takes
PREFIX = "base_model.model."
HALVES = (".lora_A.weight", ".lora_B.weight")
# What peft says of every adapter of one end of a tied table, and of the head of a GPT-2 next to Conv1D.
HARMLESS = ("Model with `tie_word_embeddings=True`", "Model has `tie_word_embeddings=True`",
            "fan_in_fan_out is set to")  # fmt: skip
TABLES = {"embed_tokens", "embed_positions", "wte", "wpe", "lm_head"}


class Failed(Exception):
    """A check's finding, in words."""


def require(holds, message: str) -> None:
    if not holds:
        raise Failed(message)


def some(names) -> str:
    names = sorted(names)
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")


def require_none(**kinds) -> None:
    """Fails with the names of every kind that has any."""
    found = [f"{kind.replace('_', ' ')}: {some(names)}" for kind, names in kinds.items() if names]
    require(not found, "; ".join(found))


def read_tensor(path: pathlib.Path, name: str) -> torch.Tensor:
    return safetensors.torch.load_file(path)[name]


def model_of(folder) -> torch.nn.Module:
    return golden.load(transformers.AutoModelForCausalLM, folder, torch.float32)


def module_of(key: str) -> str:
    """The module that a tensor of an adapter's file belongs to, as transformers names it."""
    return key.removeprefix(PREFIX).rsplit(".lora_", 1)[0].removesuffix(".ia3_l").removesuffix(f".{q.TOKEN_ROWS}")


def is_whole(key: str) -> bool:
    """A parameter of the base that trained whole (modules_to_save)."""
    return ".lora_" not in key and not key.endswith((".ia3_l", q.TOKEN_ROWS))


class Adapter:
    """The folder as it lies on disk, and what peft makes of it on top of the base."""

    def __init__(self, base: pathlib.Path, folder: pathlib.Path):
        self.folder = folder
        self.config = json.loads((folder / "adapter_config.json").read_text())
        self.tensors = safetensors.torch.load_file(folder / "adapter_model.safetensors")
        self.is_lora = self.config.get("peft_type") == "LORA"
        self.base = model_of(base)
        self.base_tensors = {name: tensor.clone() for name, tensor in self.base.state_dict().items()}
        self.model = None

    def load(self):
        """What PeftModel.from_pretrained does; that one drops the result of loading and only warns of missing keys.

        Returns the model, that result, and the warnings: of keys that peft does not know, or puts right by itself.
        """
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                config = peft.PeftConfig.from_pretrained(self.folder)
                config.inference_mode = True
                model = peft.PeftModelForCausalLM(self.base, config)
                result = model.load_adapter(self.folder, "default")
            except (KeyError, TypeError, ValueError, RuntimeError) as error:  # no module matches; a shape is another
                raise Failed(textwrap.shorten(str(error), MESSAGE_LENGTH_MAX)) from error
        ours = (UserWarning, RuntimeWarning)  # and not those of what will be deprecated
        said = {str(warning.message) for warning in caught if issubclass(warning.category, ours)}
        said = {message for message in said if not message.startswith(HARMLESS)}
        return model.eval(), result, said

    def open(self) -> str:
        """peft opens the folder in silence, its modules are those of the file, and no key is missing or unexpected."""
        model, result, said = self.load()
        held = {module_of(key) for key in self.tensors if not is_whole(key)}
        wanted = {name for name, module in model.get_base_model().named_modules() if isinstance(module, BaseTunerLayer)
                  and (name in held or not getattr(module, "tied_adapter", None))}  # fmt: skip
        # Beside load_result: what it holds is filtered by the adapter's prefix, and this is not.
        keys = peft.get_peft_model_state_dict(model, save_embedding_layers=False).keys()
        require_none(
            missing_keys={name_in_file(key) for key in result.missing_keys} | (keys - self.tensors.keys()),
            unexpected_keys=set(result.unexpected_keys) | (self.tensors.keys() - keys),
            adapted_without_tensors=wanted - held,
            tensors_of_modules_that_are_not_adapted=held - wanted,
            warnings_of_peft=said,
        )
        self.model = model
        return f"{len(wanted)} modules, {len(keys)} tensors"

    def refused_by_others(self) -> set[str]:
        """Fields that say what llama.cpp and vLLM do not read."""
        fields = ("modules_to_save", "use_dora", "rank_pattern", "alpha_pattern", "trainable_token_indices")
        return {field for field in fields if self.config.get(field)}


def compare_logits(model, ids, logits) -> str:
    with torch.no_grad():
        theirs = q.logits_of(model, ids)
    require(theirs.shape == logits.shape, f"shape {list(logits.shape)}, peft's is {list(theirs.shape)}")
    require(torch.isfinite(logits).all(), "not all finite")
    difference, allowed = golden.max_difference(theirs, logits), LOGITS_RELATIVE_MAX * max(1, theirs.abs().max().item())
    message = f"max difference {difference:.2e}, allowed {allowed:.2e}"
    require(difference <= allowed, message)
    return message


def check_transformers(folder: pathlib.Path, ids, logits) -> str:
    """transformers opens the adapter's folder by itself, with the base that it names."""
    return compare_logits(model_of(folder), ids, logits)


def read_folder(folder: pathlib.Path) -> dict[str, torch.Tensor]:
    files = sorted(folder.glob("*.safetensors"))
    require(files, f"no safetensors file in {folder}")
    return {name: tensor for file in files for name, tensor in safetensors.torch.load_file(file).items()}


def spacing(dtype: torch.dtype, size: torch.Tensor) -> torch.Tensor:
    """One unit in the last place of `dtype` at numbers of this size, in fp64."""
    _, exponent = torch.frexp(size.double().abs().clamp(min=torch.finfo(dtype).tiny))
    return torch.ldexp(torch.full_like(size, torch.finfo(dtype).eps, dtype=torch.float64), exponent - 1)


def rounding_bounds(model) -> dict[str, torch.Tensor]:
    """For each weight that peft merges in f32, the most that its own roundings can amount to.

    W + s B A rounds r times in a product's sum, once for s and once for the sum with W, each time by half a unit of at
    most |W| + s |B| |A|; where terms cancel this is more than one unit of the result. A weight that is only scaled
    rounds once.
    """
    bounds = {}
    for name, layer in model.get_base_model().named_modules():
        if not isinstance(layer, BaseTunerLayer):
            continue
        size, roundings = layer.get_base_layer().weight.detach().double().abs(), 1
        if hasattr(layer, "lora_A"):
            is_table = "default" in layer.lora_embedding_A
            pair = [half["default"] for half in (layer.lora_embedding_A, layer.lora_embedding_B)] if is_table else [
                half["default"].weight for half in (layer.lora_A, layer.lora_B)]  # fmt: skip
            a, b = (half.detach().double().abs() for half in pair)
            product = abs(layer.scaling["default"]) * b @ a
            is_in_out = is_table or layer.fan_in_fan_out
            size, roundings = size + (product.T if is_in_out else product), a.shape[0] + 2
        elif isinstance(layer, TrainableTokensLayer):  # we add to W the difference of the rows from W
            size, roundings = size + layer.trainable_tokens_delta["default"].detach().abs().max().double(), 2
        bounds[f"{name.removesuffix('.token_adapter')}.weight"] = roundings * torch.finfo(torch.float32).eps / 2 * size
    return bounds


def pair_names(folder: dict, model: dict, prefix: str) -> dict[str, str]:
    """Name in the folder -> name in the model; published folders may lack the prefix of the decoder."""
    pairs = {name: name if name in model else f"{prefix}.{name}" for name in folder}
    present = {id(model[other]) for other in pairs.values() if other in model}  # a tied head shares its table's tensor
    require_none(
        tensors_that_the_model_lacks={name for name, other in pairs.items() if other not in model},
        tensors_that_the_folder_lacks={name for name, tensor in model.items() if id(tensor) not in present},
    )
    return pairs


def check_merged(adapter, folder: pathlib.Path) -> str:
    """The folder holds what peft merges in f32, rounded to the folder's type, and all else as in the base."""
    bounds = rounding_bounds(adapter.model)
    merged = adapter.model.merge_and_unload()
    theirs, ours = merged.state_dict(keep_vars=True), read_folder(folder)
    worst, where, others = 0.0, "", []
    for name, name_there in pair_names(ours, theirs, merged.base_model_prefix).items():
        mine, reference = ours[name], theirs[name_there].detach()
        require(mine.shape == reference.shape, f"{name} has shape {list(mine.shape)}, not {list(reference.shape)}")
        if torch.equal(reference, adapter.base_tensors[name_there]):
            others += [name] if not torch.equal(mine, reference.to(mine.dtype)) else []
            continue
        # A bias that is scaled has no bound of its own: one product, which the unit covers.
        allowed = spacing(mine.dtype, reference) + bounds.get(name_there, 0)
        share = ((mine.double() - reference.double()).abs() / allowed).nan_to_num(nan=float("inf")).max().item()
        worst, where = max((worst, where), (share, name))
    require_none(tensors_without_an_adapter_that_changed=others)
    message = f"largest difference {worst:.2f} times what is allowed, in {where or 'no tensor'}"
    require(worst <= 1, message)
    return message


def check_llama_cpp(adapter) -> str:
    """What llama.cpp's convert_lora_to_gguf.py takes, and what its runtime makes of lora_alpha."""
    halves = {key: next((half for half in HALVES if key.endswith(half)), None) for key in adapter.tensors}
    require_none(keys_that_are_no_half_of_a_pair={key for key, half in halves.items()
                                                  if half is None or not key.startswith(PREFIX)})  # fmt: skip
    modules = {module_of(key) for key in adapter.tensors}
    pairs = {module: [f"{PREFIX}{module}{half}" for half in HALVES] for module in modules}
    require_none(halves_without_the_other={module for module, pair in pairs.items() if not set(pair) <= halves.keys()},
                 embeddings_or_head={module for module in modules if module.rsplit(".", 1)[-1] in TABLES})  # fmt: skip
    ranks = {adapter.tensors[key].shape[side] for pair in pairs.values() for side, key in enumerate(pair)}
    require(ranks == {adapter.config.get("r")}, f"r is {adapter.config.get('r')}, of the tensors {sorted(ranks)}")
    alpha = adapter.config.get("lora_alpha")
    require(alpha, f"lora_alpha is {alpha!r}: it would scale by 1")
    scaled = {key for key in ("use_rslora", "rank_pattern", "alpha_pattern") if adapter.config.get(key)}
    require_none(keys_that_change_the_scale_and_are_not_read=scaled)
    return f"{len(pairs)} pairs, scale {alpha} / {adapter.config['r']}"


def check_vllm(adapter) -> str:
    """The rules of vLLM's PEFTHelper."""
    config = adapter.config
    require_none(missing={key for key in ("r", "lora_alpha", "target_modules") if config.get(key) is None})
    require(0 < config["r"] <= VLLM_RANK_MAX, f"r is {config['r']}, not in 1 to {VLLM_RANK_MAX}")
    require(config.get("bias", "none") == "none", f"bias is {config.get('bias')!r}")
    refused = ("use_dora", "modules_to_save", "lora_bias", "layer_replication", "alora_invocation_tokens",
               "trainable_token_indices", "use_bdlora", "use_qalora")  # fmt: skip
    require_none(set_but_refused={key for key in refused if config.get(key)})
    return f"r {config['r']}"


def run(name: str, check, *arguments) -> bool:
    try:
        print(f"{name}: ok, {check(*arguments)}")
    except Failed as failure:
        print(f"{name}: FAILED, {failure}")
        return False
    return True


def check_all(args) -> bool:
    adapter = Adapter(args.base, args.adapter)
    ids, logits = read_tensor(args.ids, "ids"), read_tensor(args.logits, "logits")
    passed = [run("peft opens it", adapter.open)]
    if adapter.is_lora and (fields := adapter.refused_by_others()):
        print(f"llama.cpp's names, vLLM's rules: not run, because they do not read {some(fields)}")
    elif adapter.is_lora:
        passed.append(run("llama.cpp's names", check_llama_cpp, adapter))
        passed.append(run("vLLM's rules", check_vllm, adapter))
    if adapter.model is None:
        print("the rest: not run, because peft did not open it")
        return False
    passed.append(run("logits", compare_logits, adapter.model, ids, logits))
    named = adapter.config.get("base_model_name_or_path")
    if adapter.config.get("use_dora"):
        print("transformers opens it: not run, because it leaves lora_magnitude_vector out (5.24)")
    elif adapter.is_lora and named and pathlib.Path(named).is_dir():
        passed.append(run("transformers opens it", check_transformers, args.adapter, ids, logits))
    elif adapter.is_lora:
        print(f"transformers opens it: not run, because base_model_name_or_path ({named!r}) is no folder here")
    if args.merged:
        passed.append(run("merged weights", check_merged, adapter, args.merged))
    return all(passed)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("base", "adapter", "ids", "logits"):
        parser.add_argument(f"--{name}", type=pathlib.Path, required=True)
    parser.add_argument("--merged", type=pathlib.Path)
    args = parser.parse_args()
    warnings.simplefilter("ignore")  # of missing keys, too: those are a check here
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    sys.exit(0 if check_all(args) else 1)


if __name__ == "__main__":
    main()
