"""The distribution that tokens are drawn from: temperature, top-k, top-p and min-p, in the order of a reference."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from engine.config import GenerationConfig
from engine.errors import SafelightError


@dataclass(frozen=True)
class SamplingOrder:
    """The order in which a reference cuts the distribution of a token.

    Args:
        temperature_first: the temperature is applied before the cuts, else behind them.
        keeps_edge: top-p keeps a token if those before it sum to exactly ``sampling_top_p``.
    """

    temperature_first: bool
    keeps_edge: bool


TRANSFORMERS = SamplingOrder(temperature_first=True, keeps_edge=False)
"""Source: transformers' logits warpers, in the order of ``GenerationMixin``; vLLM's sampler does the same."""
SDAR = SamplingOrder(temperature_first=True, keeps_edge=True)
"""Source: ``generate.py`` of JetAstra/SDAR. Dream's ``sample_tokens`` is the same, unless both top-k and top-p cut."""
WEDLM = SamplingOrder(temperature_first=False, keeps_edge=True)
"""Source: ``Sampler`` of Tencent/WeDLM."""


def shares_of(logits: Tensor, config: GenerationConfig, order: SamplingOrder) -> Tensor:
    """Returns the probabilities (R, V) in fp32 that tokens are drawn with, from logits (R, V).

    Temperature 0 gives all to the likeliest. Else the ``sampling_top_k`` likeliest are kept, of those the fewest that
    sum to ``sampling_top_p``, of those the ones with ``sampling_min_p`` of the likeliest one's probability.
    """
    temperature = config.sampling_temperature
    if temperature == 0.0:
        return torch.zeros_like(logits, dtype=torch.float32).scatter(-1, logits.argmax(-1, keepdim=True), 1.0)
    if order.temperature_first:
        logits = cut(logits / temperature, config, order)
    else:
        logits = cut(logits, config, order) / temperature
    return torch.softmax(logits, dim=-1, dtype=torch.float32)


def cut(logits: Tensor, config: GenerationConfig, order: SamplingOrder) -> Tensor:
    """Returns logits (R, V) with those that top-k, top-p and min-p leave out at minus infinity."""
    return _min_p(_cut(logits, config, order), config.sampling_min_p)


def _cut(logits: Tensor, config: GenerationConfig, order: SamplingOrder) -> Tensor:
    if 0 < config.sampling_top_k < logits.shape[-1]:  # tokens as likely as the last one stay
        least = logits.topk(config.sampling_top_k, dim=-1).values[:, -1:]
        logits = logits.masked_fill(logits < least, -torch.inf)
    if config.sampling_top_p == 1.0:
        return logits
    ordered, places = logits.sort(dim=-1, descending=order.keeps_edge)
    sums = ordered.softmax(dim=-1).cumsum(dim=-1)
    if order.keeps_edge:
        beyond = (sums > config.sampling_top_p).roll(1, dims=-1)
        beyond[:, 0] = False
    else:  # from the least likely: an edge is rounded as transformers rounds it
        beyond = sums <= 1 - config.sampling_top_p
        beyond[:, -1] = False
    return logits.masked_fill(torch.zeros_like(beyond).scatter(-1, places, beyond), -torch.inf)


def _min_p(logits: Tensor, least: float) -> Tensor:
    if least == 0.0:
        return logits
    shares = logits.softmax(dim=-1)
    return logits.masked_fill(shares < least * shares.amax(dim=-1, keepdim=True), -torch.inf)


def forbidden_of(banned: Sequence[int], vocab_size: int, device: torch.device) -> Tensor | None:
    """Returns the mask (V,) of the tokens that may not be drawn; None if all may.

    Raises:
        SafelightError: a banned token is outside the vocabulary, or none is left.
    """
    if not banned:
        return None
    if max(banned) >= vocab_size:
        raise SafelightError(f"banned_tokens has token id {max(banned)}; the vocabulary has {vocab_size} tokens")
    forbidden = torch.zeros(vocab_size, dtype=torch.bool, device=device)
    forbidden[list(banned)] = True
    if bool(forbidden.all()):
        raise SafelightError("every token is banned; leave at least one")
    return forbidden
