"""Runs made by hand for the inspector's page and its views, with everything in them known."""

from __future__ import annotations

import threading
from collections.abc import Container, Sequence
from functools import partial

import numpy as np

from engine import (
    CanvasCommitted,
    CanvasStarted,
    Event,
    GenerationConfig,
    Model,
    ModelIdentity,
    Recording,
    SafelightError,
    StepFinished,
    Trace,
    TraceHeader,
    gallery,
    generate,
    open_trace,
    read_reply,
)

LENGTH, STEPS = 24, 4
SHORT, SHORT_TEXT = 6, 4  # positions, and those before the end, of ``short_run``
END, PAD = 1, 0


class Recorded(Trace):
    """A run in memory: its events, how a token is written, which are control tokens, and how it was asked for.

    Events at ``damaged`` places cannot be read. ``read`` has the places of those that were asked for.
    """

    def __init__(
        self,
        events: Sequence[Event],
        pieces: dict[int, str] | None = None,
        special: Sequence[int] = (END,),
        header: TraceHeader | None = None,
        damaged: Container[int] = (),
    ) -> None:
        super().__init__(header=header or asked(), piece=self._written, is_special=special.__contains__)
        self.pieces = pieces or {}
        self.damaged = damaged
        self.read: list[int] = []
        self.grow(events)

    def grow(self, events: Sequence[Event]) -> None:
        """Take down more of the run."""
        for event in events:
            self.append(event)

    def event(self, index: int) -> Event:
        self.read.append(index)
        if index in self.damaged:
            raise SafelightError("a part of the file is damaged")
        return super().event(index)

    def _written(self, token: int) -> str:
        return self.pieces.get(token, "<eos>" if token == END else chr(ord("a") + token % 26))


def recorded(name: str) -> Recording:
    """A run of the gallery."""
    return open_trace(next(one.path for one in gallery() if one.path.stem == name))


def real_run(model: Model, prompt: str, seed: int = 3, most: int | None = None, **changes: object) -> Trace:
    """A run of a model in memory, which is cancelled after so many events."""
    config, texts, cancel = model.generation_defaults.replace(**changes), model.tokenizer, threading.Event()
    named = {"piece": texts.piece, "is_special": texts.is_special, "decode": partial(read_reply, texts)}
    trace = Trace(model.name, prompt, config, seed, **named)
    ids = model.chat_ids([{"role": "user", "content": prompt}])
    for event in generate(model, ids, config, seed, cancel=cancel):
        trace.append(event)
        if len(trace.events) == most:
            cancel.set()
    return trace


def asked(
    seed: int = 7, *, adapter: str = "", prompt: str = "Sort these", parent: object = None, **settings: object
) -> TraceHeader:
    """The header of a run; ``settings`` are the sampler's."""
    config = GenerationConfig(eos_token_ids=(END,), pad_token_id=PAD, **settings)
    return TraceHeader(ModelIdentity("made-up", adapter=adapter), prompt, config, seed, parent=parent)


def step_event(
    step: int,
    argmax: Sequence[int],
    candidates: Sequence[int],
    accepted: Sequence[bool],
    *,
    block: int = 0,
    entropy: Sequence[float] | None = None,
    top: tuple[Sequence[Sequence[int]], Sequence[Sequence[float]]] | None = None,
    noise: int | np.ndarray = 25,
    temperature: float = 0.5,
    seconds: float = 0.01,
) -> StepFinished:
    """A step; where nothing is accepted, ``noise`` comes next."""
    mask = np.array(accepted, dtype=np.bool_)
    sampled = np.array(candidates, dtype=np.int32)
    return StepFinished(
        block_index=block,
        step=step,
        temperature=temperature,
        argmax_canvas=np.array(argmax, dtype=np.int32),
        candidates=sampled,
        entropy=np.array([0.5] * len(mask) if entropy is None else entropy, dtype=np.float32),
        accepted_mask=mask,
        next_canvas=np.where(mask, sampled, noise).astype(np.int32),
        seconds=seconds,
        top_tokens=None if top is None else np.array(top[0], dtype=np.int32),
        top_probabilities=None if top is None else np.array(top[1], dtype=np.float32),
    )


def started(length: int, block: int = 0, pinned: Sequence[int] = ()) -> CanvasStarted:
    mask = np.zeros(length, dtype=np.bool_)
    mask[list(pinned)] = True
    return CanvasStarted(block, np.full(length, 25, dtype=np.int32), mask)


def committed(
    tokens: Sequence[int], text_length: int, steps: int, block: int = 0, reason: str = "converged"
) -> CanvasCommitted:
    return CanvasCommitted(block, np.array(tokens, dtype=np.int32), text_length, steps, reason)


def run(blocks: int = 2, top: bool = True, text_length: int = LENGTH, seed: int = 4, steps: int = STEPS) -> list[Event]:
    """Cells 4 to 7 settle, 8 and 9 are taken back at the third step, the argmax of 10 changes at the second.

    The first block stops early, the others at the cap.
    """
    rng = np.random.default_rng(seed)
    events: list[Event] = []
    for block in range(blocks):
        final = rng.integers(2, 26, LENGTH).astype(np.int32)
        noise = rng.integers(2, 26, LENGTH).astype(np.int32)
        events.append(CanvasStarted(block, noise, np.zeros(LENGTH, dtype=np.bool_)))
        for step in range(steps):
            guess = final.copy()
            if step < 1:
                guess[10] = (final[10] + 1) % 26
            accepted = np.zeros(LENGTH, dtype=np.bool_)
            accepted[4:8] = True
            accepted[8:10] = step != 2
            tops = None
            if top:
                shares = np.tile(np.array([[0.6 + 0.1 * step, 0.1]], np.float32), (LENGTH, 1))
                tops = (np.stack([guess, (guess + 3) % 26], axis=1), shares)
            events.append(
                step_event(
                    step,
                    guess,
                    guess,
                    accepted,
                    block=block,
                    entropy=np.linspace(0, 2.0 / (step + 1), LENGTH),
                    top=tops,
                    noise=rng.integers(2, 26, LENGTH),
                    temperature=0.8 - 0.1 * step,
                    seconds=0.1,
                )
            )
        length = text_length if block == blocks - 1 else LENGTH
        events.append(committed(final, length, steps, block, "step_cap" if block else "converged"))
    return events


def short_run(blocks: int = 1) -> list[Event]:
    """Three steps; position 1 is taken back at step 2; the last two positions end up as padding."""
    events: list[Event] = []
    for block in range(blocks):
        events.append(started(SHORT, block))
        for step in range(3):
            accepted = [True, step == 1, step > 0, False, True, True]
            entropy = [0.0, 2.0 - step, 0.5, 1.0, 3.0, 0.0]
            top = ([[5, 6, 7]] * SHORT, [[0.7, 0.2, 0.1]] * SHORT)
            events.append(step_event(step, [5] * SHORT, [5] * SHORT, accepted, block=block, entropy=entropy, top=top))
        events.append(committed([5] * SHORT_TEXT + [1, 0], SHORT_TEXT, 3, block))
    return events
