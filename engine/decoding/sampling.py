"""The sampler's arithmetic: pure functions of logits, entropies and an explicit generator.

Shapes are (..., C, V) for logits and (..., C) for tokens, entropies and masks.
"""

from __future__ import annotations

import torch
from torch import Tensor


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
