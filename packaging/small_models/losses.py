"""The losses of walks, gaps and decisions. Pure functions."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from engine.models.diffusion_gemma.network import DiffusionGemma
from small_models.tokenizer import EOS, PAD

TAIL = 0.25  # weight of the eos tokens that fill a canvas after the first one, on walks


def weights(target: Tensor) -> Tensor:
    """Returns loss weights (B, C) of target canvases (B, C): 1 / sqrt(n C) for a row's n answer tokens with its eos.

    A full canvas gets the plain mean. In the mean over a canvas of eos, a one-digit answer would hardly count. With
    these weights it counts more, without outweighing the long answers, as it would with a mean per row.
    """
    length = target.shape[1]
    ends = (target == EOS).cumsum(dim=1)
    answer = ends - (target == EOS).long() == 0
    share = (answer.sum(dim=1, keepdim=True) * length) ** -0.5
    return torch.where(answer, share, TAIL / length)


def canvas_loss(logits: Tensor, target: Tensor) -> Tensor:
    """Returns the cross entropy of logits (B, C, V) on walks and targets (B, C), by ``weights``, a row's mean."""
    surprise = F.cross_entropy(logits.flatten(0, 1), target.flatten(), reduction="none")
    return (surprise * weights(target).flatten()).sum() / len(target)


def gap_loss(logits: Tensor, target: Tensor, slots: Tensor) -> Tensor:
    """Returns the cross entropy of logits (B, C, V) on walks at the slots (B, C) of gaps, weighted as ``canvas_loss``.

    Padding behind a gap's text counts as end tokens do: the first one in full.
    """
    padding = (target == PAD) & slots
    tail = padding & F.pad(padding, (1, -1))
    own = slots & ~tail
    share = (own.sum(dim=1, keepdim=True) * target.shape[1]) ** -0.5
    weight = torch.where(own, share, tail * (TAIL / target.shape[1]))
    surprise = F.cross_entropy(logits.flatten(0, 1), target.flatten(), reduction="none")
    return (surprise * weight.flatten()).sum() / len(target)


def slot_loss(logits: Tensor, target: Tensor, slots: Tensor) -> Tensor:
    """Returns the mean cross entropy over the whole vocabulary of logits (B, C, V) at the slots (B, C) of decisions."""
    surprise = F.cross_entropy(logits.flatten(0, 1), target.flatten(), reduction="none")
    return (surprise * slots.flatten()).sum() / slots.sum()


def lookup_loss(attended: Tensor, slots: Tensor, ends: Tensor) -> Tensor:
    """Returns the mean surprise, in nats, that a slot attends to the end of its question, by the mean of all heads.

    Args:
        attended: log-probabilities (B, heads, C, P + C), from ``network.attention``.
        slots, ends: (B, C) and (B, P), with as many slots in a row as questions, in the same order.
    """
    rows, places = slots.nonzero(as_tuple=True)
    found = attended[rows, :, places, ends.nonzero(as_tuple=True)[1]]  # (N, heads)
    return math.log(found.shape[1]) - found.logsumexp(dim=1).mean()


def evidence_loss(attended: Tensor, keys: Tensor) -> Tensor:
    """Returns the mean surprise, in nats, that tokens attend to their evidence. One head that does so is enough.

    Args:
        attended: log-probabilities (N, heads, P), from ``network.text_attention``.
        keys: the positions of the evidence, (N,).
    """
    found = attended.gather(2, keys[:, None, None].expand(-1, attended.shape[1], 1))[..., 0]  # (N, heads)
    return torch.relu(-found.logsumexp(dim=1)).mean()


def cross_entropy(network: DiffusionGemma, hidden: Tensor, target: Tensor) -> Tensor:
    """Returns the mean cross entropy in nats of hidden states (N, H) under the head and tokens (N,)."""
    return F.cross_entropy(network.head(hidden), target)
