"""Two runs beside each other: what was asked otherwise, where they first differ, in which cells. No Qt, no torch."""

from __future__ import annotations

import dataclasses
from collections.abc import Generator, Sequence
from dataclasses import dataclass

import numpy as np

from app.state.run.canvas import BlockState, Mask, Tokens
from app.state.run.replay import NOISE, Frame, Replay
from engine import TraceHeader

UNSEEN = ("top_k", "pad_token_id")  # settings of what is reported, which change no token


@dataclass(frozen=True)
class Difference:
    """Something that was otherwise for one run than for the other.

    ``name`` is a field of ``GenerationConfig``, or model, weights, adapter, adapter_weights, prompt, format, thinking
    or seed.
    """

    name: str
    one: object
    other: object


def differences(one: TraceHeader, other: TraceHeader) -> tuple[Difference, ...]:
    """What the two runs were asked otherwise; the settings last, in their own order."""
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
    """Whether ``run`` was made from ``other``: forked from it, or from a fork of it, or spans of it written anew."""
    if run.parent is None or run.id == other.id:
        return False
    if run.parent.id == other.id:
        return True
    one, begun = run.changes, other.changes
    is_further = len(begun) < len(one) and one[: len(begun)] == begun and not other.marks
    return is_further and (asked(run), run.seed, run.config) == (asked(other), other.seed, other.config)


def model_title(header: TraceHeader) -> str:
    """What the run's model is called."""
    return header.model.title or header.model.name


def asked(header: TraceHeader) -> tuple[tuple[str, str], ...]:
    """What the run was an answer to: role and text of each message, or the prompt alone where there are none."""
    told = tuple((str(one.get("role", "")), str(one.get("content", ""))) for one in header.messages)
    return told or (("user", header.prompt),)


def differing(one: BlockState | None, other: BlockState | None, *, calm: bool, no_text: Sequence[int] = ()) -> Mask:
    """(C,) of the first canvas: cells that show another token in the second, or are not there.

    Tokens of ``no_text``, as end and padding, are all one: behind the end it makes no difference which stands there.
    """
    if one is None:
        return np.zeros(0, dtype=np.bool_)
    found = np.ones(one.length, dtype=np.bool_)
    if other is not None:
        common = min(one.length, other.length)
        here, there = one.tokens(calm=calm)[:common], other.tokens(calm=calm)[:common]
        found[:common] = (here != there) & ~(np.isin(here, no_text) & np.isin(there, no_text))
    return found


def counterpart(frame: Frame, other: Replay) -> int | None:
    """The place in the other run of the same block and step, of its last frame of that block where it is shorter there.

    None where the other run has no such block.
    """
    if frame.block >= other.blocks:
        return None
    record = other.record(frame.block)
    return other.first_of(frame.block) + min(frame.step - NOISE, len(record.snapshots) - 1)


def first_divergence(one: Replay, other: Replay, start: int = 0) -> Generator[int, None, Frame | None]:
    """The first frame whose canvas, noise included, is not the same in both runs; None where all are the same.

    Where one run goes on and the other has ended, that is the first frame that only one has. Yields after each frame
    how many are known to be the same, of which a search may ``start`` again: a long run takes many seconds.
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
    """Whether the run has this frame."""
    try:
        replay.place(frame)
    except KeyError:
        return False
    return True
