#!/usr/bin/env python3
"""Records reference results of tiny models with transformers, for the tests that compare our engine with it.

    make_goldens.py [--out tests/golden] [case ...]

Needs torch, transformers and safetensors (CPU is enough). Each case becomes a folder with a model in Hugging Face form,
golden.safetensors and golden.json; docs/dev/goldens.md describes both. The same versions give the same bytes.
"""

import argparse
import contextlib
import copy
import json
import pathlib
import platform
import shutil
import sys
import zlib

import safetensors
import safetensors.torch
import torch
import transformers

import cases
import quantities as q
from exact import assert_exact, exact

ROWS, TOKENS = 2, 24
BORDERS = [0, 9, 24]  # two documents in one row


def randomise(model, generator, norm_weight=1.0) -> None:
    """Draws every parameter so that each one matters: no unit norms, no zero biases, matrices far from tiny."""
    with torch.no_grad():
        for name, param in model.named_parameters():
            draw = torch.randn(param.shape, generator=generator)
            is_norm_weight = param.dim() == 1 and name.endswith("weight")
            param.copy_(norm_weight + 0.2 * draw if is_norm_weight else 0.2 * draw)


def draw_batch(generator):
    """ids [ROWS, TOKENS] and their targets; about a fifth of the targets is ignored, the last of a row always."""
    ids = torch.randint(3, cases.VOCAB, (ROWS, TOKENS), generator=generator)
    targets = torch.full_like(ids, q.IGNORED)
    targets[:, :-1] = ids[:, 1:]
    targets[torch.rand(ids.shape, generator=generator) < 0.2] = q.IGNORED
    targets[1, :5] = q.IGNORED  # a prompt that is not trained
    return ids, targets


def draw_packed(generator):
    """One row of documents; the last token of a document has no target."""
    ids = torch.randint(3, cases.VOCAB, (1, TOKENS), generator=generator)
    targets = torch.full_like(ids, q.IGNORED)
    for begin, end in zip(BORDERS, BORDERS[1:]):
        targets[0, begin : end - 1] = ids[0, begin + 1 : end]
    return ids, targets


def write_classic_config(folder: pathlib.Path) -> None:
    """Rewrites config.json as transformers 4 wrote it: torch_dtype, rope_theta and rope_scaling at the top level.

    Gemma's layers are told by their pattern, and Gemma 3 has a theta for those that slide.
    """
    path = folder / "config.json"
    whole = json.loads(path.read_text())
    whole["torch_dtype"] = whole.pop("dtype")
    config = whole.get("text_config", whole)
    kind = config["model_type"]
    rope = config.pop("rope_parameters", None)
    if kind.startswith("gemma"):
        del config["layer_types"], config["use_bidirectional_attention"]
        config.pop("_sliding_window_pattern", None)
    if kind == "gemma3_text":
        config["sliding_window_pattern"] = 2
        config["rope_local_base_freq"] = rope["sliding_attention"]["rope_theta"]
        rope = rope["full_attention"]
    if rope:
        config["rope_theta"] = rope.pop("rope_theta")
        config["rope_scaling"] = rope if rope["rope_type"] != "default" else None
    path.write_text(json.dumps(whole, indent=2, sort_keys=True) + "\n")


def save_model(case, model, folder: pathlib.Path) -> None:
    model.save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    if case.classic_config:
        write_classic_config(folder)


def class_of(config) -> type:
    return transformers.AutoModelForCausalLM._model_mapping[type(config)]


def load(model_class, folder, dtype, frozen=()):
    model = model_class.from_pretrained(folder, dtype=dtype, attn_implementation="eager").eval()
    assert model.config._attn_implementation == "eager"
    for name, param in model.named_parameters():
        param.requires_grad_(not name.startswith(tuple(frozen)))
    return model


def names_in_files(case, tensors: dict) -> dict:
    """The same under the names of the files: of tensors, "grad/NAME" among them, or of numbers."""
    ours, theirs = case.renamed
    return {name.replace(ours, theirs) if ours else name: value for name, value in tensors.items()}


def assert_consistent(model, batch, direction, grads, loss_tangent, constants) -> None:
    """<gradient, direction> and a central difference of the loss both equal the forward-mode derivative. `constants`
    holds what the model takes for constants, although it follows from what moves."""
    inner = sum((grads[name] * direction[name]).sum() for name in grads)
    assert torch.allclose(inner, loss_tangent, rtol=1e-10), f"{inner} is not {loss_tangent}"
    step = 1e-7  # so short that no relu changes its side between the ends; fp64 leaves a relative 1e-9
    ends = []
    with constants(model, batch[0]):
        for sign in (1, -1):
            moved = {name: (param + sign * step * direction[name]).detach()
                     for name, param in q.trained_parameters(model).items()}  # fmt: skip
            ends.append(q.loss_of(q.logits_of(model, batch[0], moved), batch[1]))
    difference = (ends[0] - ends[1]) / (2 * step)
    assert torch.allclose(difference, loss_tangent, rtol=1e-5), f"{difference} is not {loss_tangent}"


def max_difference(a, b) -> float:
    return (a.double() - b.double()).abs().max().item()


def measure(model, batches, direction, steps=q.STEPS, constants=lambda *_: contextlib.nullcontext()) -> dict:
    """The quantities of a model in fp64 that every golden holds; the model is left as it is."""
    assert_exact(model)
    logits = q.logits_of(model, batches[0][0])
    loss = q.loss_of(logits, batches[0][1])
    grads = q.gradients(model, loss)
    direction64 = {name: tensor.double() for name, tensor in direction.items()}
    logits_tangent, loss_tangent = q.tangents(model, *batches[0], direction64)
    assert_consistent(model, batches[0], direction64, grads, loss_tangent, constants)
    trained = copy.deepcopy(model)
    losses, norms = q.train(trained, batches, steps)
    return {"logits": logits, "loss": loss.item(), "grads": grads, "logits_tangent": logits_tangent,
            "loss_tangent": loss_tangent.item(), "step_losses": losses, "step_grad_norms": norms,
            "final": q.trained_parameters(trained)}  # fmt: skip


def deviation_of_f32(model, batches, reference) -> dict:
    """How far the same model in fp32 strays from the fp64 reference: the measure for a test's tolerances."""
    logits = q.logits_of(model, batches[0][0])
    loss = q.loss_of(logits, batches[0][1])
    grads = q.gradients(model, loss)
    losses, _ = q.train(model, batches, len(reference["step_losses"]))
    return {
        "logits": max_difference(logits, reference["logits"]),
        "loss": abs(loss.item() - reference["loss"]),
        "grad": max(max_difference(grads[name], reference["grads"][name]) for name in grads),
        "step_losses": max(abs(a - b) for a, b in zip(losses, reference["step_losses"])),
        "final": {name: max_difference(p, reference["final"][name]) for name, p in q.trained_parameters(model).items()},
    }


def record_bf16(model, batch, logits64) -> dict:
    with torch.no_grad():
        logits = q.logits_of(model, batch[0]).float()
    return {"loss": q.loss_of(logits, batch[1]).item(), "logits_deviation": max_difference(logits, logits64)}


def record_packed(model, packed) -> tuple[torch.Tensor, dict]:
    logits = q.packed_logits(model, packed[0], BORDERS)
    loss = q.loss_of(logits, packed[1])
    grads = q.gradients(model, loss)
    return logits, {
        "borders": BORDERS,
        "loss": loss.item(),
        "grad_norm": q.norm_of(grads.values()).item(),
        "grad_norms": {name: q.norm_of([grad]).item() for name, grad in grads.items()},
    }


def stored(tensor) -> torch.Tensor:
    """As it goes into the file: fp32 for what is real, int64 for ids."""
    return tensor.detach().to(torch.float32 if tensor.is_floating_point() else tensor.dtype).contiguous()


def tensors_of(batches, direction, reference) -> dict[str, torch.Tensor]:
    """The tensors that every golden holds, under their names in the file."""
    tensors = {"ids": batches[0][0], "targets": batches[0][1], "ids_b": batches[1][0], "targets_b": batches[1][1],
               "logits": reference["logits"], "logits_tangent": reference["logits_tangent"]}  # fmt: skip
    for group, members in {"grad": reference["grads"], "tangent": direction, "final": reference["final"]}.items():
        tensors |= {f"{group}/{name}": tensor for name, tensor in members.items()}
    return tensors


def check_noise(case, grads) -> None:
    for name, begin, end in case.noise_only:
        assert grads[name][begin:end].abs().max() < 1e-14, f"{name} has a gradient after all"
    for name, grad in grads.items():
        covered = sum(end - begin for other, begin, end in case.noise_only if other == name)
        assert (grad.abs() > 1e-9).any() or covered == grad.numel(), f"{name} does not matter"


def made_with(script: str, **packages) -> dict:
    return {
        "script": f"tools/reference/{script}",
        "python": platform.python_version(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        **packages,
        "safetensors": safetensors.__version__,
        "attention": "eager",
        "arithmetic": "fp64 throughout, from the fp32 weights of model/; stored as fp32",
    }


def describe(case) -> dict:
    return {
        "format": "windlass-golden 1",
        "case": case.name,
        "family": case.family,
        "made_with": made_with("make_goldens.py"),
        "noise_only": [{"parameter": name, "begin": begin, "end": end} for name, begin, end in case.noise_only],
    }


def describe_measured(reference) -> dict:
    return {
        "loss": reference["loss"],
        "loss_tangent": reference["loss_tangent"],
        "grad_norm": q.norm_of(reference["grads"].values()).item(),
    }


def describe_training(losses, norms) -> dict:
    return {
        "adamw": {"lr_peak": q.LR_PEAK, "lr_floor": q.LR_FLOOR, "warmup_steps": q.WARMUP, "betas": q.ADAMW["betas"],
                  "eps": q.ADAMW["eps"], "weight_decay": q.ADAMW["weight_decay"],
                  "weight_decay_on": "parameters of two or more dimensions", "clip_norm": q.CLIP},
        "lrs": [q.learning_rate(step) for step in range(len(losses))],
        "step_losses": losses,
        "step_grad_norms": norms,
    }  # fmt: skip


def record(case, out: pathlib.Path) -> None:
    """Writes one case below `out`."""
    generator = torch.Generator().manual_seed(zlib.crc32(case.name.encode()))
    folder = out / case.name
    shutil.rmtree(folder, ignore_errors=True)
    model_class = class_of(case.config)
    model = model_class(case.config)
    randomise(model, generator, case.norm_weight)
    save_model(case, model, folder / "model")
    batches = [draw_batch(generator), draw_batch(generator)]
    packed = draw_packed(generator)
    direction = {name: torch.randn(p.shape, generator=generator) for name, p in model.named_parameters()
                 if not name.startswith(case.frozen or ("/",))}  # fmt: skip

    with exact(model_class):
        model = load(model_class, folder / "model", torch.float64, case.frozen)
        reference = measure(model, batches, direction)
        check_noise(case, reference["grads"])
        logits_packed, facts_packed = record_packed(model, packed)

    facts = {
        **describe(case),
        "trained_tokens": int((batches[0][1] != q.IGNORED).sum()),
        **describe_measured(reference),
        "packed": facts_packed,
        "training": describe_training(reference["step_losses"], reference["step_grad_norms"]),
        "bf16": record_bf16(load(model_class, folder / "model", torch.bfloat16, case.frozen), batches[0], reference["logits"]),
        "f32_deviation": deviation_of_f32(load(model_class, folder / "model", torch.float32, case.frozen), batches, reference),
    }
    tensors = {**tensors_of(batches, direction, reference), "packed_ids": packed[0], "packed_targets": packed[1],
               "packed_logits": logits_packed}  # fmt: skip
    facts["packed"]["grad_norms"] = names_in_files(case, facts["packed"]["grad_norms"])
    facts["f32_deviation"]["final"] = names_in_files(case, facts["f32_deviation"]["final"])
    safetensors.torch.save_file({name: stored(t) for name, t in names_in_files(case, tensors).items()}, folder / "golden.safetensors")
    (folder / "golden.json").write_text(json.dumps(facts, indent=1) + "\n")
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    strays = facts["f32_deviation"]["logits"]
    print(f"{case.name}: loss {facts['loss']:.6f}, {size / 1e3:.0f} kB, logits in fp32 off by {strays:.1e}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    root = pathlib.Path(__file__).resolve().parents[2]
    parser.add_argument("--out", type=pathlib.Path, default=root / "tests/golden")
    parser.add_argument("cases", nargs="*", metavar="case", help="default: all")
    args = parser.parse_args()
    known = {make.__name__: make for make in cases.ALL}
    if unknown := set(args.cases) - set(known):
        sys.exit(f"make_goldens: no case {sorted(unknown)}; there are {sorted(known)}")
    torch.set_num_threads(1)
    transformers.utils.logging.disable_progress_bar()
    for name in args.cases or known:
        record(known[name](), args.out)


if __name__ == "__main__":
    main()
