"""The loss of uniform-state diffusion, by DiffusionGemma's public recipe. Pure functions of explicit draws.

A canvas of the answer is corrupted at one level: each token stays with probability 1 - t or else becomes any token of
the vocabulary. The loss is the plain cross entropy over the whole canvas, the tail of end tokens included, without a
weight for t. Half of the examples are self-conditioned on the network's prediction for the same canvas without it.
The causal mode is trained on the clean text as well, as it will prefill its own answers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from engine.models.diffusion_gemma.network import DiffusionGemma
from engine.training.network import Prefix, denoise, encode
from engine.training.puzzles import TrainingBatch

LEAST = 1e-4  # corruption levels are uniform over LEAST to 1 - LEAST
CONDITIONED = 0.5  # share of the examples with self-conditioning
PIECE = 256  # canvas positions whose logits are in memory at once with ``recompute``


@dataclass(frozen=True)
class Draws:
    """The random draws of a batch: its corrupted canvases (B, C), and the rows that are self-conditioned, (B,)."""

    canvas: Tensor
    conditioned: Tensor


@dataclass(frozen=True)
class Loss:
    """Losses in nats per token, of both modes."""

    denoise: Tensor
    causal: Tensor

    @property
    def total(self) -> Tensor:
        """Returns the sum of both."""
        return self.denoise + self.causal


def draw(target: Tensor, vocab_size: int, generator: torch.Generator) -> Draws:
    """Corrupts target canvases (B, C), each row at its own level, and chooses the rows with self-conditioning."""
    shape = target.shape
    level = LEAST + (1 - 2 * LEAST) * torch.rand(shape[0], 1, generator=generator)
    kept = torch.rand(shape, generator=generator) >= level
    noise = torch.randint(vocab_size, shape, generator=generator)
    conditioned = torch.rand(shape[0], generator=generator) < CONDITIONED
    return Draws(torch.where(kept, target, noise), conditioned)


def uniform_loss(
    network: DiffusionGemma, batch: TrainingBatch, draws: Draws, eos: int, recompute: bool = False
) -> Loss:
    """Computes the recipe's loss on one batch.

    Args:
        batch, draws: on the network's device.
        eos: the token that ends an answer and fills the rest of its canvas.
        recompute: gradient checkpointing, of layers and of logits: the same numbers for little memory and more time.
    """
    present = None if bool(batch.present.all()) else batch.present
    length = batch.ids.shape[1]
    text = torch.cat([batch.ids, batch.target], dim=1)
    shown = None if present is None else torch.cat([present, torch.ones_like(batch.target, dtype=torch.bool)], 1)
    hidden, read = encode(network, text, shown, recompute)
    prefix = [(keys[:, :, :length], values[:, :, :length]) for keys, values in read]
    co_loss = causal_loss(network, hidden[:, length - 1 : -1], batch.target, eos, recompute)
    soft = _first_guess(network, draws, prefix, present) if bool(draws.conditioned.any()) else None
    hidden = denoise(network, draws.canvas, soft, prefix, present, recompute)
    return Loss(cross_entropy(network, hidden.flatten(0, 1), batch.target.flatten(), recompute), co_loss)


def _first_guess(network: DiffusionGemma, draws: Draws, prefix: Prefix, present: Tensor | None) -> Tensor:
    """Returns soft embeddings (B, C, H) of a pass without self-conditioning, at temperature 1; zeros for other rows.

    The prediction has no gradient; the embedding table has, unless it is frozen.
    """
    rows = draws.conditioned
    with torch.no_grad():
        seen = [(keys[rows], values[rows]) for keys, values in prefix]
        hidden = denoise(network, draws.canvas[rows], None, seen, None if present is None else present[rows])
    guesses = []
    for canvas in hidden:  # one at a time: the probabilities of all would be large
        with torch.no_grad():
            probabilities = torch.softmax(network.head(canvas), dim=-1)
        guesses.append(network.soft_embedding(probabilities))
    soft = hidden.new_zeros(*draws.canvas.shape, hidden.shape[-1])
    return soft.index_copy(0, rows.nonzero()[:, 0], torch.stack(guesses))


def causal_loss(network: DiffusionGemma, hidden: Tensor, target: Tensor, eos: int, recompute: bool = False) -> Tensor:
    """Returns the mean cross entropy of the next token over the answers, each up to its first end token.

    Args:
        hidden: of the token before each of the target's, (B, C, H), from the causal mode.
    """
    ends = (target == eos).cumsum(dim=1)
    answer = ends - (target == eos).long() == 0  # the first end token included
    return cross_entropy(network, hidden[answer], target[answer], recompute)


def cross_entropy(network: DiffusionGemma, hidden: Tensor, target: Tensor, recompute: bool = False) -> Tensor:
    """Returns the mean cross entropy in nats of hidden states (N, H) under the head and tokens (N,)."""

    def surprise(hidden: Tensor, target: Tensor) -> Tensor:
        return F.cross_entropy(network.head(hidden), target, reduction="sum")

    if not (recompute and torch.is_grad_enabled()):
        return surprise(hidden, target) / len(target)
    call: Callable[..., Any] = checkpoint
    parts = [
        call(surprise, piece, tokens, use_reentrant=False, preserve_rng_state=False)
        for piece, tokens in zip(torch.split(hidden, PIECE), torch.split(target, PIECE), strict=True)
    ]
    return torch.stack(parts).sum() / len(target)
