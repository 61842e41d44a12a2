"""Made-up runs of decisions, of formats that are fitted, and of blocks that are verified, rewritten or begun again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from engine import (
    CanvasCommitted,
    CanvasStarted,
    Event,
    GenerationConfig,
    GenerationFinished,
    PrefillFinished,
    PrefixPinned,
    SlotsRead,
    StepFinished,
    TraceHeader,
)
from engine.decoding.generate import FUNCTIONS
from engine.decoding.performing import perform_all
from engine.decoding.run import Run
from engine.tasks.decisions.layout import Slot
from engine.tasks.decisions.questions import Decision, OneOf, Option, Question, Score, YesNo
from engine.text.output_format import OutputFormat
from tests.engine.causal import masked_network
from tests.engine.traces import header

QUESTIONS: tuple[Question, ...] = (
    YesNo("Is it late?", "after nine", name="late"),
    OneOf("Which colour?", (Option("red", "as a brick"), Option("green"), Option("blue")), "colour"),
    Score("How warm?", (Option("cold"), Option("mild"), Option("warm"), Option("hot")), "warmth"),
)
FORMAT = OutputFormat("json_schema", {"type": "object", "properties": {"n": {"type": "integer"}}})


def decision_header(length: int = 16, vocabulary: int = 50, repeats: int = 2, **fields: Any) -> TraceHeader:
    """The header of a decision that no model made: three questions, whose labels are tokens of their own."""
    slots, token = [], 11
    for place, question in enumerate(QUESTIONS):
        own = range(token, token + len(question.options))
        slots.append(Slot(2 + 3 * place, tuple((label,) for label in own)))
        token = own.stop
    decision = Decision("It is ten.", QUESTIONS, "Be brief.", is_joint=True, repeats=repeats)
    return header(length, vocabulary, decision=decision, slots=tuple(slots), **fields)


def decided(head: TraceHeader, reads: int = 3, seed: int = 0, top: int | None = 3) -> Iterator[Event]:
    """A decision that no model made: the slots of each read, and what stands around them."""
    draw, length = np.random.default_rng(seed), head.canvas_length
    places = [slot.position for slot in head.slots]
    pinned = np.ones(length, dtype=np.bool_)
    pinned[places] = False
    written = _odd(draw, 20, head.model.vocab_size, length)
    yield PrefillFinished(11, 3, 0.1 + 0.2)
    for read in range(reads):
        logprobs = tuple(_shares(draw, len(slot.labels)) for slot in head.slots)
        canvas, found = written.copy(), written.copy()
        canvas[places] = _odd(draw, 20, head.model.vocab_size, len(places))
        found[places] = [slot.labels[int(own.argmax())][0] for slot, own in zip(head.slots, logprobs, strict=True)]
        entropy = np.where(pinned, 0, draw.exponential(0.3, length)).astype(np.float32)
        tops = (None, None)
        if top is not None:
            tokens = np.repeat(found[:, None], top, axis=1)
            tops = (tokens, np.tile(np.array([0.7, *[0.1] * (top - 1)], dtype=np.float32), (length, 1)))
        yield CanvasStarted(read, canvas, pinned)
        yield StepFinished(read, 0, 1.0, found, found, entropy, np.ones(length, dtype=np.bool_), found, 1e-3 / 7, *tops)
        yield SlotsRead(read, logprobs, tuple((draw.random(len(logprobs)) < 0.8).tolist()))
        yield CanvasCommitted(read, found, length - 2, 1, "converged")
    yield GenerationFinished("eos", found[: length - 2], reads, reads, 1 / 3)


def _shares(draw: np.random.Generator, options: int) -> Any:
    """Log-probabilities (K,) of labels that have most of the probability."""
    return np.log(draw.dirichlet(np.ones(options)) * 0.99).astype(np.float32)


def _odd(draw: np.random.Generator, low: int, high: int, count: int) -> Any:
    """Odd tokens, none of which is special."""
    return draw.integers(low, high, count).astype(np.int32) | 1


def structured(length: int = 16, vocabulary: int = 50, seed: int = 0) -> Iterator[Event]:
    """A run that fits a format, and that no model made: 2 positions are pinned, then 7, then all; 14 hold text."""
    draw = np.random.default_rng(seed)
    final = _odd(draw, 4, vocabulary, length)
    pins = {0: (0, 2, 0), 1: (1, 7, 3), 3: (2, length, 8)}  # step: round, pinned, written
    yield PrefillFinished(5, 0, 0.1)
    canvas, pinned = _odd(draw, 4, vocabulary, length), 0
    yield CanvasStarted(0, canvas, np.zeros(length, dtype=np.bool_))
    for step in range(4):
        if step in pins:
            number, pinned, written = pins[step]
            canvas = canvas.copy()
            canvas[:pinned] = final[:pinned]
            canvas[pinned:] = _odd(draw, 4, vocabulary, length - pinned)
            yield PrefixPinned(0, step, number, canvas, pinned, written)
        if step == 3:
            break
        guess = final.copy()
        guess[[5, 6] if step == 0 else [12]] += 2  # which the format does not allow
        guess %= vocabulary
        guess[:pinned] = final[:pinned]
        accepted = np.arange(length) < pinned + 4
        canvas = np.where(accepted, guess, _odd(draw, 4, vocabulary, length))
        yield StepFinished(0, step, 0.5, guess, guess, np.full(length, 0.2, np.float32), accepted, canvas, 0.01)
    yield CanvasCommitted(0, final, 14, 3, "converged")
    yield GenerationFinished("eos", final[:14], 1, 3, 1 / 3)


def rewritten() -> list[Event]:
    """A run of a random network over blocks of 5 masks, whose tokens are replaced, one of them twice."""
    network = masked_network(1)
    config = GenerationConfig(max_new_tokens=10, eos_token_ids=(), max_denoising_steps=2, edit_probability=0.2)
    decoding = FUNCTIONS["block_causal"](Run(network, torch.arange(5), config, 0, None, network.new_cache()))  # type: ignore[arg-type]
    return list(perform_all(network, decoding))  # type: ignore[arg-type]
