"""A run: begun here or by somebody else, followed step by step."""

from __future__ import annotations

import json
import os
import pathlib
import time
from typing import Any, Callable, Iterator, Mapping, Optional

from ._program import Program, WindlassError, settings_words, without_frame
from ._verbs import Path, status

POLL_SECONDS = 0.5


class Step(dict):
    """A line of metrics.jsonl (docs/format/metrics.md)."""

    @property
    def step(self) -> int:
        return self["step"]

    @property
    def loss(self) -> float:
        return float(self["loss"])

    @property
    def metrics(self) -> dict[str, float]:
        """What is a number, for a tracker: step.metrics, step=step.step."""
        plain = {key: value for key, value in self.items() if isinstance(value, (int, float)) and not isinstance(value, bool)}
        return {key: value for key, value in plain.items() if key not in ("step", "time")}


class Run:
    """Iterating over a run gives its steps as they are done, and ends when it does.

    Ctrl-C while iterating stops the run after its step, as in a terminal, and is raised when the run has saved and ended.
    """

    def __init__(self, folder: Path, program: Optional[Program] = None):
        self.folder = pathlib.Path(folder)
        self.steps: list[Step] = []  # that were read until now
        self.evaluations: list[dict] = []
        self.plan: Optional[dict] = None
        self._program = program
        self._handlers: dict[str, list[Callable[[dict], None]]] = {}
        self._last: Optional[dict] = None
        self._is_interrupted = False

    @classmethod
    def attach(cls, folder: Path) -> "Run":
        """A run that another process began, or this one before it was restarted. Raises WindlassError where there is none."""
        status(folder)
        return cls(folder)

    def on(self, **handlers: Callable[[dict], None]) -> "Run":
        """Calls step=f, evaluation=f, sample=f, checkpoint=f, warning=f with each such event while the run is iterated over."""
        for name, handler in handlers.items():
            self._handlers.setdefault(name, []).append(handler)
        return self

    def status(self) -> dict:
        return status(self.folder)

    def stop(self) -> None:
        """Ends the run after its step, and saves; `resume=True` continues it."""
        (self.folder / "stop").touch()

    def save(self) -> None:
        """Asks for a checkpoint after this step."""
        (self.folder / "save").touch()

    def __iter__(self) -> Iterator[Step]:
        events = self._events_of_program() if self._program is not None else self._events_of_folder()
        while True:
            try:
                event = next(events, None)
            except KeyboardInterrupt:
                self._is_interrupted = True
                self.stop()
                continue
            if event is None:
                break
            self._take(event)
            if event["event"] == "step":
                yield self.steps[-1]
        if self._is_interrupted:
            self._is_interrupted = False
            raise KeyboardInterrupt

    def result(self) -> dict:
        """Waits for the end: {"steps": ..., "final": ...}, or for a run that was stopped {"steps": ..., "resume": ...}."""
        if self._last is None:
            for _ in self:
                pass
        return without_frame(self._last or {})

    def _take(self, event: dict) -> None:
        name, body = event["event"], without_frame(event)
        if name == "step":
            self.steps.append(Step({**body, "time": event["time"]}))
            body = self.steps[-1]
        elif name == "evaluation":
            self.evaluations.append(body)
        elif name == "plan":
            self.plan = body
        elif name in ("done", "stopped"):
            self._last = event
        for handler in self._handlers.get(name, ()):
            handler(body)

    def _events_of_program(self) -> Iterator[dict]:
        # A class, since a generator would be over after a KeyboardInterrupt.
        return _Interruptible(self._program.events) if self._program is not None and self._program.last is None else iter(())

    def _events_of_folder(self) -> Iterator[dict]:
        return _FolderEvents(self.folder, self.steps[-1].step if self.steps else 0)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        from ._figure import svg_of

        return {"text/plain": repr(self), "image/svg+xml": svg_of(self)}

    def __repr__(self) -> str:
        told = f"step {self.steps[-1].step}, loss {self.steps[-1].loss:.4f}" if self.steps else "no step yet"
        return f"<Run {self.folder}: {told}>"


class _Interruptible:
    """The events of a program, which a KeyboardInterrupt between two lines does not end."""

    def __init__(self, make: Callable[[], Iterator[dict]]):
        self._make, self._events = make, make()

    def __iter__(self) -> "_Interruptible":
        return self

    def __next__(self) -> dict:
        try:
            return next(self._events)
        except KeyboardInterrupt:
            self._events = self._make()
            raise


class _FolderEvents:
    """Steps of a run that is not ours, from its metrics.jsonl, until no process trains into the folder."""

    def __init__(self, folder: pathlib.Path, after: int):
        self._folder, self._after, self._offset, self._ended = folder, after, 0, False
        self._waiting: list[dict] = []

    def __iter__(self) -> "_FolderEvents":
        return self

    def __next__(self) -> dict:
        while not self._waiting:
            if self._ended:
                raise StopIteration
            # Asked before its lines are read: what it wrote before it ended is then read.
            now = status(self._folder)
            self._waiting += self._lines()
            if now["state"] != "training":
                self._ended = True
                self._waiting.append(self._end(now))
            elif not self._waiting:
                time.sleep(POLL_SECONDS)
        return self._waiting.pop(0)

    def _lines(self) -> list[dict]:
        path = self._folder / "metrics.jsonl"
        if not path.exists():
            return []
        with path.open("rb") as file:
            file.seek(self._offset)
            text = file.read()
        whole = text[:text.rfind(b"\n") + 1]
        self._offset += len(whole)
        lines = [{"event": "step", **json.loads(line)} for line in whole.splitlines()]
        return [line for line in lines if line["step"] > self._after]

    def _end(self, now: Mapping[str, Any]) -> dict:
        if now["state"] == "failed":
            raise WindlassError(now.get("exit_code", 1), "", str(self._folder), now.get("reason", ""))
        name = "done" if now["state"] == "done" else "stopped"
        final = str(self._folder / "final") if now["has_final"] else ""
        return {"event": name, "steps": now["step"], "total_steps": now.get("total_steps"), "loss": now.get("loss"), "final": final}


def _rows_of_parquet(path: str, target: pathlib.Path) -> str:
    """The file's rows as lines of JSON in `target`, a batch at a time."""
    try:
        from pyarrow.parquet import ParquetFile
    except ImportError as error:
        raise ImportError(f"{path}: reading Parquet needs pyarrow. Try: pip install pyarrow") from error
    target.parent.mkdir(parents=True, exist_ok=True)
    with ParquetFile(path) as file, target.open("w", encoding="utf-8") as lines:
        for batch in file.iter_batches():
            for row in batch.to_pylist():
                lines.write(json.dumps(row, ensure_ascii=False, default=str) + "\n")
    return str(target)


def _as_files(data: Any, stem: pathlib.Path) -> Any:
    """Paths as they are; rows, what writes itself as rows (datasets.Dataset, pandas.DataFrame), and Parquet files as files next to the run."""
    path = stem.with_name(stem.name + ".jsonl")
    if isinstance(data, (str, os.PathLike)):
        return _rows_of_parquet(os.fspath(data), path) if os.fspath(data).endswith(".parquet") else data
    if isinstance(data, (list, tuple)) and data and isinstance(data[0], (str, os.PathLike)):
        return [_as_files(each, stem.with_name(f"{stem.name}.{number}")) for number, each in enumerate(data)]
    path.parent.mkdir(parents=True, exist_ok=True)
    if hasattr(data, "to_json"):
        try:
            data.to_json(str(path), orient="records", lines=True)
        except TypeError:
            data.to_json(str(path))
    else:
        with path.open("w", encoding="utf-8") as file:
            for row in data:
                file.write(json.dumps(row, ensure_ascii=False) + "\n")
    return str(path)


def train(output_dir: Path, config: Optional[Path] = None, *, resume: bool = False, overwrite: bool = False,
          **settings: Any) -> Run:
    """Begins a run and returns at once. What the program refuses is raised where the run is iterated over.

    config      a run.yaml; keyword arguments come after it
    train_data  and eval_data: paths, a list of dicts, or anything with to_json (datasets, pandas), which is written to
                OUTPUT_DIR.train_data.jsonl; so are the rows of .parquet files, with pyarrow
    """
    folder = pathlib.Path(output_dir)
    for key in ("train_data", "eval_data"):
        if key in settings:
            settings[key] = _as_files(settings[key], folder.with_name(f"{folder.name}.{key}"))
    words = ["train", *([os.fspath(config)] if config is not None else []), *settings_words({"output_dir": folder, **settings})]
    words += ["--resume"] if resume else []
    words += ["--overwrite"] if overwrite else []
    return Run(folder, Program(words))
