"""Performs the passes of one run, one after the other, or of several runs at once.

The results of a pass do not depend on the others; ``perform``, one pass after the other, is the oracle.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
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
from engine.decoding.step_batch import launch_together
from engine.events import Event
from engine.models.diffusion_gemma.joining import Joining, Rows, takes_texts
from engine.models.diffusion_gemma.network import DiffusionGemma
from engine.models.model import Model


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


Performed = Callable[[Pass], None]


@torch.inference_mode()
def perform_together(model: BlockDenoiser, passes: Sequence[Pass], performed: Performed = lambda _: None) -> None:
    """Performs passes of different runs, each with its own cache; as one pass where they can be joined.

    Args:
        performed: called with each pass that is done, also with those done before one fails.

    Raises:
        Exception: whatever one of them failed with. Passes that were not done have changed nothing.
    """
    launches = [wanted for wanted in passes if isinstance(wanted, LaunchStep)]
    plain = [wanted for wanted in passes if isinstance(wanted, Prefill | Denoise)]
    if launches:
        launch_together(launches)
        for wanted in launches:
            performed(wanted)
    joined = _join(model, plain) if len(plain) > 1 or any(map(_has_text, plain)) else ()
    for one in joined:
        performed(one)
    for other in passes:
        if not isinstance(other, LaunchStep) and other not in joined:
            perform(model, other)
            performed(other)


def _join(model: BlockDenoiser, passes: Sequence[Prefill | Denoise]) -> Sequence[Prefill | Denoise]:
    """Performs those passes as one that can be joined; returns them."""
    network: object = model
    threads = torch.get_num_threads()
    if isinstance(model, Model):
        model.take_threads()
        network, threads = model.network, model.most_threads
    if not isinstance(network, DiffusionGemma):
        return ()
    joining = Joining.for_network(network, threads)
    if not joining.allows(network):
        return ()
    joined = [one for one in passes if _fits(one, takes_texts(network), joining.fewest_rows)]
    if len(joined) < 2 and not any(map(_has_text, joined)):
        return ()
    canvases = [one for one in joined if isinstance(one, Denoise)]
    logits_of_all = joining.run(
        network,
        [Rows(one.ids, one.cache) for one in joined if isinstance(one, Prefill)],
        [Rows(one.canvas, one.cache, one.self_conditioning_logits, one.text) for one in canvases],
    )
    for wanted, logits in zip(canvases, logits_of_all, strict=True):
        wanted.logits = logits
    return joined


def _has_text(one: Prefill | Denoise) -> bool:
    """True if it is two passes, of a text and of a canvas, unless they are joined."""
    return isinstance(one, Denoise) and one.text is not None


def _fits(one: Prefill | Denoise, texts: bool, fewest: int) -> bool:
    if isinstance(one, Prefill):
        return texts and len(one.ids) >= fewest and one.cache.image is None
    return len(one.canvas) >= fewest and (one.text is None or (texts and len(one.text) >= fewest))
