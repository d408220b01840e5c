"""The program: where it is, how it is called, and what its events mean."""

from __future__ import annotations

import collections
import json
import os
import pathlib
import shutil
import subprocess
import sys
import threading
from typing import Any, Iterable, Iterator, Mapping, Optional

PACKAGED = pathlib.Path(__file__).parent / "bin" / "windlass"  # in a wheel (tools/make_wheel.py)
MESSAGES_KEPT = 200  # lines of stderr, for an error that is no event


class WindlassError(Exception):
    """What the program refused, or why it failed.

    code   its exit code (docs/guide/cli.md#exit-codes)
    kind   the code's name: "usage", "no_fit", "data", "model", "storage", "device", "diverged", "internal"
    place  the file, flag or key that it is about; may be empty
    text   what was wrong
    tries  what to type instead; may be empty
    """

    def __init__(self, code: int, kind: str, place: str, text: str, tries: Iterable[str] = ()):
        self.code, self.kind, self.place, self.text, self.tries = code, kind, place, text, list(tries)
        where = f"{place}: " if place else ""
        advice = "".join(f"\n  try: {each}" for each in self.tries)
        super().__init__(f"{where}{text}{advice}")

    @classmethod
    def of_event(cls, event: Mapping[str, Any]) -> "WindlassError":
        return cls(event.get("code", 1), event.get("kind", "internal"), event.get("place", ""), event.get("text", ""),
                   event.get("tries", ()))


def find_program() -> str:
    """The program's path: $WINDLASS, the one that came with this package, or the first on the PATH."""
    named = os.environ.get("WINDLASS")
    if named:
        return named
    if PACKAGED.is_file():
        return str(PACKAGED)
    found = shutil.which("windlass")
    if found:
        return found
    raise FileNotFoundError("the program windlass is not on the PATH; WINDLASS may name it")


def main() -> None:
    """The command `windlass` of a wheel: the program takes the interpreter's place."""
    os.execv(PACKAGED, [str(PACKAGED), *sys.argv[1:]])


def value_text(value: Any) -> str:
    """A value of the configuration as the command line takes it."""
    if isinstance(value, str):
        return value
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, (list, tuple)):
        return json.dumps([os.fspath(each) if isinstance(each, os.PathLike) else each for each in value])
    return json.dumps(value)


def settings_words(settings: Mapping[str, Any]) -> list[str]:
    """key=value for each keyword argument; download=True is a flag."""
    words = [f"{key}={value_text(value)}" for key, value in settings.items() if key != "download"]
    return words + (["--download"] if settings.get("download") else [])


class Program:
    """A running program, whose events are read one after another.

    It is in a session of its own: the Ctrl-C of a notebook, or the end of this process, does not reach it.
    """

    def __init__(self, words: Iterable[str], takes_input: bool = False):
        self.words = [find_program(), *words, "--json=lines"]
        self._process = subprocess.Popen(
            self.words, stdin=subprocess.PIPE if takes_input else subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, text=True, encoding="utf-8", errors="replace", start_new_session=True)
        self._messages: collections.deque[str] = collections.deque(maxlen=MESSAGES_KEPT)
        # Always read: a pipe that is full would hold the program up.
        self._reader = threading.Thread(target=self._read_messages, daemon=True)
        self._reader.start()
        self.last: Optional[dict] = None  # the event that said how it ended

    def _read_messages(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self._messages.append(line)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def messages(self) -> str:
        """The last lines that it wrote for people."""
        return "".join(self._messages)

    def send(self, body: Mapping[str, Any]) -> None:
        """A line for a program that takes input."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(body) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:  # its last event says why
            pass

    def end_input(self) -> None:
        if self._process.stdin is not None and not self._process.stdin.closed:
            self._process.stdin.close()

    def events(self) -> Iterator[dict]:
        """Each event, up to the one that says how the program ended; raises the error that it tells of."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            event = json.loads(line)
            if event["event"] in ("done", "stopped", "error"):
                self.last = event
                self.close()
                if event["event"] == "error":
                    raise WindlassError.of_event(event)
            yield event
            if self.last is not None:
                return
        self.close()
        raise WindlassError(1, "internal", "windlass", f"ended with {self._process.returncode} and without a word\n{self.messages}")

    def close(self) -> None:
        self.end_input()
        self._process.wait()
        self._reader.join()
        for pipe in (self._process.stdout, self._process.stderr):
            if pipe is not None:
                pipe.close()

    def __del__(self) -> None:
        # A run goes on by itself, and nothing is to be said of it.
        if getattr(self, "_process", None) is not None:
            self._process.returncode = self._process.poll() or 0


def result_of(words: Iterable[str]) -> dict:
    """The last event of a program that is awaited."""
    last: dict = {}
    for last in Program(words).events():
        pass
    return without_frame(last)


def without_frame(event: Mapping[str, Any]) -> dict:
    """What an event says, without what every event has."""
    return {key: value for key, value in event.items() if key not in ("event", "time", "schema_version")}
