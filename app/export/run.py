"""What is asked of a run that is exported, and the words about it that several formats share. Knows no Qt."""

from __future__ import annotations

import dataclasses
from collections.abc import Generator, Sequence
from typing import Protocol

from app.state.run.replay import Replay
from app.system.i18n import trn
from engine import CanvasCommitted, Event, GenerationConfig, GenerationFinished, Reply, StepFinished, TraceHeader
from engine.trace import ModelIdentity

Share = Generator[float, None, str]
"""An export under way: yields what part is done, 0 to 1. Closing it leaves nothing behind.

It returns what is not in the file though it was asked for, and why, in a sentence; empty where all is.
"""


class Exportable(Protocol):
    """A recorded run, in memory or in a file.

    It may also have the ``header`` and the ``reply()`` of ``engine.trace.Recording``; what they say is then exported.
    """

    @property
    def model_name(self) -> str: ...
    @property
    def prompt(self) -> str: ...
    @property
    def config(self) -> GenerationConfig: ...
    @property
    def seed(self) -> int: ...
    @property
    def events(self) -> Sequence[Event]: ...
    def piece(self, token: int, /) -> str: ...
    def is_special(self, token: int, /) -> bool: ...


def header_of(run: Exportable, *, prompt: bool) -> TraceHeader:
    """What was fixed before the first event, without the model's folder, which may name its owner.

    ``prompt`` False leaves out what was asked, as text and as tokens.
    """
    header = getattr(run, "header", None)
    if not isinstance(header, TraceHeader):
        header = TraceHeader(ModelIdentity(run.model_name), run.prompt, run.config, run.seed)
    header = dataclasses.replace(header, model=dataclasses.replace(header.model, path=""))
    return header if prompt else dataclasses.replace(header, prompt="", messages=(), prompt_ids=())


def reply_of(run: Exportable) -> Reply:
    """What the run wrote, with the best guesses for a block that was cut short; the thinking apart."""
    read = getattr(run, "reply", None)
    if callable(read):
        found = read()
        return Reply(str(found.text), str(found.thinking))
    tokens: list[int] = []
    draft: StepFinished | None = None
    for event in run.events:
        if isinstance(event, StepFinished):
            draft = event
        elif isinstance(event, CanvasCommitted):
            draft = None
            tokens += event.tokens[: event.text_length].tolist()
    if draft is not None:
        ends = set(run.config.eos_token_ids)
        guess = draft.argmax_canvas.tolist()
        tokens += guess[: next((place for place, token in enumerate(guess) if token in ends), len(guess))]
    return Reply("".join(run.piece(token) for token in tokens if not run.is_special(token)))


def ending(run: Exportable) -> str:
    """How the run ended: ``eos``, ``length``, ``cancelled``; empty where it was not recorded to its end."""
    events = run.events
    last = events[len(events) - 1] if len(events) else None
    return last.reason if isinstance(last, GenerationFinished) else ""


def missing(replay: Replay) -> str:
    """What could not be read whole of the blocks that were looked at; empty where all could."""
    said = [replay.cut[block] for block in sorted(replay.cut)]
    if len(said) < 2:
        return "".join(said)
    more = trn("{count} more block is cut short too.", "{count} more blocks are cut short too.", len(said) - 1)
    return f"{said[0]} {more}"
