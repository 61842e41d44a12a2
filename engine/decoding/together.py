"""Passes of several runs at once. What each comes to does not depend on the others.

Joined they go through the layers as one; and where a pass takes one of several processor cores, they are dealt to
threads, each of which joins its own. ``perform``, one pass after the other, is the oracle.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import torch

from engine.decoding.generate import perform
from engine.decoding.protocols import BlockDenoiser, Denoise, LaunchStep, Pass, Prefill
from engine.decoding.step_batch import launch_together
from engine.kernels.cpu_threads import share
from engine.models.diffusion_gemma.joint import FEWEST_ROWS, Rows, joins, joins_texts, joint_pass
from engine.models.diffusion_gemma.network import DiffusionGemma
from engine.models.model import Model
from engine.threads import available_threads

Performed = Callable[[Pass], None]


@torch.inference_mode()
def perform_together(model: BlockDenoiser, passes: Sequence[Pass], performed: Performed = lambda _: None) -> None:
    """Perform passes of different runs, each with a cache of its own; one alone as it always was.

    Args:
        performed: called with each that is done, maybe in another thread; also with those done before one fails.

    Raises:
        Exception: whatever one of them failed with. Those that were not done have changed nothing.
    """
    launches = [wanted for wanted in passes if isinstance(wanted, LaunchStep)]
    if launches:
        launch_together(launches)
    for wanted in launches:
        performed(wanted)
    plain = [wanted for wanted in passes if not isinstance(wanted, LaunchStep)]
    if plain:
        if isinstance(model, Model):
            model.take_threads()
        work = functools.partial(_perform_share, model, performed=performed)
        shares = dealt(plain, _hands(model))
        share(lambda part: work(shares[part.start]), [range(place, place + 1) for place in range(len(shares))])


def dealt(passes: Sequence[Prefill | Denoise], hands: int) -> list[list[Prefill | Denoise]]:
    """At most ``hands`` shares with about the same numbers of rows."""
    shares: list[list[Prefill | Denoise]] = [[] for _ in range(min(hands, len(passes)))]
    for wanted in sorted(passes, key=_length, reverse=True):
        min(shares, key=lambda held: sum(map(_length, held))).append(wanted)
    return shares


def _hands(model: BlockDenoiser) -> int:
    """Threads that may perform passes at the same time."""
    takes_one = isinstance(model, Model) and model.threads == 1
    return available_threads() if takes_one and model.device.type == "cpu" else 1


def _perform_share(model: BlockDenoiser, passes: Sequence[Prefill | Denoise], performed: Performed) -> None:
    """Join what can be joined, and perform the rest one after the other."""
    network = model.network if isinstance(model, Model) else model
    joined: list[Prefill | Denoise] = []
    if len(passes) > 1 and isinstance(network, DiffusionGemma) and joins(network):
        takes_texts = joins_texts(network)
        joined = [one for one in passes if _length(one) >= FEWEST_ROWS and (takes_texts or isinstance(one, Denoise))]
    if isinstance(network, DiffusionGemma) and len(joined) > 1:
        _join(network, joined)
        for wanted in joined:
            performed(wanted)
    for wanted in passes:
        if len(joined) < 2 or wanted not in joined:
            perform(model, wanted)
            performed(wanted)


def _join(network: DiffusionGemma, passes: Sequence[Prefill | Denoise]) -> None:
    texts = [Rows(one.ids, one.cache) for one in passes if isinstance(one, Prefill)]
    canvases = [one for one in passes if isinstance(one, Denoise)]
    rows = [Rows(one.canvas, one.cache, one.self_conditioning_logits) for one in canvases]
    for wanted, logits in zip(canvases, joint_pass(network, texts, rows), strict=True):
        wanted.logits = logits


def _length(wanted: Prefill | Denoise) -> int:
    return len(wanted.ids if isinstance(wanted, Prefill) else wanted.canvas)
