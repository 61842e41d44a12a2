"""What a model learns from trained ones beside the answers: their predictions, and what their layers make of the texts.

A model of 1.6 million parameters learns several trades at once far more slowly than each alone. What its teachers, of
its own width and depth, hold in their layers shortens that; this part fades over the second half of a run.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional as F

from engine.models.diffusion_gemma.network import DiffusionGemma
from engine.models.model import load_model
from small_models.losses import weights
from small_models.network import RunLayer, encode, predict
from small_models.recipes import Recipe
from small_models.tokenizer import EOS

LEAST = 1e-6  # added to a mean square before its root
UNKNOWN = -1e4  # logit of a token that a teacher lacks


def take_weights(model: DiffusionGemma, start: Path) -> int:
    """Takes a trained model's weights, and returns how many tokens it knows; what it lacks, as a tower, stays."""
    own, given = model.state_dict(), load_model(start, device="cpu", dtype="float32").network.state_dict()
    table, known = own["embed_tokens.weight"], len(given["embed_tokens.weight"])
    table[:known] = given["embed_tokens.weight"]
    model.load_state_dict(own | given | {"embed_tokens.weight": table})
    return known


class Teacher:
    """A trained model whose predictions and layers another one learns to have, on rows that it knows.

    Args:
        recipe: of the model that learns: the teacher gets its window, and its tokens, of which it may lack some.
    """

    def __init__(self, recipe: Recipe, folder: Path) -> None:
        self.network = DiffusionGemma(recipe.model_config()).requires_grad_(False)
        self.known = take_weights(self.network, folder)

    @torch.no_grad()
    def look(
        self, ids: Tensor, present: Tensor, canvas: Tensor, soft: Tensor | None, run_layer: RunLayer
    ) -> tuple[Tensor, list[Tensor], list[Tensor]]:
        """Returns logits (B, C, V), and the outputs of each layer for prompts (B, P, H) and canvases (B, C, H).

        The arguments are those of ``network.encode`` and ``network.predict``.
        """
        read, written = list[Tensor](), list[Tensor]()
        _, prefix = encode(self.network, ids, present, run_layer=run_layer, outputs=read)
        logits = predict(self.network, canvas, soft, prefix, present, run_layer, written).float()
        logits[..., self.known :] = UNKNOWN
        return logits, read, written


def surprise_loss(logits: Tensor, wanted: Tensor, target: Tensor, slots: Tensor | None) -> Tensor:
    """Returns how far predictions are from a teacher's, both as logits (B, C, V): nats, weighted as a row's answer is.

    Args:
        target: the rows' canvases (B, C).
        slots: the places (B, C) that are to be written; None for whole canvases.
    """
    theirs, own = torch.log_softmax(wanted, dim=-1), torch.log_softmax(logits.float(), dim=-1)
    surprise = (theirs.exp() * (theirs - own)).sum(dim=-1)
    share = weights(target) if slots is None else slots * (slots.sum(dim=1, keepdim=True) * target.shape[1]) ** -0.5
    return (surprise * share).sum() / len(target)


def layer_loss(mine: Sequence[Tensor], theirs: Sequence[Tensor], where: Tensor) -> Tensor:
    """Returns the mean squared distance between layers' outputs (B, N, H), each of length 1, at the places (B, N)."""
    total = torch.zeros(())
    for own, wanted in zip(map(_unit, mine), map(_unit, theirs), strict=True):
        total = total + ((own - wanted).square().mean(dim=-1) * where).sum() / where.sum().clamp(min=1)
    return total / len(mine)


def answer_places(target: Tensor, slots: Tensor | None) -> Tensor:
    """Returns the places (B, C) of canvases up to their first end token; all of a canvas with slots."""
    if slots is not None:
        return torch.ones_like(slots)
    answer = (target != EOS).flip(1).cumsum(dim=1).flip(1) > 0
    return answer | F.pad(answer, (1, -1))


def _unit(output: Tensor) -> Tensor:
    output = output.float()
    return output * torch.rsqrt(output.square().mean(dim=-1, keepdim=True) + LEAST)
