"""Performs the passes of one run, one after the other."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, nullcontext

import torch

from engine.decoding.protocols import (
    BlockDenoiser,
    Decode,
    Decoding,
    Denoise,
    LaunchStep,
    Pass,
    Passes,
    Prefill,
    ReadImages,
    T,
)
from engine.events import Event


@torch.inference_mode()  # as a decorator it is off while the generator is suspended
def perform_all(model: BlockDenoiser, decoding: Decoding[None]) -> Iterator[Event]:
    """Performs the passes that a decoder yields, and yields its events."""
    with closing(decoding):
        for item in decoding:
            if isinstance(item, Pass):
                perform(model, item)
            else:
                yield item


def complete(model: BlockDenoiser, passes: Passes[T]) -> T:
    """Performs all passes of a generator that yields no events, and returns its result."""
    while True:
        try:
            wanted = next(passes)
        except StopIteration as end:
            value: T = end.value
            return value
        perform(model, wanted)


@torch.inference_mode()
def perform(model: BlockDenoiser, wanted: Pass) -> None:
    """Performs one pass alone; its results are stored in it."""
    match wanted:
        case Prefill():
            model.prefill(wanted.ids, wanted.cache)
        case Denoise():
            before = wanted.cache.length
            if wanted.text is not None:
                model.prefill(wanted.text, wanted.cache)
            try:
                wanted.logits = model.denoise(wanted.canvas, wanted.cache, wanted.self_conditioning_logits)
            except Exception:
                wanted.cache.truncate(before)  # leaves the cache as it was
                raise
        case Decode():
            with nullcontext() if wanted.draft is None else wanted.draft.on():
                wanted.logits = model.decode(
                    wanted.ids,
                    wanted.cache,
                    wanted.commit,
                    wanted.first_logits,
                    wanted.positions,
                    wanted.is_causal,
                )
        case LaunchStep():
            wanted.program.launch(wanted.index)
        case ReadImages():
            try:
                next(wanted.reading)
            except StopIteration as end:
                wanted.prompt = end.value
            except Exception as error:
                wanted.failure = error
