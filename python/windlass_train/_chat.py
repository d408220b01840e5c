"""A conversation with a model."""

from __future__ import annotations

import os
from typing import Any, Iterator, Optional

from ._program import Program, WindlassError, settings_words
from ._verbs import Path


class Chat:
    """Keeps the model open until it is closed: with wl.chat(folder) as chat: chat.say("Who are you?")."""

    def __init__(self, words: list[str]):
        self._program = Program(words, takes_input=True)
        self._events = self._program.events()
        self._until("ready")
        self.last_answer: Optional[dict] = None  # docs/guide/json.md#answer

    def stream(self, content: str) -> Iterator[str]:
        """The answer as it is written. To be read to its end before the next question."""
        self._program.send({"content": content})
        for event in self._events:
            if event["event"] == "text":
                yield event["delta"]
            elif event["event"] == "answer":
                self.last_answer = event
                return
            elif event["event"] == "refused":
                raise WindlassError.of_event(event)

    def say(self, content: str) -> str:
        """The answer. Raises WindlassError where the conversation has become too long, and leaves it as it was."""
        return "".join(self.stream(content))

    def undo(self) -> None:
        """Takes back the last question and its answer."""
        self._command("undo")

    def reset(self) -> None:
        self._command("reset")

    def system(self, content: str) -> None:
        """The system message of the conversation; empty: none."""
        self._command("system", content=content)

    def save(self, file: Path) -> None:
        """Adds the conversation to a file, as a row of training data."""
        self._command("save", file=os.fspath(file))

    def close(self) -> None:
        self._program.end_input()
        for _ in self._events:
            pass

    def __enter__(self) -> "Chat":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _command(self, command: str, **more: str) -> None:
        self._program.send({"command": command, **more})
        self._until("obeyed")

    def _until(self, name: str) -> None:
        for event in self._events:
            if event["event"] == name:
                return
            if event["event"] == "refused":
                raise WindlassError.of_event(event)


def chat(model: Path, *, system: str = "", max_new_tokens: Optional[int] = None, temperature: Optional[float] = None,
         top_k: Optional[int] = None, top_p: Optional[float] = None, **settings: Any) -> Chat:
    """Opens a conversation with a model folder, such as a run's final/."""
    words = ["chat", os.fspath(model), *settings_words(settings)]
    words += ["--system", system] if system else []
    for flag, value in (("--max-new-tokens", max_new_tokens), ("--temperature", temperature), ("--top-k", top_k), ("--top-p", top_p)):
        words += [flag, str(value)] if value is not None else []
    return Chat(words)
