"""Verbs whose result is awaited: plan, export, evaluate, status, runs."""

from __future__ import annotations

import os
from typing import Any, Optional, Union

from ._program import Program, result_of, settings_words, without_frame

Path = Union[str, "os.PathLike[str]"]


class Plan(dict):
    """What `windlass plan --json` prints (docs/guide/json.md#plan), with the figures that are asked for most."""

    methods: list[dict]  # other methods within the same budgets
    cheaper: list[dict]  # other settings that are faster or take less

    @property
    def fits(self) -> bool:
        return self["fits"]

    @property
    def step_seconds(self) -> float:
        return self["step"]["seconds"]

    @property
    def peak(self) -> dict[str, int]:
        """Bytes at the peak of each tier."""
        return {tier: self[f"{tier}_bytes"] for tier in ("device", "memory", "disk")}

    def __repr__(self) -> str:
        peak = ", ".join(f"{tier} {amount / 2**30:.2f} GiB" for tier, amount in self.peak.items() if amount)
        return f"<Plan: {self['method']}, {self['policy']}; {peak}; {self.step_seconds:.3g} s a step, bound by {self['bound_by']}>"


def plan(model: Path, *, compare: bool = False, compare_seconds: float = 20, **settings: Any) -> Plan:
    """Whether a run fits, where its data is placed, and how fast it is. Raises WindlassError of kind "no_fit".

    compare  also plans other methods and settings (plan.methods, plan.cheaper), for compare_seconds at most
    """
    words = ["plan", *settings_words({"model": model, **settings})]
    words += ["--compare-seconds", str(compare_seconds)] if compare else ["--alone"]
    made, methods, cheaper = Plan(), [], []
    for event in Program(words).events():
        if event["event"] == "plan":
            made = Plan(without_frame(event))
        elif event["event"] == "method":
            methods.append(without_frame(event))
        elif event["event"] == "cheaper":
            cheaper.append(without_frame(event))
    made.methods, made.cheaper = methods, cheaper
    return made


def export(source: Path, to: Path, *, type: Optional[str] = None, dtype: Optional[str] = None,
           merged: Union[bool, str] = False, overwrite: bool = False) -> dict:
    """Writes a model folder, or a GGUF file where `to` ends in .gguf, from a run ("runs/mine", "runs/mine:200") or a checkpoint.

    type    of a GGUF file: "f32", "f16", "bf16", "q8_0"
    dtype   of a folder: "f32", "f16", "bf16"
    merged  an adapter is merged into its base: True or "base", or "computed"
    """
    words = ["export", os.fspath(source), "--to", os.fspath(to)]
    words += ["--type", type] if type else []
    words += ["--dtype", dtype] if dtype else []
    words += ["--merged", merged if isinstance(merged, str) else "base"] if merged else []
    words += ["--overwrite"] if overwrite else []
    return result_of(words)


def evaluate(model: Path, **settings: Any) -> dict:
    """The loss of a model over rows (eval_data=...), or its answers to a task (task=...)."""
    return result_of(["eval", os.fspath(model), *settings_words(settings)])


def status(run: Path) -> dict:
    """How a run is doing (docs/guide/json.md#status)."""
    return result_of(["status", os.fspath(run)])


def runs(folder: Path = ".") -> list[dict]:
    """The status of each run in a folder and below it."""
    return result_of(["runs", os.fspath(folder)])["runs"]
