"""Texts and their noised copies, packed into rows: pure functions of explicit draws. Knows no model.

An example is [x0 ; xt]: the prompt with its answer, read causally, and after it a copy of the answer in blocks, in
each of which some tokens are masks. A block sees the clean text before it, and itself. ``visible`` computes this for a
whole row from four numbers per token, so rows of any examples have one shape, and are compiled once.

Blocks begin at random positions of the answer, since in decoding they begin wherever the text ends. The last block is
filled up with end tokens, as masks will also stand after the end.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Table = NDArray[np.float32]
TAIL = 0.25  # weight of the end tokens after an answer's end
FIELDS = ("id", "position", "text", "block", "sees", "target", "causal", "masked")
"""The numbers of a token, in this order.

Its id; its position in its text; the text's number in the row, 0 for padding; its block's number in the row, 0 in a
clean copy; how many tokens of the clean text it sees; the token that it predicts; its weights in the causal loss and
in the loss of masks."""


class NoisedBlock(NamedTuple):
    """A noised stretch of an answer: its first token, its size, and the positions of its masks, all in the answer."""

    first: int
    size: int
    masked: tuple[int, ...]


class Noise(NamedTuple):
    """The noising of blocks by an objective.

    known_first: the first token of a block is no mask: it comes from the causal pass before.
    whole: all others are masks; otherwise a random number of them.
    reordered: masks stand after the known tokens.
    """

    known_first: bool
    whole: bool
    reordered: bool


NOISE = {
    "wedlm": Noise(known_first=False, whole=False, reordered=True),
    "masked": Noise(known_first=True, whole=False, reordered=False),
    "draft": Noise(known_first=True, whole=True, reordered=False),
}


def draw_blocks(rng: random.Random, length: int, size: int, most: int, noise: Noise) -> list[NoisedBlock]:
    """Draws blocks of ``size`` tokens of an answer of ``length``, its end token included.

    Half of the answers have their first block at their beginning, as most decoding has; the others begin theirs at one
    of the first ``size`` tokens. If they have more than ``most`` tokens, as many consecutive blocks as fit are taken,
    from a random one on.
    """
    start = 0 if rng.random() < 0.5 else rng.randrange(min(size, length))
    firsts = range(start, length, size)
    room = most // size
    if len(firsts) > room:
        start = rng.randint(0, len(firsts) - room)
        firsts = firsts[start : start + room]
    blocks = []
    for first in firsts:
        places = range(first + noise.known_first, first + size)
        masks = len(places) if noise.whole else rng.randint(1, len(places))
        blocks.append(NoisedBlock(first, size, tuple(sorted(rng.sample(places, masks)))))
    return blocks


def arrange(
    prompt: Sequence[int], answer: Sequence[int], blocks: Sequence[NoisedBlock], noise: Noise, mask: int
) -> Table:
    """Arranges an example as a table (FIELDS, tokens), its text numbered 1 and its blocks from 1.

    Args:
        answer: with its end token, which also fills the part of a block after it.
        mask: the token of unknown positions.
    """
    begins, length = len(prompt), len(prompt) + len(answer)
    share = len(answer) ** -0.5
    table: Table = np.zeros((len(FIELDS), length + sum(block.size for block in blocks)), dtype=np.float32)
    ids, places, texts, numbers, sees, targets, causal, masked = table
    texts[:] = 1
    ids[:length] = [*prompt, *answer]
    places[:length] = np.arange(length)
    sees[:length] = places[:length] + 1
    targets[: length - 1] = ids[1:length]
    causal[begins - 1 : length - 1] = share
    at = length
    for number, (first, size, masks) in enumerate(blocks, start=1):
        hidden = np.zeros(size, dtype=bool)
        hidden[[place - first for place in masks]] = True
        order = np.argsort(hidden, kind="stable") if noise.reordered else np.arange(size)
        offsets, hidden, here = first + order, hidden[order], slice(at, at + size)
        tokens = ids[begins + np.minimum(offsets, len(answer) - 1)]
        places[here] = begins + offsets
        numbers[here] = number
        sees[here] = begins + first
        targets[here] = tokens
        ids[here] = np.where(hidden, mask, tokens)
        weights = np.where(offsets < len(answer), 1.0, TAIL) * (share * size / len(masks))
        masked[here] = np.where(hidden, weights, 0.0)
        at += size
    return table


@dataclass(frozen=True)
class TextRows:
    """Rows of packed examples: a table (B, FIELDS, T) in fp32, which holds all of its numbers exactly."""

    table: Tensor

    def field(self, name: str) -> Tensor:
        """Returns a field (B, T), fp32."""
        return self.table[:, FIELDS.index(name)]

    def whole(self, name: str) -> Tensor:
        """Returns a field (B, T), int64."""
        return self.field(name).long()


def pack(examples: Iterable[Table], count: int, width: int) -> TextRows:
    """Packs examples in ``count`` rows of ``width`` tokens, the longest first, each in the first row with room for it.

    Examples that fit in no row are omitted.
    """
    table = np.zeros((count, len(FIELDS), width), dtype=np.float32)
    used, texts, blocks = ([0] * count for _ in range(3))
    for example in sorted(examples, key=lambda one: -one.shape[1]):
        length = example.shape[1]
        row = next((row for row in range(count) if used[row] + length <= width), None)
        if row is None:
            continue
        part: Table = table[row, :, used[row] : used[row] + length]
        part[:] = example
        numbers = part[FIELDS.index("block")]
        numbers[numbers > 0] += blocks[row]
        part[FIELDS.index("text")] += texts[row]
        used[row], texts[row], blocks[row] = used[row] + length, texts[row] + 1, max(blocks[row], int(numbers.max()))
    return TextRows(torch.from_numpy(table))


def visible(rows: TextRows, is_causal: bool) -> Tensor:
    """Returns the attention mask of the tokens, (B, 1, T, T), True where allowed.

    Args:
        is_causal: a token sees its block up to itself, in the row's order; otherwise all of it.
    """
    text, block, sees, position = (rows.field(name) for name in ("text", "block", "sees", "position"))
    place = torch.arange(text.shape[1], device=text.device)
    before = (block[:, None, :] == 0) & (position[:, None, :] < sees[:, :, None])
    own = (block[:, None, :] == block[:, :, None]) & (block[:, :, None] > 0)
    if is_causal:
        own = own & (place[None, :] <= place[:, None])
    mask = (text[:, None, :] == text[:, :, None]) & (before | own)
    return (mask | torch.eye(len(place), dtype=torch.bool, device=text.device))[:, None]
