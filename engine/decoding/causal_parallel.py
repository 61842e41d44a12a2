"""Causal parallel decoding: each pass writes those masks of a window behind the text that the model is sure of.

Source: WeDLM, arXiv 2512.22737. Each pass reads the window's written tokens first and its masks last, all under one
causal mask. Each row is rotated by its logical position, its place in the text. So a written token sees no mask. The
keys of written tokens that follow the text without a gap are those of a plain causal pass, and they become text. A mask
predicts the token of its own place. A written token never changes.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Literal

import torch

from engine.config import GenerationConfig
from engine.decoding.drawing import Drawing
from engine.decoding.prefill import read_prompt
from engine.decoding.protocols import Decode, Decoding, Prefill
from engine.decoding.run import Run
from engine.decoding.shares import WEDLM
from engine.decoding.streaming_window import EntropyRule, StreamingWindow
from engine.decoding.written_blocks import Predicted
from engine.decoding.written_run import blocks_of, required_mask, room_behind


@torch.inference_mode()  # as a decorator it is off while the generator is suspended
def causal_parallel(run: Run) -> Decoding[None]:
    """Generates text after the prompt. A cancelled run ends within one pass.

    Tokens are committed by the pass after the one that wrote them. The run ends when an end token or the last of
    ``max_new_tokens`` is committed; tokens written behind it are dropped. Then the cache holds the prompt and all of
    that text, with the end token.

    Raises:
        SafelightError: the network has no mask token, the prompt leaves no room, settings of a canvas of noise.
    """
    mask, room, config, cache = required_mask(run), room_behind(run), run.config, run.cache
    drawing = Drawing.from_run(run, WEDLM)
    rule = EntropyRule(config.entropy_threshold, config.distance_penalty)
    blocks = blocks_of(run)
    window = StreamingWindow.from_width(config.window, room)
    if not (yield from read_prompt(run, min(config.max_new_tokens, room) + 2 * config.window)):
        yield from blocks.finish("cancelled", 0)
        return

    yield from blocks.begin()
    while True:
        if run.is_cancelled:
            yield from blocks.finish("cancelled", len(window.text))
            return
        clock = time.perf_counter()
        leading = window.leading
        reason, count = _end(leading, config, len(window.text))
        window.refill()
        written, masks = window.order()
        if reason is not None or not masks:
            yield Prefill(torch.tensor(leading[:count]), cache)  # nothing is left to predict
            cache.record_ids(leading[:count])
            window.commit(count)
            seconds = time.perf_counter() - clock
            length = len(window.text) - (reason == "eos")
            yield from blocks.step({}, {}, seconds, config.sampling_temperature, length)
            yield from blocks.finish(reason or "length", length)
            return
        order = [*written, *masks]
        forward = Decode(
            torch.tensor([mask if (token := window.slots[slot]) is None else token for slot in order]),
            cache,
            commit=count,
            first_logits=len(written),
            positions=torch.tensor(order) + cache.length,
        )
        yield forward
        cache.record_ids(leading)
        places = [len(window.text) + slot for slot in masks]
        window.commit(count)
        predictions = _predicted(forward, drawing)
        found = {
            places[index]: predictions[index].candidate
            for index in rule.chosen([one.entropy for one in predictions], places)
        }
        window.write(found)
        drawing.see(list(found.values()))
        predicted = dict(zip(places, predictions, strict=True))
        seconds = time.perf_counter() - clock
        yield from blocks.step(found, predicted, seconds, config.sampling_temperature, len(window.text))


def _predicted(forward: Decode, drawing: Drawing) -> list[Predicted]:
    """Returns the prediction at each mask. A token is drawn at every mask, whichever are written."""
    logits = drawing.allowed(forward.take())
    return drawing.predicted(logits, drawing.draw(logits))


def _end(leading: Sequence[int], config: GenerationConfig, length: int) -> tuple[Literal["eos", "length"] | None, int]:
    """Returns why the run ends with these tokens behind ``length`` others, or None; and how many of them stay."""
    for count, token in enumerate(leading, start=1):
        if token in config.eos_token_ids:
            return "eos", count
        if length + count >= config.max_new_tokens:
            return "length", count
    return None, len(leading)
