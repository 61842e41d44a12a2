"""Measured influence: how far one token of a canvas changes the model's predictions at every other position.

It takes one step on the canvas as it is and one with that token changed. It does not explain the difference.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from engine.decoding.performing import complete
from engine.decoding.prefill import prefill, reuse_prefix
from engine.decoding.protocols import BlockDenoiser
from engine.decoding.run import checked_rows, prepared
from engine.decoding.sampler import non_finite, to_host
from engine.errors import SafelightError
from engine.events import Influence
from engine.layers.kv_cache import KVCache
from engine.types import Row, Tokens

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
    top_k: int = 8,
) -> Influence:
    """Measures how far one token of a canvas changes the distributions of the others.

    Both steps are taken without self-conditioning: a trace does not hold the prediction that it would need, and feeding
    it back would hide much of the token's own effect.

    Args:
        model, prompt_ids, cache: as for ``generate``; the cache then holds the text before the canvas.
        committed: the canvases (C,) before this one.
        canvas: token ids (C,), usually settled ones.
        position: of the token that is changed.
        token: that takes its place.
        temperature: that logits are divided by, above 0.
        top_k: how many of the likeliest tokens are returned for each position, before and after.

    Raises:
        SafelightError: a canvas, position, token or text that does not fit this model; non-finite logits.
    """
    prompt, cache = prepared(model, prompt_ids, cache)
    length, size = len(canvas), model.config.vocab_size
    if not length:
        raise SafelightError("the canvas is empty; give the tokens of a block")
    *before_it, settled = checked_rows(model, [*committed, canvas], length)
    _check_change(position, token, temperature, length, size)
    texts = [prompt, *before_it]
    if sum(map(len, texts)) + length > model.config.max_position_embeddings:
        raise SafelightError(f"the text does not fit the model's {model.config.max_position_embeddings} positions")
    reuse_prefix(cache, texts)
    complete(model, prefill(texts, cache))

    changed = settled.clone()
    changed[position] = token
    before = _logits(model, settled, cache, temperature, len(committed))
    # An unchanged canvas is not run again, so that its influence is 0 also on devices that add in any order.
    after = before if torch.equal(changed, settled) else _logits(model, changed, cache, temperature, len(committed))
    starts = range(0, length, ROWS)
    kl = torch.cat([_kl(before[at : at + ROWS], after[at : at + ROWS]) for at in starts]).cpu().numpy()
    measured = np.arange(length) != position
    return Influence(
        position,
        token,
        np.where(measured, kl, 0.0).astype(np.float32),
        measured,
        _top(before, min(top_k, size)),
        _top(after, min(top_k, size)),
    )


def _check_change(position: int, token: int, temperature: float, length: int, size: int) -> None:
    if not 0 <= position < length:
        raise SafelightError(f"position {position} is outside the canvas of {length} tokens")
    if not 0 <= token < size:
        raise SafelightError(f"token id {token} is outside the vocabulary of {size} tokens")
    if not (math.isfinite(temperature) and temperature > 0):
        raise SafelightError(f"the temperature must be above 0, not {temperature}")


def _logits(model: BlockDenoiser, canvas: Tensor, cache: KVCache, temperature: float, block: int) -> Tensor:
    logits = model.denoise(canvas.to(model.device), cache) / temperature
    if not bool(torch.isfinite(logits).all()):
        raise non_finite(block, 0)
    return logits


def _kl(before: Tensor, after: Tensor) -> Tensor:
    """Returns KL(before || after) of logits (R, V), in nats: float64 (R,)."""
    log_p, log_q = (torch.log_softmax(logits.double(), dim=-1) for logits in (before, after))
    return (log_p.exp() * (log_p - log_q)).sum(dim=-1).clamp_min(0.0)


def _top(logits: Tensor, count: int) -> tuple[Tokens, NDArray[np.float32]]:
    best = torch.softmax(logits, dim=-1).topk(count, dim=-1)
    return to_host(best.indices), best.values.float().cpu().numpy()
