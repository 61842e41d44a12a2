"""The sampler's arithmetic: pure functions of logits, entropies and an explicit generator.

Shapes are (..., C, V) for logits and (..., C) for tokens, entropies and masks. The last part is the distribution that
tokens are drawn from: temperature, top-k, top-p and min-p, in the order of a reference.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from engine.config import GenerationConfig


def token_entropy(logits: Tensor) -> Tensor:
    """Entropy of each position's distribution, in nats: (..., C, V) -> (..., C)."""
    log_p = torch.log_softmax(logits, dim=-1)
    # A forbidden token has log p = -inf and p = 0; its share of the sum is 0.
    return -(log_p.exp() * log_p.clamp_min(torch.finfo(log_p.dtype).min)).sum(dim=-1)


def sample_candidates(logits: Tensor, generator: torch.Generator) -> Tensor:
    """Draws one token for each position: (..., C, V) -> (..., C)."""
    probabilities = torch.softmax(logits, dim=-1, dtype=torch.float32)
    drawn = torch.multinomial(probabilities.flatten(0, -2), 1, generator=generator)
    return drawn.view(logits.shape[:-1])


def verified(drafted: Tensor, drafted_shares: Tensor, shares: Tensor, generator: torch.Generator) -> Tensor:
    """Returns the drafts that stand, and one more token: (D,), (D, V), (D + 1, V) -> (A + 1,), A <= D.

    They are distributed as if each had been drawn from its own row of ``shares``, whatever the drafts were drawn from
    (speculative sampling: Leviathan et al. 2023, arXiv 2211.17192).

    Args:
        drafted_shares: (D, V) that the drafts were drawn from.
        shares: (D + 1, V) of each place if the drafts before it stand; the last row is of the place behind all of them.
    """
    count = len(drafted)
    rows = torch.arange(count, device=drafted.device)
    ratio = shares[rows, drafted] / drafted_shares[rows, drafted]
    stands = torch.rand(count, generator=generator, device=drafted.device) < ratio
    agreed = int(stands.cumprod(dim=0).sum())
    rest = shares[agreed]
    if agreed < count:
        missing = (rest - drafted_shares[agreed]).clamp_min(0)
        rest = missing if bool(missing.any()) else rest  # else the two differ by rounding alone
    return torch.cat((drafted[:agreed], torch.multinomial(rest, 1, generator=generator)))


def accept_mask(entropy: Tensor, entropy_bound: float | Tensor) -> Tensor:
    """Entropy-bound acceptance: (..., C) entropies in nats -> (..., C) True where the candidate is kept.

    Positions are taken by rising entropy while the sum of those before them stays within the bound, so at least one
    is always accepted (source: Ben-Hamu et al. 2025, arXiv 2505.24857). Of equal entropies the first positions go
    first, as in a step program.
    """
    ordered, places = entropy.sort(dim=-1, stable=True)
    within = ordered.cumsum(dim=-1) - ordered <= entropy_bound
    return torch.zeros_like(within).scatter(-1, places, within)


def uniform_tokens(shape: tuple[int, ...], choices: Tensor | int, generator: torch.Generator) -> Tensor:
    """Draws noise: tokens uniformly from a vocabulary size or from a 1-d tensor of allowed ids."""
    if isinstance(choices, int):
        return torch.randint(choices, shape, generator=generator, device=generator.device)
    return choices[torch.randint(len(choices), shape, generator=generator, device=generator.device)]


def renoise(candidates: Tensor, accepted: Tensor, noise: Tensor) -> Tensor:
    """Returns candidates at accepted positions, fresh noise at all others; all (..., C)."""
    return torch.where(accepted, candidates, noise)


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


def probabilities_of(logits: Tensor, config: GenerationConfig, order: SamplingOrder) -> Tensor:
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
