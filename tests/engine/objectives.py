"""The training objectives of published diffusion language models, as pure functions of explicit draws.

Some tokens of each text are masked, each with the same probability t, which is drawn for each text. The loss of a mask
weighs 1 / t. What differs is who sees whom, which row predicts a mask, and whether written tokens may be wrong:

- LLaDA (arXiv 2502.09992), MDLM (2406.07524): every token sees all of the text. Dream (2508.15487), RND1: so too, and
  the row before a mask predicts it.
- SDAR (2510.06303), BD3-LM (2503.09573), LLaDA2.0 (2512.15745): a noised copy, in whose blocks a token sees its block
  and the clean blocks before it. Fast-dLLM v2 (2509.26328): so too, and the row before a mask predicts it; each text
  comes twice, with complementary masks.
- LLaDA2.1 (2602.08676): so too, and some of the tokens that are not masked are random ones, to be corrected in place.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from engine.models.causal.network import CausalNetwork

LEAST_RATE = 0.05  # of masks; bounds the weight of a loss


@dataclass(frozen=True)
class Objective:
    """The noising and the prediction of one family's training.

    Args:
        block: tokens of a block of block-causal attention; 0: every token sees all.
        shifts: the row before a mask predicts it.
        complements: each text comes a second time, with the other tokens masked.
        wrong: probability with which a token that is not masked is replaced by a random one, and corrected.
    """

    block: int = 0
    shifts: bool = False
    complements: bool = False
    wrong: float = 0.0


@dataclass(frozen=True)
class Noised:
    """A batch to read: ids (B, T), their positions (T,), who sees whom (T, T), and weights (B, L) of the L targets."""

    ids: Tensor
    positions: Tensor
    visible: Tensor | None
    targets: Tensor
    weights: Tensor


def noise(
    clean: Tensor, worth: Tensor, mask: int, vocabulary: int, objective: Objective, draws: torch.Generator
) -> Noised:
    """Noises texts of one length.

    Args:
        clean: token ids (B, L).
        worth: (B, L) weights of the tokens in the loss; 0 for those that the model does not write.
        mask: the token of a mask. vocabulary: random tokens are below it.
    """
    device, own = clean.device, worth > 0
    rate = torch.rand(len(clean), 1, generator=draws, device=device).clamp_min(LEAST_RATE)
    masked = (torch.rand(clean.shape, generator=draws, device=device) < rate) & own
    if objective.complements:
        clean, worth, own = clean.repeat(2, 1), worth.repeat(2, 1), own.repeat(2, 1)
        rate = torch.cat((rate, (1 - rate).clamp_min(LEAST_RATE)))
        masked = torch.cat((masked, ~masked & own[: len(masked)]))
    weights = masked * worth / rate
    noised = clean.masked_fill(masked, mask)
    if objective.wrong:
        is_wrong = (torch.rand(clean.shape, generator=draws, device=device) < objective.wrong) & own & ~masked
        drawn = torch.randint(vocabulary, clean.shape, generator=draws, device=device)
        noised = torch.where(is_wrong, drawn, noised)
        weights = weights + worth * ~masked
    place = torch.arange(clean.shape[1], device=device)
    if not objective.block:
        return Noised(noised, place, None, clean, weights)
    both = torch.cat((noised, clean), dim=1)
    return Noised(both, place.repeat(2), copies_visible(clean.shape[1], objective.block).to(device), clean, weights)


def copies_visible(length: int, block: int) -> Tensor:
    """Returns who sees whom (2 L, 2 L): a noised copy of a text and behind it the clean one, in blocks."""
    place = torch.arange(2 * length)
    number, is_clean = place % length // block, place >= length
    inside = (number[:, None] == number[None]) & (is_clean[:, None] == is_clean[None])
    return inside | ((number[:, None] > number[None]) & is_clean[None])


def objective_loss(network: CausalNetwork, batch: Noised, shifts: bool) -> Tensor:
    """Returns the mean loss of a batch, in nats per weight of a token that the model writes."""
    length = batch.targets.shape[1]
    hidden = network.run(batch.ids, batch.positions, batch.visible)[:, :length]
    if shifts:  # nothing predicts the first token
        hidden = torch.cat((hidden[:, :1], hidden[:, :-1]), dim=1)
    surprise = F.cross_entropy(network.head(hidden).flatten(0, 1), batch.targets.flatten(), reduction="none")
    return (surprise * batch.weights.flatten()).sum() / (batch.weights > 0).sum().clamp_min(1)
