"""Compares two runs: their requests, the first frame that differs, and the cells that differ. No Qt, no torch."""

from __future__ import annotations

import dataclasses
from collections.abc import Generator, Sequence
from dataclasses import dataclass

import numpy as np

from app.state.run.canvas import BlockState, Mask, Tokens
from app.state.run.replay import NOISE, Frame, Replay
from engine import TraceHeader

UNSEEN = ("top_k", "pad_token_id")  # settings that change only what is reported, and no token


@dataclass(frozen=True)
class Difference:
    """A part of the request that differs between two runs.

    ``name`` is a field of ``GenerationConfig``, or model, weights, adapter, adapter_weights, prompt, format, thinking
    or seed.
    """

    name: str
    one: object
    other: object


def differences(one: TraceHeader, other: TraceHeader) -> tuple[Difference, ...]:
    """Returns the differences between two runs' requests; the settings last, in their own order."""
    pairs: list[tuple[str, object, object]] = [
        ("model", model_title(one), model_title(other)),
        ("adapter", one.model.adapter, other.model.adapter),
        ("prompt", asked(one), asked(other)),
        ("format", one.output_format, other.output_format),
        ("thinking", one.think, other.think),
        ("seed", one.seed, other.seed),
    ]
    if one.model.adapter == other.model.adapter:
        pairs.insert(2, ("adapter_weights", one.model.adapter_fingerprint, other.model.adapter_fingerprint))
    prints = one.model.fingerprint, other.model.fingerprint
    if model_title(one) == model_title(other) and all(prints):
        pairs.insert(1, ("weights", *prints))
    settings = [field.name for field in dataclasses.fields(one.config) if field.name not in UNSEEN]
    pairs += [(name, getattr(one.config, name), getattr(other.config, name)) for name in settings]
    return tuple(Difference(*pair) for pair in pairs if pair[1] != pair[2])


def comes_from(run: TraceHeader, other: TraceHeader) -> bool:
    """True if ``run`` was made from ``other``: as a fork of it or of one of its forks, or by rewriting spans of it."""
    if run.parent is None or run.id == other.id:
        return False
    if run.parent.id == other.id:
        return True
    one, begun = run.changes, other.changes
    is_further = len(begun) < len(one) and one[: len(begun)] == begun and not other.marks
    return is_further and (asked(run), run.seed, run.config) == (asked(other), other.seed, other.config)


def model_title(header: TraceHeader) -> str:
    """Returns the title of the run's model, or its name if it has none."""
    return header.model.title or header.model.name


def asked(header: TraceHeader) -> tuple[tuple[str, str], ...]:
    """Returns the messages that the run answered, as role and text; without any, the prompt as a user's message."""
    messages = tuple((str(one.get("role", "")), str(one.get("content", ""))) for one in header.messages)
    return messages or (("user", header.prompt),)


def differing(one: BlockState | None, other: BlockState | None, *, calm: bool, no_text: Sequence[int] = ()) -> Mask:
    """Returns the cells (C,) of the first canvas that show another token in the second, or are missing there.

    Tokens of ``no_text``, such as end and padding, count as equal: after the end their difference has no meaning.
    """
    if one is None:
        return np.zeros(0, dtype=np.bool_)
    differs = np.ones(one.length, dtype=np.bool_)
    if other is not None:
        common = min(one.length, other.length)
        here, there = one.tokens(calm=calm)[:common], other.tokens(calm=calm)[:common]
        differs[:common] = (here != there) & ~(np.isin(here, no_text) & np.isin(there, no_text))
    return differs


def counterpart(frame: Frame, other: Replay) -> int | None:
    """Returns the place of the same block and step in the other run; None if that run has no such block.

    If the block is shorter there, it is the place of the block's last frame.
    """
    if frame.block >= other.blocks:
        return None
    frames = 1 + other.steps_of(frame.block) + other.committed(frame.block)
    last = min(len(other.record(frame.block).snapshots), frames) - 1  # a damaged block has fewer
    return other.first_of(frame.block) + min(frame.step - NOISE, last)


def first_divergence(one: Replay, other: Replay, start: int = 0) -> Generator[int, None, Frame | None]:
    """Returns the first frame whose canvas, noise included, differs between the runs; None if no frame differs.

    If one run is longer, that is the first frame that only the longer one has. After each frame it yields how many are
    known to be equal; a later search can ``start`` there, as a long run takes many seconds.
    """
    place = start
    while place < min(len(one.frames), len(other.frames)):
        here, there = one.frames[place], other.frames[place]
        if here != there:
            return min(here, there)
        if not _same(one.canvas(place), other.canvas(place)):
            return here
        place += 1
        yield place
    beyond = [*one.frames[place : place + 1], *other.frames[place : place + 1]]
    return beyond[0] if beyond else None


def _same(one: Tokens | None, other: Tokens | None) -> bool:
    return one is other if one is None or other is None else np.array_equal(one, other)


def has(replay: Replay, frame: Frame) -> bool:
    try:
        replay.place(frame)
    except KeyError:
        return False
    return True
