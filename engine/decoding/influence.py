"""Measured influence: how far one token of a canvas changes the model's predictions at every other position.

It takes one step on the canvas as it is and one with that token changed. It does not explain the difference.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import torch
from torch import Tensor

from engine.decoding.performing import complete
from engine.decoding.prefill import prefill, reuse_prefix
from engine.decoding.protocols import BlockDenoiser
from engine.decoding.run import checked_rows, prepared
from engine.decoding.sampler import non_finite, to_host
from engine.decoding.written_blocks import mask_of
from engine.errors import SafelightError
from engine.events import Influence
from engine.layers.kv_cache import KVCache
from engine.memory.experimental import in_fp64
from engine.models.causal.config import CausalConfig
from engine.types import Row

ROWS = 16  # rows of a canvas whose distributions are in memory as float64 at once


@torch.inference_mode()
def influence(
    model: BlockDenoiser,
    prompt_ids: Sequence[int] | Tensor,
    committed: Sequence[Row],
    canvas: Row,
    position: int,
    token: int,
    cache: KVCache | None = None,
    temperature: float = 1.0,
    masks: int = 0,
) -> Influence:
    """Measures how far one token of a canvas changes the distributions of the others.

    Both steps are taken without self-conditioning: a trace does not hold the prediction that it would need, and feeding
    it back would hide much of the token's own effect. A model that reads whole texts was trained to predict masks: only
    these are measured.

    Args:
        model, prompt_ids, cache: as for ``generate``; the cache then holds the text before the canvas.
        committed: the canvases (C,) before this one.
        canvas: token ids (C,), usually settled ones.
        position: of the token that is changed.
        token: that takes its place.
        temperature: that logits are divided by, above 0.
        masks: that stand behind the canvas, where the model reads whole texts.

    Raises:
        SafelightError: a canvas, position, token or text that does not fit this model; no mask to measure; non-finite
            logits.
    """
    prompt, cache = prepared(model, prompt_ids, cache)
    length, size = len(canvas), model.config.vocab_size
    if not length:
        raise SafelightError("the canvas is empty; give the tokens of a block")
    rows = [*committed, canvas]
    *before_it, settled = checked_rows(model, rows, max(map(len, rows)))
    _check_change(position, token, temperature, length, size)
    texts = [prompt, *before_it]
    if sum(map(len, texts)) + length + masks > model.config.max_position_embeddings:
        raise SafelightError(f"the text does not fit the model's {model.config.max_position_embeddings} positions")
    measured = np.arange(length) != position
    if model.config.reads_whole:
        read = partial(_read_whole, model, torch.cat(texts), masks)
        measured &= to_host(settled) == mask_of(model.config)
        if not measured.any():
            raise SafelightError("no other place is left to write; choose an earlier step")
    else:
        reuse_prefix(cache, texts)
        complete(model, prefill(texts, cache))
        read = partial(model.denoise, cache=cache)

    changed = settled.clone()
    changed[position] = token
    before = _logits(read, settled.to(model.device), temperature, len(committed))
    # An unchanged canvas is not run again, so that its influence is 0 also on devices that add in any order.
    is_same = torch.equal(changed, settled)
    after = before if is_same else _logits(read, changed.to(model.device), temperature, len(committed))
    starts = range(0, length, ROWS)
    kl = torch.cat([_kl(before[at : at + ROWS], after[at : at + ROWS]) for at in starts]).cpu().numpy()
    return Influence(position, token, np.where(measured, kl, 0.0).astype(np.float32), measured)


def _check_change(position: int, token: int, temperature: float, length: int, size: int) -> None:
    if not 0 <= position < length:
        raise SafelightError(f"position {position} is outside the canvas of {length} tokens")
    if not 0 <= token < size:
        raise SafelightError(f"token id {token} is outside the vocabulary of {size} tokens")
    if not (math.isfinite(temperature) and temperature > 0):
        raise SafelightError(f"the temperature must be above 0, not {temperature}")


def _read_whole(model: BlockDenoiser, text: Tensor, masks: int, canvas: Tensor) -> Tensor:
    """Reads a text (T,) with a canvas (C,) and masks behind it; returns the canvas's logits (C, V)."""
    shape = model.config
    ids = torch.cat((text.to(canvas), canvas, canvas.new_full((masks,), mask_of(model.config))))
    before = isinstance(shape, CausalConfig) and shape.shifts_masks  # 1 if a row predicts the token behind it
    rows = model.decode(ids, model.new_cache(), 0, len(text) - before, is_causal=False)
    return rows[: len(canvas)]


def _logits(read: Callable[[Tensor], Tensor], canvas: Tensor, temperature: float, block: int) -> Tensor:
    logits = read(canvas) / temperature
    if not bool(torch.isfinite(logits).all()):
        raise non_finite(block, 0)
    return logits


def _kl(before: Tensor, after: Tensor) -> Tensor:
    """Returns KL(before || after) of logits (R, V), in nats: float64 (R,)."""
    log_p, log_q = (torch.log_softmax(in_fp64(logits), dim=-1) for logits in (before, after))
    return (log_p.exp() * (log_p - log_q)).sum(dim=-1).clamp_min(0.0)
