"""Runs made by hand for the linked views, with everything in them known."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from engine import CanvasCommitted, CanvasStarted, Event, StepFinished


class FakeTrace:
    """What views ask of a trace: events, how a token is written, and which are control tokens."""

    def __init__(self, events: Sequence[Event], pieces: dict[int, str] | None = None, special: Sequence[int] = (1,)):
        self.events = list(events)
        self.pieces = pieces or {}
        self.special = set(special)

    def piece(self, token: int) -> str:
        return self.pieces.get(token, "<eos>" if token == 1 else chr(ord("a") + token % 26))

    def is_special(self, token: int) -> bool:
        return token in self.special


def step_event(
    step: int,
    argmax: Sequence[int],
    candidates: Sequence[int],
    accepted: Sequence[bool],
    *,
    block: int = 0,
    entropy: Sequence[float] | None = None,
    top: tuple[Sequence[Sequence[int]], Sequence[Sequence[float]]] | None = None,
    noise: int = 25,
) -> StepFinished:
    """A step; where nothing is accepted, ``noise`` comes next."""
    mask = np.array(accepted, dtype=np.bool_)
    sampled = np.array(candidates, dtype=np.int32)
    return StepFinished(
        block_index=block,
        step=step,
        temperature=0.5,
        argmax_canvas=np.array(argmax, dtype=np.int32),
        candidates=sampled,
        entropy=np.array([0.5] * len(mask) if entropy is None else entropy, dtype=np.float32),
        accepted_mask=mask,
        next_canvas=np.where(mask, sampled, noise).astype(np.int32),
        seconds=0.01,
        top_tokens=None if top is None else np.array(top[0], dtype=np.int32),
        top_probabilities=None if top is None else np.array(top[1], dtype=np.float32),
    )


def started(length: int, block: int = 0, pinned: Sequence[int] = ()) -> CanvasStarted:
    mask = np.zeros(length, dtype=np.bool_)
    mask[list(pinned)] = True
    return CanvasStarted(block, np.full(length, 25, dtype=np.int32), mask)


def committed(tokens: Sequence[int], text_length: int, steps: int, block: int = 0) -> CanvasCommitted:
    return CanvasCommitted(block, np.array(tokens, dtype=np.int32), text_length, steps, "converged")


def random_run(steps: int = 48, length: int = 256, blocks: int = 1, depth: int = 8, seed: int = 0) -> list[Event]:
    """A large run that looks like one: entropy falls, more and more is accepted, some of it is remelted."""
    rng = np.random.default_rng(seed)
    events: list[Event] = []
    for block in range(blocks):
        final = rng.integers(200, 260, length).astype(np.int32)
        settled = rng.integers(0, steps, length)
        events.append(started(length, block))
        for step in range(steps):
            tops = rng.integers(2, 200, (length, depth + 8))
            top = np.stack([np.array(list(dict.fromkeys(row.tolist()))[:depth]) for row in tops])
            done = step >= settled
            top[done, 0] = final[done]
            sharp = np.where(done, 3.0, 0.5 + step / steps)[:, None]
            shares = np.exp(-sharp * np.arange(depth)) * (0.5 + 0.5 * rng.random((length, depth)))
            shares = -np.sort(-shares / shares.sum(axis=1, keepdims=True), axis=1)
            sampled = top[np.arange(length), (rng.random(length) < 0.2).astype(int)]
            accepted = done & (rng.random(length) < 0.85)
            entropy = np.where(done, 0.02, 4.0 * (1 - step / steps)) * rng.random(length)
            events.append(
                step_event(step, top[:, 0], sampled, accepted, block=block, entropy=entropy, top=(top, shares), noise=7)
            )
        events.append(committed(final, length if block < blocks - 1 else round(0.8 * length), steps, block))
    return events
