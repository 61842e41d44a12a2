"""A decoder without a model: writes a text over masks through ``WrittenBlocks``, a few places a pass."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from engine import CanvasStarted, Event, GenerationConfig, PrefillFinished, StepFinished, Trace, TraceHeader
from engine.decoding.written_blocks import Predicted, WrittenBlocks
from engine.trace import ModelIdentity

FILLER, END, PAD = 3, 1, 0
PIECES = {PAD: "<pad>", END: "<eos>", FILLER: "<mask>"}


def piece(token: int) -> str:
    return PIECES.get(token, chr(ord("a") + token % 26) * (1 + token % 3))


def written_run(
    text: Sequence[int], length: int, ahead: int = 1, top_k: int = 3, stop: int | None = None
) -> list[Event]:
    """The events of a run. Each pass predicts ``ahead`` places behind the text and writes every other of them.

    Args:
        length: C. stop: the run is cancelled after so many passes.
    """
    blocks, rng = WrittenBlocks(length, FILLER, PAD, top_k), np.random.default_rng(0)
    events: list[Event] = [PrefillFinished(4, 0, 0.1), *blocks.begin()]
    while len(blocks.text) < len(text) and (stop is None or blocks.passes < stop):
        first = next(place for place in range(len(text)) if place not in blocks.text)
        window = [place for place in range(first, min(first + ahead, len(text))) if place not in blocks.text]
        predicted = {}
        for place in window:
            tops = np.array([text[place], *range(40, 40 + top_k - 1)], dtype=np.int32)
            shares, entropy = np.linspace(0.6, 0.1, top_k, dtype=np.float32), float(np.float32(rng.uniform(0.1, 2)))
            predicted[place] = Predicted(text[place], text[place], entropy, tops, shares)
        events += blocks.step({place: text[place] for place in window[::2]}, predicted, 0.01)
    reason = "cancelled" if stop is not None else "eos" if text[-1] == END else "length"
    return [*events, *blocks.finish(reason, len(text) - (text[-1] == END))]


def written_trace(events: Sequence[Event], decoder: str = "autoregressive") -> Trace:
    """The run as it is recorded."""
    length = next(len(event.canvas) for event in events if isinstance(event, CanvasStarted))
    top_k = next(event for event in events if isinstance(event, StepFinished)).top_tokens is not None
    config = GenerationConfig(decoder=decoder, canvas_length=length, eos_token_ids=(END,), top_k=8 if top_k else 0)
    header = TraceHeader(ModelIdentity("made up", vocab_size=64, canvas_length=length), "Write.", config, 5)
    trace = Trace(header=header, piece=piece, is_special=lambda token: token in PIECES)
    for event in events:
        trace.append(event)
    return trace
