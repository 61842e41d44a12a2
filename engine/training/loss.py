"""The loss of uniform-state diffusion, by DiffusionGemma's public recipe. Pure functions of explicit draws.

A canvas of the answer is corrupted at one level: each token stays with probability 1 - t or else becomes any token of
the vocabulary. The loss is the plain cross entropy over the whole canvas, the tail of end tokens included, without a
weight for t. Half of the examples are self-conditioned on the network's prediction for the same canvas without it.
The causal mode is trained on the clean text as well, as it will prefill its own answers.

The passes are batched, with the same layers and weights, and keys and values kept in the graph. Sequences are padded on
the left. RoPE is relative, so a row whose text starts late sees the same distances as one that starts at position 0;
padded keys are masked. With ``recompute`` only the input of each layer is kept for backward, and the layer is run again
there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from engine.config import LayerConfig
from engine.models.diffusion_gemma.network import DiffusionGemma
from engine.training.puzzles import TrainingBatch

Prefix = list[tuple[Tensor, Tensor]]  # keys and values of each layer, each (B, heads, P, D)


def encode(
    model: DiffusionGemma, ids: Tensor, present: Tensor | None, recompute: bool = False
) -> tuple[Tensor, Prefix]:
    """Runs the causal pass over prompts.

    Args:
        ids: (B, P).
        present: (B, P), False on padding; None if there is none.
        recompute: run the layers again in backward instead of keeping their activations.

    Returns:
        Hidden states (B, P, H), and the keys and values of each layer.
    """
    length = ids.shape[1]
    place = torch.arange(length, device=ids.device)
    full = place[None, :] <= place[:, None]  # (P, P)
    near = full & (place[None, :] > place[:, None] - model.config.sliding_window)
    masks: dict[str, Tensor | None] = {"full_attention": full, "sliding_attention": near}
    if present is not None:
        # a padded query sees itself, so that no softmax is over an empty set
        own = torch.eye(length, dtype=torch.bool, device=ids.device)
        masks = {kind: (mask & present[:, None, :] | own)[:, None] for kind, mask in masks.items() if mask is not None}
    befores = [None] * len(model.layers)
    return _run_layers(model, model.embed(ids), place, masks, befores, length, recompute)


def denoise(
    model: DiffusionGemma,
    canvas: Tensor,
    soft: Tensor | None,
    prefix: Prefix,
    present: Tensor | None,
    recompute: bool = False,
) -> Tensor:
    """Runs the bidirectional pass over canvases.

    Args:
        canvas: (B, C).
        soft: soft embeddings of the previous step's probabilities (B, C, H); rows of zeros stand for none.
        prefix: from ``encode``.
        present, recompute: as there.

    Returns:
        Hidden states (B, C, H).
    """
    count, length = canvas.shape[1], prefix[0][0].shape[2]
    masks = _canvas_masks(model, canvas, length, present)
    positions = torch.arange(length, length + count, device=canvas.device)
    x = model.self_conditioning(model.embed(canvas), soft)
    return _run_layers(model, x, positions, masks, prefix, 0, recompute)[0]


def _canvas_masks(
    model: DiffusionGemma, canvas: Tensor, length: int, present: Tensor | None
) -> Mapping[str, Tensor | None]:
    """Returns the masks of canvases (B, C) over a prefix of ``length`` and themselves, (B, 1, C, P + C), by layer kind.

    A kind without a mask sees everything."""
    window = model.config.sliding_window - 1
    if present is None and length <= window:
        return {}
    seen = canvas.new_ones(len(canvas), length, dtype=torch.bool) if present is None else present
    near = seen & (torch.arange(length, device=canvas.device) >= length - window)
    own = torch.ones_like(canvas, dtype=torch.bool)
    masks = {"full_attention": seen, "sliding_attention": near}
    return {
        kind: torch.cat([mask, own], dim=1)[:, None, None].expand(-1, 1, canvas.shape[1], -1)
        for kind, mask in masks.items()
    }


def _through_layer(
    block: nn.Module,
    x: Tensor,
    rope: tuple[Tensor, Tensor],
    mask: Tensor | None,
    before: tuple[Tensor, Tensor] | None,
    text_rows: int,
) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """Runs one layer; returns its output, and its input's keys and values. Queries see those of ``before``, too."""
    own: Prefix = []

    def extend(keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        own.append((keys, values))
        if before is None:
            return keys, values
        return torch.cat([before[0], keys], dim=2), torch.cat([before[1], values], dim=2)

    return block(x, rope, mask, extend, text_rows), own[0]


def _run_layers(
    model: DiffusionGemma,
    x: Tensor,
    positions: Tensor,
    masks: Mapping[str, Tensor | None],
    befores: Sequence[tuple[Tensor, Tensor] | None],
    text_rows: int,
    recompute: bool,
) -> tuple[Tensor, Prefix]:
    """Runs all layers and the final norm.

    Args:
        befores: keys and values that a layer's queries see before the input's own; None for a layer without any.

    Returns:
        Hidden states, and each layer's keys and values of the input itself.
    """
    ropes = model.ropes(positions, x.dtype)
    prefix: Prefix = []
    for block, layer, before in zip(model.layers, model.config.layers, befores, strict=True):

        def through(x: Tensor, block: nn.Module = block, layer: LayerConfig = layer, before: Any = before) -> Any:
            return _through_layer(block, x, ropes[layer], masks.get(layer.kind), before, text_rows)

        if recompute and torch.is_grad_enabled():
            x, kept = checkpoint(through, x, use_reentrant=False, preserve_rng_state=False)
        else:
            x, kept = through(x)
        prefix.append(kept)
    hidden: Tensor = model.norm(x)
    return hidden, prefix


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
