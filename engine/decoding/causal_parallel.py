"""Causal parallel decoding: each pass writes those masks of a window behind the text that the model is sure of.

Source: WeDLM, arXiv 2512.22737. Each pass reads the window's written tokens first and its masks last, all under one
causal mask. Each row is rotated by its logical position, its place in the text. So a written token sees no mask. The
keys of written tokens that follow the text without a gap are those of a plain causal pass, and they become text. A mask
predicts the token of its own place. A written token never changes.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import torch

from engine.config import GenerationConfig
from engine.decoding.prefill import read_prompt
from engine.decoding.protocols import Decode, Decoding, Prefill
from engine.decoding.run import Run
from engine.decoding.sampling import WEDLM
from engine.decoding.token_sampler import TokenSampler
from engine.decoding.written_blocks import Predicted, blocks_of, required_mask, room_behind

WINDOW = 16  # masks ahead of the text; this and the next: the authors'
DISTANCE_PENALTY = 0.02  # nats that each position to its right adds to a mask's entropy


@dataclass
class StreamingWindow:
    """The places behind the committed text, each with its token, or None for a mask."""

    slots: list[int | None]
    room: int  # further places that the model has positions for
    text: list[int] = field(default_factory=list)  # generated and committed

    @staticmethod
    def from_width(width: int, room: int) -> StreamingWindow:
        """Returns a window of masks, of at most ``room``."""
        return StreamingWindow([None] * min(width, room), room - min(width, room))

    @property
    def leading(self) -> list[int]:
        """The tokens that follow the text without a gap; the next pass commits them."""
        return [token for token in itertools.takewhile(lambda slot: slot is not None, self.slots) if token is not None]

    def refill(self) -> None:
        """Appends as many masks as the next pass commits tokens, as far as there is room."""
        count = min(len(self.leading), self.room)
        self.slots, self.room = self.slots + [None] * count, self.room - count

    def order(self) -> tuple[list[int], list[int]]:
        """Returns written slots and masks, rising, in the order in which a pass reads them."""
        written = [index for index, slot in enumerate(self.slots) if slot is not None]
        return written, [index for index, slot in enumerate(self.slots) if slot is None]

    def commit(self, count: int) -> None:
        """Makes the first slots text."""
        self.text += self.leading[:count]
        self.slots = self.slots[count:]

    def write(self, tokens: Mapping[int, int]) -> None:
        """Writes tokens into masks, by their place in the generated text."""
        for place, token in tokens.items():
            self.slots[place - len(self.text)] = token


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
    sampler = TokenSampler.from_run(run, WEDLM)
    blocks = blocks_of(run)
    window = StreamingWindow.from_width(WINDOW, room)
    if not (yield from read_prompt(run, min(config.max_new_tokens, room) + 2 * WINDOW)):
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
        logits = sampler.allowed(forward.take())
        predictions = sampler.predicted(logits, sampler.draw(logits))  # drawn at every mask, whichever are written
        predicted = dict(zip(places, predictions, strict=True))
        chosen = {place: predicted[place].candidate for place in _sure(predicted, config)}
        window.write(chosen)
        sampler.see(list(chosen.values()))
        seconds = time.perf_counter() - clock
        yield from blocks.step(chosen, predicted, seconds, config.sampling_temperature, len(window.text))


def _sure(predicted: Mapping[int, Predicted], config: GenerationConfig) -> list[int]:
    """Returns the places of the masks to write, of those predicted, which rise: at least one.

    These are all whose entropy, with a penalty for the distance from the first one, is below the threshold.
    """
    first = min(predicted)
    nats = {place: one.entropy + DISTANCE_PENALTY * (place - first) for place, one in predicted.items()}
    below = [place for place in nats if nats[place] < config.entropy_threshold]
    return below or [min(nats, key=nats.__getitem__)]


def _end(leading: Sequence[int], config: GenerationConfig, length: int) -> tuple[Literal["eos", "length"] | None, int]:
    """Returns why the run ends with these tokens behind ``length`` others, or None; and how many of them stay."""
    for count, token in enumerate(leading, start=1):
        if token in config.eos_token_ids:
            return "eos", count
        if length + count >= config.max_new_tokens:
            return "length", count
    return None, len(leading)
