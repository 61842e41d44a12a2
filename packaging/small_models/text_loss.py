"""The losses of small causal models on packed rows. Pure functions of rows whose noise is already drawn.

WeDLM and masked block diffusion differ in the attention within a block; both add plain autoregression on the clean
copy, with weight 1. A mask's loss weighs 1 / gamma, gamma the share of masks in its block, so every block counts alike.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from engine.models.causal.network import CausalNetwork
from small_models.text_rows import TextRows, visible


class TextLoss(NamedTuple):
    """Losses in nats per token, as means by the rows' weights."""

    causal: Tensor
    masked: Tensor


def read_rows(network: CausalNetwork, rows: TextRows, is_causal: bool) -> Tensor:
    """Returns logits (B, T, V) of all tokens in one pass. ``is_causal``: a block sees itself causally."""
    hidden = network.run(rows.whole("id"), rows.whole("position")[:, None], visible(rows, is_causal))
    return network.head(hidden)


def text_loss(logits: Tensor, rows: TextRows) -> TextLoss:
    """Computes both losses from logits (B, T, V)."""
    surprise = F.cross_entropy(logits.flatten(0, 1), rows.whole("target").flatten(), reduction="none")

    def mean(weights: Tensor) -> Tensor:
        return (surprise * weights.flatten()).sum() / weights.sum().clamp_min(1e-6)

    return TextLoss(mean(rows.field("causal")), mean(rows.field("masked")))


def right_texts(logits: Tensor, rows: TextRows, most: int, loss: str = "causal") -> tuple[Tensor, Tensor]:
    """Finds the texts that the clean copy predicts without a mistake: exactly those that greedy decoding writes.

    Args:
        most: maximum number of texts in a row.
        loss: the field whose tokens have to be right; with "masked" those of the noised copy.

    Returns:
        (B, most) bools of the row's texts in their order: True if the text is right, and True if there is one.
    """
    answer = rows.field(loss) > 0
    number = rows.whole("text")
    wrong = answer & (logits.argmax(dim=-1) != rows.whole("target"))
    counts = torch.zeros(2, len(number), most + 1, device=number.device)
    for count, found in zip(counts, (wrong, answer), strict=True):
        count.scatter_add_(1, number.clamp(max=most), found.float())
    mistakes, tokens = counts[:, :, 1:]
    return (mistakes == 0) & (tokens > 0), tokens > 0
